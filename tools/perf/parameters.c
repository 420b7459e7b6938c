/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perf/parameters.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <braid/braid.h>

#include "base/error.h"

#define MAGIC "braid-perf 2\n"

/* Names of lines, and what the user calls them; in the order in which differences are told. */
static const struct {
    const char *line, *option;
} lines[] = {
    {"version", "version of braid"},
    {"test", "test"},
    {"size", "-s"},
    {"all", "-a"},
    {"iterations", "-n"},
    {"duration", "-D"},
    {"margin", "-f"},
    {"infinitely", "--run_infinitely"},
    {"bidirectional", "-b"},
    {"validation", "--data_validation"},
    {"rails", "-q"},
    {"warm_up", "--perform_warm_up"},
    {"atomic", "-A"},
    {"rdma_cm", "-R"},
    {"backend", "--backend"},
};

/* NULL: not given. */
static const char *backend_of(const struct br_perf_settings *s)
{
    const char *backend = s->backend ? s->backend : getenv("BRAID_BACKEND");

    return backend && *backend ? backend : NULL;
}

void br_perf_parameters_write(const struct br_perf_settings *s, char text[BR_PERF_TEXT])
{
    const char *backend = backend_of(s);
    bool counted = !s->duration;

    snprintf(text, BR_PERF_TEXT,
             MAGIC "version %s\ntest %s\nsize %" PRId64 "\nall %d\niterations %" PRId64
                   "\nduration %" PRId64 "\nmargin %" PRId64
                   "\ninfinitely %d\nbidirectional %d\nvalidation %d\nrails %" PRId64
                   "\nwarm_up %d\natomic %s\nrdma_cm %d\nbackend %.64s\ntx_depth %" PRId64
                   "\nrx_depth %" PRId64 "\npost_list %" PRId64 "\ncq_mod %" PRId64 "\n",
             braid_version(), s->test->name, s->all ? 0 : s->size, s->all,
             counted ? s->iterations : 0, s->duration, s->margin, s->forever, s->bidirectional,
             s->validates, s->rails, s->warm_up, s->swaps ? "CMP_AND_SWAP" : "FETCH_AND_ADD",
             s->rdma_cm, backend ? backend : "auto", s->depth, s->rx_depth, s->post_list,
             s->moderation);
}

const char *br_perf_parameters_find(const char *text, const char *name, size_t *length)
{
    size_t n = strlen(name);

    for (const char *line = text; line; line = (line = strchr(line, '\n')) ? line + 1 : NULL)
        if (!strncmp(line, name, n) && line[n] == ' ') {
            *length = strcspn(line + n + 1, "\n");
            return line + n + 1;
        }
    return NULL;
}

/* Values come from the network and go to a terminal. */
static bool perf_parameters_printable(const char *value, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (value[i] < ' ' || value[i] > '~')
            return false;
    return length > 0 && length < 80;
}

int br_perf_parameters_compare(const char *server, const char *client, char text[BR_PERF_TEXT])
{
    size_t used = 0;

    text[0] = 0;
    if (strncmp(server, MAGIC, sizeof MAGIC - 1) != 0 ||
        strncmp(client, MAGIC, sizeof MAGIC - 1) != 0)
        return br_error(EPROTO, "the other side is no `braid perf` of this kind");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        size_t a = 0, b = 0;
        const char *here = br_perf_parameters_find(server, lines[i].line, &a),
                   *there = br_perf_parameters_find(client, lines[i].line, &b);

        if (!here || !there || !perf_parameters_printable(here, a) ||
            !perf_parameters_printable(there, b))
            return br_error(EPROTO, "the other side says nothing of its %s", lines[i].option);
        if (a != b || memcmp(here, there, a) != 0)
            used += (size_t)snprintf(
                text + used, BR_PERF_TEXT - used, "%s%s: %.*s at the server, %.*s at the client",
                used ? "; " : "", lines[i].option, (int)a, here, (int)b, there);
    }
    return used > 0;
}

/* ---- the server takes what the client says --------------------------------------------------- */

/* A line that says a whole number from 0 to `most`. */
static int perf_parameters_number(const char *text, const char *name, int64_t most, int64_t *value)
{
    size_t length = 0;
    const char *at = br_perf_parameters_find(text, name, &length);
    char *end = NULL;

    errno = 0;
    *value = at ? strtoll(at, &end, 10) : -1;
    if (!at || !length || end != at + length || errno || *value < 0 || *value > most)
        return br_error(EPROTO, "the other side's %s is no number from 0 to %" PRId64, name, most);
    return 0;
}

struct said {
    int64_t size, all, iterations, duration, margin, forever, bidirectional, validates, rails,
        warm_up, rdma_cm, depth, rx_depth, post_list, moderation;
};

static int perf_parameters_read_all(const char *text, struct said *said)
{
    const struct {
        const char *name;
        int64_t most, *value;
    } numbers[] = {
        {"size", BR_PERF_MAX_BYTES, &said->size},
        {"all", 1, &said->all},
        {"iterations", BR_PERF_MAX_ITERATIONS, &said->iterations},
        {"duration", BR_PERF_MAX_SECONDS, &said->duration},
        {"margin", BR_PERF_MAX_SECONDS / 2, &said->margin},
        {"infinitely", 1, &said->forever},
        {"bidirectional", 1, &said->bidirectional},
        {"validation", 1, &said->validates},
        {"rails", BR_PERF_MAX_QUEUES, &said->rails},
        {"warm_up", 1, &said->warm_up},
        {"rdma_cm", 1, &said->rdma_cm},
        {"tx_depth", BR_PERF_MAX_DEPTH / 2, &said->depth},
        {"rx_depth", BR_PERF_MAX_RX_WINDOW, &said->rx_depth},
        {"post_list", BR_PERF_MAX_DEPTH, &said->post_list},
        {"cq_mod", BR_PERF_MAX_DEPTH, &said->moderation},
    };
    int rc = 0;

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !rc; i++)
        rc = perf_parameters_number(text, numbers[i].name, numbers[i].most, numbers[i].value);
    if (!rc && said->iterations && said->iterations < BR_PERF_MIN_ITERATIONS)
        rc = br_error(EPROTO, "the other side's iterations are fewer than %d",
                      BR_PERF_MIN_ITERATIONS);
    return rc;
}

/* 0 is what the client leaves to a default, which is then the same here. */
static void perf_parameters_take(int64_t *value, int64_t said)
{
    if (*value < 0 && said > 0)
        *value = said;
}

static int64_t perf_parameters_given(int64_t value)
{
    return value > 0 ? value : 0;
}

/* One size or all of them, so many messages or so many seconds: who names the one at the server
 * does not want the other. */
static void take_numbers(const struct said *said, struct br_perf_settings *s)
{
    bool counted = s->iterations >= 0, timed = s->duration > 0 || s->forever;

    if (s->test->verb != BR_PERF_ATOMIC && s->size < 0 && !s->all) {
        s->all = said->all;
        perf_parameters_take(&s->size, said->size);
    }
    if (!counted) {
        perf_parameters_take(&s->duration, said->duration);
        s->forever |= said->forever;
        if (s->margin < 0 && said->duration && !said->forever)
            s->margin = said->margin;
    }
    if (!timed)
        perf_parameters_take(&s->iterations, said->iterations);
    perf_parameters_take(&s->rails, said->rails);
    /* They are bounded by how many messages there are; where the two sides differ in that, it shall
     * be told and nothing else. */
    if (perf_parameters_given(s->iterations) != said->iterations ||
        perf_parameters_given(s->rails) != said->rails)
        return;
    if (!s->test->latency && s->depth < 0 && s->post_list < 0 && s->moderation < 0) {
        perf_parameters_take(&s->depth, said->depth);
        perf_parameters_take(&s->post_list, said->post_list);
        perf_parameters_take(&s->moderation, said->moderation);
    }
    if (s->test->verb == BR_PERF_SEND)
        perf_parameters_take(&s->rx_depth, said->rx_depth);
}

static int perf_parameters_adopt(const char *client, struct br_perf_settings *s)
{
    size_t n = 0, m = 0;
    const char *backend = br_perf_parameters_find(client, "backend", &n),
               *atomic = br_perf_parameters_find(client, "atomic", &m);
    struct said said;
    int rc = perf_parameters_read_all(client, &said);

    if (rc)
        return rc;
    if (!backend || !perf_parameters_printable(backend, n) || n >= sizeof s->adopted || !atomic)
        return br_error(EPROTO, "the other side says nothing of its --backend or -A");
    take_numbers(&said, s);
    s->bidirectional |= said.bidirectional;
    s->validates |= said.validates;
    s->warm_up |= said.warm_up;
    s->rdma_cm |= said.rdma_cm;
    if (!s->atomic)
        s->swaps = m == strlen("CMP_AND_SWAP") && !strncmp(atomic, "CMP_AND_SWAP", m);
    if (!backend_of(s)) {
        snprintf(s->adopted, sizeof s->adopted, "%.*s", (int)n, backend);
        s->backend = s->adopted;
    }
    return 0;
}

int br_perf_parameters_agree(const struct br_perf_settings *asked, const char *client,
                             struct br_perf_settings *agreed, char text[BR_PERF_TEXT])
{
    size_t n = 0;
    const char *test = br_perf_parameters_find(client, "test", &n);
    bool same = test && n == strlen(asked->test->name) && !strncmp(test, asked->test->name, n);
    char ours[BR_PERF_TEXT];
    int rc;

    *agreed = *asked;
    if (strncmp(client, MAGIC, sizeof MAGIC - 1) != 0)
        return br_error(EPROTO, "the other side is no `braid perf` of this kind");
    if (same && (rc = perf_parameters_adopt(client, agreed)))
        return rc;
    if (br_perf_settings_complete(agreed)) {
        snprintf(text, BR_PERF_TEXT, "with what the client says: %.1000s", br_error_message());
        return 1;
    }
    br_perf_parameters_write(agreed, ours);
    return br_perf_parameters_compare(ours, client, text);
}
