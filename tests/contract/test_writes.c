/* SPDX-License-Identifier: BSD-3-Clause */
/* Back ends whose NIC writes into the receiver's memory by itself (transport.h note 8): what is
 * written, and what is not. */
#include "contract.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define BYTES 200000u
#define SLICE 16384u

/* A transfer from side 0 to side 1 over the link a -> b. */
struct fixture {
    struct contract *contract;
    struct br_link *a, *b;
    struct br_region from, to;
    uint8_t *sent, *got; /* the bytes of these */
    struct br_slot *slot;
    uint8_t token[BR_RKEY_BYTES];
};

static struct br_device *receiver(const struct fixture *f)
{
    return f->contract->sides[1].device;
}

static void send_rkey(struct fixture *f, struct br_region *region, void *base, uint32_t length)
{
    f->slot = br_slot_get(&f->contract->sides[1].slots, base, length, SLICE);
    assert_non_null(f->slot);
    f->slot->region = region;
    assert_int_equal(f->contract->ops->rkey(receiver(f), f->slot, f->token), 0);
}

static void receive_rkey(struct fixture *f)
{
    f->contract->ops->rkey(receiver(f), f->slot, NULL);
    br_slot_put(&f->contract->sides[1].slots, f->slot);
}

/* false: this back end has no tokens. */
static bool begin(struct fixture *f, void **state)
{
    f->contract = *state;
    contract_open_two(f->contract);
    if (!receiver(f)->caps.needs_rkey)
        return false;
    contract_connect(f->contract, 0, 1, &f->a, &f->b);
    contract_region(f->contract, 0, &f->from, BYTES);
    contract_region(f->contract, 1, &f->to, BYTES);
    f->sent = contract_view(f->contract, f->from.base);
    f->got = contract_view(f->contract, f->to.base);
    contract_fill(f->sent, BYTES, 3);
    memset(f->got, 0xcc, BYTES);
    return true;
}

static void end(struct fixture *f)
{
    contract_settle(f->contract);
    contract_region_free(f->contract, 0, &f->from);
    contract_region_free(f->contract, 1, &f->to);
}

static void post(struct fixture *f, uint32_t number, uint32_t offset, uint32_t length,
                 uint8_t flags)
{
    uint8_t inline_[BR_FRAME_INLINE] = {flags};
    struct br_frame frame =
        contract_placed(f->contract, 1, number, f->from.base, offset, length, offset);

    if (offset > BYTES - length)
        frame.payload = f->from.base; /* a wrong offset, not a wrong address */
    frame.region = &f->from;
    frame.rkey = f->token;
    frame.inline_ = inline_;
    contract_post(f->contract, f->a, &frame, 1);
}

static uint32_t number(const struct fixture *f)
{
    return br_slot_number(&f->contract->sides[1].slots, f->slot);
}

/* All of the transfer, in frames of three granules and more, the first bytes of the region kept as
 * a guard. */
static void transfer(struct fixture *f, uint32_t length)
{
    int before = contract_count(f->contract, 1, BR_EVENT_DATA, f->b), n = 0;
    uint32_t cut = f->slot->granule_bytes * 24;
    bool complete = false;

    for (uint32_t offset = 0; offset < length; n++) {
        uint32_t slice_end = (offset / SLICE + 1) * SLICE, to = offset + cut;

        to = to < slice_end ? to : slice_end;
        to = to < length ? to : length;
        post(f, number(f), offset, to - offset, (uint8_t)(n % 4));
        offset = to;
    }
    assert_true(contract_until(f->contract, 1, BR_EVENT_DATA, f->b, before + n));
    for (int i = 0; i < n; i++) {
        const struct contract_record *record =
            contract_event(f->contract, 1, BR_EVENT_DATA, f->b, before + i);

        assert_int_equal(record->event.slot, number(f));
        assert_false(record->event.stale);
        assert_int_equal(record->inline_[0], i % 4);
        complete = br_slot_arrive(f->slot, record->event.offset, record->event.length);
    }
    assert_true(complete);
}

static void write__in_a_region(void **state)
{
    static const uint32_t lengths[] = {1, 63, 64, 100, 4096, 4097, 65536, BYTES - 128};
    uint64_t total = 0;
    struct fixture f;

    if (!begin(&f, state))
        return;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const uint8_t *got = f.got + 64;

        memset(f.got, 0xcc, BYTES);
        send_rkey(&f, &f.to, (uint8_t *)f.to.base + 64, lengths[i]);
        transfer(&f, lengths[i]);
        assert_memory_equal(got, f.sent, lengths[i]);
        assert_int_equal(got[-1], 0xcc);
        assert_int_equal(got[lengths[i]], 0xcc);
        receive_rkey(&f);
        total += lengths[i];
    }
    assert_int_equal(receiver(&f)->counters.rx_copied_bytes, 0);
    assert_int_equal(receiver(&f)->counters.rx_gpu_bytes, f.to.gpu ? total : 0);
    assert_int_equal(f.contract->sides[0].device->counters.tx_gpu_bytes, f.from.gpu ? total : 0);
    end(&f);
}

/* Memory without keys: the back end finds a way. */
static void write__in_any_memory(void **state)
{
    uint8_t *memory = malloc(BYTES);
    struct fixture f;

    assert_non_null(memory);
    if (begin(&f, state)) {
        for (int i = 0; i < 3; i++) {
            memset(memory, 0xcc, BYTES);
            send_rkey(&f, NULL, memory + 64, BYTES - 128);
            transfer(&f, BYTES - 128);
            assert_memory_equal(memory + 64, f.sent, BYTES - 128);
            assert_int_equal(memory[63], 0xcc);
            assert_int_equal(memory[BYTES - 64], 0xcc);
            receive_rkey(&f);
        }
        end(&f);
    }
    free(memory);
}

/* More memory without keys than any back end keeps buffers for: every slot gets a place all the
 * same. */
static void write__in_more_memory_than_there_are_buffers(void **state)
{
    enum { SLOTS = 12, LENGTH = 4 << 20 };
    struct br_slot *slots[SLOTS];
    uint8_t *memory = malloc((size_t)SLOTS * LENGTH);
    struct fixture f;

    assert_non_null(memory);
    if (begin(&f, state)) {
        for (int i = 0; i < SLOTS; i++) {
            send_rkey(&f, NULL, memory + (size_t)i * LENGTH, LENGTH);
            slots[i] = f.slot;
            post(&f, number(&f), 0, 65536, 1);
        }
        assert_true(contract_until(f.contract, 1, BR_EVENT_DATA, f.b, SLOTS));
        for (int i = 0; i < SLOTS; i++) {
            assert_memory_equal(memory + (size_t)i * LENGTH, f.sent, 65536);
            f.slot = slots[i];
            receive_rkey(&f);
        }
        end(&f);
    }
    free(memory);
}

/* The bytes stand there when the sender hears of it, before the receiver has looked. */
static void write__sent_means_arrived(void **state)
{
    struct fixture f;
    int tries = 0;

    if (!begin(&f, state))
        return;
    send_rkey(&f, &f.to, f.to.base, SLICE);
    contract_settle(f.contract);
    post(&f, number(&f), 0, SLICE, 0);
    while (!contract_count(f.contract, 0, BR_EVENT_SENT, f.a)) {
        assert_true(tries++ < 10000000);
        if (!contract_step_side(f.contract, 0) && f.contract->backend->idle)
            f.contract->backend->idle(f.contract);
    }
    assert_memory_equal(f.got, f.sent, SLICE);
    assert_true(contract_until(f.contract, 1, BR_EVENT_DATA, f.b, 1));
    receive_rkey(&f);
    end(&f);
}

/* What does not lie in the place fails the link, and is not written. */
static void write__wrong_frames_are_not_written(void **state)
{
    static const struct {
        uint32_t offset, length;
    } wrong[] = {{20480, 64}, {16384, 16384},     {1, 64},
                 {0, 65},     {SLICE - 256, 512}, {0xffffff00u, 256}};
    struct fixture f;

    if (!begin(&f, state))
        return;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        send_rkey(&f, &f.to, f.to.base, 20000);
        post(&f, number(&f), wrong[i].offset, wrong[i].length, 0);
        assert_true(contract_until(f.contract, 1, BR_EVENT_CLOSED, f.b, 1));
        assert_int_equal(contract_event(f.contract, 1, BR_EVENT_CLOSED, f.b, 0)->event.error,
                         -EPROTO);
        f.contract->ops->link_close(f.b);
        assert_true(contract_until(f.contract, 0, BR_EVENT_CLOSED, f.a, 1));
        f.contract->ops->link_close(f.a);
        for (uint32_t k = 0; k < BYTES; k++)
            assert_int_equal(f.got[k], 0xcc);
        receive_rkey(&f);
        contract_forget(f.contract, 0);
        contract_forget(f.contract, 1);
        contract_connect(f.contract, 0, 1, &f.a, &f.b);
    }
    end(&f);
}

/* Closing the receiving end in the middle of writes: afterwards its memory does not change any
 * more. */
static void write__close_fences_writes(void **state)
{
    uint8_t *seen = malloc(BYTES);
    struct fixture f;

    assert_non_null(seen);
    if (begin(&f, state)) {
        for (int rounds = 0; rounds < 12; rounds++) {
            send_rkey(&f, &f.to, f.to.base, 12 * SLICE);
            contract_settle(f.contract);
            for (uint32_t i = 0; i < 12; i++)
                post(&f, number(&f), i * SLICE, SLICE, 0);
            for (int i = 0; i < rounds; i++)
                if (!contract_step(f.contract) && f.contract->backend->idle)
                    f.contract->backend->idle(f.contract);
            f.contract->ops->link_close(f.b);
            memcpy(seen, f.got, BYTES);
            assert_true(contract_until(f.contract, 0, BR_EVENT_CLOSED, f.a, 1));
            contract_settle(f.contract);
            assert_memory_equal(f.got, seen, BYTES);
            f.contract->ops->link_close(f.a);
            receive_rkey(&f);
            contract_forget(f.contract, 0);
            contract_forget(f.contract, 1);
            contract_connect(f.contract, 0, 1, &f.a, &f.b);
        }
        end(&f);
    }
    free(seen);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CONTRACT_CASE(write__in_a_region),
        CONTRACT_CASE(write__in_any_memory),
        CONTRACT_CASE(write__in_more_memory_than_there_are_buffers),
        CONTRACT_CASE(write__sent_means_arrived),
        CONTRACT_CASE(write__wrong_frames_are_not_written),
        CONTRACT_CASE(write__close_fences_writes),
    };

    return contract_main(cases, sizeof cases / sizeof *cases);
}
