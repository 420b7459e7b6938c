/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes, cut anywhere, with slots dying in between: the parser stays within its places and ends
 * every frame. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "transport/stream.h"

#define PLACE_BYTES 8192u
#define HELD        3

static void check(bool ok)
{
    if (!ok)
        abort(); /* a finding */
}

static void check_event(const struct br_event *event, const struct br_slot_table *slots)
{
    struct br_slot *slot = br_slot_find(slots, event->slot);

    check(event->inline_ != NULL);
    if (event->kind == BR_EVENT_DATA) {
        if (event->stale || !slot)
            return;
        check(event->length && event->offset + event->length <= slot->length);
        br_slot_arrive(slot, event->offset, event->length);
    } else {
        check(event->kind == BR_EVENT_MESSAGE && event->buffer && event->length <= 512);
    }
}

/* The first byte of each turn says how many bytes come at once and whether the slot dies first.
 * Headers are completed with a valid start so that the fuzzer need not guess the magic. */
static void feed(struct br_stream_rx *rx, bool authenticated, struct br_slot_table *slots,
                 uint8_t *place, const uint8_t *data, size_t size)
{
    struct br_slot *slot = br_slot_get(slots, place, PLACE_BYTES, PLACE_BYTES);
    void *held[HELD] = {NULL};
    unsigned turn = 0;

    while (size > 1) {
        uint8_t control = *data++;
        struct br_event event;
        uint32_t bytes, give = 1u + (control & 0x7fu);
        void *to;
        int rc;

        size--;
        if (control & 0x80) {
            br_slot_put(slots, slot);
            slot = br_slot_get(slots, place, PLACE_BYTES, PLACE_BYTES);
        }
        if (!br_stream_rx_want(rx, &to, &bytes)) {
            check(held[turn % HELD] != NULL);
            br_stream_rx_release(rx, held[turn % HELD]);
            held[turn++ % HELD] = NULL;
            continue;
        }
        check(bytes > 0);
        bytes = bytes < give ? bytes : give;
        bytes = bytes < size ? bytes : (uint32_t)size;
        memcpy(to, data, bytes);
        if (rx->part == BR_STREAM_HEADER && !rx->filled && bytes > 4)
            memcpy(to, (uint8_t[]){0x72, 0x62, BR_FRAME_VERSION, (uint8_t)(1 + (data[3] & 1))}, 4);
        data += bytes, size -= bytes;
        rc = br_stream_rx_got(rx, bytes, authenticated, &event);
        if (rc < 0)
            return;
        if (!rc)
            continue;
        check_event(&event, slots);
        if (event.buffer) {
            if (held[turn % HELD])
                br_stream_rx_release(rx, held[turn % HELD]);
            held[turn++ % HELD] = event.buffer;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *place = malloc(PLACE_BYTES), *trash = malloc(100); /* on the heap: overruns are seen */
    struct br_slot_table slots;
    struct br_stream_rx rx;
    struct br_stream_config config = {&slots, 512, PLACE_BYTES * 2, trash, 100};

    check(place && trash && !br_slot_table_init(&slots, 4) &&
          !br_stream_rx_init(&rx, &config, HELD - 1));
    feed(&rx, !size || data[0] & 1, &slots, place, data, size);
    br_stream_rx_destroy(&rx);
    br_slot_table_destroy(&slots);
    free(place);
    free(trash);
    return 0;
}
