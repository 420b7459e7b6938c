/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <braid/braid.h>
#include <braid/parameters.h>
#include <braid/training.h>

/*
 * The structs of version 1.0, which struct_size 0 stands for, and plain data, which never changes.
 * Where one of the former fails a field has been added. While there is no tag v1.0.0 the number
 * follows; behind it the number stays, and the calls that read or fill the struct give it to
 * base/sized.h as `first`.
 */
static void structs__as_of_1_0(void **state)
{
    (void)state;
    assert_int_equal(sizeof(struct braid_config), 120);
    assert_int_equal(sizeof(struct braid_options), 80);
    assert_int_equal(sizeof(struct braid_received), 32);
    assert_int_equal(sizeof(struct braid_notification), 24);
    assert_int_equal(sizeof(struct braid_stats), 424);
    assert_int_equal(sizeof(struct braid_peer_stats), 64);
    assert_int_equal(sizeof(struct braid_rail_stats), 216);
    assert_int_equal(sizeof(struct braid_session_options), 80);
    assert_int_equal(sizeof(struct braid_session_report), 208);
    assert_int_equal(sizeof(struct braid_parameters_options), 128);
    assert_int_equal(sizeof(struct braid_parameters_report), 136);
    assert_int_equal(sizeof(struct braid_id), 128);
    assert_int_equal(sizeof(struct braid_key), 32);
    assert_int_equal(sizeof(struct braid_layer), 16);
    assert_int_equal(sizeof(struct braid_parameter_layer), 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(structs__as_of_1_0)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
