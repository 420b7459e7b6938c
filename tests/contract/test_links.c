/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices and links: address, connect, accept, refuse, close, fence. */
#include "contract.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static void transport_get__is_completed(void **state)
{
    const struct br_transport_ops *ops = ((struct contract *)*state)->ops;
    struct br_device_info info[4];

    assert_non_null(ops->device_close);
    assert_non_null(ops->link_connect);
    assert_non_null(ops->link_close);
    assert_non_null(ops->post);
    assert_non_null(ops->poll);
    assert_non_null(ops->release);
    assert_in_range(ops->probe(info, 4), 0, 4);
    assert_non_null(ops->region_register);
    assert_non_null(ops->region_release);
    assert_non_null(ops->arm);
}

static void device_open__fills_the_device(void **state)
{
    struct contract *contract = *state;
    struct br_device *device;

    contract_open(contract, 0);
    device = contract->sides[0].device;
    assert_ptr_equal(device->config, &contract->sides[0].config);
    assert_string_equal(device->ops->name, contract->backend->transport);
    assert_true(device->name[0]);
    assert_in_range(device->caps.max_frame, 4096, BR_FRAME_MAX_PAYLOAD);
    assert_in_range(device->caps.max_message, 1024, contract->sides[0].config.message_bytes);
    assert_in_range(device->address.bytes, 1, BR_ADDRESS_BYTES);
}

static void device_open__unknown_name(void **state)
{
    struct contract *contract = *state;
    struct br_device *device = NULL;

    contract->sides[0].config.name = "no-such-nic";
    assert_true(br_transport_open(contract->ops, &contract->sides[0].config, &device) < 0);
    assert_non_null(strstr(br_error_message(), "no-such-nic"));
    assert_null(device);
}

static void device_open__again_after_close(void **state)
{
    struct contract *contract = *state;
    struct br_link *a, *b;

    for (int i = 0; i < 10; i++) {
        contract_open_two(contract);
        contract_connect(contract, 0, 1, &a, &b);
        contract_close(contract, i & 1);
        contract_close(contract, !(i & 1));
        contract_forget(contract, 0);
        contract_forget(contract, 1);
    }
}

static void connect__both_ends_report_it_once(void **state)
{
    struct contract *contract = *state;
    struct br_link *a, *b;

    contract_open_two(contract);
    contract_connect(contract, 0, 1, &a, &b);
    contract_settle(contract);
    assert_int_equal(contract->sides[0].n_log, 1);
    assert_int_equal(contract->sides[1].n_log, 1);
    assert_true(a->peer_name[0]);
    assert_true(b->peer_name[0]);
    assert_null(b->owner);
}

/* Two devices connect to each other at the same time: two links. */
static void connect__from_both_sides_at_once(void **state)
{
    struct contract *contract = *state;
    struct br_address address[2];
    struct br_link *link[2];

    contract_open_two(contract);
    for (int i = 0; i < 2; i++)
        address[i] = contract->sides[i].device->address;
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            contract->ops->link_connect(contract->sides[i].device, &address[!i], &link[i]), 0);
    for (int i = 0; i < 2; i++) {
        assert_true(contract_until(contract, i, BR_EVENT_CONNECTED, link[i], 1));
        assert_true(contract_until(contract, i, BR_EVENT_ACCEPTED, NULL, 1));
    }
}

/* Refused at once or by a CLOSED event; words either way. */
static void expect_refusal(struct contract *contract, const struct br_address *address)
{
    const struct contract_record *closed;
    struct br_link *link = NULL;
    int rc = contract->ops->link_connect(contract->sides[0].device, address, &link);

    if (rc) {
        assert_true(rc < 0);
        assert_true(strlen(br_error_message()) > 10);
        return;
    }
    assert_true(contract_until(contract, 0, BR_EVENT_CLOSED, link, 1));
    closed = contract_event(contract, 0, BR_EVENT_CLOSED, link, 0);
    assert_true(closed->event.error < 0);
    assert_true(contract_has_words(link));
    contract->ops->link_close(link);
}

static void connect__to_a_device_that_is_gone(void **state)
{
    struct contract *contract = *state;
    struct br_address address;

    contract_open_two(contract);
    address = contract->sides[1].device->address;
    contract_close(contract, 1);
    expect_refusal(contract, &address);
}

static void connect__to_a_malformed_address(void **state)
{
    struct contract *contract = *state;
    struct br_address address = {0};

    contract_open(contract, 0);
    expect_refusal(contract, &address);
    memset(&address, 0xff, sizeof address);
    expect_refusal(contract, &address);
    address.bytes = BR_ADDRESS_BYTES;
    expect_refusal(contract, &address);
    address = contract->sides[0].device->address;
    address.bytes--;
    expect_refusal(contract, &address);
}

static void max_links__incoming_ones_are_refused(void **state)
{
    struct contract *contract = *state;
    struct br_link *kept[2], *at_b[2], *a, *b;
    struct br_address address;

    contract->sides[1].config.max_links = 2;
    contract_open_two(contract);
    for (int i = 0; i < 2; i++)
        contract_connect(contract, 0, 1, &kept[i], &at_b[i]);
    address = contract->sides[1].device->address;
    expect_refusal(contract, &address);
    contract_settle(contract); /* a device with a thread counts a moment later */
    assert_int_equal(contract_count(contract, 1, BR_EVENT_ACCEPTED, NULL), 2);
    assert_int_equal(contract->sides[1].device->counters.refused_links, 1);

    contract->ops->link_close(at_b[0]); /* now there is room again */
    assert_true(contract_until(contract, 0, BR_EVENT_CLOSED, kept[0], 1));
    contract->ops->link_close(kept[0]);
    contract_forget(contract, 0); /* its address may come again */
    contract_connect(contract, 0, 1, &a, &b);
}

static void max_links__outgoing_ones_are_refused(void **state)
{
    struct contract *contract = *state;
    struct br_address address;
    struct br_link *a, *b;

    contract->sides[0].config.max_links = 1;
    contract_open_two(contract);
    contract_connect(contract, 0, 1, &a, &b);
    address = contract->sides[1].device->address;
    assert_int_equal(contract->ops->link_connect(contract->sides[0].device, &address, &a), -EMFILE);
    assert_true(strlen(br_error_message()) > 10);
}

static void close__is_seen_by_the_peer(void **state)
{
    struct contract *contract = *state;
    struct br_frame frame = {.kind = BR_FRAME_MESSAGE};
    struct br_link *a, *b;

    contract_open_two(contract);
    contract_connect(contract, 0, 1, &a, &b);
    contract->ops->link_close(a);
    assert_true(contract_until(contract, 1, BR_EVENT_CLOSED, b, 1));
    assert_true(contract_event(contract, 1, BR_EVENT_CLOSED, b, 0)->event.error < 0);
    assert_true(contract_has_words(b));
    assert_true(contract->ops->post(b, &frame, 1) < 0);
    contract_settle(contract);
    assert_int_equal(contract_count(contract, 1, BR_EVENT_CLOSED, b), 1);
    contract->ops->link_close(b);
}

static void close__of_both_ends_at_once(void **state)
{
    struct contract *contract = *state;
    struct br_link *a, *b;

    contract_open_two(contract);
    contract_connect(contract, 0, 1, &a, &b);
    contract->ops->link_close(a);
    contract->ops->link_close(b);
    contract_settle(contract);
    /* CONNECTED, ACCEPTED */
    assert_int_equal(contract->sides[0].n_log + contract->sides[1].n_log, 2);
    contract_connect(contract, 0, 1, &a, &b);
}

static void close__before_connected(void **state)
{
    struct contract *contract = *state;
    struct br_address address;
    struct br_link *a, *b;

    contract_open_two(contract);
    address = contract->sides[1].device->address;
    assert_int_equal(contract->ops->link_connect(contract->sides[0].device, &address, &a), 0);
    contract->ops->link_close(a);
    contract_settle(contract);
    assert_int_equal(contract->sides[0].n_log, 0);
    assert_int_equal(contract_count(contract, 1, BR_EVENT_ACCEPTED, NULL),
                     contract_count(contract, 1, BR_EVENT_CLOSED, NULL));
    if (contract->sides[1].n_log)
        contract->ops->link_close(
            contract_event(contract, 1, BR_EVENT_CLOSED, NULL, 0)->event.link);
    contract_forget(contract, 1);
    contract_connect(contract, 0, 1, &a, &b);
}

static void device_close__closes_its_links(void **state)
{
    struct contract *contract = *state;
    struct br_link *a[3], *b[3];

    contract_open_two(contract);
    for (int i = 0; i < 3; i++)
        contract_connect(contract, 0, 1, &a[i], &b[i]);
    contract_close(contract, 0);
    assert_true(contract_until(contract, 1, BR_EVENT_CLOSED, NULL, 3));
}

/* The sender's memory is its own again after link_close(), whatever is still on the way. */
static void close__with_work_in_flight(void **state)
{
    struct contract *contract = *state;
    uint32_t n = 64 * 1024, slot;
    uint8_t *from = malloc(n), *to = calloc(1, n);
    struct br_frame frames[16];
    struct br_link *a, *b;
    int before;

    contract_open_two(contract);
    contract_connect(contract, 0, 1, &a, &b);
    contract_fill(from, n, 5);
    slot = br_slot_number(&contract->sides[1].slots, contract_slot(contract, 1, to, n, 4096));
    for (uint32_t i = 0; i < 16; i++)
        frames[i] = contract_placed(contract, 1, slot, from, i * 4096, 4096, i);
    contract_settle(contract); /* a link may take a moment until it takes transfers */
    assert_true(contract->ops->post(a, frames, 16) > 0);
    before = contract->sides[0].n_log;
    contract->ops->link_close(a);
    memset(from, 0xdd, n);
    assert_true(contract_until(contract, 1, BR_EVENT_CLOSED, b, 1));
    contract_settle(contract);
    assert_int_equal(contract->sides[0].n_log, before);
    contract_fill(from, n, 5);
    for (int i = 0; i < contract->sides[1].n_log; i++) {
        const struct br_event *event = &contract->sides[1].log[i].event;

        if (event->kind == BR_EVENT_DATA && !event->mapped)
            assert_memory_equal(to + event->offset, from + event->offset, event->length);
    }
    contract->ops->link_close(b);
    free(from);
    free(to);
}

/* Closes the receiving end after `rounds` rounds; then nothing may be written or reported any
 * more. */
static void fence_after(struct contract *contract, int rounds)
{
    uint32_t n = 256 * 1024, slot;
    uint8_t *from = malloc(n), *to = calloc(1, n), *seen = malloc(n);
    struct br_frame frames[16];
    struct br_link *a, *b;
    int before;

    contract_connect(contract, 0, 1, &a, &b);
    contract_fill(from, n, 6);
    slot = br_slot_number(&contract->sides[1].slots, contract_slot(contract, 1, to, n, 16384));
    for (uint32_t i = 0; i < 16; i++)
        frames[i] = contract_placed(contract, 1, slot, from, i * 16384, 4096, i);
    contract_settle(contract); /* a link may take a moment until it takes transfers */
    assert_true(contract->ops->post(a, frames, 16) > 0);
    for (int i = 0; i < rounds; i++)
        if (!contract_step(contract) && contract->backend->idle)
            contract->backend->idle(contract);
    contract->ops->link_close(b);
    before = contract->sides[1].n_log;
    memcpy(seen, to, n);
    assert_true(contract_until(contract, 0, BR_EVENT_CLOSED, a, 1));
    contract_settle(contract);
    assert_memory_equal(to, seen, n);
    assert_int_equal(contract->sides[1].n_log, before);
    contract->ops->link_close(a);
    contract_slot_put(contract, 1, br_slot_find(&contract->sides[1].slots, slot));
    contract_forget(contract, 0);
    contract_forget(contract, 1);
    free(from);
    free(to);
    free(seen);
}

static void close__fences_what_arrives(void **state)
{
    struct contract *contract = *state;

    contract->poll_max = 2;
    contract_open_two(contract);
    for (int rounds = 0; rounds < 12;
         rounds += 1 + rounds / 3) /* 0 to 3, 5, 7, 10: each waits for silence twice */
        fence_after(contract, rounds);
}

static void many_links__all_work(void **state)
{
    struct contract *contract = *state;
    enum { LINKS = 24 };
    struct br_link *a[LINKS], *b[LINKS];

    for (int i = 0; i < CONTRACT_SIDES; i++) {
        contract->sides[i].config.max_links = 2 * LINKS;
        contract_open(contract, i);
    }
    for (int i = 0; i < LINKS; i++)
        contract_connect(contract, i % 3, (i + 1) % 3, &a[i], &b[i]);
    for (int i = 0; i < LINKS; i++) {
        contract_message(contract, a[i], NULL, 0, (uint64_t)i);
        contract_message(contract, b[i], NULL, 0, (uint64_t)i + 100);
    }
    for (int i = 0; i < LINKS; i++) {
        assert_true(contract_until(contract, (i + 1) % 3, BR_EVENT_MESSAGE, b[i], 1));
        assert_true(contract_until(contract, i % 3, BR_EVENT_MESSAGE, a[i], 1));
        assert_true(contract_is_message(
            contract_event(contract, (i + 1) % 3, BR_EVENT_MESSAGE, b[i], 0), 0, (uint64_t)i));
        assert_true(contract_is_message(contract_event(contract, i % 3, BR_EVENT_MESSAGE, a[i], 0),
                                        0, (uint64_t)i + 100));
    }
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CONTRACT_CASE(transport_get__is_completed),
        CONTRACT_CASE(device_open__fills_the_device),
        CONTRACT_CASE(device_open__unknown_name),
        CONTRACT_CASE(device_open__again_after_close),
        CONTRACT_CASE(connect__both_ends_report_it_once),
        CONTRACT_CASE(connect__from_both_sides_at_once),
        CONTRACT_CASE(connect__to_a_device_that_is_gone),
        CONTRACT_CASE(connect__to_a_malformed_address),
        CONTRACT_CASE(max_links__incoming_ones_are_refused),
        CONTRACT_CASE(max_links__outgoing_ones_are_refused),
        CONTRACT_CASE(close__is_seen_by_the_peer),
        CONTRACT_CASE(close__of_both_ends_at_once),
        CONTRACT_CASE(close__before_connected),
        CONTRACT_CASE(close__with_work_in_flight),
        CONTRACT_CASE(close__fences_what_arrives),
        CONTRACT_CASE(device_close__closes_its_links),
        CONTRACT_CASE(many_links__all_work),
    };

    return contract_main(cases, sizeof cases / sizeof *cases);
}
