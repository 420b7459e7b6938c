/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One back end, bare: what its operations take between two processes that poll.
 *
 *   transport_pingpong [options] messages|writes|stream      --help shows the options
 *
 * messages: round trips of 64-byte frames; writes: round trips of placed frames, as ib_write_lat
 * does; stream: placed frames in one direction with a window, as ib_write_bw does. A device of its
 * own for the peer (-p) makes frames cross a cable.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/numa.h"
#include "tools/common/options.h"
#include "transport/segment.h"
#include "transport/transport.h"

#define AREA        (4u << 20) /* bytes that a stream goes round in, at most */
#define AREA_MOST   64u        /* and frames: slices of a slot */
#define EVENTS      32
#define TRIPS_MOST  1000000
#define YIELD_AFTER (200 * BR_US) /* without an event */

enum test { MESSAGES, WRITES, STREAM };

struct options {
    const struct br_transport_ops *ops;
    const char *device, *peer;
    uint32_t bytes, area; /* of a frame, of the place */
    int count, warm_up;   /* round trips, or frames */
    int window;           /* frames posted and not sent */
    uint64_t spin;        /* ns without an event, then an end sleeps; UINT64_MAX: never */
    bool segment, pinned;
    enum test test;
};

/* What one end tells the other of its place. */
struct place {
    uint32_t number;
    uint8_t token[BR_RKEY_BYTES];
};

struct end {
    const struct options *options;
    const struct br_transport_ops *ops;
    struct br_device *device;
    struct br_link *link;
    struct br_slot_table slots;
    struct br_slot *slot;
    struct place theirs;
    uint8_t *memory;
    struct br_region region;
    uint64_t data_frames, sent, messages; /* frames */
    uint8_t last[BR_FRAME_INLINE];
    uint64_t idle_since; /* ns */
    bool finished;       /* the peer may close */
};

static void die(const char *what)
{
    fprintf(stderr, "transport_pingpong: %s: %s\n", what, br_error_message());
    exit(1);
}

static void handle(struct end *end, const struct br_event *event)
{
    switch (event->kind) {
    case BR_EVENT_ACCEPTED:
    case BR_EVENT_CONNECTED:
        end->link = event->link;
        end->link->authenticated = true;
        break;
    case BR_EVENT_SENT:
        end->sent++;
        break;
    case BR_EVENT_DATA:
        end->data_frames++;
        break;
    case BR_EVENT_MESSAGE:
        memcpy(end->last, event->inline_, sizeof end->last);
        end->messages++;
        end->ops->release(event->link->device, event->link, event->buffer);
        break;
    case BR_EVENT_CLOSED:
        if (!end->finished) {
            fprintf(stderr, "transport_pingpong: %s\n", event->link->message);
            exit(1);
        }
        end->ops->link_close(end->link);
        end->link = NULL;
        break;
    }
}

/* Until the back end has something; not for ever, as it may have timers. */
static void sleep_for_events(struct end *end)
{
    struct pollfd fd = {.fd = end->ops->arm(end->device), .events = POLLIN};

    if (fd.fd >= 0 && poll(&fd, 1, 10) < 0 && errno != EINTR)
        die("poll");
}

static void step(struct end *end)
{
    struct br_event events[EVENTS];
    uint64_t now = br_clock_now();
    int n = end->ops->poll(end->device, now, events, EVENTS);

    for (int i = 0; i < n; i++)
        handle(end, &events[i]);
    if (n)
        end->idle_since = now;
    else if (end->link && now - end->idle_since > end->options->spin)
        sleep_for_events(end);
    else if (now - end->idle_since > YIELD_AFTER)
        sched_yield(); /* the peer, or a thread of the back end, may need this core */
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

static void await(struct end *end, const uint64_t *counter, uint64_t count)
{
    while (*counter < count)
        step(end);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static struct br_frame data_frame(struct end *end)
{
    return (struct br_frame){.kind = BR_FRAME_DATA,
                             .length = end->options->bytes,
                             .region = &end->region,
                             .payload = end->memory,
                             .slot = end->theirs.number,
                             .rkey = end->device->caps.needs_rkey ? end->theirs.token : NULL,
                             .cookie = 1};
}

static void send_one(struct end *end)
{
    struct br_frame frame = data_frame(end);

    if (end->options->test == MESSAGES)
        say(end, "ping", 4);
    else
        post(end, &frame);
}

/* Round trips; the end that does not lead answers each. */
static void trips(struct end *end, bool leads)
{
    const struct options *options = end->options;
    const uint64_t *arrived = options->test == MESSAGES ? &end->messages : &end->data_frames;
    /* the peer's place; its first frame may have come as well */
    uint64_t goal = options->test == MESSAGES;
    uint64_t *took = calloc((size_t)options->count, sizeof *took), start = 0, calls = 0;

    if (!took)
        die("no memory");
    for (int i = -options->warm_up; i < options->count; i++) {
        if (!i)
            calls = end->device->counters.system_calls;
        if (leads) { /* the other end has no reason to look at the clock before it answers */
            start = br_clock_now();
            send_one(end);
        }
        await(end, arrived, ++goal);
        if (!leads)
            send_one(end);
        else if (i >= 0)
            took[i] = br_clock_now() - start;
    }
    if (leads) {
        calls = end->device->counters.system_calls - calls;
        qsort(took, (size_t)options->count, sizeof took[0], by_value);
        printf("%s of %u bytes: half a round trip p50 %.2f us, p99 %.2f us, %llu system calls for "
               "%d\n",
               options->test == MESSAGES ? "messages" : "writes", options->bytes,
               (double)took[options->count / 2] / 2e3,
               (double)took[(size_t)options->count * 99 / 100] / 2e3, (unsigned long long)calls,
               options->count);
    }
    free(took);
}

/* Sends placed frames round and round one slot, whose slices never become complete because nobody
 * marks them. */
static void stream(struct end *end)
{
    const struct options *options = end->options;
    uint64_t goal = end->messages + 1, calls = 0, start = 0, base = end->sent, posted = 0, took;
    struct br_frame frame = data_frame(end);

    for (int i = -options->warm_up; i < options->count; i++) {
        if (!i) {
            await(end, &end->sent, base + posted);
            calls = end->device->counters.system_calls;
            start = br_clock_now();
        }
        await(end, &end->sent,
              posted < (uint64_t)options->window ? 0
                                                 : base + posted + 1 - (uint64_t)options->window);
        frame.payload = end->memory + frame.offset;
        post(end, &frame);
        posted++;
        frame.offset = (frame.offset + options->bytes) % options->area;
    }
    await(end, &end->sent, base + posted);
    if (!end->device->caps.sent_means_arrived)
        await(end, &end->messages, goal);
    took = br_clock_now() - start;
    await(end, &end->messages, goal); /* everything has arrived */
    printf("stream of %u-byte frames: %.2f MB/s, %.2f Gb/s, %llu system calls for %d frames\n",
           options->bytes, (double)options->count * options->bytes * 1e3 / (double)took,
           (double)options->count * options->bytes * 8 / (double)took,
           (unsigned long long)(end->device->counters.system_calls - calls), options->count);
}

static void sink(struct end *end)
{
    await(end, &end->data_frames, (uint64_t)(end->options->count + end->options->warm_up));
    say(end, "done", 4);
    if (end->device->counters.rx_copied_bytes)
        printf("receiver copied %llu bytes\n",
               (unsigned long long)end->device->counters.rx_copied_bytes);
}

/* ---- set-up ---------------------------------------------------------------------------------- */

static void open_end(struct end *end, struct br_device_config *config, const char *device, int cpu)
{
    const struct options *options = end->options;

    if ((options->pinned && br_numa_pin(cpu % br_numa_cpus())) ||
        br_slot_table_init(&end->slots, 16))
        die("set-up");
    *config = (struct br_device_config){.name = device,
                                        .slots = &end->slots,
                                        .message_bytes = 1024,
                                        .message_buffers = 16,
                                        .max_links = 4};
    end->ops = options->ops;
    end->region = (struct br_region){.bytes = options->area, .segment_fd = -1};
    if (options->segment
            ? br_segment_alloc(options->area, -1, &end->region.base, &end->region.segment_fd)
            : !(end->region.base = aligned_alloc(4096, options->area)))
        die("no memory");
    end->memory = end->region.base;
    memset(end->memory, 1, options->area);
    if (br_transport_open(end->ops, config, &end->device) ||
        end->ops->region_register(end->device, &end->region))
        die("open");
}

static void close_end(struct end *end)
{
    if (end->link)
        end->ops->link_close(end->link);
    if (end->device->caps.needs_rkey)
        end->ops->rkey(end->device, end->slot, NULL);
    end->ops->region_release(end->device, &end->region);
    end->ops->device_close(end->device);
}

/* Each end tells the other where it may write. */
static void exchange_rkeys(struct end *end)
{
    struct place ours;

    end->slot = br_slot_get(&end->slots, end->memory, end->options->area, end->options->bytes);
    end->slot->region = &end->region;
    ours = (struct place){.number = br_slot_number(&end->slots, end->slot)};
    if (end->device->caps.needs_rkey && end->ops->rkey(end->device, end->slot, ours.token))
        die("place");
    say(end, &ours, sizeof ours);
    await(end, &end->messages, 1);
    memcpy(&end->theirs, end->last, sizeof end->theirs);
}

static void run(struct end *end, bool leads)
{
    while (!end->link)
        step(end);
    exchange_rkeys(end);
    if (end->options->test != STREAM)
        trips(end, leads);
    else if (leads)
        stream(end);
    else
        sink(end);
}

static int serve(struct end *end, int pipe_fd)
{
    struct br_device_config config;

    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a peer that polls must not outlive the one that leads */
    open_end(end, &config, end->options->peer, 1);
    if (write(pipe_fd, &end->device->address, sizeof end->device->address) !=
        sizeof end->device->address)
        die("address");
    run(end, false);
    end->finished = true;
    while (end->link) /* the last word goes out, and the peer closes first */
        step(end);
    close_end(end);
    return 0;
}

static int lead(struct end *end, int pipe_fd)
{
    struct br_device_config config;
    struct br_address address;

    open_end(end, &config, end->options->device, 0);
    if (read(pipe_fd, &address, sizeof address) != sizeof address ||
        end->ops->link_connect(end->device, &address, &end->link))
        die("connect");
    end->link = NULL;
    run(end, true);
    close_end(end);
    return 0;
}

/* Sizes that were not given, and do they fit together? */
static bool complete(struct options *options)
{
    uint32_t frames;

    if (options->test == MESSAGES)
        options->bytes = sizeof(struct br_frame_header);
    if (!options->bytes)
        options->bytes = options->test == STREAM ? 262144 : 8;
    frames = options->test != STREAM || options->bytes % 64 ? 1 : AREA / options->bytes;
    if (!options->area)
        options->area = options->bytes * (!frames ? 1 : frames > AREA_MOST ? AREA_MOST : frames);
    options->warm_up = options->count / 10;
    return options->area <= BR_FRAME_MAX_PAYLOAD && options->area % options->bytes == 0 &&
           options->area / options->bytes <= AREA_MOST;
}

/* 0; 1: help is wanted; -EINVAL with a message. */
static int parse(int argc, char **argv, struct options *options)
{
    static const char *const tests[] = {"messages", "writes", "stream"};
    const char *backend = "tcp", *memory = "plain",
               *usage = "transport_pingpong [options] messages|writes|stream";
    int64_t bytes = 0, area = 0, count = 20000, window = 8, sleep_us = -1;
    bool unpinned = false;
    const struct br_option table[] = {
        {"backend", 'b', BR_OPTION_TEXT, &backend, 0, 0, "NAME default tcp"},
        {"device", 'd', BR_OPTION_TEXT, &options->device, 0, 0, "NAME default 127.0.0.1"},
        {"peer", 'p', BR_OPTION_TEXT, &options->peer, 0, 0,
         "NAME device of the peer; default: the same"},
        {"size", 's', BR_OPTION_BYTES, &bytes, 1, BR_FRAME_MAX_PAYLOAD,
         "SIZE of a frame; default 256K for a stream and 8 for writes"},
        {"area", 'a', BR_OPTION_BYTES, &area, 1, BR_FRAME_MAX_PAYLOAD,
         "SIZE of the memory that a stream writes round and round, a multiple of -s; default 64 "
         "frames, 4M at most"},
        {"iters", 'n', BR_OPTION_NUMBER, &count, 1, TRIPS_MOST,
         "N round trips or frames, and a tenth of that before, as warm-up; default 20000"},
        {"window", 'w', BR_OPTION_NUMBER, &window, 1, INT32_MAX,
         "N frames posted and not sent; default 8"},
        {"memory", 'm', BR_OPTION_TEXT, &memory, 0, 0,
         "KIND plain or segment, as from braid_alloc(); default plain"},
        {"idle", 'i', BR_OPTION_NUMBER, &sleep_us, 0, INT32_MAX,
         "US without an event after which an end sleeps until there is one; default: both ends "
         "spin, and yield"},
        {"unpinned", 'u', BR_OPTION_FLAG, &unpinned, 0, 0, " both ends on any processor"},
        {0},
    };
    struct br_arguments arguments;
    int rc = br_arguments_parse(&arguments, table, usage, argc, argv), test = 0;

    if (rc)
        return rc;
    while (test < 3 && (arguments.count != 1 || strcmp(arguments.operands[0], tests[test]) != 0))
        test++;
    if (test == 3 || arguments.command)
        return br_error(EINVAL, "write it as: %s", usage);
    options->ops = br_transport_get(backend);
    if (!options->ops)
        return br_error(EINVAL, "--backend %s: there is no such back end here", backend);
    if (!options->peer)
        options->peer = options->device;
    options->bytes = (uint32_t)bytes;
    options->area = (uint32_t)area;
    options->count = (int)count;
    options->window = (int)window;
    options->segment = !strcmp(memory, "segment");
    options->spin = sleep_us < 0 ? UINT64_MAX : (uint64_t)sleep_us * BR_US;
    options->pinned = !unpinned;
    options->test = (enum test)test;
    return complete(options)
               ? 0
               : br_error(EINVAL, "--area: must be a multiple of --size, %u frames at most",
                          AREA_MOST);
}

int main(int argc, char **argv)
{
    struct options options = {.device = "127.0.0.1"};
    struct end end = {.options = &options};
    int fds[2], status, rc = parse(argc, argv, &options);
    pid_t child;

    if (rc < 0)
        fprintf(stderr, "transport_pingpong: %s\n", br_error_message());
    if (rc)
        return rc < 0 ? 2 : 0;
    if (pipe(fds) || (child = fork()) < 0) {
        perror("transport_pingpong");
        return 1;
    }
    if (!child)
        return serve(&end, fds[1]);
    close(fds[1]);
    return lead(&end, fds[0]) || waitpid(child, &status, 0) < 0 || status;
}
