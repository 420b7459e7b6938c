/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/testbed/matrix.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/tools/testbed/synthetic.h"

static const double sizes[BR_TRIP_SIZES] = {64, 262144, 524288, 786432, 1048576};

static bool near(double value, double expected)
{
    return fabs(value - expected) < 1e-6;
}

/* 100 Mb/s behind a shaper whose bucket lets 128 KiB pass at once: 80 ns/byte, and a line that
 * begins below zero. */
static void matrix_fit__shaper(void **state)
{
    double us[BR_TRIP_SIZES] = {60};
    (void)state;
    for (int i = 1; i < BR_TRIP_SIZES; i++)
        us[i] = (sizes[i] - 131072) * 0.08 + 30;
    us[2] *= 3; /* one was disturbed */
    struct br_matrix_cell cell = br_matrix_fit(sizes, us);
    assert_true(near(cell.alpha, 30));
    assert_true(near(cell.beta * 1e9, 80));
    assert_true(near(br_matrix_gbit(&cell), 0.1));
}

static void matrix_fit__nothing_measured(void **state)
{
    double us[BR_TRIP_SIZES] = {0};
    (void)state;
    struct br_matrix_cell cell = br_matrix_fit(sizes, us);
    assert_true(cell.beta <= 0 && cell.alpha <= 0 && br_matrix_gbit(&cell) <= 0);
}

static char *printed(const struct br_matrix *matrix, bool svg)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    if (svg)
        br_matrix_svg(matrix, out);
    else
        br_matrix_text(matrix, false, out);
    fclose(out);
    return text;
}

static int count(const char *text, const char *what)
{
    int found = 0;
    for (const char *at = text; (at = strstr(at, what)); at++)
        found++;
    return found;
}

/* Each direction of each link has one cell in each panel; one that was not measured says so. */
static void matrix__cells(void **state)
{
    struct br_survey survey;
    (void)state;
    synthetic_init(&survey, 3, 2);
    uint32_t links = br_survey_links(&survey);
    struct br_matrix_cell *cells = calloc(links, sizeof *cells);
    struct br_matrix matrix = {.survey = &survey, .cells = cells, .title = "a <test>"};
    assert_non_null(cells);
    for (uint32_t l = 1; l < links; l++)
        cells[l] = (struct br_matrix_cell){.alpha = 44, .beta = 80e-9};
    char *text = printed(&matrix, false), *svg = printed(&matrix, true);
    /* and the headline: "from 0.1 to" */
    assert_int_equal(count(text, " 0.1 "), (int)links - 1 + 1);
    assert_int_equal(count(text, " 44 "), (int)links - 1 + 1);
    assert_int_equal(count(text, "fails"), 2);
    assert_int_equal(count(svg, ">0.1<"), (int)links - 1);
    assert_int_equal(count(svg, ">fails<"), 2);
    assert_int_equal(count(svg, "a &lt;test&gt;"), 1);
    free(text);
    free(svg);
    free(cells);
    br_survey_destroy(&survey);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrix_fit__shaper),
        cmocka_unit_test(matrix_fit__nothing_measured),
        cmocka_unit_test(matrix__cells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
