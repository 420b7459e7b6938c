/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <string.h>

#include <cmocka.h>

#include "transport/transport.h"

static void transport_get__unknown_name(void **state)
{
    (void)state;
    assert_null(br_transport_get("no-such-back-end"));
    assert_null(br_transport_get(""));
    assert_null(br_transport_get(NULL));
}

static void transport_at__lists_each_once(void **state)
{
    const struct br_transport_ops *ops;
    int n = 0;

    (void)state;
    for (; (ops = br_transport_at(n)); n++) {
        assert_ptr_equal(br_transport_get(ops->name), ops); /* the first of that name */
        assert_true(strlen(ops->name) > 0);
    }
    assert_in_range(n, 1, 16);
    assert_null(br_transport_at(-1));
    assert_null(br_transport_at(n + 1));
    assert_null(br_transport_at(1000000));
}

/* A simulated device has no interfaces of this host, no descriptor to sleep in, and says so;
 * streams need no tokens. */
static void transport_get__defaults_stand_in(void **state)
{
    const struct br_transport_ops *sim = br_transport_get("sim"), *tcp = br_transport_get("tcp");
    struct br_device device = {0};
    struct br_device_info info;
    struct br_slot slot = {0};
    uint8_t token[BR_RKEY_BYTES];

    (void)state;
    assert_non_null(sim);
    assert_non_null(tcp);
    assert_int_equal(sim->probe(&info, 1), 0);
    assert_true(sim->arm(&device) < 0);
    assert_int_equal(tcp->rkey(&device, &slot, token), -EOPNOTSUPP);
    tcp->rkey(&device, &slot, NULL);
}

/* Names that are no back end have no traits, and the simulator is none that a user can choose. */
static void transport_traits__say_what_a_back_end_is(void **state)
{
    (void)state;
    assert_true(br_transport_traits("shm").within_host);
    assert_true(br_transport_traits("dpdk").owns_device);
    assert_false(br_transport_traits("tcp").within_host || br_transport_traits("tcp").rdma);
    assert_false(br_transport_traits("auto").within_host || br_transport_traits("").rdma);
    if (br_transport_get("verbs"))
        assert_true(br_transport_traits("verbs").rdma);
    assert_string_equal(br_transport_default(false)->name, "tcp");
    assert_ptr_equal(br_transport_default(true), br_transport_get("verbs"));
    assert_true(br_transport_known("verbs"));
    assert_false(br_transport_known("sim"));
    assert_false(br_transport_known("auto"));
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(transport_get__unknown_name),
        cmocka_unit_test(transport_at__lists_each_once),
        cmocka_unit_test(transport_get__defaults_stand_in),
        cmocka_unit_test(transport_traits__say_what_a_back_end_is),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
