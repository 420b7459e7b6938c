/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/common/options.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "tests/says.h"

struct values {
    bool flag, other;
    int64_t number, bytes;
    const char *text;
};

static int parse(struct values *v, int argc, char **argv)
{
    const struct br_option options[] = {
        {"flag", 'f', BR_OPTION_FLAG, &v->flag, 0, 0, " a flag"},
        {"number", 'n', BR_OPTION_NUMBER, &v->number, -5, 100, "N a number"},
        {"number-two", 0, BR_OPTION_NUMBER, &v->number, 0, 1, "N a name that begins like another"},
        {"bytes", 'b', BR_OPTION_BYTES, &v->bytes, 1, 1 << 20, "SIZE a size"},
        {"text", 0, BR_OPTION_TEXT, &v->text, 0, 0, "WORD a text"},
        {"other", 'o', BR_OPTION_FLAG, &v->other, 0, 0, " another flag"},
        {0},
    };
    return br_options_parse(options, argc, argv);
}

#define PARSE(v, ...)                                                                              \
    ({                                                                                             \
        const char *argv_[] = {"tool", __VA_ARGS__};                                               \
        parse(&v, (int)(sizeof argv_ / sizeof *argv_), (char **)argv_);                            \
    })

static void options_parse__all_forms(void **state)
{
    (void)state;
    struct values v = {.number = 7, .text = "before"};
    assert_int_equal(PARSE(v, "-f", "--number", "-5", "--bytes=64K", "--text", "--odd"), 0);
    assert_true(v.flag);
    assert_int_equal(v.number, -5);
    assert_int_equal(v.bytes, 64 << 10);
    assert_string_equal(v.text, "--odd");
    assert_int_equal(PARSE(v, "-n12", "-b", "1M", "--text="), 0);
    assert_int_equal(v.number, 12);
    assert_int_equal(v.bytes, 1 << 20);
    assert_string_equal(v.text, "");
    assert_int_equal(PARSE(v, "--number-two", "1"), 0);
    assert_int_equal(v.number, 1);
}

static void options_parse__flags_in_one_word(void **state)
{
    struct values v = {.number = 7};

    (void)state;
    assert_int_equal(PARSE(v, "-of"), 0);
    assert_true(v.flag && v.other);
    v = (struct values){.number = 7};
    assert_int_equal(PARSE(v, "-fon", "12"), 0);
    assert_true(v.flag && v.other && v.number == 12);
    v = (struct values){.number = 7};
    assert_int_equal(PARSE(v, "-on5"), 0);
    assert_true(v.other && !v.flag && v.number == 5);
}

static void options_parse__absent_options_keep_their_values(void **state)
{
    (void)state;
    struct values v = {.number = 7, .bytes = 8, .text = "before"};
    assert_int_equal(PARSE(v, "-f"), 0);
    assert_int_equal(v.number, 7);
    assert_int_equal(v.bytes, 8);
    assert_string_equal(v.text, "before");
}

static void options_parse__help_is_wanted(void **state)
{
    (void)state;
    struct values v = {0};
    assert_int_equal(PARSE(v, "-f", "--help"), 1);
    assert_int_equal(PARSE(v, "-h"), 1);
}

static void options_parse__bad_arguments_are_named(void **state)
{
    (void)state;
    struct values v = {0};
    static const struct {
        const char *argument, *message;
    } bad[] = {
        {"--number=101", "--number 101"},
        {"--number=-6", "-5 to 100"},
        {"--number=1x", "whole number"},
        {"--number=", "whole number"},
        {"-n0x5", "whole number"},
        {"--number=99999999999999999999", "whole number"},
        {"--bytes=0", "bytes"},
        {"--bytes=2M", "1048576"},
        {"--bytes=8Q", "8Q"},
        {"--bytes=-1", "bytes"},
        {"--numb=1", "no option"},
        {"--numbers=1", "no option"},
        {"-x", "no option"},
        {"--flag=1", "no value"},
        {"word", "'word'"},
        {"-", "'-'"},
        {"--bytes", "needs a value"},
        {"-n", "needs a value"},
        {"-fn", "needs a value"},
        {"-fx", "no option -fx"},
        {"-f-flag", "no option"},
        {"-f1", "no option"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(PARSE(v, bad[i].argument), -EINVAL);
        if (!says_all(br_error_message(), bad[i].message))
            fail_msg("%s: '%s' does not name '%s'", bad[i].argument, br_error_message(),
                     bad[i].message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_parse__all_forms),
        cmocka_unit_test(options_parse__flags_in_one_word),
        cmocka_unit_test(options_parse__absent_options_keep_their_values),
        cmocka_unit_test(options_parse__help_is_wanted),
        cmocka_unit_test(options_parse__bad_arguments_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
