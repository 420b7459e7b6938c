/* SPDX-License-Identifier: BSD-3-Clause */
/* Snapshots as JSON and back, in Prometheus' text format by its rules, and the list of counters
 * against doc/stats.md. */
#include "collectives/stats/snapshot.h"

#include <errno.h>
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct {
    const struct br_counter *counters;
    const char *prefix;
} tables[] = {{br_counters_rank, "braid_"},
              {br_counters_peer, "braid_peer_"},
              {br_counters_rail, "braid_rail_"}};

static void fill(void *of, const struct br_counter *counter, uint64_t from)
{
    for (; counter->name; counter++)
        *(uint64_t *)((char *)of + counter->offset) = from++;
}

/* A rank of two peers with two rails each; every field has a value of its own. */
static void make(struct br_snapshot *s, int rank)
{
    *s = (struct br_snapshot){
        .job = "0badcafe", .rank = rank, .size = 3, .pid = 100 + rank, .at = 5000000000};
    s->n_peers = 2;
    s->n_rails = 4;
    s->peers = calloc(2, sizeof *s->peers);
    s->rails = calloc(4, sizeof *s->rails);
    fill(&s->stats, br_counters_rank, 1000);
    for (int i = 0; i < 2; i++) {
        fill(&s->peers[i], br_counters_peer, 2000 + 100 * (uint64_t)i);
        s->peers[i].peer = (rank + 1 + i) % 3;
    }
    for (int i = 0; i < 4; i++) {
        fill(&s->rails[i], br_counters_rail, 3000 + 100 * (uint64_t)i);
        s->rails[i].peer = (rank + 1 + i / 2) % 3;
        s->rails[i].rail = i % 2;
        s->rails[i].level = 1;
        snprintf(s->rails[i].device, sizeof s->rails[i].device, "%s",
                 i ? "tcp:lo" : "odd:a\\b\"c\nd");
    }
}

static void json__round_trip(void **state)
{
    struct br_snapshot from, to;
    char *text;

    (void)state;
    make(&from, 1);
    from.stats.tx_bytes = 999999999999999; /* JSON as cJSON writes it has 15 digits: a petabyte */
    text = br_snapshot_json(&from);
    assert_int_equal(br_snapshot_parse(text, &to), 0);
    assert_string_equal(to.job, from.job);
    assert_int_equal(to.rank, 1);
    assert_int_equal(to.size, 3);
    assert_int_equal(to.pid, 101);
    assert_int_equal(to.at, from.at);
    assert_memory_equal(&to.stats, &from.stats, sizeof to.stats);
    assert_int_equal(to.n_peers, 2);
    assert_memory_equal(to.peers, from.peers, 2 * sizeof *to.peers);
    assert_int_equal(to.n_rails, 4);
    assert_memory_equal(to.rails, from.rails, 4 * sizeof *to.rails);
    free(text);
    br_snapshot_free(&from);
    br_snapshot_free(&to);
}

static void parse__other_texts(void **state)
{
    static const char *const texts[] = {"",
                                        "{",
                                        "[]",
                                        "3",
                                        "{\"stats\":{},\"peers\":{},\"rails\":[]}",
                                        "{\"stats\":1,\"peers\":[],\"rails\":[]}"};
    struct br_snapshot s;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_int_equal(br_snapshot_parse(texts[i], &s), -EPROTO);
    assert_int_equal(
        br_snapshot_parse(
            "{\"stats\":{\"turns\":-1,\"operations\":\"x\",\"tx_bytes\":1e300},\"peers\":[1],"
            "\"rails\":[{\"device\":7,\"peer\":1e12}]}",
            &s),
        0);
    assert_int_equal(s.stats.progress_calls, 0);
    assert_int_equal(s.stats.operations, 0);
    assert_int_equal(s.stats.tx_bytes, 0);
    assert_string_equal(s.rails[0].device, "");
    br_snapshot_free(&s);
}

static void socket__names(void **state)
{
    char job[BR_JOB_TEXT];
    int rank, pid;

    (void)state;
    assert_true(br_socket_parse("0badcafe.12.3456.sock", job, &rank, &pid));
    assert_string_equal(job, "0badcafe");
    assert_int_equal(rank, 12);
    assert_int_equal(pid, 3456);
    assert_false(br_socket_parse("0badcafe.12.3456.sock.new", job, &rank, &pid));
    assert_false(br_socket_parse("0badcafe.12.sock", job, &rank, &pid));
    assert_false(br_socket_parse("job.1.2.sock", job, &rank, &pid));
    assert_false(br_socket_parse(".", job, &rank, &pid));
}

/* ---- Prometheus: exposition format 0.0.4 ----------------------------------------------------- */

static size_t name_length(const char *text)
{
    size_t n = 0;

    while (isalnum((unsigned char)text[n]) || text[n] == '_' || text[n] == ':')
        n++;
    assert_true(n && !isdigit((unsigned char)text[0]));
    return n;
}

/* name="value",...: returns what follows the closing brace. */
static const char *check_labels(const char *at)
{
    assert_int_equal(*at++, '{');
    for (;;) {
        at += name_length(at);
        assert_int_equal(*at++, '=');
        assert_int_equal(*at++, '"');
        for (; *at != '"'; at++) {
            assert_true(*at && *at != '\n');
            if (*at == '\\') {
                at++;
                assert_non_null(memchr("\\\"n", *at, 3));
            }
        }
        at++;
        if (*at == '}')
            return at + 1;
        assert_int_equal(*at++, ',');
    }
}

/* A sample of the metric that the last TYPE named; a line of its own, with a number. */
static void check_sample(const char *line, const char *metric)
{
    size_t n = name_length(line);
    const char *at;
    char *end;

    assert_int_equal(n, strlen(metric));
    assert_memory_equal(line, metric, n);
    at = check_labels(line + n);
    assert_int_equal(*at, ' ');
    assert_true(strtod(at + 1, &end) >= 0);
    assert_true(end > at + 1 && *end == '\0');
}

static char *prometheus(void)
{
    struct br_snapshot s[2];
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);

    make(&s[0], 0);
    make(&s[1], 1);
    br_snapshot_prometheus(s, 2, out);
    fclose(out);
    br_snapshot_free(&s[0]);
    br_snapshot_free(&s[1]);
    return text;
}

static void prometheus__is_by_the_rules(void **state)
{
    char *text = prometheus(), *rest = text, *line, metric[100] = "", seen[200][100];
    int metrics = 0, samples = 0;

    (void)state;
    assert_int_equal(text[strlen(text) - 1], '\n');
    while ((line = strsep(&rest, "\n")) && rest) {
        if (!strncmp(line, "# HELP ", 7)) {
            size_t n = name_length(line + 7);

            snprintf(metric, sizeof metric, "%.*s", (int)n, line + 7);
            for (int i = 0; i < metrics; i++)
                assert_string_not_equal(seen[i], metric); /* one group a metric */
            assert_in_range(metrics, 0, 198);
            strcpy(seen[metrics++], metric);
            assert_int_equal(line[7 + n], ' ');
            assert_null(strchr(line + 7, '\\'));
            line = strsep(&rest, "\n");
            assert_memory_equal(line, "# TYPE ", 7);
            assert_memory_equal(line + 7, metric, n);
            if (!strcmp(line + 7 + n, " counter"))
                assert_string_equal(metric + n - 6, "_total");
            else
                assert_string_equal(line + 7 + n, " gauge");
            continue;
        }
        check_sample(line, metric);
        samples++;
    }
    assert_true(metrics > 50 && samples > 4 * metrics / 2);
    free(text);
}

static void prometheus__values(void **state)
{
    char *text = prometheus();

    (void)state;
    assert_non_null(
        strstr(text, "\nbraid_failed_operations_total{job=\"0badcafe\",rank=\"1\"} 1001\n"));
    assert_non_null(strstr(
        text, "\nbraid_rail_up{job=\"0badcafe\",rank=\"0\",peer=\"1\",rail=\"0\",level=\"1\","
              "device=\"odd:a\\\\b\\\"c\\nd\"} 3000\n"));
    assert_non_null(
        strstr(text, "\nbraid_peer_queued_high{job=\"0badcafe\",rank=\"1\",peer=\"0\"} 2100\n"));
    assert_non_null(strstr(text, "# TYPE braid_rail_min_rtt_seconds gauge\n"));
    assert_non_null(strstr(text, "# TYPE braid_busy_seconds_total counter\n"));
    assert_non_null(strstr(
        text, "\nbraid_peer_ready_wait_seconds_total{job=\"0badcafe\",rank=\"0\",peer=\"1\"} "
              "0.000002005\n"));
    free(text);
}

/* ---- one definition -------------------------------------------------------------------------- */

/* doc/stats.md has a row for each counter, in the words of the table. */
static void counters__are_in_the_documentation(void **state)
{
    const char *source = getenv("BRAID_SOURCE");
    char path[512], row[400], *doc = calloc(1, 1 << 20);
    FILE *file;

    (void)state;
    if (!source)
        skip();
    snprintf(path, sizeof path, "%s/doc/stats.md", source);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_true(fread(doc, 1, (1 << 20) - 1, file) > 1000);
    fclose(file);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const struct br_counter *c = tables[i].counters; c->name; c++) {
            snprintf(row, sizeof row, "| `%s` | %s | %s |\n", c->name,
                     c->gauge ? "gauge" : "counter", c->help);
            if (!strstr(doc, row))
                fail_msg("doc/stats.md lacks: %s", row);
        }
    free(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json__round_trip),   cmocka_unit_test(parse__other_texts),
        cmocka_unit_test(socket__names),      cmocka_unit_test(prometheus__is_by_the_rules),
        cmocka_unit_test(prometheus__values), cmocka_unit_test(counters__are_in_the_documentation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
