/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perf/settings.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "tests/says.h"
#include "tools/perf/parameters.h"

#define PARSE(s, ...)                                                                              \
    ({                                                                                             \
        const char *argv_[] = {__VA_ARGS__, NULL};                                                 \
        br_perf_settings_parse(s, (int)(sizeof argv_ / sizeof *argv_) - 1, (char **)argv_);        \
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
    assert_says(br_error_message(), "--backend verbs");
    assert_int_equal(PARSE(&s, "write_bw", "-x", "3", "-S", "1", "-T", "32", "--backend", "verbs"),
                     0);
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
    char a[BR_PERF_TEXT], b[BR_PERF_TEXT], text[BR_PERF_TEXT];
    assert_int_equal(PARSE(&s, "write_bw", "-s", "64", "-b"), 0);
    br_perf_parameters_write(&s, a);
    assert_int_equal(br_perf_parameters_compare(a, a, text), 0);
    assert_int_equal(PARSE(&s, "write_bw", "-s", "128", "-t", "3"), 0);
    br_perf_parameters_write(&s, b);
    assert_int_equal(br_perf_parameters_compare(a, b, text), 1);
    assert_says(text, "-s|64 at the server|128 at the client|-b|1 at the server|0 at the client");
}

/* What a server that was asked for `server` makes of a client's words. Returns what
 * br_perf_parameters_agree does. */
#define AGREE(server, client, agreed, words)                                                       \
    ({                                                                                             \
        struct br_perf_settings asked_, theirs_;                                                   \
        const char *here_[] = SIDE server, *there_[] = SIDE client;                                \
        char text_[BR_PERF_TEXT];                                                                  \
        assert_int_equal(br_perf_settings_read(&asked_, (int)(sizeof here_ / sizeof *here_) - 1,   \
                                               (char **)here_),                                    \
                         0);                                                                       \
        assert_int_equal(br_perf_settings_parse(&theirs_,                                          \
                                                (int)(sizeof there_ / sizeof *there_) - 1,         \
                                                (char **)there_),                                  \
                         0);                                                                       \
        br_perf_parameters_write(&theirs_, text_);                                                 \
        br_perf_parameters_agree(&asked_, text_, agreed, words);                                   \
    })
#define SIDE(...)                                                                                  \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

static void agree__the_server_takes_what_the_client_says(void **state)
{
    (void)state;
    struct br_perf_settings s;
    char text[BR_PERF_TEXT];
    unsetenv("BRAID_BACKEND");
    assert_int_equal(
        AGREE(("write_bw"), ("write_bw", "-a", "-n", "50", "-b", "-t", "8", "-q", "2"), &s, text),
        0);
    assert_true(s.all && s.bidirectional);
    assert_int_equal(s.iterations, 50);
    assert_int_equal(s.rails, 2);
    assert_int_equal(s.messages, 100);
    assert_int_equal(s.depth, 8);
    assert_int_equal(s.window, 16);
    assert_int_equal(AGREE(("read_lat"),
                           ("read_lat", "-D", "9", "-f", "3", "-s", "64", "--backend", "tcp"), &s,
                           text),
                     0);
    assert_int_equal(s.duration, 9);
    assert_int_equal(s.margin, 3);
    assert_int_equal(s.size, 64);
    assert_string_equal(s.backend, "tcp");
    assert_int_equal(AGREE(("send_bw"),
                           ("send_bw", "-r", "7", "--run_infinitely", "--data_validation"), &s,
                           text),
                     0);
    assert_int_equal(s.rx_depth, 7);
    assert_true(s.forever && s.validates);
    assert_int_equal(
        AGREE(("atomic_lat"), ("atomic_lat", "-A", "CMP_AND_SWAP", "--perform_warm_up"), &s, text),
        0);
    assert_true(s.swaps && s.warm_up);
}

static void agree__options_of_both_sides_are_one(void **state)
{
    (void)state;
    struct br_perf_settings s;
    char text[BR_PERF_TEXT];
    assert_int_equal(AGREE(("send_bw", "-s", "64", "-b", "-D", "9"),
                           ("send_bw", "-s", "64", "-b", "-D", "9"), &s, text),
                     0);
    assert_int_equal(s.size, 64);
    assert_int_equal(
        AGREE(("write_bw", "-a", "-n", "20"), ("write_bw", "-a", "-n", "20"), &s, text), 0);
    /* what may differ, and what is each side's own */
    assert_int_equal(AGREE(("send_bw", "-t", "4", "-r", "3", "-s", "64"),
                           ("send_bw", "-t", "9", "-s", "64", "--report_gbits"), &s, text),
                     0);
    assert_int_equal(s.depth, 4);
    assert_int_equal(s.rx_depth, 3);
    assert_false(s.gbits);
}

static void agree__a_contradiction_is_named_with_both_values(void **state)
{
    (void)state;
    struct br_perf_settings s;
    char text[BR_PERF_TEXT];
    assert_int_equal(AGREE(("write_bw", "-s", "64"), ("write_bw", "-s", "128", "-b"), &s, text), 1);
    assert_says(text, "-s|64 at the server|128 at the client");
    assert_null(strchr(text, ';')); /* nothing else */
    assert_int_equal(AGREE(("write_bw", "-b"), ("write_bw"), &s, text), 1);
    assert_says(text, "-b|1 at the server|0 at the client");
    assert_null(strchr(text, ';'));
    assert_int_equal(AGREE(("write_bw", "-n", "50"), ("write_bw", "-D", "2"), &s, text), 1);
    assert_says(text, "-n|50 at the server|0 at the client");
    assert_says(text, "-D|0 at the server|2 at the client");
    assert_int_equal(AGREE(("write_bw", "-s", "64"), ("write_bw", "-a"), &s, text), 1);
    assert_says(text, "-a|0 at the server|1 at the client");
    assert_int_equal(
        AGREE(("write_bw", "--backend", "shm"), ("write_bw", "--backend", "tcp"), &s, text), 1);
    assert_says(text, "--backend|shm at the server|tcp at the client");
    assert_null(strchr(text, ';'));
    assert_int_equal(AGREE(("write_bw"), ("write_lat"), &s, text), 1);
    assert_says(text, "test|write_bw at the server|write_lat at the client");
    /* what is the server's own may not go with what the client wants */
    assert_int_equal(AGREE(("read_lat", "-H"), ("read_lat", "-D", "2"), &s, text), 1);
    assert_non_null(strstr(text, "-H and -U"));
    setenv("BRAID_BACKEND", "shm", 1);
    assert_int_equal(AGREE(("write_bw"), ("write_bw", "--backend", "tcp"), &s, text), 1);
    assert_says(text, "--backend|shm at the server|tcp at the client");
    assert_null(strchr(text, ';'));
    unsetenv("BRAID_BACKEND");
}

/* Figures come from the network: no server is made to take what its own options would refuse. */
static void agree__figures_out_of_range(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "size 99999999999", "size -5",      "size 64x",       "all 2",
        "iterations 4",     "rails 9",      "duration 86401", "margin 43201",
        "tx_depth 501",     "rx_depth 501", "cq_mod 1001",    "size "};
    struct br_perf_settings asked, s;
    char good[BR_PERF_TEXT], bad[2 * BR_PERF_TEXT], text[BR_PERF_TEXT];
    assert_int_equal(PARSE(&s, "write_bw"), 0);
    br_perf_parameters_write(&s, good);
    const char *argv[] = {"write_bw", NULL};
    assert_int_equal(br_perf_settings_read(&asked, 1, (char **)argv), 0);
    assert_int_equal(br_perf_parameters_agree(&asked, good, &s, text), 0);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        size_t name = strcspn(lines[i], " ") + 1;
        const char *at = strstr(good, "\nversion"); /* names of lines begin behind a newline */
        while (strncmp(at + 1, lines[i], name) != 0)
            assert_non_null(at = strchr(at + 1, '\n'));
        snprintf(bad, sizeof bad, "%.*s\n%s%s", (int)(at - good), good, lines[i],
                 strchr(at + 1, '\n'));
        if (br_perf_parameters_agree(&asked, bad, &s, text) != -EPROTO)
            fail_msg("'%s' is taken", lines[i]);
    }
}

static void parameters__what_strangers_say(void **state)
{
    (void)state;
    struct br_perf_settings s;
    char a[BR_PERF_TEXT], b[BR_PERF_TEXT], text[BR_PERF_TEXT];
    size_t length;
    assert_int_equal(PARSE(&s, "write_bw"), 0);
    br_perf_parameters_write(&s, a);
    assert_int_equal(br_perf_parameters_compare(a, "", text), -EPROTO);
    assert_int_equal(br_perf_parameters_compare(a, "braid-perf 2\n", text), -EPROTO);
    assert_int_equal(br_perf_parameters_compare(a, "braid-perf 2\nversion", text), -EPROTO);
    strcpy(b, a);
    *strstr(b, "write_bw") = '\033';
    assert_int_equal(br_perf_parameters_compare(a, b, text), -EPROTO);
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
        cmocka_unit_test(agree__the_server_takes_what_the_client_says),
        cmocka_unit_test(agree__options_of_both_sides_are_one),
        cmocka_unit_test(agree__a_contradiction_is_named_with_both_values),
        cmocka_unit_test(agree__figures_out_of_range),
        cmocka_unit_test(parameters__what_strangers_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
