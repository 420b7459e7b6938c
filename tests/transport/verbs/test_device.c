/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing the device: each call of libibverbs fails once, and nothing is left
 * behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "rig.h"
#include "tests/says.h"

static struct br_slot_table slots;
static const struct br_device_config plain = {
    .name = "fake0", .slots = &slots, .message_bytes = 4096, .message_buffers = 8, .max_links = 8};

static int setup(void **state)
{
    (void)state;
    fake_install();
    rig_ops = br_transport_get("verbs");
    return br_slot_table_init(&slots, 16);
}

static int teardown(void **state)
{
    (void)state;
    br_slot_table_destroy(&slots);
    fake_remove();
    return 0;
}

static void opens_and_closes(const struct br_device_config *config)
{
    struct br_device *device;

    if (br_transport_open(rig_ops, config, &device))
        fail_msg("device_open: %s", br_error_message());
    rig_ops->device_close(device);
}

#define CALLS 9

static const struct call {
    const char *name;
    bool returns_errno; /* else NULL */
    /* also while one looks at all devices; that one of them fails need not concern us */
    bool probes;
} calls[CALLS] = {
    {.name = "get_device_list", .probes = true},
    {.name = "open_device", .probes = true},
    {.name = "query_device", .returns_errno = true, .probes = true},
    {.name = "query_port", .returns_errno = true, .probes = true},
    {.name = "alloc_pd"},
    {.name = "reg_mr"},
    {.name = "create_srq"},
    {.name = "create_comp_channel"},
    {.name = "create_cq"},
};

static void open_with_fault(const struct call *call, int nth, int err)
{
    static const struct fake_live nothing;
    struct br_device *device = NULL;
    struct fake_live left;
    int rc;

    fake_fail(call->name, nth, err);
    rc = br_transport_open(rig_ops, &plain, &device);
    assert_true(fake_has_failed());
    fake_heal();
    if (!rc) {
        assert_true(call->probes);
        rig_ops->device_close(device);
    } else {
        assert_true(rc < 0);
        assert_non_null(strstr(br_error_message(), "fake0"));
        if (!call->probes)
            assert_int_equal(rc, err ? -err : -EIO);
    }
    left = fake_live();
    assert_memory_equal(&left, &nothing, sizeof left);
}

/* -errno, words that name the device, and nothing is left; at the last call the same as at the
 * first. */
static void device_open__each_call_fails(void **state)
{
    int made[CALLS];

    (void)state;
    opens_and_closes(&plain);
    for (int i = 0; i < CALLS; i++)
        made[i] = fake_calls(calls[i].name);
    for (int i = 0; i < CALLS; i++) {
        assert_true(made[i] > 0);
        for (int nth = 1; nth <= made[i]; nth++)
            open_with_fault(&calls[i], nth, ENOMEM);
    }
}

/* The manual pages promise NULL, not errno. */
static void device_open__calls_fail_without_errno(void **state)
{
    (void)state;
    for (int i = 0; i < CALLS; i++)
        if (!calls[i].returns_errno)
            open_with_fault(&calls[i], 1, FAKE_SILENT);
}

static void device_open__few_entries_make_short_queues(void **state)
{
    struct br_device *device;

    (void)state;
    fake_devices[0].max_qp_wr = 32;
    assert_int_equal(br_transport_open(rig_ops, &plain, &device), 0);
    assert_int_equal(((struct br_verbs_device *)device)->depth, 32);
    rig_ops->device_close(device);
    fake_devices[0].max_srq_wr = 100;
    assert_int_equal(br_transport_open(rig_ops, &plain, &device), 0);
    assert_int_equal(((struct br_verbs_device *)device)->receive.posted, 100);
    rig_ops->device_close(device);
    fake_devices[0].max_cqe = 200;
    assert_int_equal(br_transport_open(rig_ops, &plain, &device), -E2BIG);
    assert_says(br_error_message(), "200");
}

/* What cannot be given back is said, everything else goes, and the device can be opened again. */
static void close_with(struct rig *rig, const char *call)
{
    fake_fail(call, 1, EIO);
    rig_close(&rig->a);
    assert_true(fake_has_failed());
    fake_heal();
    rig_close(&rig->b);
    fake_abandon();
    assert_int_equal(rig_open(&rig->a), 0);
    assert_int_equal(rig_open(&rig->b), 0);
    rig_connect(rig);
}

static void device_close__each_call_fails(void **state)
{
    static const char *const closing[] = {"modify_qp",   "destroy_qp",  "dereg_mr",
                                          "destroy_srq", "destroy_cq",  "destroy_comp_channel",
                                          "dealloc_pd",  "close_device"};

    for (size_t i = 0; i < sizeof closing / sizeof *closing; i++)
        close_with(*state, closing[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(device_open__each_call_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(device_open__calls_fail_without_errno, setup, teardown),
        cmocka_unit_test_setup_teardown(device_open__few_entries_make_short_queues, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(device_close__each_call_fails, rig_setup, rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
