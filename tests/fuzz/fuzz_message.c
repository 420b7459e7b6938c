/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker whose peer knows the secret and lies: any messages and frames, in any order, on two
 * rails that die in between. The worker may fail, in words; it must not crash, hang, post what the
 * contract forbids (tests/protocol/wired.h), write outside the places, or end a transfer twice.
 *
 * The input is a sequence of commands of one byte with arguments behind them. Numbers that mean
 * something (slots, tags) can be given as an index, so that the fuzzer need not guess them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/protocol/wired.h"

#define TRANSFERS 12
#define BYTES     12288u /* of a place: three slices of the smallest size */

struct input {
    const uint8_t *at, *end;
};

struct fuzz {
    struct wired x;
    struct input in;
    struct br_transfer transfers[TRANSFERS];
    uint8_t *places[TRANSFERS]; /* of their own on the heap: overruns are seen */
    bool posted[TRANSFERS];
    uint8_t *memory; /* region of one-sided access */
    struct br_region region;
    int held;
};

static void check(bool ok)
{
    if (!ok)
        abort(); /* a finding */
}

static uint8_t byte(struct input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

static uint32_t number(struct input *in, int bytes)
{
    uint32_t n = 0;

    for (int i = 0; i < bytes; i++)
        n |= (uint32_t)byte(in) << 8 * i;
    return n;
}

static int find(void *context, uint32_t id, uint64_t offset, uint64_t bytes, void **at,
                struct br_region **found)
{
    struct fuzz *f = context;

    if (id != 1 || offset > BYTES || bytes > BYTES - offset)
        return -13;
    *at = f->memory + offset;
    *found = &f->region;
    f->held++;
    return 0;
}

static void done(void *context, struct br_region *region)
{
    struct fuzz *f = context;

    check(region == &f->region && f->held-- > 0);
}

/* One of few tags, of all families. */
static uint64_t tag(uint8_t n)
{
    static const uint64_t families[] = {0, 1ull << 62, 2ull << 62, 3ull << 62};

    return families[n >> 6] | (n & 15);
}

static const uint32_t lengths[] = {0, 1, 24, 25, 1024, 1025, 4096, BYTES};

static void post(struct fuzz *f)
{
    uint8_t what = byte(&f->in), which = byte(&f->in);
    int i = what % TRANSFERS;
    struct br_transfer *t = &f->transfers[i];
    uint64_t of;
    int rc;

    if (f->posted[i] && (t->state != BR_TRANSFER_ENDED || !br_list_empty(&t->node)))
        return; /* not ours again before br_worker_done() has said so */
    if (f->posted[i] && !t->is_send)
        br_transfer_release(f->x.w, t);
    of = tag(byte(&f->in));
    *t = (struct br_transfer){
        .tag = of,
        .peer = 1,
        .length = of == br_tag_with_part(br_tag_of_later(of, 0), BR_PART_STATUS)
                      ? BR_ANSWER_BYTES
                      : lengths[which % 8],
        .memory = f->places[i],
        .priority = which >> 6,
        .order = what,
        .may_map = which & 8,
        .rendezvous = which & 16 && lengths[which % 8],
        .announces = which & 32,
    };
    rc = what & 0x80 ? br_transfer_send(f->x.w, t) : br_transfer_receive(f->x.w, t);
    f->posted[i] = rc == 0;
}

static void withdraw(struct fuzz *f)
{
    int i = byte(&f->in) % TRANSFERS;
    struct br_transfer *t = &f->transfers[i];

    if (f->x.w->failed || !f->posted[i] ||
        (t->state != BR_TRANSFER_QUEUED && t->state != BR_TRANSFER_MATCHING))
        return;
    br_transfer_withdraw(f->x.w, t);
    f->posted[i] = false;
}

/* The number of a slot of ours, or nearly. */
static uint32_t slot_number(struct fuzz *f, uint8_t n)
{
    const struct br_slot_table *slots = &f->x.w->slots;
    uint32_t index = n % slots->count;

    return br_slot_number(slots, &slots->slots[index]) + (n & 0x80 ? 0x10000u : 0);
}

/* Place tokens, and what a renewed slot has already. Returns the payload's length. */
static uint32_t add_places(struct fuzz *f, struct br_message *m)
{
    uint8_t how = byte(&f->in);

    m->rkeys = f->x.wires[0].device.caps.needs_rkey ? how & 3 : 0;
    if (how & 4)
        m->rkeys ^= 1u << (how >> 3 & 7);
    if (how & 64) {
        m->ready.renews = number(&f->in, 1) | 0x10000;
        m->ready.have = byte(&f->in) & 7;
    }
    return (uint32_t)__builtin_popcount(m->rkeys) * BR_RKEY_BYTES + (how & 128 ? 1 : 0);
}

static void send_message(struct fuzz *f, struct wire_link *link)
{
    static uint8_t payload[2048] = "words";
    uint8_t what = byte(&f->in);
    struct br_message m = {
        .type = what & 31, .sequence = number(&f->in, 1), .tag = tag(byte(&f->in))};
    uint32_t length = 0;

    if (what & 32) /* far from all others */
        m.sequence *= 0x01010101;
    switch (m.type) {
    case BR_MESSAGE_EAGER:
    case BR_MESSAGE_READY:
        m.bytes = lengths[byte(&f->in) % 8];
        m.ready.slot = number(&f->in, 1) | 0x10000;
        if (m.type == BR_MESSAGE_READY)
            length = add_places(f, &m);
        else
            length = m.bytes > BR_EAGER_INLINE ? m.bytes % 2048 : 0;
        break;
    case BR_MESSAGE_ANNOUNCE:
        m.bytes = lengths[byte(&f->in) % 8];
        m.waiting.total = m.bytes + (what & 64 ? 1 : 0);
        break;
    case BR_MESSAGE_RENEW:
        m.renew.slot = slot_number(f, byte(&f->in));
        m.renew.lost = byte(&f->in) & 1;
        break;
    case BR_MESSAGE_RAIL_FENCED: /* of the connection that was lost last, or nearly */
        m.rail.rail = byte(&f->in) & 1;
        m.rail.incarnation = f->x.w->peers[1].rails[m.rail.rail].lost + (what & 64 ? 1 : 0);
        break;
    case BR_MESSAGE_PUT:
    case BR_MESSAGE_GET:
        m.bytes = lengths[byte(&f->in) % 8];
        m.onesided.check = what & 64 ? 78 : 77;
        m.onesided.offset = number(&f->in, 2);
        m.onesided.region = 1;
        length = m.type == BR_MESSAGE_PUT && m.onesided.offset & 1 && m.bytes <= sizeof payload
                     ? m.bytes
                     : 0;
        if (m.type == BR_MESSAGE_PUT && m.onesided.offset & 2) {
            m.flags = BR_PUT_NOTIFIES;
            length += (uint32_t)sizeof(struct br_notify);
            memcpy(payload,
                   &(struct br_notify){.value = 1,
                                       .offset = number(&f->in, 1),
                                       .region = m.onesided.offset >> 2 & 1,
                                       .operation = m.onesided.offset >> 3 & 3},
                   sizeof(struct br_notify));
        }
        break;
    case BR_MESSAGE_PUTS:
        m.puts.check = what & 64 ? 78 : 77;
        for (m.puts.count = byte(&f->in) & 3; length < 64 * m.puts.count;) {
            struct br_put_entry entry = {
                .offset = number(&f->in, 2), .region = 1, .bytes = 48 - (byte(&f->in) & 1)};

            memcpy(payload + length, &entry, sizeof entry);
            length += (uint32_t)sizeof entry + 48;
        }
        break;
    case BR_MESSAGE_PUT_DONE:
        m.put_done.puts[0] = byte(&f->in);
        m.put_done.puts[2] = (uint64_t)byte(&f->in) << 56;
        break;
    case BR_MESSAGE_ATOMIC:
        m.bytes = sizeof(uint64_t);
        m.onesided.check = what & 64 ? 78 : 77;
        m.onesided.offset = number(&f->in, 1);
        m.onesided.region = 1;
        m.onesided.operation = byte(&f->in) & 3;
        length = sizeof(struct br_operands);
        break;
    default:
        for (int i = 0; i < 24; i++)
            m.data[i] = byte(&f->in);
        length = m.type == BR_MESSAGE_ABORT ? byte(&f->in) : 0;
    }
    if (what & 128)
        length = number(&f->in, 2) % sizeof payload;
    wire_message(link, &m, payload, length);
}

/* Ranks 0 to 3 and no rank; ids that come again; inner frames that may be right. */
static void send_relay(struct fuzz *f, struct wire_link *link)
{
    uint8_t what = byte(&f->in), places = byte(&f->in), which = byte(&f->in);
    struct br_message_relay relay = {.type = BR_MESSAGE_RELAY,
                                     .what = what & 0x87,
                                     .hosts = 2 + (places & 3),
                                     .at = places >> 2 & 3,
                                     .priority = what & 8 ? INT16_MAX : (int16_t)which,
                                     .id = (uint32_t)(which & 3) << 16 | (which >> 2 & 1),
                                     .number = which >> 4};
    uint8_t payload[2048] = {0};
    struct br_frame_header inner = {.magic = BR_FRAME_MAGIC, .version = BR_FRAME_VERSION};
    uint32_t length = 0;
    struct br_message m;

    for (uint32_t i = 0; i < relay.hosts; i++)
        relay.path[i] = byte(&f->in) % 5;
    if ((relay.what & BR_RELAY_KIND) == BR_RELAY_FRAME) {
        struct br_message within = {.type = byte(&f->in) % 20, .tag = tag(byte(&f->in))};

        inner.kind = byte(&f->in) & 3;
        inner.length = number(&f->in, 2) % (sizeof payload - sizeof inner);
        inner.slot = slot_number(f, byte(&f->in));
        memcpy(inner.inline_, &within, sizeof within);
        memcpy(payload, &inner, sizeof inner);
        length = what & 16 ? number(&f->in, 1) : (uint32_t)sizeof inner + inner.length;
        for (uint32_t i = sizeof inner; i < sizeof inner + 80; i++)
            payload[i] = byte(&f->in);
    }
    memcpy(&m, &relay, sizeof m);
    wire_message(link, &m, payload, length);
}

static void send_placed(struct fuzz *f, struct wire_link *link)
{
    static const uint8_t bytes[BYTES];
    uint32_t slot = slot_number(f, byte(&f->in)), at = byte(&f->in), n = byte(&f->in);
    uint32_t offset = (at >> 2) * 1024 + (at & 1 ? 64 : 0), length = (n >> 3) * 1024 + (n & 7);
    struct br_slot *place = br_slot_find(&f->x.w->slots, slot);

    if (length > BYTES)
        length = BYTES;
    if (at & 2 && place && place->may_map && !link->link.device->caps.needs_rkey)
        wire_mapped(link, slot, offset, bytes, length, byte(&f->in) & 3);
    else
        wire_placed(link, slot, offset, bytes, length, byte(&f->in) & 3);
}

/* The rail's link or, when it is lost, a new one if the worker takes it. */
static struct wire_link *link_of(struct fuzz *f, int rail)
{
    struct wire_link *link = f->x.links[rail];

    if (!link->closed)
        return link;
    if (f->x.w->failed || f->x.w->peers[1].rails[rail].state != BR_RAIL_IDLE)
        return NULL;
    f->x.wires[rail].room = -1;
    return wired_connect(&f->x, rail) ? f->x.links[rail] : NULL;
}

static void turn(struct fuzz *f)
{
    static const uint64_t times[] = {0, BR_US, BR_MS, 300 * BR_MS};

    for (int r = 0; r < f->x.rails; r++)
        f->x.wires[r].room = -1;
    wired_turn(&f->x, times[byte(&f->in) % 4]);
    for (int r = 0; r < f->x.rails; r++)
        if (f->x.wires[r].n_frames > WIRE_FRAMES / 2)
            wire_forget(&f->x.wires[r]);
}

static void step(struct fuzz *f)
{
    uint8_t command = byte(&f->in);
    int rail = command >> 7;
    struct wire_link *link;

    switch (command & 7) {
    case 0:
        turn(f);
        return;
    case 1:
        post(f);
        return;
    case 2:
        wire_sent_all(&f->x.wires[rail]);
        return;
    case 3:
        if (command & 8)
            withdraw(f);
        else if (command & 16 && !f->x.w->failed)
            br_worker_set_aside(f->x.w, 1);
        else
            f->x.wires[rail].room = byte(&f->in) % 8;
        return;
    default:
        break;
    }
    link = link_of(f, rail);
    if (!link)
        return;
    if ((command & 7) == 4 && command & 64)
        wire_fail(link, 104, "cut");
    else if ((command & 7) < 6 && command & 32)
        send_relay(f, link);
    else if ((command & 7) < 6)
        send_message(f, link);
    else
        send_placed(f, link);
}

static void set_up(struct fuzz *f, const uint8_t *data, size_t size)
{
    struct br_caps caps = wire_caps(size && data[0] & 1);

    caps.max_frame = 4096;
    caps.needs_rkey = size && data[0] & 4;
    caps.sent_means_arrived = caps.sent_means_arrived || caps.needs_rkey;
    memset(f, 0, sizeof *f);
    f->in = (struct input){data + (size > 0), data + size};
    f->memory = calloc(1, BYTES);
    check(f->memory != NULL);
    for (int i = 0; i < TRANSFERS; i++) {
        f->places[i] = calloc(1, BYTES);
        check(f->places[i] != NULL);
    }
    if (size && data[0] & 2)
        wired_create_bcube(&f->x, 0, 2, &caps);
    else
        wired_create(&f->x, 0, 2, &caps);
    f->x.w->config.slice_bytes = 4096;
    f->x.w->config.region_find = find;
    f->x.w->config.region_done = done;
    f->x.w->config.region_context = f;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz f;

    set_up(&f, data, size);
    while (f.in.at < f.in.end && !f.x.w->failed)
        step(&f);
    wired_turn(&f.x, BR_MS);
    for (int i = 0; i < TRANSFERS && !f.x.w->failed; i++)
        if (f.posted[i] && f.transfers[i].state == BR_TRANSFER_ENDED && !f.transfers[i].is_send)
            br_transfer_release(f.x.w, &f.transfers[i]);
    br_worker_destroy(f.x.w);
    for (int i = 0; i < TRANSFERS; i++)
        free(f.places[i]);
    free(f.memory);
    return 0;
}
