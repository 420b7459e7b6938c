/* SPDX-License-Identifier: BSD-3-Clause */
/* The arguments of collectives with blocks of different sizes, by a communicator of one rank; more
 * ranks are in tests/system/test_vector.c, values in test_matrix.c. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/collectives/comm/single_rank.h"

#define I32 BRAID_INT32
#define SUM BRAID_SUM

static const size_t three[] = {3}, two[] = {2}, one[] = {1}, huge[] = {SIZE_MAX}, zero[] = {0};

static void vector__arguments(void **state)
{
    enum braid_type no_type = (enum braid_type)BRAID_TYPES;
    struct braid_options timeout = {.timeout_ms = -1};

    (void)state;
    SAYS(-EINVAL, "braid_alltoallv|communicator",
         braid_alltoallv(NULL, in, three, NULL, out, three, NULL, I32, NULL, NULL));
    SAYS(-EINVAL, "braid_alltoallv|counts|send",
         braid_alltoallv(comm, in, NULL, NULL, out, three, NULL, I32, NULL, NULL));
    SAYS(-EINVAL, "counts|recv",
         braid_alltoallv(comm, in, three, NULL, out, NULL, NULL, I32, NULL, NULL));
    SAYS(-EINVAL, "send|NULL",
         braid_alltoallv(comm, NULL, three, NULL, out, three, NULL, I32, NULL, NULL));
    SAYS(-EINVAL, "recv|NULL",
         braid_alltoallv(comm, in, three, NULL, NULL, three, NULL, I32, NULL, NULL));
    SAYS(-EINVAL, "block 0 of send|memory",
         braid_alltoallv(comm, in, huge, NULL, out, three, NULL, I32, NULL, NULL));
    SAYS(-EINVAL, "block 0 of recv|memory",
         braid_alltoallv(comm, in, three, NULL, out, three, huge, I32, NULL, NULL));
    SAYS(-EINVAL, "data type",
         braid_alltoallv(comm, in, three, NULL, out, three, NULL, no_type, NULL, NULL));
    SAYS(-EINVAL, "timeout_ms",
         braid_alltoallv(comm, in, three, NULL, out, three, NULL, I32, &timeout, NULL));
    SAYS(-EINVAL, "overlap|rank 0",
         braid_alltoallv(comm, in, three, NULL, in + 1, three, NULL, I32, NULL, NULL));
    SAYS(-EINVAL, "block 0|itself|2 elements|3",
         braid_alltoallv(comm, in, two, NULL, out, three, NULL, I32, NULL, NULL));
    SAYS(-EINVAL, "overlap", /* in place would be in + 1 */
         braid_reduce_scatterv(comm, in, three, one, in, I32, SUM, NULL, NULL));
    SAYS(-EINVAL, "overlap", braid_scatterv(comm, in, three, one, in, 3, I32, 0, NULL, NULL));
    SAYS(-EINVAL, "send_count is 2|counts[0]|3",
         braid_allgatherv(comm, in, 2, out, three, NULL, I32, NULL, NULL));
    SAYS(-EINVAL, "braid_reduce_scatterv|counts",
         braid_reduce_scatterv(comm, in, NULL, NULL, out, I32, SUM, NULL, NULL));
    SAYS(-EINVAL, "reduction",
         braid_reduce_scatterv(comm, in, three, NULL, out, I32, (enum braid_reduction) - 1, NULL,
                               NULL));
    SAYS(-EINVAL, "root is 1", braid_gatherv(comm, in, 3, out, three, NULL, I32, 1, NULL, NULL));
    SAYS(-EINVAL, "send_count is 2",
         braid_gatherv(comm, in, 2, out, three, NULL, I32, 0, NULL, NULL));
    SAYS(-EINVAL, "recv_count is 3",
         braid_scatterv(comm, in, two, NULL, out, 3, I32, 0, NULL, NULL));
    SAYS(-EINVAL, "braid_scatterv_init|nowhere",
         braid_scatterv_init(comm, in, three, NULL, out, 3, I32, 0, NULL, NULL));
}

/* NULL memory is fine where there are no elements. */
static void vector__nothing(void **state)
{
    (void)state;
    assert_int_equal(braid_alltoallv(comm, NULL, zero, NULL, NULL, zero, huge, I32, NULL, NULL),
                     -EINVAL);
    assert_int_equal(braid_alltoallv(comm, NULL, zero, two, NULL, zero, NULL, I32, NULL, NULL), 0);
    assert_int_equal(braid_allgatherv(comm, NULL, 0, NULL, zero, NULL, I32, NULL, NULL), 0);
    assert_int_equal(braid_reduce_scatterv(comm, NULL, zero, NULL, NULL, I32, SUM, NULL, NULL), 0);
    assert_int_equal(braid_gatherv(comm, NULL, 0, NULL, zero, NULL, I32, 0, NULL, NULL), 0);
    assert_int_equal(braid_scatterv(comm, NULL, zero, NULL, NULL, 0, I32, 0, NULL, NULL), 0);
}

/* The own block of send, wherever it lies, is the place of the result. */
static void vector__in_place(void **state)
{
    int32_t memory[] = {7, 1, 2, 3};

    (void)state;
    assert_int_equal(
        braid_reduce_scatterv(comm, memory, three, one, memory + 1, I32, SUM, NULL, NULL), 0);
    assert_int_equal(braid_scatterv(comm, memory, three, one, memory + 1, 3, I32, 0, NULL, NULL),
                     0);
    assert_int_equal(braid_allgatherv(comm, memory + 1, 3, memory, three, one, I32, NULL, NULL), 0);
    assert_int_equal(memory[0], 7);
    for (int i = 1; i < 4; i++)
        assert_int_equal(memory[i], i);
}

/* A persistent one keeps its own copy of the arrays. */
static void vector__arrays_are_copied(void **state)
{
    size_t counts[] = {3}, displacements[] = {2};
    struct braid_op *op;

    (void)state;
    assert_int_equal(
        braid_alltoallv_init(comm, in, counts, displacements, out, counts, NULL, I32, NULL, &op),
        0);
    counts[0] = displacements[0] = 100;
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 8; j++)
            out[j] = -1;
        assert_int_equal(braid_start(op), 0);
        assert_int_equal(braid_wait(op, -1), 0);
        for (int j = 0; j < 8; j++)
            assert_int_equal(out[j], j < 3 ? in[j + 2] : -1);
    }
    assert_int_equal(braid_op_free(op), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vector__arguments),
        cmocka_unit_test(vector__nothing),
        cmocka_unit_test(vector__in_place),
        cmocka_unit_test(vector__arrays_are_copied),
    };

    return cmocka_run_group_tests(tests, join, leave);
}
