/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/common/options.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "tests/says.h"

struct values {
    bool flag, other;
    int64_t number, bytes;
    double decimal;
    const char *text;
};

static int parse(struct values *v, int argc, char **argv)
{
    const struct br_option options[] = {
        {"flag", 'f', BR_OPTION_FLAG, &v->flag, 0, 0, " a flag"},
        {"number", 'n', BR_OPTION_NUMBER, &v->number, -5, 100, "N a number"},
        {"number-two", 0, BR_OPTION_NUMBER, &v->number, 0, 1, "N a name that begins like another"},
        {"bytes", 'b', BR_OPTION_BYTES, &v->bytes, 1, 1 << 20, "SIZE a size"},
        {"decimal", 'd', BR_OPTION_DECIMAL, &v->decimal, 0, 10, "X a decimal"},
        {"text", 0, BR_OPTION_TEXT, &v->text, 0, 0, "WORD a text"},
        {"other", 'o', BR_OPTION_FLAG, &v->other, 0, 0, " another flag"},
        {0},
    };
    return br_options_parse(options, "tool [options]", argc, argv);
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
    assert_int_equal(PARSE(v, "-d", "2.5e-1"), 0);
    assert_true(v.decimal == 0.25);
    assert_int_equal(PARSE(v, "--text", "first", "--text", "last", "-n4"), 0);
    assert_string_equal(v.text, "last");
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
        {"--flag=1", "--flag|no value"},
        {"word", "'word'"},
        {"-", "'-'"},
        {"--decimal=0", "--decimal 0|above 0"},
        {"-d10.5", "at most 10"},
        {"-dnan", "nan"},
        {"-d1.5x", "1.5x"},
        {"--bytes", "--bytes|needs a value"},
        {"-n", "-n|needs a value"},
        {"-fn", "-fn|needs a value"},
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

static void arguments_parse__in_any_order(void **state)
{
    const char *name = NULL;
    bool flag = false;
    const struct br_option options[] = {{"name", 'n', BR_OPTION_TEXT, &name, 0, 0, "NAME"},
                                        {"flag", 'f', BR_OPTION_FLAG, &flag, 0, 0, " flag"},
                                        {0}};
    char *argv[] = {"exec", "--flag", "one", "--name", "x", "two", "--", "cmd", "--name"};
    struct br_arguments arguments;

    (void)state;
    assert_int_equal(br_arguments_parse(&arguments, options, "", 9, argv), 0);
    assert_int_equal(arguments.count, 2);
    assert_string_equal(arguments.operands[0], "one");
    assert_string_equal(arguments.operands[1], "two");
    assert_null(arguments.operands[2]);
    assert_string_equal(name, "x");
    assert_true(flag);
    assert_ptr_equal(arguments.command, argv + 7);
    assert_int_equal(br_arguments_parse(&arguments, options, "", 7, argv), 0);
    assert_null(arguments.command);
    argv[3] = "--nome";
    assert_int_equal(br_arguments_parse(&arguments, options, "", 9, argv), -EINVAL);
    assert_says(br_error_message(), "--nome");
    assert_ptr_equal(arguments.command, argv + 7); /* `braid run` asks whether there was one */
}

static void arguments_parse__too_many_operands(void **state)
{
    char *argv[BR_OPERANDS + 2] = {"exec"};
    const struct br_option options[] = {{0}};
    struct br_arguments arguments;

    (void)state;
    for (int i = 1; i <= BR_OPERANDS; i++)
        argv[i] = "few";
    assert_int_equal(br_arguments_parse(&arguments, options, "", BR_OPERANDS + 1, argv), 0);
    assert_int_equal(arguments.count, BR_OPERANDS);
    argv[BR_OPERANDS + 1] = "last";
    assert_int_equal(br_arguments_parse(&arguments, options, "", BR_OPERANDS + 2, argv), -EINVAL);
    assert_says(br_error_message(), "'last'|too many");
}

static void options_parse__help_lists_options_and_values(void **state)
{
    int64_t number = 0;
    bool flag = false;
    const struct br_option options[] = {
        {"number", 'n', BR_OPTION_NUMBER, &number, 0, 9, "COUNT of things; default 3"},
        {"flag", 0, BR_OPTION_FLAG, &flag, 0, 0, " a flag"},
        {"hidden", 'x', BR_OPTION_FLAG, &flag, 0, 0, NULL},
        {0},
    };
    char text[1000] = "", *argv[] = {"tool", "-h"};
    FILE *file = tmpfile();
    int rc, before = dup(STDOUT_FILENO);

    (void)state;
    assert_non_null(file);
    fflush(stdout);
    dup2(fileno(file), STDOUT_FILENO);
    rc = br_options_parse(options, "tool [options]", 2, argv);
    fflush(stdout);
    dup2(before, STDOUT_FILENO);
    close(before);
    rewind(file);
    assert_true(fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    assert_int_equal(rc, 1);
    assert_true(!strncmp(text, "Usage: tool [options]\n", 22));
    assert_says(text, "-n, --number COUNT|of things; default 3|    --flag |a flag|-h, --help");
    assert_null(strstr(text, "hidden"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_parse__all_forms),
        cmocka_unit_test(options_parse__flags_in_one_word),
        cmocka_unit_test(options_parse__absent_options_keep_their_values),
        cmocka_unit_test(options_parse__help_is_wanted),
        cmocka_unit_test(options_parse__bad_arguments_are_named),
        cmocka_unit_test(arguments_parse__in_any_order),
        cmocka_unit_test(arguments_parse__too_many_operands),
        cmocka_unit_test(options_parse__help_lists_options_and_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
