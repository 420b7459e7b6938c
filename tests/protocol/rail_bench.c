/* SPDX-License-Identifier: BSD-3-Clause */
#include "rail_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"

uint64_t bench_most_in_flight, bench_bucket;

void bench_set_up(struct bench *b, int n_rails)
{
    memset(b, 0, sizeof *b);
    b->device.caps = (struct br_caps){.max_frame = 1 << 20};
    b->peer.rails = b->rails;
    b->peer.n_rails = n_rails;
    for (int i = 0; i < n_rails; i++) {
        br_rail_init(&b->rails[i], &b->peer, i);
        b->rails[i].device = &b->device;
        b->rails[i].target_delay = BR_MS;
        br_rail_reset(&b->rails[i], 0);
        b->rails[i].state = BR_RAIL_UP;
    }
}

void bench_drive(struct br_rail *rail, uint64_t rate, uint64_t rtt, uint64_t *now, uint64_t end)
{
    static struct {
        uint64_t bytes, at;
    } acks[4096];
    uint64_t free_at = *now - bench_bucket;
    unsigned head = 0, tail = 0;

    while (*now < end) {
        while (br_rail_has_window(rail, rail->frame_bytes)) {
            uint32_t length = rail->frame_bytes;
            bool asks = br_rail_asks(rail, length);

            br_rail_posted(rail, length, asks, *now);
            if (br_rail_in_flight(rail) > bench_most_in_flight)
                bench_most_in_flight = br_rail_in_flight(rail);
            free_at = (free_at + bench_bucket > *now ? free_at : *now - bench_bucket) +
                      (uint64_t)length * BR_SEC / rate;
            if (asks) {
                acks[head % 4096].bytes = rail->tx_bytes;
                acks[head++ % 4096].at = (free_at > *now ? free_at : *now) + rtt;
            }
        }
        /* in flight, but nobody was asked: the rail would stand still for ever */
        assert_true(head != tail);
        *now = acks[tail % 4096].at;
        br_rail_acknowledged(rail, acks[tail++ % 4096].bytes, *now);
    }
    while (tail != head) {
        *now = acks[tail % 4096].at;
        br_rail_acknowledged(rail, acks[tail++ % 4096].bytes, *now);
    }
}
