/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/random.h"
#include "base/text.h"

static void becomes(const char *text, bool lines, const char *expected)
{
    char out[256];

    snprintf(out, sizeof out, "%s", text);
    br_text_clean(out, lines);
    assert_string_equal(out, expected);
}

static void text_clean__controls(void **state)
{
    (void)state;
    becomes("", false, "");
    becomes("Linux 6.1 ~ \"x\"", false, "Linux 6.1 ~ \"x\"");
    becomes("\033]0;owned\a\033[31mrun: curl evil\r\n", false, "?]0;owned??[31mrun: curl evil? ");
    becomes("a\nb\tc\177", true, "a\nb c?");
    becomes("a\nb\tc\177", false, "a b c?");
    becomes("\233"
            "31m",
            false, "?31m"); /* CSI as one byte */
    becomes("\302\233"
            "31m",
            false, "??31m");                                /* CSI as UTF-8: U+009B */
    becomes("\302\240\303\274", false, "\302\240\303\274"); /* U+00A0 and u with diaeresis */
}

static void text_clean__utf8(void **state)
{
    (void)state;
    becomes("\342\202\254 \360\237\230\200", false, "\342\202\254 \360\237\230\200");
    becomes("\342\202", false, "??");                  /* cut */
    becomes("\300\233 \340\202\233", false, "?? ???"); /* U+001B and U+009B, written too long */
    becomes("\355\240\200", false, "???");             /* half of a surrogate pair */
    becomes("\364\220\200\200", false, "????");        /* beyond U+10FFFF */
    becomes("\360\202\202\254", false, "????");
    becomes("\342\033[m", false, "??[m");
}

/* Whatever the bytes: the length stays, no control is left, and once more changes nothing. */
static void text_clean__random(void **state)
{
    struct br_random dice;
    char text[64], once[64];

    (void)state;
    br_random_seed(&dice, 7);
    for (int i = 0; i < 100000; i++) {
        size_t n = 1 + (size_t)br_random_below(&dice, sizeof text - 1);

        for (size_t k = 0; k < n; k++)
            text[k] = (char)(1 + br_random_below(&dice, 255));
        text[n] = 0;
        br_text_clean(text, true);
        assert_int_equal(strlen(text), n);
        for (size_t k = 0; k < n; k++)
            if (((uint8_t)text[k] < 0x20 && text[k] != '\n') || text[k] == 0x7f ||
                ((uint8_t)text[k] == 0xc2 && (uint8_t)text[k + 1] < 0xa0))
                fail_msg("byte %02x is left", (uint8_t)text[k]);
        memcpy(once, text, sizeof text);
        br_text_clean(text, true);
        assert_string_equal(text, once);
    }
}

static void rate_parse__and_back(void **state)
{
    static const struct {
        const char *text;
        uint64_t rate;
        const char *back;
    } good[] = {{"100mbit", 100000000, "100mbit"},
                {"2.5gbit", 2500000000, "2500mbit"},
                {"64KBit", 64000, "64kbit"},
                {"1bit", 1, "1bit"},
                {"40gbit", 40000000000, "40gbit"}};
    char text[BR_RATE_TEXT];
    uint64_t rate;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(br_rate_parse(good[i].text, &rate), 0);
        assert_true(rate == good[i].rate);
        assert_string_equal(br_rate_print(rate, text), good[i].back);
    }
}

static void rate_parse__bad(void **state)
{
    static const char *const bad[] = {"",          "mbit",     "100",      "-1mbit", "0bit",
                                      "1e300gbit", "100 mbit", "100mbits", "nanbit", "0x10mbit"};
    uint64_t rate = 7;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(br_rate_parse(bad[i], &rate), -EINVAL);
        assert_non_null(strstr(br_error_message(), "500mbit"));
    }
    assert_true(rate == 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_clean__controls), cmocka_unit_test(text_clean__utf8),
        cmocka_unit_test(text_clean__random),   cmocka_unit_test(rate_parse__and_back),
        cmocka_unit_test(rate_parse__bad),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
