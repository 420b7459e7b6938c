/* SPDX-License-Identifier: BSD-3-Clause */
/* The trial of a NIC and a GPU, on the fake devices and the fake driver: the device finds GPU
 * memory where the CPU does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "fake.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/transport/gpudirect.h"
#include "transport/backends.h"

static struct gpudirect trial;
static const struct br_device_config config = {.name = "fake1"};

static void *find_bytes(uint64_t address)
{
    return fake_cuda_bytes(address);
}

static int setup(void **state)
{
    (void)state;
    fake_install();
    fake_memory = find_bytes;
    gpudirect_open(&trial);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    gpudirect_close(&trial);
    fake_remove(); /* fails if anything is left */
    return 0;
}

static int run(void)
{
    return br_gpudirect_check_run(trial.check, &br_verbs_ops, &config);
}

static void self_copy__by_dmabuf(void **state)
{
    (void)state;
    assert_int_equal(run(), 0);
    assert_int_equal(fake_calls("reg_dmabuf_mr"), 1);
}

static void self_copy__by_peer_memory(void **state)
{
    (void)state;
    fake_fail_always("reg_dmabuf_mr", EOPNOTSUPP);
    assert_int_equal(run(), 1);
    fake_cuda()->no_dmabuf = true;
    assert_int_equal(run(), 1);
}

static void self_copy__neither(void **state)
{
    (void)state;
    fake_cuda()->no_dmabuf = true;
    assert_int_equal(run(), 1);
    fake_fail("reg_mr", fake_calls("reg_mr"), EFAULT); /* the last one, as buffers came first */
    assert_int_equal(run(), -EFAULT);
    assert_non_null(strstr(br_error_message(), "nvidia_peermem"));
}

/* The NIC says the write has gone well, and it is not there: to the CPU's own mapping, say. */
static void *misdirect(uint64_t address)
{
    static uint8_t elsewhere[1 << 17];
    void *bytes = fake_cuda_bytes(address);

    return bytes == (void *)(uintptr_t)address ? bytes : elsewhere; /* host memory is reached */
}

static void self_copy__bytes_are_misdirected(void **state)
{
    (void)state;
    fake_memory = misdirect;
    assert_int_equal(run(), -EIO);
    assert_non_null(strstr(br_error_message(), "IOMMU"));
}

static void self_copy__each_call_fails(void **state)
{
    static const char *const calls[] = {
        "get_device_list", "open_device", "query_port", "alloc_pd",      "create_cq", "create_srq",
        "create_qp",       "modify_qp",   "post_send",  "post_srq_recv", "reg_mr",    "poll_cq"};
    int rc;

    (void)state;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        for (int nth = 1; nth < 8; nth++) {
            fake_fail(calls[i], nth, EIO);
            rc = run();
            if (rc < 0)
                assert_int_not_equal(strlen(br_error_message()), 0);
            assert_int_not_equal(rc, -ETIMEDOUT); /* it has waited in vain for what has failed */
            fake_heal();
            assert_int_equal(fake_live().contexts, 0);
            assert_int_equal(fake_live().mrs, 0);
        }
    assert_int_equal(run(), 0);
}

static void self_copy__no_such_device(void **state)
{
    const struct br_device_config other = {.name = "mlx9_0"};

    (void)state;
    assert_true(br_gpudirect_check_run(trial.check, &br_verbs_ops, &other) < 0);
    assert_non_null(strstr(br_error_message(), "mlx9_0"));
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(self_copy__by_dmabuf, setup, teardown),
        cmocka_unit_test_setup_teardown(self_copy__by_peer_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(self_copy__neither, setup, teardown),
        cmocka_unit_test_setup_teardown(self_copy__bytes_are_misdirected, setup, teardown),
        cmocka_unit_test_setup_teardown(self_copy__each_call_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(self_copy__no_such_device, setup, teardown),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
