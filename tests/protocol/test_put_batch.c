/* SPDX-License-Identifier: BSD-3-Clause */
/* Small puts of ours that share requests; the target is the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "protocol/internal.h"
#include "wired.h"

enum { PUTS = 150, CHECK = 77 };

static struct br_small_put small[PUTS];
static uint8_t data[BR_SMALL_PUT];
static uint64_t numbers;

/* The i-th: to offset 100 i of region 3; its bytes are i. */
static bool put(struct wired *x, uint32_t i, uint32_t bytes, int32_t priority)
{
    small[i] = (struct br_small_put){.rank = x->peer,
                                     .priority = priority,
                                     .entry = {.offset = 100 * i, .region = 3, .bytes = bytes},
                                     .check = CHECK};
    memset(data, (int)i, bytes);
    return br_worker_put(x->w, &small[i], data, 2 * i, &numbers);
}

/* The next request has left: `n` puts from the i-th on, of so many bytes each. Returns its tag. */
static uint64_t expect_request(struct wired *x, int rail, uint32_t i, uint32_t n, uint32_t bytes)
{
    const struct wire_frame *frame = wire_take(x->links[rail], BR_MESSAGE_PUTS);
    const uint8_t *at;

    assert_non_null(frame);
    at = frame->payload;
    assert_int_equal(frame->message.puts.count, n);
    assert_true(frame->message.puts.check == CHECK);
    assert_int_equal(frame->frame.length, n * (16 + bytes));
    assert_int_equal(frame->message.bytes, frame->frame.length);
    for (uint32_t k = i; k < i + n; k++, at += 16 + bytes) {
        struct br_put_entry entry;

        memcpy(&entry, at, sizeof entry);
        assert_int_equal(entry.offset, 100 * k);
        assert_int_equal(entry.region, 3);
        assert_int_equal(entry.bytes, bytes);
        assert_int_equal(at[16], (uint8_t)k);
        assert_int_equal(at[15 + bytes], (uint8_t)k);
        assert_true(small[k].tag ==
                    br_tag_with_part(br_tag_of_later(frame->message.tag, k - i), BR_PART_STATUS));
    }
    return frame->message.tag;
}

/* PUT_DONE of the puts of these bits, from the one with this tag on, of any part. */
static void done(struct wired *x, uint32_t sequence, uint64_t tag, uint64_t bits)
{
    struct br_message m = {.type = BR_MESSAGE_PUT_DONE,
                           .sequence = sequence,
                           .tag = br_tag_with_part(tag, BR_PART_STATUS),
                           .put_done = {.puts = {bits}}};

    wired_say(x, 0, &m);
}

static void expect_ended(struct wired *x, uint32_t i)
{
    struct br_list *node = br_list_pop_front(&x->w->puts.ended);

    assert_ptr_equal(node, &small[i].node);
}

static void expect_clean(struct wired *x)
{
    assert_int_equal(x->w->failed, 0);
    assert_true(br_list_empty(&x->w->puts.ended));
    assert_true(br_list_empty(&x->w->puts.under_way));
    assert_int_equal(x->done, 0);
    wired_destroy(x);
}

static void put__shares_a_request(void **state)
{
    struct wired x;
    uint64_t tag;

    (void)state;
    wired_create(&x, 0, 1, NULL);
    for (uint32_t i = 0; i < 5; i++)
        assert_true(put(&x, i, 8, 0));
    wired_turn(&x, 0);
    tag = expect_request(&x, 0, 0, 5, 8);
    assert_null(wire_take(x.links[0], BR_MESSAGE_PUTS));
    assert_true(put(&x, 5, 9, 0)); /* the other one has left */
    wired_turn(&x, 0);
    assert_true(expect_request(&x, 0, 5, 1, 9) == br_tag_of_later(tag, 5));
    done(&x, 0, tag, 1u << 3 | 1u << 1);
    expect_ended(&x, 1);
    expect_ended(&x, 3);
    done(&x, 1, br_tag_of_later(tag, 2), 1u << 2 | 1u);
    expect_ended(&x, 2);
    expect_ended(&x, 4);
    done(&x, 2, tag, 1);
    expect_ended(&x, 0);
    done(&x, 3, br_tag_of_later(tag, 5), 1);
    expect_ended(&x, 5);
    expect_clean(&x);
}

/* A request holds what an EAGER may have. */
static void put__a_full_request(void **state)
{
    static const struct {
        uint32_t bytes, n;
    } full[] = {{8, 42}, {100, 8}, {1008, 1}};
    struct wired x;

    (void)state;
    for (int k = 0; k < 3; k++) {
        uint32_t n = full[k].n;
        uint64_t tags[3];

        wired_create(&x, 0, 1, NULL);
        assert_int_equal(x.w->peers[1].eager_bytes, 1024);
        for (uint32_t i = 0; i < 3 * n; i++)
            assert_true(put(&x, i, full[k].bytes, 0));
        assert_false(put(&x, PUTS - 1, 1009, 0));
        wired_turn(&x, 0);
        for (uint32_t r = 0; r < 3; r++)
            tags[r] = expect_request(&x, 0, r * n, n, full[k].bytes);
        assert_null(wire_take(x.links[0], BR_MESSAGE_PUTS));
        for (uint32_t r = 0; r < 3; r++)
            done(&x, r, tags[r], (1ull << n) - 1);
        for (uint32_t i = 0; i < 3 * n; i++)
            expect_ended(&x, i);
        expect_clean(&x);
    }
}

/* What is more urgent leaves before it, and nothing is overtaken by a put that comes later. */
static void put__in_its_order(void **state)
{
    struct br_message get = {
        .type = BR_MESSAGE_GET, .bytes = 8, .onesided = {.check = CHECK, .region = 3}};
    struct br_transfer request = {
        .tag = br_tag_onesided(999, BR_PART_REQUEST), .peer = 1, .order = 3, .request = &get};
    static const uint8_t offsets[] = {400 & 255, 100, 0, 200};
    struct wire *wire;
    struct wired x;
    int at = 0;

    (void)state;
    wired_create(&x, 0, 1, NULL);
    wire = &x.wires[0];
    wire_forget(wire);
    assert_true(put(&x, 1, 8, 0));
    assert_int_equal(br_transfer_send(x.w, &request), 0);
    assert_true(put(&x, 2, 8, 0));
    assert_true(put(&x, 3, 8, 0));
    assert_true(put(&x, 4, 8, 9));
    wired_turn(&x, 0);
    for (int i = 0; i < wire->n_frames; i++)
        switch (wire->frames[i].message.type) {
        case BR_MESSAGE_PUTS:
            assert_int_equal(wire->frames[i].payload[0], offsets[at++]);
            break;
        case BR_MESSAGE_GET:
            assert_int_equal(at++, 2);
            break;
        default:
            break;
        }
    assert_int_equal(at, 4);
    assert_int_equal(x.done, 1);
    x.done = 0;
    for (uint32_t i = 1; i < 5; i++)
        br_worker_put_forget(x.w, &small[i]);
    expect_clean(&x);
}

/* Those that are given up are answered to a transfer, also when the answer is here already. */
static void put__goes_on_as_a_transfer(void **state)
{
    struct br_message refused = {.type = BR_MESSAGE_EAGER, .bytes = BR_ANSWER_BYTES};
    struct br_transfer answers[2];
    int32_t statuses[2] = {1, 1}, status = -13;
    struct wired x;
    uint64_t tag;

    (void)state;
    wired_create(&x, 0, 1, NULL);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(put(&x, i, 8, 0));
    wired_turn(&x, 0);
    tag = expect_request(&x, 0, 0, 3, 8);
    refused.tag = small[1].tag;
    memcpy(refused.data, &status, sizeof status);
    wired_say(&x, 0, &refused);
    assert_true(br_list_empty(&x.w->puts.ended));
    for (int i = 0; i < 2; i++) {
        br_worker_put_forget(x.w, &small[i]);
        answers[i] = (struct br_transfer){
            .tag = small[i].tag, .peer = 1, .length = BR_ANSWER_BYTES, .memory = &statuses[i]};
        assert_int_equal(br_transfer_receive(x.w, &answers[i]), 0);
    }
    wired_turn(&x, 0);
    assert_int_equal(x.done, 1);
    assert_int_equal(statuses[1], -13);
    done(&x, 1, tag, 1u << 2 | 1u);
    assert_int_equal(x.done, 2);
    assert_int_equal(statuses[0], 0);
    expect_ended(&x, 2);
    x.done = 0;
    expect_clean(&x);
}

/* A target whose PUT_DONE has no place for it says 0 in an answer of its own. */
static void put__has_an_answer_of_its_own(void **state)
{
    struct br_message well = {.type = BR_MESSAGE_EAGER, .bytes = BR_ANSWER_BYTES};
    struct wired x;

    (void)state;
    wired_create(&x, 0, 1, NULL);
    assert_true(put(&x, 0, 8, 0));
    wired_turn(&x, 0);
    expect_request(&x, 0, 0, 1, 8);
    well.tag = small[0].tag;
    wired_say(&x, 0, &well);
    expect_ended(&x, 0);
    expect_clean(&x);
}

/* As all that is numbered: over the other rail, once, and the answer may come twice. */
static void put__its_rail_is_lost(void **state)
{
    struct wired x;
    uint64_t tag;

    (void)state;
    wired_create(&x, 0, 2, NULL);
    assert_true(put(&x, 0, 8, 0));
    assert_true(put(&x, 1, 8, 0));
    wired_turn(&x, 0);
    tag = expect_request(&x, 0, 0, 2, 8);
    wired_cut(&x, 0);
    wired_fenced(&x, 0, 1);
    assert_true(expect_request(&x, 1, 0, 2, 8) == tag);
    for (int i = 0; i < 2; i++) {
        struct br_message m = {
            .type = BR_MESSAGE_PUT_DONE, .tag = small[0].tag, .put_done = {.puts = {3}}};

        wired_say(&x, 1, &m);
    }
    expect_ended(&x, 0);
    expect_ended(&x, 1);
    expect_clean(&x);
}

/* More requests than there is memory for; a worker that has failed. */
static void put__is_no_longer_possible(void **state)
{
    struct wired x;
    uint32_t n = 0;

    (void)state;
    wired_create(&x, 0, 1, NULL);
    for (; n < PUTS && put(&x, n, 8, 0); n++)
        wired_turn(&x, 0);
    assert_int_equal(n, 16);
    br_worker_put_forget(x.w, &small[7]);
    assert_true(put(&x, 7, 8, 0));
    br_worker_fail(x.w, 5, "a test");
    br_worker_put_forget(x.w, &small[8]);
    assert_false(put(&x, 8, 8, 0));
    wired_destroy(&x);
}

/* The request is still among those of br_worker_done() when the answer to it comes. */
static void put__answer_before_the_end_is_taken(void **state)
{
    struct br_message m = {.type = BR_MESSAGE_PUT_DONE, .put_done = {.puts = {1}}};
    struct wired x;
    uint64_t tag;

    (void)state;
    wired_create(&x, 0, 1, NULL);
    assert_true(put(&x, 0, 8, 0));
    br_worker_pump(x.w, x.now);
    m.tag = small[0].tag;
    wire_message(x.links[0], &m, NULL, 0);
    br_worker_poll(x.w, x.now);
    expect_ended(&x, 0);
    assert_true(put(&x, 1, 8, 0));
    wired_turn(&x, 0);
    expect_request(&x, 0, 0, 1, 8);
    tag = expect_request(&x, 0, 1, 1, 8);
    done(&x, 1, tag, 1);
    expect_ended(&x, 1);
    expect_clean(&x);
}

/* The target says BYE while a put is under way, which goes on as an operation then: it serves it
 * all the same. */
static void put__goes_on_behind_a_bye(void **state)
{
    static uint8_t answer[BR_ANSWER_BYTES];
    struct br_transfer t = {.peer = 1, .memory = answer, .length = sizeof answer, .owner = answer};
    struct br_message bye = {.type = BR_MESSAGE_BYE};
    struct wired x;
    uint64_t tag;

    (void)state;
    wired_create(&x, 0, 2, NULL);
    assert_true(put(&x, 0, 8, 0));
    wired_turn(&x, 0);
    tag = expect_request(&x, 0, 0, 1, 8);
    wired_say(&x, 0, &bye);
    wired_turn(&x, 20 * BR_MS);
    wired_turn(&x, 20 * BR_MS);
    assert_int_equal(x.w->peers[1].state, BR_PEER_LEFT);
    t.tag = small[0].tag;
    br_worker_put_forget(x.w, &small[0]);
    assert_int_equal(br_transfer_receive(x.w, &t), 0);
    done(&x, 0, tag, 1);
    assert_int_equal(x.done, 1);
    assert_int_equal(x.w->failed, 0);
    wired_destroy(&x);
}

static uint64_t place;
static int arrivals;

static int find_place(void *context, uint32_t id, uint64_t offset, uint64_t bytes, void **memory,
                      struct br_region **region)
{
    static struct br_region all = {.segment_fd = -1};

    (void)context;
    (void)id;
    (void)offset;
    (void)bytes;
    *memory = &place;
    *region = &all;
    return 0;
}

/* The program takes what has arrived as soon as it can. */
static void place_done(void *context, struct br_region *region)
{
    (void)context;
    (void)region;
    arrivals += place != 0;
    place = 0;
}

/* Here we are the target: of two puts so far from each other that one PUT_DONE has no room for
 * both, each is written once. */
static void put__stands_once(void **state)
{
    const uint64_t value = 5;
    struct wired x;

    (void)state;
    arrivals = 0;
    wired_create(&x, 0, 1, NULL);
    x.w->config.region_find = find_place;
    x.w->config.region_done = place_done;
    x.w->config.check = CHECK;
    for (uint32_t k = 0; k < 2; k++) {
        struct br_message m = {.type = BR_MESSAGE_PUT,
                               .sequence = k,
                               .bytes = sizeof value,
                               .tag = br_tag_onesided(2001 + 1200 * k, BR_PART_REQUEST),
                               .onesided = {.check = CHECK, .region = 3}};

        wire_message(x.links[0], &m, &value, sizeof value);
    }
    br_worker_poll(x.w, x.now);
    assert_int_equal(arrivals, 2);
    wired_turn(&x, 0);
    wired_destroy(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(put__shares_a_request),
        cmocka_unit_test(put__a_full_request),
        cmocka_unit_test(put__in_its_order),
        cmocka_unit_test(put__goes_on_as_a_transfer),
        cmocka_unit_test(put__has_an_answer_of_its_own),
        cmocka_unit_test(put__its_rail_is_lost),
        cmocka_unit_test(put__is_no_longer_possible),
        cmocka_unit_test(put__answer_before_the_end_is_taken),
        cmocka_unit_test(put__goes_on_behind_a_bye),
        cmocka_unit_test(put__stands_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
