/* SPDX-License-Identifier: BSD-3-Clause */
/* DATA frames: bytes where the receiver named the place, and nowhere else; mappings; regions. */
#include "contract.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define GUARD 64

/* A transfer of `length` bytes from side 0 to side 1, with guards around the place. */
struct transfer {
    uint32_t length, number;
    uint8_t *from, *memory, *to;
    struct br_slot *slot;
};

static struct transfer transfer_new(struct contract *contract, uint32_t length,
                                    uint32_t slice_bytes, uint64_t seed)
{
    struct transfer transfer = {
        .length = length, .from = malloc(length), .memory = malloc(length + 2 * GUARD)};

    assert_true(transfer.from && transfer.memory);
    contract_fill(transfer.from, length, seed);
    memset(transfer.memory, 0xcc, length + 2 * GUARD);
    transfer.to = transfer.memory + GUARD;
    transfer.slot = contract_slot(contract, 1, transfer.to, length, slice_bytes);
    transfer.number = br_slot_number(&contract->sides[1].slots, transfer.slot);
    return transfer;
}

static void transfer_free(struct contract *contract, struct transfer *transfer)
{
    if (br_slot_find(&contract->sides[1].slots, transfer->number))
        contract_slot_put(contract, 1, transfer->slot);
    free(transfer->from);
    free(transfer->memory);
}

static bool all_bytes_are(const uint8_t *bytes, size_t n, uint8_t value)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != value)
            return false;
    return true;
}

static void expect_arrived(const struct transfer *transfer)
{
    assert_memory_equal(transfer->to, transfer->from, transfer->length);
    assert_true(all_bytes_are(transfer->memory, GUARD, 0xcc));
    assert_true(all_bytes_are(transfer->to + transfer->length, GUARD, 0xcc));
}

/* Marks what the events [first, last) say and returns whether they complete the slot. */
static bool arrive(struct contract *contract, struct br_link *link, struct br_slot *slot, int first,
                   int last)
{
    bool complete = false;

    for (int i = first; i < last; i++) {
        const struct br_event *event = &contract_event(contract, 1, BR_EVENT_DATA, link, i)->event;

        complete = br_slot_arrive(slot, event->offset, event->length);
    }
    return complete;
}

/* Sends the transfer in frames of `frame_bytes` (cut at slices). Returns the number of frames. */
static int send_all(struct contract *contract, struct br_link *link,
                    const struct transfer *transfer, uint32_t frame_bytes)
{
    uint32_t slice = transfer->slot->slice_bytes, offset = 0;
    int n = 0;

    while (offset < transfer->length) {
        uint32_t end = offset + frame_bytes, slice_end = (offset / slice + 1) * slice;
        struct br_frame frame;

        end = end < slice_end ? end : slice_end;
        end = end < transfer->length ? end : transfer->length;
        frame = contract_placed(contract, 1, transfer->number, transfer->from, offset, end - offset,
                                (uint64_t)n++);
        contract_post(contract, link, &frame, 1);
        offset = end;
    }
    return n;
}

static void data__all_sizes_and_tails(void **state)
{
    static const uint32_t lengths[] = {1,    2,    63,    64,     65,     4095,
                                       4096, 4097, 70000, 262144, 262145, 999999};
    struct contract *contract = *state;
    struct br_link *a, *b;
    int before = 0;

    contract_open_two(contract);
    contract_connect(contract, 0, 1, &a, &b);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct transfer transfer = transfer_new(contract, lengths[i], 65536, i);
        uint32_t granule = transfer.slot->granule_bytes,
                 limit = a->device->caps.max_frame / granule * granule;
        uint32_t cut = i % 2 ? limit : 3 * granule;
        int n = send_all(contract, a, &transfer, cut < limit ? cut : limit);

        assert_true(contract_until(contract, 1, BR_EVENT_DATA, b, before + n));
        assert_true(arrive(contract, b, transfer.slot, before, before + n));
        expect_arrived(&transfer);
        assert_true(contract_until(contract, 0, BR_EVENT_SENT, a, before + n));
        before += n;
        transfer_free(contract, &transfer);
    }
}

static void data__carries_the_inline_bytes(void **state)
{
    struct contract *contract = *state;
    struct transfer transfer;
    uint8_t inline_[BR_FRAME_INLINE];
    struct br_frame frame;
    struct br_link *a, *b;

    contract_open_two(contract);
    contract_connect(contract, 0, 1, &a, &b);
    transfer = transfer_new(contract, 1000, 4096, 1);
    frame = contract_placed(contract, 1, transfer.number, transfer.from, 0, 1000, 77);
    contract_fill(inline_, sizeof inline_, 5);
    frame.inline_ = inline_;
    contract_post(contract, a, &frame, 1);
    assert_true(contract_until(contract, 1, BR_EVENT_DATA, b, 1));
    assert_true(contract_is_filled(contract_event(contract, 1, BR_EVENT_DATA, b, 0)->inline_,
                                   BR_FRAME_INLINE, 5));
    assert_true(contract_until(contract, 0, BR_EVENT_SENT, a, 1));
    assert_int_equal(contract_event(contract, 0, BR_EVENT_SENT, a, 0)->event.cookie, 78);
    transfer_free(contract, &transfer);
}

/* One transfer over two links, slice by slice, with messages in between. */
static void data__two_links_interleaved(void **state)
{
    struct contract *contract = *state;
    struct br_link *a[2], *b[2];
    struct transfer transfer;
    uint32_t slice, n;

    contract_open_two(contract);
    for (int i = 0; i < 2; i++)
        contract_connect(contract, 0, 1, &a[i], &b[i]);
    transfer = transfer_new(contract, 200001, 4096, 9);
    slice = transfer.slot->slice_bytes;
    n = (transfer.length + slice - 1) / slice;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t left = transfer.length - i * slice;
        struct br_frame frame = contract_placed(contract, 1, transfer.number, transfer.from,
                                                i * slice, left < slice ? left : slice, i);

        contract_post(contract, a[i % 2], &frame, 1);
        contract_message(contract, a[i / 2 % 2], NULL, 0, i);
    }
    assert_true(contract_until(contract, 1, BR_EVENT_DATA, NULL, (int)n));
    assert_true(contract_until(contract, 1, BR_EVENT_MESSAGE, NULL, (int)n));
    assert_true(arrive(contract, NULL, transfer.slot, 0, (int)n));
    expect_arrived(&transfer);
    contract_settle(contract);
    transfer_free(contract, &transfer);
}

/* SENT means that the memory may be used again, even at once. */
static void sent__gives_the_memory_back(void **state)
{
    struct contract *contract = *state;
    struct transfer transfer;
    struct br_link *a, *b;
    struct br_frame frame;

    contract_open_two(contract);
    contract_connect(contract, 0, 1, &a, &b);
    transfer = transfer_new(contract, 64 * 4096, 4096, 0);
    for (uint32_t i = 0; i < 64; i++) {
        contract_fill(transfer.from, 4096, i); /* always the same memory */
        frame = contract_placed(contract, 1, transfer.number, transfer.from, 0, 4096, i);
        frame.offset = i * 4096;
        contract_post(contract, a, &frame, 1);
        assert_true(contract_until(contract, 0, BR_EVENT_SENT, a, (int)i + 1));
        if (a->device->caps.sent_means_arrived)
            assert_true(contract_is_filled(transfer.to + (size_t)i * 4096, 4096, i));
    }
    assert_true(contract_until(contract, 1, BR_EVENT_DATA, b, 64));
    for (uint32_t i = 0; i < 64; i++)
        assert_true(contract_is_filled(transfer.to + (size_t)i * 4096, 4096, i));
    transfer_free(contract, &transfer);
}

/* Dropped, reported, counted; and what follows is not shifted. */
static void stale_slot__is_dropped_in_step(void **state)
{
    struct contract *contract = *state;
    const struct br_event *event;
    struct transfer transfer;
    struct br_link *a, *b;
    struct br_frame frame;

    contract_open_two(contract);
    if (contract->sides[1].device->caps.needs_rkey)
        /* nobody looks before the bytes are written: it is up to the protocol that this never
         * happens */
        return;
    contract_connect(contract, 0, 1, &a, &b);
    transfer = transfer_new(contract, 50000, 65536, 2);
    contract_slot_put(contract, 1, transfer.slot);
    frame = contract_placed(contract, 1, transfer.number, transfer.from, 0, 50000 / 1024 * 1024, 1);
    contract_post(contract, a, &frame, 1);
    frame.slot = 0xffff3fff; /* never existed */
    contract_post(contract, a, &frame, 1);
    contract_message(contract, a, NULL, 0, 6);
    assert_true(contract_until(contract, 1, BR_EVENT_MESSAGE, b, 1));
    assert_true(contract_is_message(contract_event(contract, 1, BR_EVENT_MESSAGE, b, 0), 0, 6));
    assert_true(contract_until(contract, 0, BR_EVENT_SENT, a, 3));
    assert_true(contract_until(contract, 1, BR_EVENT_DATA, b, 2));
    event = &contract_event(contract, 1, BR_EVENT_DATA, b, 0)->event;
    assert_int_equal(event->offset, 0);
    assert_int_equal(event->length, frame.length);
    assert_null(event->mapped);
    assert_true(all_bytes_are(transfer.memory, 50000 + 2 * GUARD, 0xcc));
    assert_true(contract->sides[1].slots.stale_frames >= 2);
    assert_int_equal(contract_count(contract, 1, BR_EVENT_CLOSED, NULL), 0);
    transfer_free(contract, &transfer);
}

/* The engine may already have consumed a complete slice: another copy of it is not written. */
static void complete_slice__is_not_written_again(void **state)
{
    struct contract *contract = *state;
    struct transfer transfer;
    struct br_link *a, *b;
    struct br_frame frame;

    contract_open_two(contract);
    if (contract->sides[1].device->caps.needs_rkey)
        return; /* as above */
    contract_connect(contract, 0, 1, &a, &b);
    transfer = transfer_new(contract, 8192, 4096, 2);
    frame = contract_placed(contract, 1, transfer.number, transfer.from, 0, 4096, 1);
    contract_post(contract, a, &frame, 1);
    assert_true(contract_until(contract, 1, BR_EVENT_DATA, b, 1));
    assert_false(arrive(contract, b, transfer.slot, 0, 1));
    memset(transfer.to, 0x11, 4096);
    contract_post(contract, a, &frame, 1);
    assert_true(contract_until(contract, 1, BR_EVENT_DATA, b, 2));
    assert_true(all_bytes_are(transfer.to, 4096, 0x11));
    assert_int_equal(contract->sides[1].slots.stale_frames, 1);
    assert_true(contract_until(contract, 0, BR_EVENT_SENT, a, 2));
    transfer_free(contract, &transfer);
}

static void expect_rejected(struct contract *contract, uint32_t offset, uint32_t length)
{
    uint64_t bad = contract->sides[1].device->counters.bad_frames;
    struct transfer transfer = transfer_new(contract, 20000, 4096, 3);
    static uint8_t source[65536];
    struct br_link *a, *b, *a2, *b2;
    struct br_frame frame = {.kind = BR_FRAME_DATA,
                             .payload = source,
                             .length = length,
                             .slot = transfer.number,
                             .offset = offset,
                             .rkey =
                                 transfer.slot->arrived_direct ? transfer.slot->rkeys[0] : NULL};

    contract_connect(contract, 0, 1, &a, &b);
    contract_connect(contract, 0, 1, &a2, &b2);
    contract_post(contract, a, &frame, 1);
    assert_true(contract_until(contract, 1, BR_EVENT_CLOSED, b, 1));
    assert_int_equal(contract_event(contract, 1, BR_EVENT_CLOSED, b, 0)->event.error, -EPROTO);
    assert_true(contract_has_words(b));
    assert_int_equal(contract->sides[1].device->counters.bad_frames, bad + 1);
    contract->ops->link_close(b);
    assert_true(contract_until(contract, 0, BR_EVENT_CLOSED, a, 1));
    contract->ops->link_close(a);
    assert_true(all_bytes_are(transfer.memory, 20000 + 2 * GUARD, 0xcc));

    contract_message(contract, a2, NULL, 0, 1); /* the other link does not suffer */
    assert_true(contract_until(contract, 1, BR_EVENT_MESSAGE, b2, 1));
    contract->ops->link_close(a2);
    contract->ops->link_close(b2);
    contract_settle(contract);
    contract_forget(contract, 0);
    contract_forget(contract, 1);
    transfer_free(contract, &transfer);
}

static void out_of_bounds__fails_the_link(void **state)
{
    struct contract *contract = *state;

    contract_open_two(contract);
    expect_rejected(contract, 16384, 4096);     /* beyond the end */
    expect_rejected(contract, 20480, 64);       /* begins beyond the end */
    expect_rejected(contract, 0xffffffc0u, 64); /* would wrap */
    expect_rejected(contract, 4096 - 64, 128);  /* across two slices */
    expect_rejected(contract, 1, 64);           /* begins off the grid */
    expect_rejected(contract, 0, 65);           /* ends off the grid */
    expect_rejected(contract, 0, 0);            /* empty */
}

/* Only mappings are allowed for a slot without a place. */
static void no_rkey__fails_the_link(void **state)
{
    struct contract *contract = *state;
    static const uint8_t source[4096];
    struct br_frame frame = {.kind = BR_FRAME_DATA, .payload = source, .length = 4096};
    struct br_slot *slot;
    struct br_link *a, *b;

    contract_open_two(contract);
    if (contract->sides[1].device->caps.maps || contract->sides[1].device->caps.needs_rkey)
        return;
    contract_connect(contract, 0, 1, &a, &b);
    slot = br_slot_get(&contract->sides[1].slots, NULL, 4096, 4096);
    slot->may_map = true;
    frame.slot = br_slot_number(&contract->sides[1].slots, slot);
    contract_post(contract, a, &frame, 1);
    assert_true(contract_until(contract, 1, BR_EVENT_CLOSED, b, 1));
    assert_int_equal(contract_event(contract, 1, BR_EVENT_CLOSED, b, 0)->event.error, -EPROTO);
}

/* Where a device combines, it does so itself, with each byte once although the transfer is sent
 * twice, and writes nothing to the place. Odd lengths and as many bytes that a ring goes round. */
static void reduced__once_and_not_written(void **state)
{
    static const uint32_t lengths[] = {1, 65, 4097, 262145, 999999, 700001, 70000};
    struct contract *contract = *state;
    struct br_link *a, *b;
    int before = 0;

    contract_open_two(contract);
    if (!contract->sides[1].device->caps.reduces)
        return;
    contract_connect(contract, 0, 1, &a, &b);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct transfer transfer = transfer_new(contract, lengths[i], 65536, i);
        struct contract_sum sum = {transfer.slot, transfer.to};
        struct br_slot_reducer reducer = {contract_add_up, &sum};
        uint32_t granule = transfer.slot->granule_bytes, length = transfer.length;
        uint32_t limit = a->device->caps.max_frame / granule * granule,
                 cut = i % 2 ? limit : 3 * granule;
        uint64_t combined = b->device->counters.rx_reduced_bytes;
        static uint8_t place[1 << 20];
        int n;

        memset(transfer.to, 0, length);
        transfer.slot->base = memset(place, 0xcc, length);
        assert_true(br_slot_set_reducer(transfer.slot, &reducer));
        n = send_all(contract, a, &transfer, limit) + send_all(contract, a, &transfer, cut);
        assert_true(contract_until(contract, 1, BR_EVENT_DATA, b, before + n));
        assert_true(arrive(contract, b, transfer.slot, before, before + n) ||
                    !transfer.slot->missing);
        expect_arrived(&transfer);
        assert_true(b->device->counters.rx_reduced_bytes >= combined + length);
        assert_true(all_bytes_are(place, length, 0xcc));
        assert_true(contract_until(contract, 0, BR_EVENT_SENT, a, before + n));
        before += n;
        transfer_free(contract, &transfer);
    }
}

static void region__is_registered_and_sent_from(void **state)
{
    struct contract *contract = *state;
    struct br_region region, other;
    struct transfer transfer;
    struct br_link *a, *b;
    struct br_frame frame;

    contract_open_two(contract);
    contract_connect(contract, 0, 1, &a, &b);
    contract_region(contract, 0, &region, 65536);
    contract_region(contract, 0, &other, 4096);
    contract_fill(contract_view(contract, region.base), 65536, 4);
    transfer = transfer_new(contract, 16384, 65536, 0);
    frame = contract_placed(contract, 1, transfer.number, region.base, 0, 16384, 1);
    frame.payload = (const uint8_t *)region.base + 4096;
    frame.region = &region;
    contract_post(contract, a, &frame, 1);
    assert_true(contract_until(contract, 1, BR_EVENT_DATA, b, 1));
    assert_memory_equal(transfer.to, contract_view(contract, region.base) + 4096, 16384);
    assert_true(contract_until(contract, 0, BR_EVENT_SENT, a, 1));
    if (!contract->backend->copies) /* but for the end, which may be too short to be worth it */
        assert_in_range(a->device->counters.tx_copied_bytes, 0, 1024);
    contract_region_free(contract, 0, &other);
    contract_region_free(contract, 0, &region);
    transfer_free(contract, &transfer);
}

/* Sends 4 slices from a mappable region to a slot that may be mapped. */
static struct transfer send_mapped(struct contract *contract, struct br_link *a,
                                   struct br_region *region)
{
    struct transfer transfer = transfer_new(contract, 16384, 4096, 0);
    struct br_frame frame;

    contract_region(contract, 0, region, 65536);
    contract_fill(region->base, 65536, 4);
    transfer.slot->may_map = true;
    for (uint32_t i = 0; i < 4; i++) {
        frame = contract_placed(contract, 1, transfer.number, region->base, i * 4096, 4096, i);
        frame.region = region;
        contract_post(contract, a, &frame, 1);
    }
    return transfer;
}

static void mapped__is_readable_until_released(void **state)
{
    struct contract *contract = *state;
    struct br_region region;
    struct transfer transfer;
    struct br_link *a, *b;

    contract_open_two(contract);
    if (!contract->sides[1].device->caps.maps)
        return;
    contract_connect(contract, 0, 1, &a, &b);
    transfer = send_mapped(contract, a, &region);
    assert_true(contract_until(contract, 1, BR_EVENT_DATA, b, 4));
    contract_settle(contract);
    assert_int_equal(contract_count(contract, 0, BR_EVENT_SENT, a), 0);
    for (int i = 0; i < 4; i++) {
        const struct br_event *event = &contract_event(contract, 1, BR_EVENT_DATA, b, i)->event;

        assert_non_null(event->mapped);
        assert_memory_equal(event->mapped, (const uint8_t *)region.base + event->offset,
                            event->length);
        contract->ops->release(contract->sides[1].device, NULL, event->buffer);
        assert_true(contract_until(contract, 0, BR_EVENT_SENT, a, i + 1));
        contract_settle(contract);
        assert_int_equal(contract_count(contract, 0, BR_EVENT_SENT, a), i + 1);
    }
    assert_int_equal(contract->sides[1].device->counters.rx_mapped_bytes, 16384);
    assert_true(all_bytes_are(transfer.memory, 16384 + 2 * GUARD, 0xcc)); /* nothing was copied */
    contract_region_free(contract, 0, &region);
    transfer_free(contract, &transfer);
}

static void mapped__outlives_the_link(void **state)
{
    struct contract *contract = *state;
    uint8_t *expected = malloc(65536);
    struct br_event events[4];
    struct br_region region;
    struct transfer transfer;
    struct br_link *a, *b;

    contract_open_two(contract);
    contract_fill(expected, 65536, 4);
    if (!contract->sides[1].device->caps.maps) {
        free(expected);
        return;
    }
    contract_connect(contract, 0, 1, &a, &b);
    transfer = send_mapped(contract, a, &region);
    assert_true(contract_until(contract, 1, BR_EVENT_DATA, b, 4));
    for (int i = 0; i < 4; i++)
        events[i] = contract_event(contract, 1, BR_EVENT_DATA, b, i)->event;
    contract->ops->link_close(b);
    assert_true(contract_until(contract, 0, BR_EVENT_CLOSED, a, 1));
    contract->ops->link_close(a);
    for (int i = 0; i < 4; i++) {
        assert_memory_equal(events[i].mapped, expected + events[i].offset, events[i].length);
        contract->ops->release(contract->sides[1].device, NULL, events[i].buffer);
    }
    contract_region_free(contract, 0, &region);
    transfer_free(contract, &transfer);
    free(expected);
}

/* Does side 1 find the region, whole? */
static bool finds(const struct contract *contract, struct br_link *b,
                  const struct br_region *region, struct br_shared *theirs)
{
    return !contract->ops->share(b, NULL, region->id, theirs) && theirs->bytes == region->bytes;
}

/* Is what was found then, when the device had this `unshared`, known to be there without share()?
 * otherwise: what is the answer of a device where only share() tells. */
static bool stays(const struct br_shared *theirs, const struct br_device *device, uint32_t unshared,
                  bool otherwise)
{
    return theirs->place ? atomic_load(theirs->place) == theirs->id && device->unshared == unshared
                         : otherwise;
}

static void shared__is_read_and_written_in_place(void **state)
{
    struct contract *contract = *state;
    struct br_region regions[2];
    struct br_shared theirs[2];
    const struct br_device *device;
    struct br_link *a, *b;
    uint32_t unshared;

    contract_open_two(contract);
    contract_connect(contract, 0, 1, &a, &b);
    for (int i = 0; i < 2; i++)
        contract_region(contract, 0, &regions[i], 5000 + 5000 * (size_t)i);
    if (!contract->sides[1].device->caps.maps) {
        assert_true(contract->ops->share(a, &regions[0], 0, NULL) < 0);
        assert_false(finds(contract, b, &regions[0], &theirs[0]));
    } else {
        for (int i = 0; i < 2; i++) {
            assert_false(finds(contract, b, &regions[i], &theirs[i]));
            for (int again = 0; again < 2; again++)
                assert_int_equal(contract->ops->share(a, &regions[i], 0, NULL), 0);
        }
        contract_settle(contract);
        for (int i = 4; i-- > 0;) {
            uint8_t *own = regions[i % 2].base;

            assert_true(finds(contract, b, &regions[i % 2], &theirs[i % 2]));
            own[i] = (uint8_t)(i + 1);
            assert_int_equal(theirs[i % 2].base[i], i + 1);
            theirs[i % 2].base[4999] = (uint8_t)(i + 7);
            assert_int_equal(own[4999], i + 7);
        }
        device = contract->sides[1].device;
        unshared = device->unshared;
        for (int i = 0; i < 2; i++)
            assert_true(stays(&theirs[i], device, unshared, true));
        assert_false(finds(contract, a, &regions[0], &theirs[0])); /* it is no peer's there */
        /* at once, without a poll */
        contract->ops->region_release(contract->sides[0].device, &regions[0]);
        assert_false(stays(&theirs[0], device, unshared, false));
        assert_true(stays(&theirs[1], device, unshared, true));
        assert_false(finds(contract, b, &regions[0], &theirs[0]));
        assert_true(finds(contract, b, &regions[1], &theirs[1]));
        contract_settle(contract); /* the mapping goes */
        if (theirs[0].place)
            assert_int_not_equal(device->unshared, unshared);
        unshared = device->unshared;
        assert_int_equal(contract->ops->region_register(contract->sides[0].device, &regions[0]), 0);
        contract->ops->link_close(a);
        assert_false(stays(&theirs[1], device, unshared, false));
        assert_false(finds(contract, b, &regions[1], &theirs[1]));
    }
    for (int i = 0; i < 2; i++)
        contract_region_free(contract, 0, &regions[i]);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CONTRACT_CASE(data__all_sizes_and_tails),
        CONTRACT_CASE(data__carries_the_inline_bytes),
        CONTRACT_CASE(data__two_links_interleaved),
        CONTRACT_CASE(sent__gives_the_memory_back),
        CONTRACT_CASE(stale_slot__is_dropped_in_step),
        CONTRACT_CASE(complete_slice__is_not_written_again),
        CONTRACT_CASE(out_of_bounds__fails_the_link),
        CONTRACT_CASE(no_rkey__fails_the_link),
        CONTRACT_CASE(reduced__once_and_not_written),
        CONTRACT_CASE(region__is_registered_and_sent_from),
        CONTRACT_CASE(mapped__is_readable_until_released),
        CONTRACT_CASE(mapped__outlives_the_link),
        CONTRACT_CASE(shared__is_read_and_written_in_place),
    };

    return contract_main(cases, sizeof cases / sizeof *cases);
}
