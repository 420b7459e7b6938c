/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One back end, bare: round trips of 64-byte frames and a stream of placed frames between two processes that are pinned to
 * two CPUs and poll.
 *
 *   transport_pingpong [BACKEND [DEVICE [FRAME_BYTES [SECONDS [MEMORY]]]]]     default: uring 127.0.0.1 262144 2 plain
 *
 * MEMORY is plain or segment (as from braid_alloc).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/numa.h"
#include "transport/shm/segment.h"
#include "transport/transport.h"

#define WARM_UP 2000
#define TRIPS   20000
#define PLACE   (4u << 20)
#define WINDOW  8 /* frames posted and not sent */
#define EVENTS  32

struct end {
    const struct br_transport_ops *ops;
    struct br_device *device;
    struct br_link *link;
    struct br_slot_table slots;
    struct br_slot *slot;
    uint8_t *memory;
    struct br_region region;
    bool segment;
    uint64_t placed, sent, messages;
    uint8_t last[BR_FRAME_INLINE];
};

static void die(const char *what)
{
    fprintf(stderr, "transport_pingpong: %s: %s\n", what, br_error_words());
    exit(1);
}

/* What comes in; at the end of a slot the next transfer takes its place under the same number. */
static void handle(struct end *end, const struct br_event *event)
{
    switch (event->kind) {
    case BR_EVENT_ACCEPTED:
    case BR_EVENT_CONNECTED:
        end->link = event->link;
        end->link->trusted = true;
        break;
    case BR_EVENT_SENT:
        end->sent++;
        break;
    case BR_EVENT_PLACED:
        end->placed += event->length;
        break;
    case BR_EVENT_MESSAGE:
        memcpy(end->last, event->inline_, sizeof end->last);
        end->messages++;
        end->ops->message_release(event->link, event->buffer);
        break;
    case BR_EVENT_CLOSED:
        fprintf(stderr, "transport_pingpong: %s\n", event->link->words);
        exit(1);
    }
}

static void step(struct end *end)
{
    struct br_event events[EVENTS];
    int n = end->ops->poll(end->device, br_clock_now(), events, EVENTS);

    for (int i = 0; i < n; i++)
        handle(end, &events[i]);
}

static void post(struct end *end, const struct br_frame *frame)
{
    int rc;

    while (!(rc = end->ops->post(end->link, frame, 1)))
        step(end);
    if (rc < 0)
        die("post");
}

static void say(struct end *end, const void *word, size_t bytes)
{
    uint8_t words[BR_FRAME_INLINE] = {0};
    struct br_frame frame = {.kind = BR_FRAME_MESSAGE, .inline_ = words};

    memcpy(words, word, bytes);
    post(end, &frame);
}

static void await_message(struct end *end, uint64_t count)
{
    while (end->messages < count)
        step(end);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void ping(struct end *end)
{
    static uint64_t took[TRIPS];

    for (int i = -WARM_UP; i < TRIPS; i++) {
        uint64_t start = br_clock_now(), goal = end->messages + 1;

        say(end, "ping", 4);
        await_message(end, goal);
        if (i >= 0)
            took[i] = br_clock_now() - start;
    }
    qsort(took, TRIPS, sizeof took[0], by_value);
    printf("round trip of 64 bytes: p50 %.2f us, p99 %.2f us\n", (double)took[TRIPS / 2] / 1e3,
           (double)took[TRIPS * 99 / 100] / 1e3);
}

static void pong(struct end *end)
{
    for (uint64_t i = 1; i <= WARM_UP + TRIPS; i++) {
        await_message(end, i);
        say(end, "pong", 4);
    }
}

/* Sends placed frames round and round one slot, whose slices never become complete because nobody marks them. */
static void stream(struct end *end, uint32_t frame_bytes, double seconds)
{
    uint64_t posted = 0, start, stop, calls, goal = WARM_UP + TRIPS + 1;
    struct br_frame frame = {.kind = BR_FRAME_PLACED, .length = frame_bytes, .region = &end->region};

    while (end->messages < goal) /* the slot's number */
        step(end);
    memcpy(&frame.slot, end->last, sizeof frame.slot);
    calls = end->device->counters.system_calls;
    start = br_clock_now();
    stop = start + (uint64_t)(seconds * 1e9);
    end->sent = 0;
    while (br_clock_now() < stop) {
        frame.payload = end->memory + frame.offset;
        post(end, &frame);
        posted++;
        frame.offset = (frame.offset + frame_bytes) % PLACE;
        while (posted - end->sent > WINDOW)
            step(end);
    }
    say(end, &posted, sizeof posted);
    await_message(end, goal + 1); /* everything has arrived */
    printf("stream of %u-byte frames: %.2f Gb/s, %llu system calls for %llu frames\n", frame_bytes,
           (double)posted * frame_bytes * 8 / (double)(br_clock_now() - start),
           (unsigned long long)(end->device->counters.system_calls - calls), (unsigned long long)posted);
}

static void sink(struct end *end, uint32_t frame_bytes)
{
    uint64_t goal = WARM_UP + TRIPS + 1, frames;
    uint32_t number;

    end->slot = br_slot_get(&end->slots, end->memory, PLACE, frame_bytes);
    number = br_slot_number(&end->slots, end->slot);
    say(end, &number, sizeof number);
    await_message(end, goal);
    memcpy(&frames, end->last, sizeof frames);
    while (end->placed < frames * frame_bytes)
        step(end);
    say(end, "done", 4);
    if (end->device->counters.rx_copied_bytes)
        printf("receiver copied %llu bytes\n", (unsigned long long)end->device->counters.rx_copied_bytes);
}

static void open_end(struct end *end, struct br_device_config *config, const char *device, int cpu)
{
    if (br_numa_pin(cpu) || br_slot_table_init(&end->slots, 16))
        die("set-up");
    config->name = device;
    config->slots = &end->slots;
    config->message_bytes = 1024;
    config->message_buffers = 16;
    config->max_links = 4;
    end->region = (struct br_region){.bytes = PLACE, .segment_fd = -1};
    if (end->segment ? br_segment_alloc(PLACE, -1, &end->region.base, &end->region.segment_fd)
                     : !(end->region.base = br_numa_alloc(PLACE, -1)))
        die("no memory");
    end->memory = end->region.base;
    memset(end->memory, 1, PLACE);
    if (end->ops->device_open(config, &end->device) || end->ops->region_register(end->device, &end->region))
        die("open");
}

static int serve(struct end *end, const char *device, uint32_t frame_bytes, int pipe_fd)
{
    struct br_device_config config = {0};
    struct br_address address;

    open_end(end, &config, device, 1 % br_numa_cpus());
    if (end->ops->device_address(end->device, &address) ||
        write(pipe_fd, &address, sizeof address) != sizeof address)
        die("address");
    while (!end->link)
        step(end);
    pong(end);
    sink(end, frame_bytes);
    for (uint64_t goal = end->sent + 1, i = 0; end->sent < goal && i < 1000; i++) /* the last word goes out */
        step(end);
    sleep(1);
    end->ops->device_close(end->device);
    return 0;
}

int main(int argc, char **argv)
{
    struct end end = {.ops = br_transport_get(argc > 1 ? argv[1] : "uring")};
    const char *device = argc > 2 ? argv[2] : "127.0.0.1";
    uint32_t frame_bytes = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 0) : 262144;
    double seconds = argc > 4 ? strtod(argv[4], NULL) : 2;
    struct br_device_config config = {0};
    struct br_address address;
    int fds[2], status;
    pid_t child;

    end.segment = argc > 5 && !strcmp(argv[5], "segment");
    if (!end.ops || !frame_bytes || PLACE % frame_bytes || frame_bytes < PLACE / BR_SLOT_SLICES) {
        fprintf(stderr,
                "usage: transport_pingpong [BACKEND [DEVICE [FRAME_BYTES (65536 to 4194304, a power of 2) "
                "[SECONDS [plain|segment]]]]]\n");
        return 2;
    }
    if (pipe(fds) || (child = fork()) < 0) {
        perror("transport_pingpong");
        return 1;
    }
    if (!child)
        return serve(&end, device, frame_bytes, fds[1]);
    open_end(&end, &config, device, 0);
    if (read(fds[0], &address, sizeof address) != sizeof address ||
        end.ops->link_connect(end.device, &address, &end.link))
        die("connect");
    end.link = NULL;
    while (!end.link)
        step(&end);
    ping(&end);
    stream(&end, frame_bytes, seconds);
    end.ops->device_close(end.device);
    return waitpid(child, &status, 0) < 0 || status;
}
