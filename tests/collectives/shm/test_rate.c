/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/shm/rate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

/* Slower than 10 MB/s is no core, faster than 10 TB/s neither. */
static void assert_plausible(double seconds)
{
    assert_true(seconds > 1e-13 && seconds < 1e-7);
}

static void measure__leaves_a_segment_of_any_size_as_it_was(void **state)
{
    static const uint32_t ranks[] = {1, 2, 40};

    (void)state;
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        struct br_shm_coll coll;
        struct br_shm_rate rate;
        int fd;

        assert_int_equal(br_shm_coll_create(&coll, ranks[i], 0, false, &fd), 0);
        close(fd);
        rate = br_shm_rate_measure(&coll);
        if (ranks[i] > 1)
            assert_plausible(rate.reduce);
        assert_plausible(rate.copy);
        for (uint32_t r = 0; r < ranks[i]; r++)
            assert_false(br_shm_coll_ready(&coll, r, 1) || br_shm_coll_ready(&coll, r, 2));
        br_shm_coll_close(&coll);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measure__leaves_a_segment_of_any_size_as_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
