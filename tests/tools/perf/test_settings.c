/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perf/settings.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "tools/perf/parameters.h"

#define PARSE(s, ...)                                                                                        \
    ({                                                                                                       \
        const char *argv_[] = {__VA_ARGS__, NULL};                                                           \
        br_perf_settings_parse(s, (int)(sizeof argv_ / sizeof *argv_) - 1, (char **)argv_);                  \
    })

static void settings__defaults_are_perftests(void **state)
{
    (void)state;
    struct br_perf_settings s;
    assert_int_equal(PARSE(&s, "write_bw"), 0);
    assert_null(s.server);
    assert_int_equal(s.port, 18515);
    assert_int_equal(s.size, 65536);
    assert_int_equal(s.iterations, 5000);
    assert_int_equal(s.depth, 128);
    assert_int_equal(s.moderation, 100);
    assert_int_equal(s.post_list, 1);
    assert_false(s.no_peak);
    assert_int_equal(PARSE(&s, "read_bw", "host"), 0);
    assert_string_equal(s.server, "host");
    assert_int_equal(s.iterations, 1000);
    assert_int_equal(PARSE(&s, "send_lat"), 0);
    assert_int_equal(s.size, 2);
    assert_int_equal(s.iterations, 1000);
}

static void settings__depths_follow_the_number_of_messages(void **state)
{
    (void)state;
    struct br_perf_settings s;
    assert_int_equal(PARSE(&s, "send_bw", "-n", "20", "-q", "2"), 0);
    assert_int_equal(s.depth, 20);
    assert_int_equal(s.moderation, 40);
    assert_int_equal(s.messages, 40);
    assert_int_equal(s.window, 40);
    assert_int_equal(PARSE(&s, "write_bw", "-n", "20001"), 0);
    assert_true(s.no_peak);
    assert_int_equal(PARSE(&s, "write_bw", "-D", "20"), 0);
    assert_int_equal(s.margin, 2);
    assert_true(s.no_peak);
    assert_int_equal(PARSE(&s, "write_bw", "-D", "5"), 0);
    assert_int_equal(s.margin, 1);
    assert_int_equal(PARSE(&s, "write_bw", "-t", "501"), -EINVAL);
    assert_int_equal(PARSE(&s, "write_bw", "-t", "251", "-q", "2"), -EINVAL);
}

static void settings__words_and_options_in_any_order(void **state)
{
    (void)state;
    struct br_perf_settings s;
    assert_int_equal(PARSE(&s, "write_bw", "-s", "1M", "host", "-F", "--rails=2", "-c", "RC"), 0);
    assert_string_equal(s.server, "host");
    assert_int_equal(s.size, 1 << 20);
    assert_int_equal(s.rails, 2);
    assert_int_equal(PARSE(&s, "write_bw", "--out_json"), 0);
    assert_string_equal(s.json, "perftest_out.json");
    assert_int_equal(PARSE(&s, "read_lat", "-U"), 0);
    assert_true(s.histogram);
}

static void settings__verbs_letters_need_verbs(void **state)
{
    (void)state;
    struct br_perf_settings s;
    unsetenv("BRAID_BACKEND");
    assert_int_equal(PARSE(&s, "write_bw", "-x", "3"), -EINVAL);
    assert_non_null(strstr(br_error_words(), "--backend verbs only"));
    assert_int_equal(PARSE(&s, "write_bw", "-x", "3", "-S", "1", "-T", "32", "--backend", "verbs"), 0);
    assert_int_equal(s.gid_index, 3);
    assert_int_equal(s.service_level, 1);
    assert_int_equal(s.traffic_class, 32);
}

static void sizes__all_of_them(void **state)
{
    (void)state;
    struct br_perf_settings s;
    int n = 0;
    assert_int_equal(PARSE(&s, "write_bw", "-a"), 0);
    for (int64_t bytes = br_perf_first_size(&s); bytes; bytes = br_perf_next_size(&s, bytes))
        n++;
    assert_int_equal(n, 23);
    assert_int_equal(PARSE(&s, "write_bw", "-s", "5"), 0);
    assert_int_equal(br_perf_first_size(&s), 5);
    assert_int_equal(br_perf_next_size(&s, 5), 0);
}

static void parameters__differences_are_named(void **state)
{
    (void)state;
    struct br_perf_settings s;
    char a[BR_PERF_TEXT], b[BR_PERF_TEXT], words[BR_PERF_TEXT];
    assert_int_equal(PARSE(&s, "write_bw", "-s", "64", "-b"), 0);
    br_perf_parameters_write(&s, a);
    assert_int_equal(br_perf_parameters_compare(a, a, words), 0);
    assert_int_equal(PARSE(&s, "write_bw", "-s", "128", "-t", "3"), 0);
    br_perf_parameters_write(&s, b);
    assert_int_equal(br_perf_parameters_compare(a, b, words), 1);
    assert_string_equal(words,
                        "-s: 64 at the server, 128 at the client; -b: 1 at the server, 0 at the client");
}

static void parameters__what_strangers_say(void **state)
{
    (void)state;
    struct br_perf_settings s;
    char a[BR_PERF_TEXT], b[BR_PERF_TEXT], words[BR_PERF_TEXT];
    size_t length;
    assert_int_equal(PARSE(&s, "write_bw"), 0);
    br_perf_parameters_write(&s, a);
    assert_int_equal(br_perf_parameters_compare(a, "", words), -EPROTO);
    assert_int_equal(br_perf_parameters_compare(a, "braid-perf 1\n", words), -EPROTO);
    assert_int_equal(br_perf_parameters_compare(a, "braid-perf 1\nversion", words), -EPROTO);
    strcpy(b, a);
    *strstr(b, "write_bw") = '\033';
    assert_int_equal(br_perf_parameters_compare(a, b, words), -EPROTO);
    assert_null(br_perf_parameters_find(a, "siz", &length));
    assert_non_null(br_perf_parameters_find(a, "size", &length));
    assert_int_equal(length, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings__defaults_are_perftests),
        cmocka_unit_test(settings__depths_follow_the_number_of_messages),
        cmocka_unit_test(settings__words_and_options_in_any_order),
        cmocka_unit_test(settings__verbs_letters_need_verbs),
        cmocka_unit_test(sizes__all_of_them),
        cmocka_unit_test(parameters__differences_are_named),
        cmocka_unit_test(parameters__what_strangers_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
