/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two datagram links, and a network that does with their packets what the input says: delivers any
 * of them again or never, changes any byte (with a right checksum, as a hostile peer would), lets
 * time pass, kills slots.
 *
 * Whatever comes: nothing is written outside of a place, no event lies, and a link that has nothing
 * to do says so. If no packet was changed, each frame arrives at most once and no link fails but
 * for time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/fuzz/seal.h"
#include "transport/datagram/link.h"

#define PLACE   8192u
#define PACKETS 64u
#define BUFFERS 3u

#define VERSION_AT offsetof(struct br_dgram_header, version)

struct flight {
    uint8_t *bytes;
    uint32_t size;
    unsigned to;
};

struct world {
    uint64_t now;
    bool hostile, header_only;
    struct br_dgram_link *links[2];
    struct br_slot_table slots[2];
    struct br_slot *slot[2];
    uint8_t *place[2];
    uint32_t posted[2], placed[2], messages[2], heard[2];
    uint8_t arrived[2][256];
    void *held[2][BUFFERS];
    unsigned n_held[2];
    bool closed[2];
    struct flight flights[PACKETS];
    unsigned n_flights;
};

static uint8_t source[PLACE]; /* what is sent */

static void check(bool ok)
{
    if (!ok)
        abort(); /* a finding */
}

static struct br_dgram_config config(struct world *world, unsigned end)
{
    return (struct br_dgram_config){.slots = &world->slots[end],
                                    .id = 0x1000 + end,
                                    .message_bytes = 2000,
                                    .message_buffers = BUFFERS,
                                    .max_packet = BR_DGRAM_MIN_PACKET,
                                    .paths = 2,
                                    .header_only = world->header_only,
                                    .patience = 10 * BR_SEC};
}

static void take_event(struct world *world, unsigned end, const struct br_event *event)
{
    check(!world->closed[end]);
    if (event->kind == BR_EVENT_ACCEPTED || event->kind == BR_EVENT_CONNECTED) {
        br_dgram_link_authenticate(world->links[end]);
    } else if (event->kind == BR_EVENT_DATA) {
        check(event->stale || event->offset + event->length <= PLACE);
        if (world->hostile)
            return;
        check(event->inline_[0] < world->posted[!end] && !world->arrived[end][event->inline_[0]]++);
        check(event->stale ||
              !memcmp(world->place[end] + event->offset, source + event->offset, event->length));
    } else if (event->kind == BR_EVENT_MESSAGE) {
        check(event->length <= 2000 && world->n_held[end] < BUFFERS);
        check(world->hostile || event->inline_[0] == (uint8_t)world->heard[end]);
        world->heard[end]++;
        world->held[end][world->n_held[end]++] = event->buffer;
    } else if (event->kind == BR_EVENT_CLOSED) {
        world->closed[end] = true;
        check(event->error < 0 && *br_dgram_link_message(world->links[end]));
        check(world->hostile || event->error == -ETIMEDOUT);
    }
}

static void remember(struct world *world, const struct br_dgram_packet *packet, unsigned to)
{
    struct flight flight = {malloc(packet->head_bytes + packet->payload_bytes), 0, to};

    check(flight.bytes != NULL);
    flight.size = packet->head_bytes + packet->payload_bytes;
    memcpy(flight.bytes, packet->head, packet->head_bytes);
    if (packet->payload_bytes)
        memcpy(flight.bytes + packet->head_bytes, packet->payload, packet->payload_bytes);
    if (world->n_flights == PACKETS) {
        free(world->flights[0].bytes);
        memmove(world->flights, world->flights + 1, (PACKETS - 1) * sizeof flight);
        world->n_flights--;
    }
    world->flights[world->n_flights++] = flight;
}

static void serve(struct world *world, unsigned end)
{
    struct br_dgram_packet packet;
    struct br_event event = {.link = NULL};
    unsigned packets = 0;

    if (!world->links[end])
        return;
    while (br_dgram_link_next(world->links[end], world->now, &packet)) {
        check(packets++ < 5000);
        remember(world, &packet, !end);
    }
    while (br_dgram_link_event(world->links[end], &event))
        take_event(world, end, &event);
    check(br_dgram_link_timer(world->links[end]) > world->now);
}

static void deliver(struct world *world, unsigned which, bool again, uint8_t change, uint8_t by)
{
    struct flight *flight = &world->flights[which];
    unsigned to = flight->to;
    struct br_dgram_view view;
    int rc;

    if (world->hostile && by) {
        flight->bytes[change % flight->size] ^= by;
        if (change == VERSION_AT)
            fuzz_seal_version(flight->bytes, flight->size, flight->bytes[VERSION_AT]);
        else if (flight->size >= sizeof(struct br_dgram_data) || flight->bytes[3] != BR_DGRAM_DATA)
            fuzz_seal(flight->bytes, flight->size);
    }
    rc = br_dgram_parse(flight->bytes, flight->size, &view);
    if (!rc || (rc == -EPROTONOSUPPORT && view.kind == BR_DGRAM_CLOSE)) {
        struct br_dgram_config acceptor = config(world, to);

        if (world->links[to])
            br_dgram_link_input(world->links[to], &view, change & 1, world->now);
        else if (view.kind == BR_DGRAM_OPEN)
            check(!br_dgram_link_accept(&acceptor, &view, world->now, &world->links[to]));
    }
    if (!again) {
        free(flight->bytes);
        *flight = world->flights[--world->n_flights];
    }
    serve(world, to);
}

static void post(struct world *world, unsigned end, uint8_t how)
{
    struct br_frame frame = {.payload = source};
    uint8_t inline_[BR_FRAME_INLINE] = {0};
    bool message = how & 1;

    if (!world->links[end] || world->posted[end] == 255)
        return;
    frame.kind = message ? BR_FRAME_MESSAGE : BR_FRAME_DATA;
    frame.inline_ = inline_;
    inline_[0] = (uint8_t)(message ? world->messages[end] : world->posted[end]);
    if (message) {
        frame.length = how * 7u;
    } else {
        frame.slot = br_slot_number(&world->slots[!end], world->slot[!end]);
        frame.offset = (how >> 1 & 3) * 1024;
        frame.length = 64u * (1 + (how >> 3) * 2);
        if (frame.length > PLACE / 2 - frame.offset)
            frame.length = PLACE / 2 - frame.offset;
        frame.payload = source + frame.offset;
    }
    if (br_dgram_link_post(world->links[end], &frame, 1) != 1)
        return;
    world->messages[end] += message;
    world->posted[end] += !message;
    serve(world, end);
}

static void renew_slot(struct world *world, unsigned end)
{
    br_slot_put(&world->slots[end], world->slot[end]);
    world->slot[end] = br_slot_get(&world->slots[end], world->place[end], PLACE, PLACE / 2);
}

static void step(struct world *world, const uint8_t *op)
{
    unsigned end = op[0] >> 7;

    switch (op[0] & 7) {
    case 0:
    case 1:
    case 2:
        if (world->n_flights)
            deliver(world, op[1] % world->n_flights, (op[0] & 7) == 2, op[2],
                    op[0] & 8 ? op[3] : 0);
        break;
    case 3:
        post(world, end, op[1]);
        break;
    case 4:
        world->now += (uint64_t)op[1] << (op[2] & 31) % 24;
        serve(world, 0);
        serve(world, 1);
        break;
    case 5:
        if (world->n_held[end])
            br_dgram_link_release(world->links[end], world->held[end][--world->n_held[end]]);
        serve(world, end);
        break;
    case 6:
        renew_slot(world, end);
        break;
    default: /* everything in order */
        for (unsigned i = 0; i < op[1] && world->n_flights; i++)
            deliver(world, 0, false, 0, 0);
    }
}

/* Once, not for each input. */
__attribute__((constructor)) static void fill_source(void)
{
    for (unsigned i = 0; i < PLACE; i++)
        source[i] = (uint8_t)(i * 5 + i / 256 + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct world *world = calloc(1, sizeof *world);
    struct br_dgram_config connector;

    check(world != NULL);
    world->now = BR_SEC;
    world->hostile = size && data[0] & 1;
    world->header_only = size && data[0] & 2;
    for (unsigned end = 0; end < 2; end++) {
        world->place[end] = malloc(PLACE);
        check(world->place[end] && !br_slot_table_init(&world->slots[end], 2));
        world->slot[end] = br_slot_get(&world->slots[end], world->place[end], PLACE, PLACE / 2);
    }
    connector = config(world, 0);
    check(!br_dgram_link_connect(&connector, world->now, &world->links[0]));
    serve(world, 0);
    for (size_t i = 1; i + 4 <= size; i += 4)
        step(world, data + i);
    for (unsigned end = 0; end < 2; end++) {
        br_dgram_link_destroy(world->links[end]);
        br_slot_table_destroy(&world->slots[end]);
        free(world->place[end]);
    }
    while (world->n_flights)
        free(world->flights[--world->n_flights].bytes);
    free(world);
    return 0;
}
