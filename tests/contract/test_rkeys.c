/* SPDX-License-Identifier: BSD-3-Clause */
/* Place tokens (note 8 of transport.h); on back ends that need them. */
#include "contract.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* Opens two devices. false: the back end needs no tokens. */
static bool open_two(struct contract *contract)
{
    contract_open_two(contract);
    return contract->sides[1].device->caps.needs_rkey;
}

static void caps__fit_together(void **state)
{
    struct contract *contract = *state;
    const struct br_caps *caps;

    if (!open_two(contract))
        return;
    caps = &contract->sides[1].device->caps;
    assert_true(caps->sent_means_arrived);
    assert_false(caps->maps);
}

/* Such a device takes memory of GPUs (here by its address), or refuses it in words. */
static void region_register__memory_of_a_gpu(void **state)
{
    static uint8_t memory[4096];
    struct br_region_gpu gpu = {.dmabuf = -1};
    struct br_region region = {
        .base = memory, .bytes = sizeof memory, .segment_fd = -1, .gpu = &gpu};
    struct contract *contract = *state;
    struct br_device *device;
    int rc;

    if (!open_two(contract))
        return;
    device = contract->sides[1].device;
    rc = device->ops->region_register(device, &region);
    if (rc) {
        assert_int_equal(rc, -EOPNOTSUPP);
        assert_non_null(strstr(br_error_message(), "GPU"));
    } else {
        assert_non_null(gpu.no_dmabuf);
        device->ops->region_release(device, &region);
    }
    assert_null(region.keys[device->index]);
}

static uint32_t number_of(struct contract *contract, const struct br_slot *slot)
{
    return br_slot_number(&contract->sides[1].slots, slot);
}

/* Posts [offset, +length) of `from` into the slot and waits until it is placed. */
static void send(struct contract *contract, struct br_link *a, const struct br_slot *slot,
                 const uint8_t *from, uint32_t offset, uint32_t length)
{
    int before = contract_count(contract, 1, BR_EVENT_DATA, NULL);
    struct br_frame frame =
        contract_placed(contract, 1, number_of(contract, slot), from, offset, length, 1);
    const struct br_event *event;

    contract_post(contract, a, &frame, 1);
    assert_true(contract_until(contract, 1, BR_EVENT_DATA, NULL, before + 1));
    event = &contract_event(contract, 1, BR_EVENT_DATA, NULL, before)->event;
    assert_false(event->stale);
    assert_int_equal(event->slot, frame.slot);
    assert_int_equal(event->offset, offset);
    assert_int_equal(event->length, length);
}

/* Every slot of the table may have one at the same time, whatever its memory. */
static void rkey__for_every_slot_at_once(void **state)
{
    struct contract *contract = *state;
    uint32_t n = 4096, count = 64;
    struct br_region region, from_region;
    struct br_slot *slots[64];
    struct br_link *a, *b;
    uint8_t *plain = malloc(count * n), *from;

    if (!open_two(contract)) {
        free(plain);
        return;
    }
    contract_connect(contract, 0, 1, &a, &b);
    contract_region(contract, 0, &from_region, count * n);
    contract_region(contract, 1, &region, count * n);
    from = from_region.base;
    contract_fill(contract_view(contract, from), count * n, 3);
    for (uint32_t i = 0; i < count; i++) {
        uint8_t *to = (i % 2 ? (uint8_t *)region.base : plain) + i * n;

        slots[i] = br_slot_get(&contract->sides[1].slots, to, n, n);
        assert_non_null(slots[i]);
        slots[i]->region = i % 2 ? &region : NULL;
        contract_place(contract, 1, slots[i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        struct br_frame frame =
            contract_placed(contract, 1, number_of(contract, slots[i]), from + i * n, 0, n, i);

        frame.region =
            /* a GPU's is nothing without its keys */
            i % 3 || from_region.gpu ? &from_region : NULL;
        contract_post(contract, a, &frame, 1);
    }
    assert_true(contract_until(contract, 1, BR_EVENT_DATA, b, (int)count));
    assert_true(contract_until(contract, 0, BR_EVENT_SENT, a, (int)count));
    for (uint32_t i = 0; i < count; i++)
        assert_memory_equal(contract_view(contract, i % 2 ? region.base : plain) + i * n,
                            contract_view(contract, from) + i * n, n);
    for (uint32_t i = 0; i < count; i++)
        contract_slot_put(contract, 1, slots[i]);
    contract_region_free(contract, 1, &region);
    contract_region_free(contract, 0, &from_region);
    free(plain);
}

/* A slot and its memory again and again. */
static void rkey__of_each_use(void **state)
{
    struct contract *contract = *state;
    uint8_t *from = malloc(70000), *to = malloc(70000);
    struct br_link *a, *b;

    if (open_two(contract)) {
        contract_connect(contract, 0, 1, &a, &b);
        for (uint32_t i = 0; i < 200; i++) {
            uint32_t length = 1 + i * 331;
            struct br_slot *slot = contract_slot(contract, 1, to + i, length, 1 << 20);

            contract_fill(from, length, i);
            send(contract, a, slot, from, 0, length);
            assert_true(contract_is_filled(to + i, length, i));
            contract_slot_put(contract, 1, slot);
        }
    }
    free(from);
    free(to);
}

/* It is the devices' affair: good for any link between them, one that comes later included. */
static void rkey__outlives_the_link(void **state)
{
    struct contract *contract = *state;
    uint8_t *from = malloc(12288), *to = calloc(1, 12288);
    struct br_slot *slot;
    struct br_link *a, *b, *a2, *b2;

    if (open_two(contract)) {
        contract_fill(from, 12288, 8);
        slot = contract_slot(contract, 1, to, 12288, 4096);
        contract_connect(contract, 0, 1, &a, &b);
        contract_connect(contract, 0, 1, &a2, &b2);
        send(contract, a, slot, from, 0, 4096);
        send(contract, a2, slot, from, 4096, 4096);
        contract->ops->link_close(a);
        contract->ops->link_close(b);
        contract->ops->link_close(b2);
        contract->ops->link_close(a2);
        contract_settle(contract);
        contract_forget(contract, 0);
        contract_forget(contract, 1);
        contract_connect(contract, 0, 1, &a, &b);
        send(contract, a, slot, from, 8192, 4096);
        assert_memory_equal(to, from, 12288);
        contract_slot_put(contract, 1, slot);
    }
    free(from);
    free(to);
}

/* Frames with the old number have landed, but nobody has looked: they must not count for the new
 * one. */
static void renew__old_numbers_do_not_count(void **state)
{
    struct contract *contract = *state;
    uint8_t *from = malloc(8192), *to = calloc(1, 8192);
    struct br_slot *slot;
    struct br_link *a, *b;

    if (open_two(contract)) {
        struct br_frame frame;
        uint32_t old;

        contract_connect(contract, 0, 1, &a, &b);
        contract_fill(from, 8192, 9);
        slot = contract_slot(contract, 1, to, 8192, 4096);
        old = number_of(contract, slot);
        frame = contract_placed(contract, 1, old, from, 0, 4096, 1);
        contract_post(contract, a, &frame, 1);
        contract->idle_for = 0;
        while (!contract_count(contract, 0, BR_EVENT_SENT, a)) /* side 1 looks away */
            if (!contract_step_side(contract, 0))
                contract_pass(contract);
        contract_unplace(contract, 1, slot);
        br_slot_renew(&contract->sides[1].slots, slot);
        contract_place(contract, 1, slot);
        contract_settle(contract);
        for (int i = 0; i < contract_count(contract, 1, BR_EVENT_DATA, b); i++) {
            const struct br_event *event = &contract_event(contract, 1, BR_EVENT_DATA, b, i)->event;

            assert_true(event->stale || event->slot == old);
        }
        send(contract, a, slot, from, 4096, 4096);
        send(contract, a, slot, from, 0, 4096);
        assert_memory_equal(to, from, 8192);
        contract_slot_put(contract, 1, slot);
    }
    free(from);
    free(to);
}

static void device_close__takes_rkeys_back(void **state)
{
    struct contract *contract = *state;
    static uint8_t to[4096];

    if (!open_two(contract))
        return;
    for (int i = 0; i < 10; i++)
        contract_slot(contract, 1, to, sizeof to, 4096);
    contract_close(contract, 1);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CONTRACT_CASE(caps__fit_together),
        CONTRACT_CASE(region_register__memory_of_a_gpu),
        CONTRACT_CASE(rkey__for_every_slot_at_once),
        CONTRACT_CASE(rkey__of_each_use),
        CONTRACT_CASE(rkey__outlives_the_link),
        CONTRACT_CASE(renew__old_numbers_do_not_count),
        CONTRACT_CASE(device_close__takes_rkeys_back),
    };

    return contract_main(cases, sizeof cases / sizeof *cases);
}
