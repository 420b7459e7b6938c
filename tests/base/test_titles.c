/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/titles.h"

static void titles_keep__once_and_mended(void **state)
{
    struct br_titles *titles;
    char text[] = "conv\"1\\\n\xc3";
    const char *kept;

    (void)state;
    assert_int_equal(br_titles_open(&titles), 0);
    kept = br_titles_keep(titles, text);
    assert_string_equal(kept, "conv?1???");
    assert_ptr_equal(br_titles_keep(titles, text), kept);
    memset(text, 'x', sizeof text - 1);
    assert_string_equal(kept, "conv?1???");
    assert_null(br_titles_keep(titles, ""));
    br_titles_close(titles);
    br_titles_close(NULL);
}

static void titles_keep__long_ones_are_cut(void **state)
{
    struct br_titles *titles;
    char text[200];

    (void)state;
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = 0;
    assert_int_equal(br_titles_open(&titles), 0);
    assert_int_equal(strlen(br_titles_keep(titles, text)), BR_TITLE_BYTES - 1);
    br_titles_close(titles);
}

static void titles_keep__full(void **state)
{
    const char *first = NULL;
    struct br_titles *titles;
    char text[16];

    (void)state;
    assert_int_equal(br_titles_open(&titles), 0);
    for (uint32_t i = 0; i < BR_TITLES; i++) {
        snprintf(text, sizeof text, "%u", i);
        assert_string_equal(br_titles_keep(titles, text), text);
        first = first ? first : br_titles_keep(titles, text);
    }
    assert_null(br_titles_keep(titles, "one more"));
    assert_ptr_equal(br_titles_keep(titles, "0"), first);
    br_titles_close(titles);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(titles_keep__once_and_mended),
                                       cmocka_unit_test(titles_keep__long_ones_are_cut),
                                       cmocka_unit_test(titles_keep__full)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
