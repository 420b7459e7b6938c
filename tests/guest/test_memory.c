/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory and real NICs: what the registration cache keeps is right, nothing is registered in the
 * steady state, what has no keys is copied and counted, and the limit of locked memory is named.
 * Devices of the setup: h0r0 and h1r0 (doc/guest.md).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "transport/cache.h"
#include "transport/transport.h"

#define BYTES    (1u << 20)
#define SLICE    (256u << 10)
#define PATIENCE (20 * BR_SEC)

static const struct br_transport_ops *ops;
static struct side {
    struct br_device_config config;
    struct br_device *device;
    struct br_slot_table slots;
    struct br_cache *cache;
    struct br_link *link;
    int sent;
    bool complete; /* the slot of the transfer under way */
} sides[2];

/* ---- two devices and a link ------------------------------------------------------------------ */

static void handle(struct side *side, const struct br_event *event)
{
    struct br_slot *slot;

    switch (event->kind) {
    case BR_EVENT_ACCEPTED:
    case BR_EVENT_CONNECTED:
        side->link = event->link;
        side->link->authenticated = true;
        break;
    case BR_EVENT_SENT:
        side->sent++;
        break;
    case BR_EVENT_MESSAGE:
        ops->release(event->link->device, event->link, event->buffer);
        break;
    case BR_EVENT_DATA:
        slot = br_slot_find(&side->slots, event->slot);
        assert_non_null(slot);
        side->complete = br_slot_arrive(slot, event->offset, event->length);
        break;
    default:
        fail_msg("link closed: %s", event->link->message);
    }
}

static void step(uint64_t since)
{
    struct br_event events[16];
    int all = 0;

    for (int i = 0; i < 2; i++) {
        int n = ops->poll(sides[i].device, br_clock_now(), events, 16);

        assert_true(n >= 0);
        for (int j = 0; j < n; j++)
            handle(&sides[i], &events[j]);
        all += n;
    }
    if (!all)
        sched_yield();
    if (br_clock_now() - since > PATIENCE)
        fail_msg("nothing comes");
}

static int open_device(int i)
{
    static const char *const names[] = {"h0r0", "h1r0"};
    struct side *side = &sides[i];
    int rc = br_slot_table_init(&side->slots, 16);

    side->config = (struct br_device_config){.name = names[i],
                                             .slots = &side->slots,
                                             .message_bytes = 16 << 10,
                                             .message_buffers = 8,
                                             .max_links = 4};
    return rc ? rc : br_transport_open(ops, &side->config, &side->device);
}

static int setup(void **state)
{
    struct br_address address;
    uint64_t since = br_clock_now();
    struct br_link *link;

    (void)state;
    memset(sides, 0, sizeof sides);
    for (int i = 0; i < 2; i++)
        if (open_device(i))
            fail_msg("%s", br_error_message());
    address = sides[1].device->address;
    if (ops->link_connect(sides[0].device, &address, &link))
        fail_msg("%s", br_error_message());
    while (!sides[0].link || !sides[1].link)
        step(since);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        br_cache_close(sides[i].cache);
        ops->device_close(sides[i].device);
        br_slot_table_destroy(&sides[i].slots);
    }
    return 0;
}

static void open_caches(uint64_t bytes)
{
    for (int i = 0; i < 2; i++)
        if (br_cache_open(&sides[i].device, 1, bytes, &sides[i].cache))
            fail_msg("%s", br_error_message());
}

static uint8_t *map_at(void *at)
{
    uint8_t *p = mmap(at, BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);

    assert_ptr_not_equal(p, MAP_FAILED);
    return p;
}

/* ---- a transfer ------------------------------------------------------------------------------ */

static void send_slices(const uint8_t *from, struct br_region *region, uint32_t number,
                        const uint8_t *token, uint64_t since)
{
    for (uint32_t offset = 0; offset < BYTES; offset += SLICE) {
        struct br_frame frame = {.kind = BR_FRAME_DATA,
                                 .payload = from + offset,
                                 .length = SLICE,
                                 .slot = number,
                                 .offset = offset,
                                 .rkey = token,
                                 .region = region,
                                 .cookie = 1};
        int taken;

        while (!(taken = ops->post(sides[0].link, &frame, 1)))
            step(since);
        assert_int_equal(taken, 1);
    }
}

/* BYTES from one to the other, through regions or, where they are NULL, without. What arrives is
 * what was sent. */
static void transfer(const uint8_t *from, struct br_region *from_region, uint8_t *to,
                     struct br_region *to_region)
{
    struct br_slot *slot = br_slot_get(&sides[1].slots, to, BYTES, SLICE);
    uint64_t since = br_clock_now();
    uint8_t token[BR_RKEY_BYTES];

    assert_non_null(slot);
    slot->region = to_region;
    if (ops->rkey(sides[1].device, slot, token))
        fail_msg("%s", br_error_message());
    sides[0].sent = 0;
    sides[1].complete = false;
    send_slices(from, from_region, br_slot_number(&sides[1].slots, slot), token, since);
    while (sides[0].sent < (int)(BYTES / SLICE) || !sides[1].complete)
        step(since);
    ops->rkey(sides[1].device, slot, NULL);
    br_slot_put(&sides[1].slots, slot);
    assert_memory_equal(from, to, BYTES);
}

/* The same with fresh bytes, through the caches. */
static void transfer_cached(uint8_t *from, uint8_t *to, uint8_t fill)
{
    struct br_region *from_region, *to_region;

    memset(from, fill, BYTES);
    memset(to, ~fill, BYTES);
    from_region = br_cache_get(sides[0].cache, from, BYTES);
    to_region = br_cache_get(sides[1].cache, to, BYTES);
    assert_non_null(from_region);
    assert_non_null(to_region);
    transfer(from, from_region, to, to_region);
    br_cache_put(sides[0].cache, from_region);
    br_cache_put(sides[1].cache, to_region);
}

static uint64_t registrations(void)
{
    return sides[0].device->counters.registrations + sides[1].device->counters.registrations;
}

static uint64_t copied(void)
{
    return sides[0].device->counters.tx_copied_bytes + sides[1].device->counters.rx_copied_bytes;
}

/* ---- cases ----------------------------------------------------------------------------------- */

static void cache__registers_nothing_in_the_steady_state(void **state)
{
    uint8_t *from = map_at(NULL), *to = map_at(NULL);
    uint64_t after, pinned;

    (void)state;
    open_caches(16 * BYTES);
    transfer_cached(from, to, 1);
    after = registrations();
    pinned = sides[1].device->counters.pinned_bytes;
    assert_true(pinned > BYTES); /* with the receive buffers */
    for (int i = 2; i < 30; i++)
        transfer_cached(from, to, (uint8_t)i);
    assert_int_equal(registrations(), after);
    assert_int_equal(copied(), 0);
    assert_int_equal(sides[1].device->counters.pinned_bytes, pinned);
    assert_int_equal(br_cache_counters(sides[1].cache)->pinned_bytes, BYTES);
    munmap(from, BYTES);
    munmap(to, BYTES);
}

/* The same addresses, other pages: a key that outlived its pages would move the old ones. */
static void cache__follows_the_pages(void **state)
{
    uint8_t *from = map_at(NULL), *to = map_at(NULL);

    (void)state;
    open_caches(16 * BYTES);
    for (int i = 0; i < 8; i++) {
        transfer_cached(from, to, (uint8_t)(4 * i));
        map_at(from);
        transfer_cached(from, to, (uint8_t)(4 * i + 1));
        map_at(to);
        transfer_cached(from, to, (uint8_t)(4 * i + 2));
        assert_int_equal(madvise(from, BYTES, MADV_DONTNEED), 0);
        assert_int_equal(madvise(to + SLICE, SLICE, MADV_DONTNEED), 0);
        transfer_cached(from, to, (uint8_t)(4 * i + 3));
    }
    munmap(from, BYTES);
    munmap(to, BYTES);
    br_cache_reclaim(sides[0].cache);
    assert_int_equal(br_cache_counters(sides[0].cache)->pinned_bytes, 0);
}

static void cache__bounds_what_is_pinned(void **state)
{
    uint8_t *from[4], *to = map_at(NULL);
    uint64_t pinned;

    (void)state;
    open_caches(2 * BYTES);
    for (int i = 0; i < 4; i++)
        from[i] = map_at(NULL);
    transfer_cached(from[0], to, 0);
    transfer_cached(from[1], to, 1);
    pinned = sides[0].device->counters.pinned_bytes;
    for (int i = 2; i < 12; i++) {
        transfer_cached(from[i % 4], to, (uint8_t)i);
        assert_int_equal(sides[0].device->counters.pinned_bytes, pinned);
    }
    assert_int_equal(br_cache_counters(sides[0].cache)->pinned_bytes, 2 * BYTES);
    for (int i = 0; i < 4; i++)
        munmap(from[i], BYTES);
    munmap(to, BYTES);
}

static void bounce__copies_and_counts(void **state)
{
    uint8_t *from = map_at(NULL), *to = map_at(NULL);
    uint64_t after = 0;

    (void)state;
    for (int i = 0; i < 10; i++) {
        memset(from, i + 1, BYTES);
        transfer(from, NULL, to, NULL);
        after = i ? after : registrations();
    }
    assert_int_equal(registrations(), after);
    assert_int_equal(copied(), 10 * 2 * BYTES);
    munmap(from, BYTES);
    munmap(to, BYTES);
}

/* In a child without privileges. 0: as it should be. */
static int try_beyond_the_limit(void)
{
    static uint8_t memory[BYTES];
    struct br_region region = {.base = memory, .bytes = BYTES, .segment_fd = -1};
    struct rlimit limit;

    if (setgid(65534) || setuid(65534) || open_device(0)) {
        fprintf(stderr, "%s\n", br_error_message());
        return 1;
    }
    getrlimit(RLIMIT_MEMLOCK, &limit);
    limit.rlim_cur = 64 << 10;
    setrlimit(RLIMIT_MEMLOCK, &limit);
    if (ops->region_register(sides[0].device, &region) != -ENOMEM)
        return 2;
    fprintf(stderr, "%s\n", br_error_message());
    if (!strstr(br_error_message(), "ulimit -l unlimited") || !strstr(br_error_message(), "64 KiB"))
        return 3;
    ops->device_close(sides[0].device);
    return 0;
}

static void register__names_the_limit_of_locked_memory(void **state)
{
    int status;
    pid_t pid;

    (void)state;
    assert_int_equal(system("chmod 666 /dev/infiniband/*"), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (!pid)
        _exit(try_beyond_the_limit());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(
            /* before a device is open in this process */
            register__names_the_limit_of_locked_memory),
        cmocka_unit_test_setup_teardown(cache__registers_nothing_in_the_steady_state, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(cache__follows_the_pages, setup, teardown),
        cmocka_unit_test_setup_teardown(cache__bounds_what_is_pinned, setup, teardown),
        cmocka_unit_test_setup_teardown(bounce__copies_and_counts, setup, teardown),
    };

    ops = br_transport_get("verbs");
    if (!ops) {
        printf("skipped: this build has no verbs back end\n");
        return 77;
    }
    return cmocka_run_group_tests(cases, NULL, NULL);
}
