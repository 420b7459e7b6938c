/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/common/data.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "collectives/engine/reduce.h"
#include "collectives/schedule/type.h"

#define COUNT 1000
#define RANKS 9

/* The reduction of n ranks' data as a collective may do it: pairwise, from the last rank to the
 * first. */
static void reduce_backwards(const struct br_data *data, int n, size_t first, void *out)
{
    static char input[COUNT * BR_TYPE_BYTES_MAX];
    br_data_fill(data, n - 1, first, out, COUNT);
    for (int r = n - 2; r >= 0; r--) {
        const void *sources[2] = {input, out};
        br_data_fill(data, r, first, input, COUNT);
        assert_int_equal(
            br_reduce(data->type, data->reduction, out, sources, 2, COUNT, r == 0 ? n : 0), 0);
    }
    if (n == 1) {
        const void *source = out;
        assert_int_equal(br_reduce(data->type, data->reduction, out, &source, 1, COUNT, 1), 0);
    }
}

static void data_wrong_reduced__accepts_every_order(void **state)
{
    (void)state;
    static char out[COUNT * BR_TYPE_BYTES_MAX];
    for (int t = 0; t < BRAID_TYPES; t++)
        for (int o = 0; o < BRAID_REDUCTIONS; o++)
            for (int n = 1;
                 n <= RANKS && br_type_has_reduction((enum braid_type)t, (enum braid_reduction)o);
                 n++) {
                struct br_data data = {
                    .seed = 77, .type = (enum braid_type)t, .reduction = (enum braid_reduction)o};
                reduce_backwards(&data, n, 12345, out);
                size_t wrong = br_data_wrong_reduced(&data, n, 12345, out, COUNT);
                if (wrong)
                    fail_msg("%zu wrong: %s, %s, %d ranks", wrong, br_type_name(data.type),
                             br_reduction_name(data.reduction), n);
            }
}

/* A rank's part left out shows in most elements of a sum, even where bfloat16's 8 bits allow
 * much; of two float8 and truth values in many. */
static void data_wrong_reduced__catches_a_missing_rank(void **state)
{
    (void)state;
    static char out[COUNT * BR_TYPE_BYTES_MAX];
    for (int t = 0; t < BRAID_TYPES; t++)
        for (int n = 2; n <= RANKS; n++) {
            struct br_data data = {.seed = 5, .type = (enum braid_type)t, .reduction = BRAID_SUM};
            reduce_backwards(&data, n - 1, 0, out);
            if (t < BRAID_BOOL || (t > BRAID_BOOL && t < BRAID_FLOAT8_E4M3))
                assert_true(br_data_wrong_reduced(&data, n, 0, out, COUNT) > COUNT * 3 / 4);
            else if (n == 2)
                assert_true(br_data_wrong_reduced(&data, n, 0, out, COUNT) > COUNT / 20);
        }
}

static void data_wrong_reduced__catches_one_element(void **state)
{
    (void)state;
    static char out[COUNT * BR_TYPE_BYTES_MAX];
    for (int t = 0; t < BRAID_TYPES; t++)
        for (int o = 0; o < BRAID_REDUCTIONS; o++) {
            struct br_data data = {
                .seed = 5, .type = (enum braid_type)t, .reduction = (enum braid_reduction)o};
            size_t size = br_type_size(data.type);
            if (!br_type_has_reduction(data.type, data.reduction))
                continue;
            reduce_backwards(&data, 4, 0, out);
            out[500 * size + size - 1] ^= 0x40; /* the exponent, or a high bit */
            assert_int_equal(br_data_wrong_reduced(&data, 4, 0, out, COUNT), 1);
            if (t > BRAID_BFLOAT16 && t < BRAID_COMPLEX64)
                continue;
            memset(out + 500 * size, 0xff, size); /* a NaN */
            assert_int_equal(br_data_wrong_reduced(&data, 4, 0, out, COUNT), 1);
        }
}

static void data_wrong_copy__tells_rank_place_and_seed_apart(void **state)
{
    (void)state;
    static char buffer[COUNT * BR_TYPE_BYTES_MAX];
    for (int t = 0; t < BRAID_TYPES; t++) {
        struct br_data data = {.seed = 5, .type = (enum braid_type)t}, other = data;
        other.seed++;
        br_data_fill(&data, 3, 17, buffer, COUNT);
        assert_int_equal(br_data_wrong_copy(&data, 3, 17, buffer, COUNT), 0);
        assert_int_equal(
            br_data_wrong_copy(&data, 3, 18, buffer + br_type_size(data.type), COUNT - 1), 0);
        size_t most = t == BRAID_BOOL         ? COUNT / 10
                      : t < BRAID_FLOAT8_E4M3 ? COUNT * 9 / 10
                                              : COUNT / 2;
        assert_true(br_data_wrong_copy(&data, 2, 17, buffer, COUNT) > most);
        assert_true(br_data_wrong_copy(&data, 3, 18, buffer, COUNT) > most);
        assert_true(br_data_wrong_copy(&other, 3, 17, buffer, COUNT) > most);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_wrong_reduced__accepts_every_order),
        cmocka_unit_test(data_wrong_reduced__catches_a_missing_rank),
        cmocka_unit_test(data_wrong_reduced__catches_one_element),
        cmocka_unit_test(data_wrong_copy__tells_rank_place_and_seed_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
