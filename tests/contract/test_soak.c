/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random traffic from seeds: messages and transfers over several links at once, in both directions,
 * the frames of a transfer in random order and over random links. Every byte is compared, every
 * SENT counted.
 */
#include "contract.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define LINKS     6
#define ENDS      12 /* two of each link: 2 i and 2 i + 1 */
#define TRANSFERS 12
#define LONGEST   200000ul /* bytes of a transfer */
#define ROUNDS    600
#define MOST      (60 * BR_SEC) /* for a soak: packets may be held for a while on a busy machine */
#define SEEDS     8

/* One end of a link. Messages of one direction carry the numbers 0, 1, ... of their sender. */
struct end {
    struct br_link *link;
    int side, peer_side;
    uint64_t sent, received; /* messages */
};

struct transfer {
    bool used;
    int from_side;
    uint8_t *from, *to;
    struct br_slot *slot;
    uint32_t number, length, pieces, posted, sent;
    uint32_t *order;
    uint8_t *base; /* the slot's, apart from `to` where its bytes are combined */
    struct contract_sum sum;
    struct br_slot_reducer reducer;
    bool complete;
};

struct soak {
    struct contract *contract;
    struct end ends[ENDS];
    struct transfer transfers[TRANSFERS];
    struct br_region regions[2];  /* of each side: what transfers are sent from */
    uint8_t messages[ENDS][4096]; /* payload that is on its way while `busy` */
    bool busy[ENDS];
    uint64_t seed, completed;
};

/* Cookies: a transfer's index, or this and an end's index. */
#define MESSAGE_COOKIE (TRANSFERS + 1)

static uint64_t below(struct soak *soak, uint64_t bound)
{
    return br_random_below(&soak->contract->random, bound);
}

static struct end *find_end(struct soak *soak, const struct br_link *link)
{
    for (int i = 0; i < ENDS; i++)
        if (soak->ends[i].link == link)
            return &soak->ends[i];
    fail_msg("an event of an unknown link");
    return NULL;
}

static uint64_t message_seed(const struct soak *soak, const struct end *sender, uint64_t number)
{
    return soak->seed * 1000000 + (uint64_t)(sender - soak->ends) * 10000 + number;
}

static uint32_t message_length(const struct soak *soak, uint64_t seed)
{
    uint32_t limit = soak->contract->sides[0].device->caps.max_message;

    return seed % 3 ? (uint32_t)(seed * 7919 % (limit + 1)) : 0;
}

static void send_message(struct soak *soak)
{
    uint64_t i = below(soak, ENDS), seed;
    struct end *end = &soak->ends[i];
    uint8_t inline_[BR_FRAME_INLINE];
    struct br_frame frame = {.kind = BR_FRAME_MESSAGE,
                             .inline_ = inline_,
                             .payload = soak->messages[i],
                             .cookie = MESSAGE_COOKIE + i};

    if (soak->busy[i])
        return;
    seed = message_seed(soak, end, end->sent);
    frame.length = message_length(soak, seed);
    contract_fill(inline_, sizeof inline_, ~seed);
    contract_fill(soak->messages[i], frame.length, seed);
    if (soak->contract->ops->post(end->link, &frame, 1) != 1)
        return;
    end->sent++;
    soak->busy[i] = true;
}

/* Where the bytes of a transfer are received: half of them elsewhere than in `to`, which a reducer
 * then fills. */
static uint8_t *base_of(struct soak *soak, const struct transfer *transfer)
{
    const struct br_device *device = soak->contract->sides[!transfer->from_side].device;

    return device->caps.needs_rkey || below(soak, 2) ? transfer->to : malloc(transfer->length);
}

static void reduce(struct transfer *transfer)
{
    transfer->sum = (struct contract_sum){transfer->slot, transfer->to};
    transfer->reducer = (struct br_slot_reducer){contract_add_up, &transfer->sum};
    assert_true(br_slot_set_reducer(transfer->slot, &transfer->reducer));
}

static void begin_transfer(struct soak *soak)
{
    uint64_t index = below(soak, TRANSFERS);
    struct transfer *transfer = &soak->transfers[index];
    uint32_t most, slice = 1u << (12 + below(soak, 6)); /* each is one frame */
    struct br_slot_table *slots;

    if (transfer->used)
        return;
    memset(transfer, 0, sizeof *transfer);
    transfer->used = true;
    transfer->from_side = (int)below(soak, 2);
    transfer->length = 1 + (uint32_t)below(soak, below(soak, 2) ? 1000 : LONGEST);
    transfer->from = (uint8_t *)soak->regions[transfer->from_side].base + index * LONGEST;
    transfer->to = calloc(1, transfer->length);
    slots = &soak->contract->sides[!transfer->from_side].slots;
    most = soak->contract->sides[transfer->from_side].device->caps.max_frame & ~4095u;
    contract_fill(contract_view(soak->contract, transfer->from), transfer->length,
                  below(soak, 1000));
    assert_non_null(transfer->to);
    transfer->base = base_of(soak, transfer);
    assert_non_null(transfer->base);
    transfer->slot = contract_slot(soak->contract, !transfer->from_side, transfer->base,
                                   transfer->length, slice < most ? slice : most);
    transfer->slot->may_map = below(soak, 2);
    transfer->slot->owner = transfer;
    if (transfer->base != transfer->to)
        reduce(transfer);
    transfer->number = br_slot_number(slots, transfer->slot);
    transfer->pieces =
        (transfer->length + transfer->slot->slice_bytes - 1) / transfer->slot->slice_bytes;
    transfer->order = malloc(transfer->pieces * sizeof *transfer->order);
    assert_non_null(transfer->order);
    for (uint32_t i = 0; i < transfer->pieces; i++) { /* slices in random order */
        uint32_t k = (uint32_t)below(soak, i + 1);

        transfer->order[i] = transfer->order[k];
        transfer->order[k] = i;
    }
}

/* The next slice of a random transfer, over a random link from its sender to its receiver. */
static void send_slice(struct soak *soak)
{
    uint64_t i = below(soak, TRANSFERS);
    struct transfer *transfer = &soak->transfers[i];
    const struct end *end = &soak->ends[below(soak, ENDS)];
    struct br_frame frame;
    uint32_t offset, left;

    if (!transfer->used || transfer->posted == transfer->pieces || end->side != transfer->from_side)
        return;
    offset = transfer->order[transfer->posted] * transfer->slot->slice_bytes;
    left = transfer->length - offset;
    frame = contract_placed(
        soak->contract, !transfer->from_side, transfer->number, transfer->from, offset,
        left < transfer->slot->slice_bytes ? left : transfer->slot->slice_bytes, i);
    frame.region = &soak->regions[end->side];
    frame.lasts = below(soak, 2);
    transfer->posted += (uint32_t)(soak->contract->ops->post(end->link, &frame, 1) == 1);
}

static void end_transfer(struct soak *soak, struct transfer *transfer)
{
    if (!transfer->complete || transfer->sent < transfer->pieces)
        return;
    if (transfer->base != transfer->to)
        free(transfer->base);
    free(transfer->to);
    free(transfer->order);
    transfer->used = false;
    soak->completed++;
}

static void take_data(struct soak *soak, int side, const struct br_event *event)
{
    struct br_slot_table *slots = &soak->contract->sides[side].slots;
    struct br_slot *slot = br_slot_find(slots, event->slot);
    struct transfer *transfer;

    assert_non_null(slot);
    transfer = slot->owner;
    if (event->mapped) {
        assert_true(slot->may_map);
        memcpy(transfer->to + event->offset, event->mapped, event->length);
        soak->contract->ops->release(event->link->device, NULL, event->buffer);
    } else if (slot->reducer) {
        br_slot_reduce(slot, event->offset, slot->base + event->offset, event->length);
    }
    if (!br_slot_arrive(slot, event->offset, event->length))
        return;
    assert_memory_equal(transfer->to, contract_view(soak->contract, transfer->from),
                        transfer->length);
    contract_slot_put(soak->contract, side, slot);
    transfer->complete = true;
    end_transfer(soak, transfer);
}

static void take_sent(struct soak *soak, uint64_t cookie)
{
    if (cookie >= MESSAGE_COOKIE) {
        assert_in_range(cookie, MESSAGE_COOKIE, MESSAGE_COOKIE + ENDS - 1);
        assert_true(soak->busy[cookie - MESSAGE_COOKIE]);
        soak->busy[cookie - MESSAGE_COOKIE] = false;
        return;
    }
    assert_true(soak->transfers[cookie - 1].used);
    soak->transfers[cookie - 1].sent++;
    assert_true(soak->transfers[cookie - 1].sent <= soak->transfers[cookie - 1].posted);
    end_transfer(soak, &soak->transfers[cookie - 1]);
}

static void take_events(struct soak *soak, int side)
{
    struct contract_side *at = &soak->contract->sides[side];

    for (int i = 0; i < at->n_log; i++) {
        const struct br_event *event = &at->log[i].event;
        struct end *end = find_end(soak, event->link);
        struct end *peer = &soak->ends[(end - soak->ends) ^ 1];
        uint64_t seed = message_seed(soak, peer, end->received);

        assert_int_equal(end->side, side);
        if (event->kind == BR_EVENT_MESSAGE) {
            assert_true(contract_is_message(&at->log[i], message_length(soak, seed), seed));
            end->received++;
        } else if (event->kind == BR_EVENT_DATA) {
            take_data(soak, side, event);
        } else {
            assert_int_equal(event->kind, BR_EVENT_SENT);
            take_sent(soak, event->cookie);
        }
    }
    contract_forget(soak->contract, side);
}

static bool is_done(const struct soak *soak)
{
    for (int i = 0; i < TRANSFERS; i++)
        if (soak->transfers[i].used)
            return false;
    for (int i = 0; i < ENDS; i++)
        if (soak->busy[i] || soak->ends[i].received != soak->ends[i ^ 1].sent)
            return false;
    return true;
}

static void connect_all(struct soak *soak)
{
    for (int i = 0; i < LINKS; i++) {
        struct end *a = soak->ends + i + i, *b = a + 1;

        a->side = b->peer_side = i & 1;
        b->side = a->peer_side = !(i & 1);
        contract_connect(soak->contract, a->side, b->side, &a->link, &b->link);
    }
    contract_forget(soak->contract, 0);
    contract_forget(soak->contract, 1);
}

static void run(struct contract *contract, uint64_t seed)
{
    struct soak *soak = calloc(1, sizeof *soak);
    uint64_t until = br_clock_now() + MOST;

    assert_non_null(soak);
    soak->contract = contract;
    soak->seed = seed;
    br_random_seed(&contract->random, seed);
    contract->poll_max = 1 + (int)(seed * 5 % 32);
    connect_all(soak);
    for (int i = 0; i < 2; i++)
        contract_region(contract, i, &soak->regions[i], TRANSFERS * LONGEST);
    for (int round = 0; round < ROUNDS || !is_done(soak); round++) {
        assert_true(br_clock_now() < until);
        for (uint64_t n = below(soak, 8); n; n--) {
            if (round < ROUNDS && below(soak, 3) == 0)
                send_message(soak);
            if (round < ROUNDS && below(soak, 8) == 0)
                begin_transfer(soak);
            send_slice(soak);
        }
        if (!contract_step(contract) && contract->backend->idle)
            contract->backend->idle(contract);
        take_events(soak, 0);
        take_events(soak, 1);
    }
    contract_settle(contract);
    assert_int_equal(contract->sides[0].n_log + contract->sides[1].n_log, 0);
    assert_true(soak->completed > 5);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            contract->sides[i].slots.stale_frames + contract->sides[i].slots.bad_frames, 0);
        assert_int_equal(contract->sides[i].slots.n_free, contract->sides[i].slots.count);
    }
    for (int i = 0; i < ENDS; i++)
        contract->ops->link_close(soak->ends[i].link);
    for (int i = 0; i < 2; i++)
        contract_region_free(contract, i, &soak->regions[i]);
    free(soak);
    contract_settle(contract);
}

static void soak__random_traffic(void **state)
{
    struct contract *contract = *state;

    contract->sides[0].config.max_links = contract->sides[1].config.max_links = ENDS;
    contract_open_two(contract);
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        run(contract, seed);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CONTRACT_CASE(soak__random_traffic),
    };

    return contract_main(cases, sizeof cases / sizeof *cases);
}
