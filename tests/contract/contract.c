/* SPDX-License-Identifier: BSD-3-Clause */
#include "contract.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"

#define PATIENCE (5 * BR_SEC)
#define QUIET    (30 * BR_MS)
#define SKIPPED  77

static const struct contract_backend *under_test;

/* Whether the surroundings can be made here. */
static bool is_usable(void)
{
    struct contract contract = {.backend = under_test};

    if (under_test->setup && under_test->setup(&contract)) {
        fprintf(stderr, "%s is skipped: %s\n", under_test->name, br_error_message());
        return false;
    }
    if (under_test->teardown)
        under_test->teardown(&contract);
    return true;
}

int contract_main(const struct CMUnitTest *cases, size_t n)
{
    const char *only = getenv("BRAID_CONTRACT");
    int failed = 0, ran = 0;

    for (int i = 0; i < contract_n_backends; i++) {
        under_test = &contract_backends[i];
        if ((only ? strcmp(only, under_test->name) != 0 : under_test->on_demand) ||
            !br_transport_get(under_test->transport))
            continue;
        if (!is_usable())
            continue;
        failed += _cmocka_run_group_tests(under_test->name, cases, n, NULL, NULL);
        ran++;
    }
    if (!ran)
        fprintf(stderr, "no back end%s%s could run\n", only ? " called " : "", only ? only : "");
    return failed ? 1 : ran ? 0 : SKIPPED;
}

int contract_setup(void **state)
{
    struct contract *contract = calloc(1, sizeof *contract);

    assert_non_null(contract);
    contract->backend = under_test;
    contract->ops = br_transport_get(under_test->transport);
    if (under_test->threaded)
        contract->ops = br_transport_threaded(contract->ops);
    contract->poll_max = 16;
    br_random_seed(&contract->random, 1);
    for (int i = 0; i < CONTRACT_SIDES; i++) {
        struct contract_side *side = &contract->sides[i];

        side->config.name = "lo";
        side->config.message_bytes = 4096;
        side->config.message_buffers = 8;
        side->config.max_links = 8;
        side->config.slots = &side->slots;
        assert_int_equal(br_slot_table_init(&side->slots, 64), 0);
    }
    *state = contract;
    if (under_test->setup && under_test->setup(contract))
        fail_msg("setup: %s", br_error_message());
    if (under_test->configure)
        for (int i = 0; i < CONTRACT_SIDES; i++)
            under_test->configure(contract, i, &contract->sides[i].config);
    return 0;
}

int contract_teardown(void **state)
{
    struct contract *contract = *state;

    for (int i = 0; i < CONTRACT_SIDES; i++) {
        contract_close(contract, i);
        contract_forget(contract, i);
        free(contract->sides[i].log);
        br_slot_table_destroy(&contract->sides[i].slots);
    }
    if (contract->backend->teardown)
        contract->backend->teardown(contract);
    free(contract);
    return 0;
}

void contract_open(struct contract *contract, int side)
{
    struct contract_side *at = &contract->sides[side];
    int rc = br_transport_open(contract->ops, &at->config, &at->device);

    if (rc)
        fail_msg("device_open: %s", br_error_message());
    at->device->index = 0;
}

void contract_open_two(struct contract *contract)
{
    contract_open(contract, 0);
    contract_open(contract, 1);
}

void contract_close(struct contract *contract, int side)
{
    if (contract->sides[side].device)
        contract->ops->device_close(contract->sides[side].device);
    contract->sides[side].device = NULL;
}

void contract_forget(struct contract *contract, int side)
{
    struct contract_side *at = &contract->sides[side];

    for (int i = 0; i < at->n_log; i++)
        free(at->log[i].payload);
    at->n_log = 0;
}

static uint64_t now(struct contract *contract)
{
    return contract->backend->now ? contract->backend->now(contract) : br_clock_now();
}

/* Keeps what the event points at, since the back end may take it back at the next poll. */
static void record(struct contract_side *side, const struct br_event *event)
{
    struct contract_record *to;

    if (side->n_log == side->log_capacity) {
        side->log_capacity = side->log_capacity ? 2 * side->log_capacity : 256;
        side->log = realloc(side->log, (size_t)side->log_capacity * sizeof *side->log);
        assert_non_null(side->log);
    }
    to = &side->log[side->n_log++];
    memset(to, 0, sizeof *to);
    to->event = *event;
    if (event->kind == BR_EVENT_MESSAGE || event->kind == BR_EVENT_DATA)
        memcpy(to->inline_, event->inline_, BR_FRAME_INLINE);
    if (event->kind == BR_EVENT_MESSAGE && event->length) {
        to->payload = malloc(event->length);
        assert_non_null(to->payload);
        memcpy(to->payload, event->payload, event->length);
    }
}

int contract_step_side(struct contract *contract, int side)
{
    struct contract_side *at = &contract->sides[side];
    struct br_event events[64];
    int n;

    if (!at->device)
        return 0;
    n = contract->ops->poll(at->device, now(contract), events, contract->poll_max);
    assert_in_range(n, 0, contract->poll_max);
    for (int i = 0; i < n; i++) {
        assert_non_null(events[i].link);
        assert_ptr_equal(events[i].link->device, at->device);
        record(at, &events[i]);
        if (events[i].kind != BR_EVENT_MESSAGE)
            continue;
        assert_non_null(events[i].buffer);
        if (!at->hold)
            contract->ops->release(events[i].link->device, events[i].link, events[i].buffer);
    }
    return n;
}

int contract_step(struct contract *contract)
{
    int n = 0;

    for (int i = 0; i < CONTRACT_SIDES; i++)
        n += contract_step_side(contract, i);
    return n;
}

/* Lets time pass after a round without events. false: enough of it has passed. A round counts as 1
 * ms at most: if we were stopped meanwhile, what came is seen in the next ones. */
static bool idle(struct contract *contract, uint64_t patience)
{
    uint64_t this_round, passed;

    if (contract->backend->idle)
        return contract->backend->idle(contract);
    this_round = br_clock_now();
    passed = this_round - contract->last_round;
    if (contract->idle_for)
        contract->idle_for += passed < BR_MS ? passed : BR_MS;
    else
        contract->idle_for = 1;
    contract->last_round = this_round;
    sched_yield();
    return contract->idle_for < patience;
}

void contract_pass(struct contract *contract)
{
    if (!idle(contract, PATIENCE))
        fail_msg("nothing will ever happen");
}

int contract_count(const struct contract *contract, int side, enum br_event_kind kind,
                   const struct br_link *link)
{
    const struct contract_side *at = &contract->sides[side];
    int n = 0;

    for (int i = 0; i < at->n_log; i++)
        n += at->log[i].event.kind == kind && (!link || at->log[i].event.link == link);
    return n;
}

const struct contract_record *contract_event(const struct contract *contract, int side,
                                             enum br_event_kind kind, const struct br_link *link,
                                             int n)
{
    const struct contract_side *at = &contract->sides[side];

    for (int i = 0; i < at->n_log; i++)
        if (at->log[i].event.kind == kind && (!link || at->log[i].event.link == link) && n-- == 0)
            return &at->log[i];
    return NULL;
}

bool contract_until(struct contract *contract, int side, enum br_event_kind kind,
                    const struct br_link *link, int n)
{
    const struct contract_side *at = &contract->sides[side];
    int seen = 0, count = 0;

    contract->idle_for = 0;
    for (;;) {
        for (; seen < at->n_log; seen++)
            count +=
                at->log[seen].event.kind == kind && (!link || at->log[seen].event.link == link);
        if (count >= n)
            return true;
        if (contract_step(contract))
            contract->idle_for = 0;
        else if (!idle(contract, PATIENCE))
            return false;
    }
}

void contract_settle(struct contract *contract)
{
    contract->idle_for = 0;
    do {
        while (contract_step(contract))
            contract->idle_for = 0;
    } while (idle(contract, QUIET));
}

void contract_connect(struct contract *contract, int a, int b, struct br_link **link_a,
                      struct br_link **link_b)
{
    int accepted = contract_count(contract, b, BR_EVENT_ACCEPTED, NULL);
    struct br_address address;

    address = contract->sides[b].device->address;
    if (contract->ops->link_connect(contract->sides[a].device, &address, link_a))
        fail_msg("link_connect: %s", br_error_message());
    assert_true(contract_until(contract, a, BR_EVENT_CONNECTED, *link_a, 1));
    assert_true(contract_until(contract, b, BR_EVENT_ACCEPTED, NULL, accepted + 1));
    *link_b = contract_event(contract, b, BR_EVENT_ACCEPTED, NULL, accepted)->event.link;
    (*link_b)->authenticated = true;
    contract_event(contract, a, BR_EVENT_CONNECTED, *link_a, 0)->event.link->authenticated = true;
    if (contract->backend->threaded)
        contract_step(contract); /* a thread hears of it by the next poll */
}

void contract_post(struct contract *contract, struct br_link *link, const struct br_frame *frames,
                   int n)
{
    contract->idle_for = 0;
    while (n) {
        int taken = contract->ops->post(link, frames, n);

        if (taken < 0)
            fail_msg("post: %s", br_error_message());
        assert_in_range(taken, 0, n);
        frames += taken;
        n -= taken;
        if (taken || contract_step(contract))
            contract->idle_for = 0;
        else if (!idle(contract, PATIENCE))
            fail_msg("the link stays full");
    }
}

void contract_fill(uint8_t *bytes, size_t n, uint64_t seed)
{
    struct br_random random;

    br_random_seed(&random, seed);
    for (size_t i = 0; i < n; i += 8) {
        uint64_t word = br_random_next(&random);

        memcpy(bytes + i, &word, n - i < 8 ? n - i : 8);
    }
}

bool contract_is_filled(const uint8_t *bytes, size_t n, uint64_t seed)
{
    uint8_t *expected = malloc(n ? n : 1);
    bool same;

    assert_non_null(expected);
    contract_fill(expected, n, seed);
    same = !n || !memcmp(bytes, expected, n);
    free(expected);
    return same;
}

void contract_message(struct contract *contract, struct br_link *link, uint8_t *payload,
                      uint32_t length, uint64_t seed)
{
    uint8_t inline_[BR_FRAME_INLINE];
    struct br_frame frame = {.kind = BR_FRAME_MESSAGE,
                             .payload = payload,
                             .length = length,
                             .inline_ = inline_,
                             .cookie = seed + 1};

    contract_fill(inline_, sizeof inline_, ~seed);
    if (length)
        contract_fill(payload, length, seed);
    contract_post(contract, link, &frame, 1);
    memset(inline_, 0xee, sizeof inline_); /* post() has copied it */
}

bool contract_is_message(const struct contract_record *record, uint32_t length, uint64_t seed)
{
    return record->event.length == length &&
           contract_is_filled(record->inline_, BR_FRAME_INLINE, ~seed) &&
           contract_is_filled(record->payload, length, seed);
}

void contract_place(struct contract *contract, int side, struct br_slot *slot)
{
    struct br_device *device = contract->sides[side].device;

    if (!device->caps.needs_rkey)
        return;
    if (contract->ops->rkey(device, slot, slot->rkeys[device->index]))
        fail_msg("place_token: %s", br_error_message());
    slot->arrived_direct = (uint8_t)(1u << device->index);
}

void contract_unplace(struct contract *contract, int side, struct br_slot *slot)
{
    if (slot->arrived_direct)
        contract->ops->rkey(contract->sides[side].device, slot, NULL);
    slot->arrived_direct = 0;
}

void contract_add_up(void *context, uint32_t offset, const uint8_t *bytes, uint32_t length)
{
    const struct contract_sum *sum = context;

    assert_int_equal(offset % sum->slot->granule_bytes, 0);
    assert_true(length % sum->slot->granule_bytes == 0 || offset + length == sum->slot->length);
    for (uint32_t i = 0; i < length; i++)
        sum->to[offset + i] = (uint8_t)(sum->to[offset + i] + bytes[i]);
}

struct br_slot *contract_slot(struct contract *contract, int side, void *base, uint32_t length,
                              uint32_t slice_bytes)
{
    struct br_slot *slot = br_slot_get(&contract->sides[side].slots, base, length, slice_bytes);

    assert_non_null(slot);
    contract_place(contract, side, slot);
    return slot;
}

void contract_slot_put(struct contract *contract, int side, struct br_slot *slot)
{
    contract_unplace(contract, side, slot);
    br_slot_put(&contract->sides[side].slots, slot);
}

struct br_frame contract_placed(struct contract *contract, int side, uint32_t slot,
                                const uint8_t *base, uint32_t offset, uint32_t length,
                                uint64_t number)
{
    const struct br_slot *at = br_slot_find(&contract->sides[side].slots, slot);

    return (struct br_frame){
        .kind = BR_FRAME_DATA,
        .rkey = at && at->arrived_direct ? at->rkeys[contract->sides[side].device->index] : NULL,
        .payload = base + offset,
        .length = length,
        .slot = slot,
        .offset = offset,
        .cookie = number + 1,
        .priority = (int32_t)(number % 3)};
}

void contract_region(struct contract *contract, int side, struct br_region *region, size_t bytes)
{
    static uint32_t next_id = 1;

    memset(region, 0, sizeof *region);
    region->segment_fd = -1;
    region->bytes = bytes;
    region->id = next_id++;
    if (contract->backend->alloc)
        assert_int_equal(contract->backend->alloc(region, bytes), 0);
    else
        region->base = malloc(bytes);
    assert_non_null(region->base);
    if (contract->ops->region_register(contract->sides[side].device, region))
        fail_msg("region_register: %s", br_error_message());
    if (contract->backend->known)
        contract->backend->known(region);
}

uint8_t *contract_view(const struct contract *contract, const void *memory)
{
    return contract->backend->view ? contract->backend->view(memory) : (uint8_t *)(uintptr_t)memory;
}

void contract_region_free(struct contract *contract, int side, struct br_region *region)
{
    contract->ops->region_release(contract->sides[side].device, region);
    if (contract->backend->free)
        contract->backend->free(region);
    else
        free(region->base);
}

bool contract_has_words(const struct br_link *link)
{
    return strnlen(link->message, sizeof link->message) > 10 &&
           strnlen(link->message, sizeof link->message) < sizeof link->message;
}
