/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/collectives/pairwise.h"

static bool not_both_two(const int *row, void *context)
{
    (void)context;
    return row[0] != 2 || row[1] != 2;
}

static bool has(int (*rows)[PAIRWISE_AXES], int n, int a, int x, int b, int y)
{
    for (int i = 0; i < n; i++)
        if (rows[i][a] == x && rows[i][b] == y)
            return true;
    return false;
}

static void pairwise__every_allowed_pair_in_few_rows(void **state)
{
    struct pairwise of = {
        .axes = 5, .values = {9, 7, 5, 3, 2}, .allowed = not_both_two, .context = NULL, .seed = 1};
    int(*rows)[PAIRWISE_AXES], (*same)[PAIRWISE_AXES];
    int n = pairwise_rows(&of, &rows);

    (void)state;
    assert_in_range(n, 9 * 7 - 1, 2 * 9 * 7);
    for (int a = 0; a < of.axes; a++)
        for (int b = a + 1; b < of.axes; b++)
            for (int x = 0; x < of.values[a]; x++)
                for (int y = 0; y < of.values[b]; y++)
                    assert_int_equal(has(rows, n, a, x, b, y),
                                     a != 0 || b != 1 || x != 2 || y != 2);
    assert_int_equal(pairwise_rows(&of, &same), n);
    for (int i = 0; i < n; i++)
        assert_memory_equal(rows[i], same[i], (size_t)of.axes * sizeof rows[i][0]);
    free(rows);
    free(same);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairwise__every_allowed_pair_in_few_rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
