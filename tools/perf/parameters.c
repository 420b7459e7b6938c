/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perf/parameters.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <braid/braid.h>

#include "base/error.h"

#define MAGIC "braid-perf 1\n"

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

void br_perf_parameters_write(const struct br_perf_settings *s, char text[BR_PERF_TEXT])
{
    const char *backend = s->backend ? s->backend : getenv("BRAID_BACKEND");
    bool counted = !s->duration;

    snprintf(text, BR_PERF_TEXT,
             MAGIC "version %s\ntest %s\nsize %" PRId64 "\nall %d\niterations %" PRId64 "\nduration %" PRId64
                   "\nmargin %" PRId64 "\ninfinitely %d\nbidirectional %d\nvalidation %d\nrails %" PRId64
                   "\nwarm_up %d\natomic %s\nrdma_cm %d\nbackend %.64s\n",
             braid_version(), s->test->name, s->all ? 0 : s->size, s->all, counted ? s->iterations : 0,
             s->duration, s->margin, s->forever, s->bidirectional, s->validates, s->rails, s->warm_up,
             s->swaps ? "CMP_AND_SWAP" : "FETCH_AND_ADD", s->rdma_cm, backend && *backend ? backend : "auto");
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
static bool printable(const char *value, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (value[i] < ' ' || value[i] > '~')
            return false;
    return length > 0 && length < 80;
}

int br_perf_parameters_compare(const char *server, const char *client, char words[BR_PERF_TEXT])
{
    size_t used = 0;

    words[0] = 0;
    if (strncmp(server, MAGIC, sizeof MAGIC - 1) != 0 || strncmp(client, MAGIC, sizeof MAGIC - 1) != 0)
        return br_error(EPROTO, "the other side is no `braid perf` of this kind");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        size_t a = 0, b = 0;
        const char *here = br_perf_parameters_find(server, lines[i].line, &a),
                   *there = br_perf_parameters_find(client, lines[i].line, &b);

        if (!here || !there || !printable(here, a) || !printable(there, b))
            return br_error(EPROTO, "the other side says nothing of its %s", lines[i].option);
        if (a != b || memcmp(here, there, a) != 0)
            used += (size_t)snprintf(words + used, BR_PERF_TEXT - used,
                                     "%s%s: %.*s at the server, %.*s at the client", used ? "; " : "",
                                     lines[i].option, (int)a, here, (int)b, there);
    }
    return used > 0;
}
