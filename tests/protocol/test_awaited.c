/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "protocol/internal.h"
#include "wired.h"

#define BYTES 100u

static uint8_t data[BYTES], to[3][BYTES];
static struct br_awaited awaited[3];

/* Messages 0 to 2 of the peer are awaited. */
static void await_three(struct wired *x)
{
    struct br_caps caps = wire_caps(true);

    caps.maps = true;
    wired_create(x, 0, 1, &caps);
    memset(to, 0, sizeof to);
    for (size_t i = 0; i < BYTES; i++)
        data[i] = (uint8_t)(i * 31 + 1);
    for (uint32_t i = 0; i < 3; i++) {
        awaited[i] = (struct br_awaited){.tag = br_tag_p2p(0, i, 7),
                                         .rank = x->peer,
                                         .length = BYTES,
                                         .check = 5,
                                         .memory = to[i]};
        assert_int_equal(br_worker_receive(x->w, &awaited[i], true), BR_RECEIVED_LATER);
    }
}

/* Number i, of which so many bytes are there. */
static void peer_says(struct wired *x, uint32_t i, uint32_t bytes)
{
    struct br_message m = {
        .type = BR_MESSAGE_EAGER, .check = 5, .sequence = i, .tag = awaited[i].tag, .bytes = BYTES};

    wire_message(x->links[0], &m, data, bytes);
    wired_turn(x, 0);
}

static void assert_came(uint32_t i)
{
    assert_true(awaited[i].came);
    assert_memory_equal(to[i], data, BYTES);
    memset(to[i], 0, BYTES);
}

/* All that a message leaves behind is the same, whether or not it is the next one. */
static void arrives__in_any_order(void **state)
{
    static const uint32_t orders[2][3] = {{0, 1, 2}, {1, 2, 0}};
    struct wired x;

    (void)state;
    for (int k = 0; k < 2; k++) {
        const struct br_rail *rail;
        const struct br_peer *peer;

        await_three(&x);
        peer = &x.w->peers[x.peer];
        rail = peer->rails;
        for (uint32_t i = 0; i < 3; i++) {
            peer_says(&x, orders[k][i], BYTES);
            assert_came(orders[k][i]);
            assert_int_equal(rail->arrived, i + 1);
            assert_int_equal(rail->released, i + 1);
        }
        assert_int_equal(rail->total_rx, 3 * BYTES);
        assert_int_equal(rail->rx_messages, 3);
        assert_int_equal(peer->messages, 3);
        assert_int_equal(x.w->p2p_messages, 3);
        assert_int_equal(x.w->counters.copied_bytes, 3 * BYTES);
        assert_int_equal(peer->streams[1].seen_top, 3);
        assert_true(br_list_empty(&peer->awaited));
        assert_int_equal(x.wires[0].buffers, 0);
        for (uint32_t i = 0; i < 3; i++) /* once more, as after a lost link */
            peer_says(&x, i, BYTES);
        assert_int_equal(x.w->counters.dropped_messages, 3);
        assert_int_equal(x.w->unexpected.n_used, 0);
        assert_int_equal(to[0][0] | to[1][0] | to[2][0], 0);
        wired_destroy(&x);
    }
}

static void arrives__shorter_than_it_says(void **state)
{
    struct wired x;

    (void)state;
    await_three(&x);
    peer_says(&x, 0, BYTES - 1);
    assert_false(awaited[0].came);
    assert_int_not_equal(x.w->peers[x.peer].rails->state, BR_RAIL_UP);
    wired_destroy(&x);
}

/* Its credits go back when a quarter of them is due, though nothing else is done. */
static void arrives__acknowledged(void **state)
{
    uint32_t n = 0;
    struct wired x;

    (void)state;
    await_three(&x);
    while (!wire_take(x.links[0], BR_MESSAGE_ACK)) {
        struct br_message m = {.type = BR_MESSAGE_EAGER,
                               .check = 5,
                               .sequence = n,
                               .tag = br_tag_p2p(0, n, 7),
                               .bytes = BYTES};

        assert_true(n < BR_CREDITS);
        if (n >= 3) {
            awaited[n % 3].tag = m.tag;
            assert_int_equal(br_worker_receive(x.w, &awaited[n % 3], true), BR_RECEIVED_LATER);
        }
        wire_message(x.links[0], &m, data, BYTES);
        wired_turn(&x, 0);
        n++;
        assert_int_equal(x.w->unexpected.n_used, 0);
    }
    assert_int_equal(n, BR_CREDITS / 4);
    wired_destroy(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrives__in_any_order),
        cmocka_unit_test(arrives__shorter_than_it_says),
        cmocka_unit_test(arrives__acknowledged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
