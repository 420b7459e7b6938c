/* SPDX-License-Identifier: BSD-3-Clause */
/* What the simulator counts where an RDMA NIC would write into memory that does not wait for it. */
#include "net.h"

#include <errno.h>
#include <string.h>

static uint8_t from[8192], to[8192];
static struct net net;
static struct br_slot *slot;  /* of host 1; has its token, which each case gives back or spoils */
static struct br_frame frame; /* right for it, of host 0 */

static struct br_slot *slot_get(void)
{
    struct br_slot *got = br_slot_get(&net.hosts[1].slots, to, sizeof to, 4096);

    assert_non_null(got);
    return got;
}

static void token(struct br_slot *of)
{
    assert_int_equal(br_sim_ops.rkey(net.hosts[1].device, of, of->rkeys[0]), 0);
}

static void release(void)
{
    br_sim_ops.rkey(net.hosts[1].device, slot, NULL);
}

static int setup(void **state)
{
    (void)state;
    net_open(&net, &(struct br_sim_config){.rkey_ports = 1}, 2);
    slot = slot_get();
    token(slot);
    frame = (struct br_frame){.kind = BR_FRAME_DATA,
                              .payload = from,
                              .length = 4096,
                              .slot = br_slot_number(&net.hosts[1].slots, slot),
                              .rkey = slot->rkeys[0]};
    memset(from, 0x22, sizeof from);
    memset(to, 0x11, sizeof to);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    net_close(&net);
    return 0;
}

static uint64_t bad(void)
{
    return br_sim_counters(net.sim)->bad_rkeys;
}

static void post(void)
{
    assert_int_equal(br_sim_ops.post(net.hosts[0].link[1], &frame, 1), 1);
    net_run(&net, BR_SIM_NEVER);
}

/* The frame comes to nothing, is counted, and its link fails. */
static void expect_bad(void)
{
    post();
    assert_int_equal(bad(), 1);
    assert_int_equal(net.hosts[1].placed, 0);
    assert_int_equal(net.hosts[1].error, -EPROTO);
    assert_int_equal(to[0], 0x11);
}

/* Not even taken. */
static void expect_refused(const struct br_frame *refused)
{
    assert_int_equal(br_sim_ops.post(net.hosts[0].link[1], refused, 1), -EINVAL);
    assert_int_equal(bad(), 1);
}

static void rkey__as_it_must_be(void **state)
{
    (void)state;
    post();
    assert_int_equal(to[4095], 0x22);
    assert_int_equal(net.hosts[1].placed, 1);
    release();
    assert_int_equal(bad(), 0);
}

static void rkey__no_rkey(void **state)
{
    (void)state;
    frame.rkey = NULL;
    expect_refused(&frame);
}

static void rkey__rkey_where_none_is_needed(void **state)
{
    (void)state;
    expect_refused(&(struct br_frame){.kind = BR_FRAME_MESSAGE, .rkey = from});
}

static void rkey__wrong_rkey(void **state)
{
    struct br_slot *other = slot_get();

    (void)state;
    token(other);
    frame.rkey = other->rkeys[0];
    expect_bad();
}

static void rkey__void_rkey(void **state)
{
    uint8_t old[BR_RKEY_BYTES];

    (void)state;
    memcpy(old, slot->rkeys[0], sizeof old);
    release();
    token(slot);
    frame.rkey = old;
    expect_bad();
}

static void rkey__slot_without_rkey(void **state)
{
    (void)state;
    release();
    br_slot_put(&net.hosts[1].slots, slot);
    expect_bad();
}

static void rkey__old_number(void **state)
{
    (void)state;
    release();
    br_slot_renew(&net.hosts[1].slots, slot);
    token(slot);
    expect_bad();
}

static void rkey__complete_slice(void **state)
{
    (void)state;
    br_slot_arrive(slot, 0, 4096);
    expect_bad();
}

static void rkey__put_before_it_was_given_back(void **state)
{
    (void)state;
    br_slot_put(&net.hosts[1].slots, slot);
    expect_bad();
}

static void release__twice_or_under_another_number(void **state)
{
    (void)state;
    release();
    release();
    assert_int_equal(bad(), 1);
    token(slot);
    br_slot_renew(&net.hosts[1].slots, slot);
    release();
    assert_int_equal(bad(), 2);
}

static void rkey__twice(void **state)
{
    uint8_t other[BR_RKEY_BYTES];

    (void)state;
    assert_int_equal(br_sim_ops.rkey(net.hosts[1].device, slot, other), -EINVAL);
    assert_int_equal(bad(), 1);
}

static void rkey__memory_without_keys(void **state)
{
    struct br_region region = {.base = to, .bytes = sizeof to, .segment_fd = -1};
    struct br_device *device = net.hosts[1].device;
    struct br_slot *fresh = slot_get();
    uint8_t other[BR_RKEY_BYTES];

    (void)state;
    fresh->region = &region;
    assert_int_equal(br_sim_ops.rkey(device, fresh, other), -EINVAL);
    assert_int_equal(br_sim_ops.region_register(device, &region), 0);
    assert_int_equal(br_sim_ops.rkey(device, fresh, other), 0);
    br_sim_ops.rkey(device, fresh, NULL);
    region.bytes--;
    assert_int_equal(br_sim_ops.rkey(device, fresh, other), -EINVAL);
    assert_int_equal(bad(), 2);
    br_sim_ops.region_release(device, &region);
}

static void rkey__refused(void **state)
{
    struct br_slot *one;
    struct net other;

    (void)state;
    net_open(&other, &(struct br_sim_config){.rkey_ports = 1, .rkey_refused_ppm = 1000000}, 2);
    one = br_slot_get(&other.hosts[1].slots, to, sizeof to, 4096);
    assert_int_equal(br_sim_ops.rkey(other.hosts[1].device, one, one->rkeys[0]), -ENOMEM);
    assert_int_equal(br_sim_counters(other.sim)->bad_rkeys, 0);
    net_close(&other);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest cases[] = {
        CASE(rkey__as_it_must_be),
        CASE(rkey__no_rkey),
        CASE(rkey__rkey_where_none_is_needed),
        CASE(rkey__wrong_rkey),
        CASE(rkey__void_rkey),
        CASE(rkey__slot_without_rkey),
        CASE(rkey__old_number),
        CASE(rkey__complete_slice),
        CASE(rkey__put_before_it_was_given_back),
        CASE(release__twice_or_under_another_number),
        CASE(rkey__twice),
        CASE(rkey__memory_without_keys),
        cmocka_unit_test(rkey__refused),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
