/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/random.h"
#include "tests/transport/shm/pair.h"
#include "transport/segment.h"

#define BYTES (3u << 20)

static const struct br_transport_ops *ops;
static uint8_t *to;

static void fill(uint8_t *bytes)
{
    for (uint32_t i = 0; i < BYTES; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 251);
}

static struct br_slot *expect_transfer(struct pair *pair)
{
    memset(to, 0, BYTES);
    return br_slot_get(&pair->b.slots, to, BYTES, BYTES);
}

/* One frame of BYTES from `from`; all the bytes, SENT only after DATA. */
static void send_and_check(struct pair *pair, const uint8_t *from, struct br_region *region)
{
    struct br_slot *slot = expect_transfer(pair);
    struct br_event event;

    post_placed(&pair->a, from, BYTES, br_slot_number(&pair->b.slots, slot), 0, region, 9);
    end_poll(&pair->a);
    assert_int_equal(pair->a.n_events, 0);
    event = await(&pair->b, &pair->a, BR_EVENT_DATA);
    assert_null(event.mapped);
    assert_int_equal(event.length, BYTES);
    assert_memory_equal(to, from, BYTES);
    assert_int_equal(await(&pair->a, NULL, BR_EVENT_SENT).cookie, 9);
    br_slot_put(&pair->b.slots, slot);
}

static void region_alloc(struct pair *pair, struct br_region *region, uint32_t id)
{
    *region = (struct br_region){.bytes = BYTES, .id = id};
    assert_int_equal(br_segment_alloc(BYTES, -1, &region->base, &region->segment_fd), 0);
    assert_int_equal(ops->region_register(pair->a.device, region), 0);
    fill(region->base);
}

static void region_free(struct pair *pair, struct br_region *region)
{
    ops->region_release(pair->a.device, region);
    br_segment_free(region->base, BYTES, region->segment_fd);
}

static void receive_data__from_the_pipe(void **state)
{
    struct pair *pair = *state;
    uint8_t *from = malloc(BYTES);

    fill(from);
    inside(&pair->a)->ways.closed[BR_WAY_DIRECT] = true; /* so all goes there */
    for (int i = 0; i < 2; i++)
        send_and_check(pair, from, NULL);
    assert_int_equal(pair->a.device->counters.tx_copied_bytes, 2 * BYTES);
    free(from);
}

/* Frames of `bytes`, one after the other. */
static void send_small(struct pair *pair, const uint8_t *from, uint32_t bytes, int n)
{
    for (int i = 0; i < n; i++, from++) {
        struct br_slot *slot = br_slot_get(&pair->b.slots, to, bytes, bytes);

        post_placed(&pair->a, from, bytes, br_slot_number(&pair->b.slots, slot), 0, NULL, 1);
        (void)await(&pair->b, &pair->a, BR_EVENT_DATA);
        assert_memory_equal(to, from, bytes);
        (void)await(&pair->a, &pair->b, BR_EVENT_SENT);
        br_slot_put(&pair->b.slots, slot);
    }
}

/* Few frames wait for pages of the pipe: those that exist are used again, and in the end all
 * exist. */
static void receive_data__new_pages_of_the_pipe_are_few(void **state)
{
    enum { LENGTH = 8192 };
    struct pair *pair = *state;
    struct br_shm_link *link = inside(&pair->a);
    uint8_t *from = malloc(BYTES);

    fill(from);
    send_small(pair, from, LENGTH, 50);
    assert_in_range(BR_PIPE_BUFFERS - link->pipe.fresh, 8, 24);
    send_small(pair, from, LENGTH, 500);
    assert_int_equal(link->pipe.fresh, 0);
    assert_int_equal(link->pipe.filled, 550);
    free(from);
}

/* However fast the peer gives buffers back, a call copies no more than an inbox holds. */
static void post__fills_one_inbox_at_a_time(void **state)
{
    struct pair *pair = *state;
    struct br_shm_link *link = inside(&pair->a);
    uint8_t *from = malloc(BYTES);

    fill(from);
    link->ways.closed[BR_WAY_DIRECT] = true;
    for (uint32_t k = 0; k < BR_PIPE_BUFFERS; k++) /* all that were the peer's */
        br_inbox_put_entry(link->out.header->given, BR_PIPE_BITS + 1, k, BR_PIPE_BUFFERS + k);
    post_placed(&pair->a, from, BYTES, 1u << 16 | 5, 0, NULL, 0);
    assert_int_equal(pair->a.device->counters.tx_copied_bytes, BR_PIPE_BUFFERS * BR_PIPE_BUFFER);
    end_poll(&pair->a);
    assert_int_equal(pair->a.device->counters.tx_copied_bytes,
                     2 * BR_PIPE_BUFFERS * BR_PIPE_BUFFER);
    free(from);
}

static void prefer(struct pair *pair, enum br_way way)
{
    for (int i = 0; i < BR_WAYS_CLASSES; i++)
        inside(&pair->a)->ways.classes[i] =
            (struct br_ways_class){.way = way, .cost = {1e3, 1e3, 1e3}, .until_look = 1000};
}

/* Frames of all lengths, also such as are larger than the pipe, while others are under way or none
 * are, past the caches and not. */
static void receive_data__from_the_pipe_at_all_lengths(void **state)
{
    struct pair *pair = *state;
    uint8_t *from = malloc(BYTES);
    struct br_random random;

    fill(from);
    br_random_seed(&random, 1);
    inside(&pair->a)->ways.closed[BR_WAY_DIRECT] = true;
    for (int round = 0; round < 300; round++) {
        int n = 1 + (int)br_random_below(&random, 4);
        struct br_slot *slots[4];
        uint32_t end = 0;

        memset(to, 0, BYTES);
        prefer(pair, round % 2 ? BR_WAY_PIPE : BR_WAY_PIPE_PAST);
        for (int i = 0; i < n; i++) {
            uint32_t bits = 4 + (uint32_t)br_random_below(&random, 15),
                     bytes = 1 + (uint32_t)br_random_below(&random, 1u << bits);

            if (round % 50 == 49 && !i)
                bytes += BR_PIPE_BUFFERS * BR_PIPE_BUFFER;
            slots[i] = br_slot_get(&pair->b.slots, to + end, bytes, bytes);
            slots[i]->uncached = br_random_below(&random, 2);
            post_placed(&pair->a, from + end, bytes, br_slot_number(&pair->b.slots, slots[i]), 0,
                        NULL, 1);
            end += bytes;
            if (br_random_below(&random, 2))
                end_poll(&pair->b);
        }
        for (int i = 0; i < n; i++)
            (void)await(&pair->b, &pair->a, BR_EVENT_DATA);
        assert_memory_equal(to, from, end);
        for (int i = 0; i < n; i++) {
            (void)await(&pair->a, &pair->b, BR_EVENT_SENT);
            br_slot_put(&pair->b.slots, slots[i]);
        }
    }
    assert_int_equal(pair->a.n_events + pair->b.n_events, 0);
    free(from);
}

/* From now on all is read directly: it costs less. */
static void prefer_direct(struct pair *pair, const uint8_t *from)
{
    struct br_ways *ways = &inside(&pair->a)->ways;

    ways->closed[BR_WAY_DIRECT] = true;
    send_and_check(pair, from, NULL);
    ways->closed[BR_WAY_DIRECT] = false;
    prefer(pair, BR_WAY_DIRECT);
}

static void receive_data__directly(void **state)
{
    struct pair *pair = *state;
    uint8_t *from = malloc(BYTES);

    fill(from);
    prefer_direct(pair, from);
    for (int i = 0; i < 9; i++) {
        from[i * 1000] ^= 1;
        send_and_check(pair, from, NULL);
    }
    assert_int_equal(pair->a.device->counters.tx_copied_bytes, BYTES);
    assert_false(inside(&pair->a)->ways.closed[BR_WAY_DIRECT]);
    free(from);
}

/* All ways are tried, as long as nothing is known of them, and again and again. */
static void receive_data__tries_all_ways(void **state)
{
    struct pair *pair = *state;
    uint8_t *from = malloc(BYTES);

    fill(from);
    for (int i = 0; i < 40; i++)
        send_and_check(pair, from, NULL);
    assert_in_range(pair->a.device->counters.tx_copied_bytes / BYTES, 2, 39);
    free(from);
}

/* The kernel does not let the peer read: what it could not read comes through the pipe, and all
 * that follows does. */
static void receive_data__directly_is_refused(void **state)
{
    struct pair *pair = *state;
    uint8_t *from = malloc(BYTES);
    struct br_slot *slot;

    fill(from);
    prefer_direct(pair, from);
    inside(&pair->b)->pid = INT_MAX;
    memset(to, 0, BYTES);
    slot = br_slot_get(&pair->b.slots, to, BYTES, BYTES / 3);
    for (uint32_t i = 0; i < 3; i++) /* several are under way when the news comes */
        post_placed(&pair->a, from + i * (BYTES / 3), BYTES / 3,
                    br_slot_number(&pair->b.slots, slot), i * (BYTES / 3), NULL, i + 1);
    for (uint32_t i = 0; i < 3; i++)
        (void)await(&pair->b, &pair->a, BR_EVENT_DATA);
    assert_memory_equal(to, from, BYTES);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(await(&pair->a, &pair->b, BR_EVENT_SENT).cookie, i + 1);
    settle(&pair->a, &pair->b);
    assert_int_equal(pair->a.n_events + pair->b.n_events, 0);
    br_slot_put(&pair->b.slots, slot);
    assert_true(inside(&pair->a)->ways.closed[BR_WAY_DIRECT]);
    send_and_check(pair, from, NULL);
    assert_int_equal(pair->a.device->counters.tx_copied_bytes, 3 * BYTES);
    free(from);
}

/* The peer's number is that of another process, which has other bytes there. */
static void receive_data__directly_from_a_stranger(void **state)
{
    struct pair *pair = *state;
    uint8_t *from = malloc(BYTES);
    int ready[2];
    pid_t child;
    char byte = 0;

    fill(from);
    prefer_direct(pair, from);
    assert_int_equal(pipe(ready), 0);
    child = fork();
    if (!child) {
        br_shm_device(pair->a.link)->token++;
        memset(from, 99, BYTES);
        while (write(ready[1], &byte, 1) == 1)
            pause();
        _exit(1);
    }
    assert_true(child > 0);
    assert_int_equal(read(ready[0], &byte, 1), 1); /* until then it is a copy of this process */
    close(ready[0]);
    close(ready[1]);
    inside(&pair->b)->pid = child;
    send_and_check(pair, from, NULL);
    assert_true(inside(&pair->a)->ways.closed[BR_WAY_DIRECT]);
    kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
    free(from);
}

/* Who has closed the link may use its memory for something else: nothing is reported. */
static void receive_data__directly_from_who_has_closed(void **state)
{
    struct pair *pair = *state;
    uint8_t *from = malloc(BYTES);
    struct br_slot *slot;

    fill(from);
    prefer_direct(pair, from);
    slot = expect_transfer(pair);
    post_placed(&pair->a, from, BYTES, br_slot_number(&pair->b.slots, slot), 0, NULL, 3);
    ops->link_close(pair->a.link);
    memset(from, 0, BYTES);
    assert_int_equal(await(&pair->b, &pair->a, BR_EVENT_CLOSED).error, -ECONNRESET);
    assert_int_equal(count_events(&pair->b, BR_EVENT_DATA), 0);
    free(from);
}

static void add_up(void *context, uint32_t offset, const uint8_t *bytes, uint32_t length)
{
    uint8_t *sum = context;

    for (uint32_t i = 0; i < length; i++)
        sum[offset + i] = (uint8_t)(sum[offset + i] + bytes[i]);
}

/* The slot's reducer gets each byte once, and the place none. The frame is sent twice, at first
 * with another link in between that has brought a part of it. */
static void receive_data__directly_into_a_reducer(void **state)
{
    struct pair *pair = *state;
    uint8_t *from = malloc(BYTES), *sum = calloc(1, BYTES);
    struct br_slot_reducer reducer = {add_up, sum};
    struct br_slot *slot;
    uint32_t number;

    fill(from);
    prefer_direct(pair, from);
    slot = expect_transfer(pair);
    number = br_slot_number(&pair->b.slots, slot);
    assert_true(br_slot_set_reducer(slot, &reducer));
    br_slot_reduce(slot, slot->granule_bytes, from + slot->granule_bytes, slot->granule_bytes);
    for (int i = 0; i < 2; i++)
        post_placed(&pair->a, from, BYTES, number, 0, NULL, 3);
    for (int i = 0; i < 2; i++)
        (void)await(&pair->b, &pair->a, BR_EVENT_DATA);
    assert_memory_equal(sum, from, BYTES);
    for (uint32_t i = 0; i < BYTES; i++)
        assert_int_equal(to[i], 0);
    assert_int_equal(pair->b.device->counters.rx_reduced_bytes, 2 * BYTES);
    assert_int_equal(pair->a.device->counters.tx_copied_bytes, BYTES);
    free(from);
    free(sum);
}

static void receive_data__from_a_segment(void **state)
{
    struct pair *pair = *state;
    struct br_region region;

    region_alloc(pair, &region, 0);
    send_and_check(pair, region.base, &region);
    assert_non_null(inside(&pair->b)->segments[0]);
    send_and_check(pair, region.base, &region);
    assert_int_equal(pair->a.device->counters.tx_copied_bytes, 0);
    region_free(pair, &region);
    settle(&pair->a, &pair->b);
    assert_null(inside(&pair->b)->segments[0]); /* the peer has let it go */
}

static void receive_data__many_regions_over_time(void **state)
{
    struct pair *pair = *state;
    struct br_region region;

    for (uint32_t id = 0; id < 2 * BR_SHM_SEGMENTS; id++) {
        region = (struct br_region){.bytes = 4096, .id = id};
        assert_int_equal(br_segment_alloc(4096, -1, &region.base, &region.segment_fd), 0);
        assert_int_equal(ops->region_register(pair->a.device, &region), 0);
        memset(region.base, (int)id, 4096);
        struct br_slot *slot = br_slot_get(&pair->b.slots, to, 4096, 4096);
        post_placed(&pair->a, region.base, 4096, br_slot_number(&pair->b.slots, slot), 0, &region,
                    1);
        (void)await(&pair->b, &pair->a, BR_EVENT_DATA);
        (void)await(&pair->a, &pair->b, BR_EVENT_SENT);
        assert_int_equal(to[4095], (uint8_t)id);
        br_slot_put(&pair->b.slots, slot);
        ops->region_release(pair->a.device, &region);
        br_segment_free(region.base, 4096, region.segment_fd);
    }
}

/* Regions that are shared leave room for those that are read once. */
static void receive_data__beside_many_that_are_shared(void **state)
{
    enum { SHARED = BR_SHM_SEGMENTS, SMALL = 4096 };
    static struct br_region shared[SHARED];
    struct pair *pair = *state;
    struct br_region region;
    uint32_t n = 0;

    for (uint32_t i = 0; i < SHARED; i++) {
        shared[i] = (struct br_region){.bytes = SMALL, .id = 100 + i};
        assert_int_equal(br_segment_alloc(SMALL, -1, &shared[i].base, &shared[i].segment_fd), 0);
        assert_int_equal(ops->region_register(pair->a.device, &shared[i]), 0);
        if (ops->share(pair->a.link, &shared[i], 0, NULL) == 0)
            n++;
        else
            assert_int_equal(ops->share(pair->a.link, &shared[i], 0, NULL), -ENOSPC);
        settle(&pair->a, &pair->b); /* the socket has no room for all of them */
    }
    assert_in_range(n, 1, SHARED - 1);
    region_alloc(pair, &region, 4);
    send_and_check(pair, region.base, &region);
    assert_int_equal(pair->a.device->counters.tx_copied_bytes, 0);
    assert_int_equal(ops->share(pair->a.link, &shared[SHARED - 1], 0, NULL), -ENOSPC);
    ops->region_release(pair->a.device, &shared[0]);
    assert_int_equal(ops->share(pair->a.link, &shared[SHARED - 1], 0, NULL), 0);
    for (uint32_t i = 0; i < SHARED; i++) {
        ops->region_release(pair->a.device, &shared[i]);
        br_segment_free(shared[i].base, SMALL, shared[i].segment_fd);
    }
    region_free(pair, &region);
}

static void receive_data__mapped(void **state)
{
    struct pair *pair = *state;
    struct br_region region;
    struct br_event events[3];
    uint32_t third = BYTES / 3;

    region_alloc(pair, &region, 4);
    for (uint32_t i = 0; i < 3; i++) {
        struct br_slot *slot = br_slot_get(&pair->b.slots, NULL, third, third);

        slot->may_map = true;
        post_placed(&pair->a, (uint8_t *)region.base + i * third, third,
                    br_slot_number(&pair->b.slots, slot), 0, &region, i + 1);
        events[i] = await(&pair->b, &pair->a, BR_EVENT_DATA);
        assert_non_null(events[i].mapped);
        assert_memory_equal(events[i].mapped, (uint8_t *)region.base + i * third, third);
    }
    assert_int_equal(pair->b.device->counters.rx_mapped_bytes, BYTES);
    settle(&pair->a, &pair->b);
    assert_int_equal(count_events(&pair->a, BR_EVENT_SENT), 0);
    for (uint32_t i = 3; i-- > 0;) { /* out of order */
        assert_int_equal(ops->release(pair->b.device, NULL, events[i].buffer), 0);
        assert_int_equal(await(&pair->a, &pair->b, BR_EVENT_SENT).cookie, i + 1);
    }
    region_free(pair, &region);
}

/* A map that is held for long must not stop the ring. */
static void receive_data__ring_goes_on_beside_a_held_map(void **state)
{
    struct pair *pair = *state;
    struct br_region region;
    struct br_event event;
    struct br_slot *slot;

    region_alloc(pair, &region, 4);
    slot = br_slot_get(&pair->b.slots, NULL, 64, 64);
    slot->may_map = true;
    post_placed(&pair->a, region.base, 64, br_slot_number(&pair->b.slots, slot), 0, &region, 12345);
    event = await(&pair->b, &pair->a, BR_EVENT_DATA);
    for (uint32_t i = 0; i < 2000; i++) {
        slot = br_slot_get(&pair->b.slots, to, 64, 64);
        post_placed(&pair->a, region.base, 64, br_slot_number(&pair->b.slots, slot), 0, &region,
                    i + 1);
        (void)await(&pair->b, &pair->a, BR_EVENT_DATA);
        assert_int_equal(await(&pair->a, &pair->b, BR_EVENT_SENT).cookie, i + 1);
        br_slot_put(&pair->b.slots, slot);
    }
    assert_int_equal(ops->release(pair->b.device, NULL, event.buffer), 0);
    assert_int_equal(await(&pair->a, &pair->b, BR_EVENT_SENT).cookie, 12345);
    region_free(pair, &region);
}

static void map__outlives_its_link(void **state)
{
    struct pair *pair = *state;
    struct br_region region;
    struct br_event event;
    struct br_slot *slot = br_slot_get(&pair->b.slots, NULL, BYTES, BYTES);

    slot->may_map = true;
    region_alloc(pair, &region, 4);
    post_placed(&pair->a, region.base, BYTES, br_slot_number(&pair->b.slots, slot), 0, &region, 0);
    event = await(&pair->b, &pair->a, BR_EVENT_DATA);
    ops->link_close(pair->b.link);
    assert_memory_equal(event.mapped, region.base, BYTES);
    assert_int_equal(ops->release(pair->b.device, NULL, event.buffer), -ECONNRESET);
    region_free(pair, &region);
}

static void map__sender_that_closed_is_reported(void **state)
{
    struct pair *pair = *state;
    struct br_region region;
    struct br_event event;
    struct br_slot *slot = br_slot_get(&pair->b.slots, NULL, BYTES, BYTES);

    slot->may_map = true;
    region_alloc(pair, &region, 4);
    post_placed(&pair->a, region.base, BYTES, br_slot_number(&pair->b.slots, slot), 0, &region, 0);
    event = await(&pair->b, &pair->a, BR_EVENT_DATA);
    ops->link_close(pair->a.link);
    assert_int_equal(ops->release(pair->b.device, NULL, event.buffer), -ECONNRESET);
    region_free(pair, &region);
}

static void receive_data__plain_memory_where_only_maps_are_taken(void **state)
{
    struct pair *pair = *state;
    struct br_slot *slot = br_slot_get(&pair->b.slots, NULL, 64, 64);
    static uint8_t from[64];

    slot->may_map = true;
    post_placed(&pair->a, from, 64, br_slot_number(&pair->b.slots, slot), 0, NULL, 0);
    assert_int_equal(await(&pair->b, &pair->a, BR_EVENT_CLOSED).error, -EPROTO);
}

static void receive_data__nobody_expects_it(void **state)
{
    struct pair *pair = *state;
    uint8_t *from = malloc(BYTES);

    fill(from);
    post_placed(&pair->a, from, BYTES, 9u << 16 | 5, 0, NULL, 3);
    assert_int_equal(await(&pair->a, &pair->b, BR_EVENT_SENT).cookie, 3);
    /* told, not placed */
    assert_int_equal(await(&pair->b, &pair->a, BR_EVENT_DATA).slot, 9u << 16 | 5);
    /* the link goes on */
    send_and_check(pair, from, NULL);
    free(from);
}

/* The slot is freed while its frame is half copied: not a byte more is written. */
static void slot_freed_half_way(struct pair *pair, bool direct)
{
    uint8_t *from = malloc(BYTES);
    struct br_slot *slot;

    fill(from);
    if (direct)
        prefer_direct(pair, from);
    slot = expect_transfer(pair);
    post_placed(&pair->a, from, BYTES, br_slot_number(&pair->b.slots, slot), 0, NULL, 3);
    end_poll(&pair->b);
    assert_true(inside(&pair->b)->arriving.done > 0 && inside(&pair->b)->arriving.done < BYTES);
    br_slot_put(&pair->b.slots, slot);
    memset(to, 0, BYTES);
    (void)await(&pair->a, &pair->b, BR_EVENT_SENT);
    for (uint32_t i = 0; i < BYTES; i++)
        assert_int_equal(to[i], 0);
    free(from);
}

static void receive_data__slot_freed_half_way(void **state)
{
    slot_freed_half_way(*state, false);
}

static void receive_data__directly_slot_freed_half_way(void **state)
{
    slot_freed_half_way(*state, true);
}

static void receive_data__on_a_link_that_is_not_authenticated(void **state)
{
    struct pair *pair = *state;
    struct br_slot *slot = br_slot_get(&pair->b.slots, to, 64, 64);
    static uint8_t from[64];

    pair->b.link->authenticated = false;
    post_message(&pair->a, NULL, NULL, 0, 0);
    post_message(&pair->a, NULL, NULL, 0, 0);
    post_placed(&pair->a, from, 64, br_slot_number(&pair->b.slots, slot), 0, NULL, 0);
    end_poll(&pair->b);
    assert_int_equal(pair->b.n_events, 1); /* one at a time, so that trust can come between */
    assert_int_equal(await(&pair->b, &pair->a, BR_EVENT_CLOSED).error, -EPROTO);
    assert_int_equal(count_events(&pair->b, BR_EVENT_DATA), 0);
}

static void region__descriptor_shorter_than_the_region(void **state)
{
    struct pair *pair = *state;
    struct br_region region = {
        .base = to, .bytes = 1 << 30, .segment_fd = br_segment_create("short", 4096)};

    assert_int_equal(ops->region_register(pair->a.device, &region), -EINVAL);
    close(region.segment_fd);
}

int main(void)
{
#define PAIR(test) cmocka_unit_test_setup_teardown(test, pair_setup, pair_teardown)
    const struct CMUnitTest tests[] = {
        PAIR(receive_data__from_the_pipe),
        PAIR(receive_data__new_pages_of_the_pipe_are_few),
        PAIR(post__fills_one_inbox_at_a_time),
        PAIR(receive_data__from_the_pipe_at_all_lengths),
        PAIR(receive_data__directly),
        PAIR(receive_data__tries_all_ways),
        PAIR(receive_data__directly_is_refused),
        PAIR(receive_data__directly_from_a_stranger),
        PAIR(receive_data__directly_from_who_has_closed),
        PAIR(receive_data__directly_into_a_reducer),
        PAIR(receive_data__directly_slot_freed_half_way),
        PAIR(receive_data__from_a_segment),
        PAIR(receive_data__many_regions_over_time),
        PAIR(receive_data__beside_many_that_are_shared),
        PAIR(receive_data__mapped),
        PAIR(receive_data__ring_goes_on_beside_a_held_map),
        PAIR(map__outlives_its_link),
        PAIR(map__sender_that_closed_is_reported),
        PAIR(receive_data__plain_memory_where_only_maps_are_taken),
        PAIR(receive_data__nobody_expects_it),
        PAIR(receive_data__slot_freed_half_way),
        PAIR(receive_data__on_a_link_that_is_not_authenticated),
        PAIR(region__descriptor_shorter_than_the_region),
    };
    int rc;

    ops = br_transport_get("shm");
    to = malloc(BYTES);
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    free(to);
    return rc;
}
