/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/downgrade.h"

struct br_downgrades br_downgrades;

#define LINE_BYTES  1024 /* one write(2) of this size stays whole in a pipe (PIPE_BUF is 4096) */
#define LEVEL_UNSET (-1)
#define LIMIT_TIME  60000000000ull /* ns, of struct br_log_limit */

static const char *const level_names[] = {"error", "warn", "info", "debug"};
static atomic_int level_now = LEVEL_UNSET;
static atomic_int rank_now = -1;

void br_log_set_rank(int rank)
{
    atomic_store_explicit(&rank_now, rank, memory_order_relaxed);
}

void br_log_set_level(enum br_log_level level)
{
    atomic_store_explicit(&level_now, (int)level, memory_order_relaxed);
}

/* The level that BRAID_LOG names; a wrong word must not make the log fall silent, so it says so and
 * stays at warn. */
static int level_from_environment(void)
{
    const char *text = getenv("BRAID_LOG");

    if (!text || !*text)
        return BR_LOG_WARN;
    for (int i = BR_LOG_ERROR; i <= BR_LOG_DEBUG; i++)
        if (strcmp(text, level_names[i]) == 0)
            return i;
    fprintf(stderr, "braid warn: BRAID_LOG=%.40s is none of error, warn, info, debug; using warn\n",
            text);
    return BR_LOG_WARN;
}

bool br_log_enabled(enum br_log_level level)
{
    int limit = atomic_load_explicit(&level_now, memory_order_relaxed);

    if (limit == LEVEL_UNSET) {
        int unset = LEVEL_UNSET;

        limit = level_from_environment();
        /* Two threads may both get here; a level set meanwhile by br_log_set_level() wins. */
        if (!atomic_compare_exchange_strong(&level_now, &unset, limit))
            limit = unset;
    }
    return (int)level <= limit;
}

/* Adds to the line what fits and returns the new length, at most LINE_BYTES - 1. */
static size_t log_append(char *line, size_t at, const char *format, va_list args)
{
    int n = vsnprintf(line + at, LINE_BYTES - at, format, args);

    if (n < 0)
        return at;
    return at + (size_t)n < LINE_BYTES ? at + (size_t)n : LINE_BYTES - 1;
}

static void write_line(enum br_log_level level, const char *format, va_list args)
{
    char line[LINE_BYTES];
    int rank = atomic_load_explicit(&rank_now, memory_order_relaxed);
    size_t length;

    if (rank >= 0)
        length = (size_t)snprintf(line, sizeof line, "braid[%d] %s: ", rank, level_names[level]);
    else
        length = (size_t)snprintf(line, sizeof line, "braid %s: ", level_names[level]);
    length = log_append(line, length, format, args);
    if (length == LINE_BYTES - 1)
        length--; /* the line was cut; the newline replaces its last byte */
    line[length++] = '\n';
    /* One write, so that lines of threads and ranks do not mix. There is nobody to tell when stderr
     * is gone. */
    if (write(STDERR_FILENO, line, length) < 0)
        return;
}

void br_log(enum br_log_level level, const char *format, ...)
{
    va_list args;

    if (!br_log_enabled(level))
        return;
    va_start(args, format);
    write_line(level, format, args);
    va_end(args);
}

void br_log_limited(struct br_log_limit *limit, uint64_t now, enum br_log_level level,
                    const char *format, ...)
{
    va_list args;

    if (!br_log_enabled(level))
        return;
    if (!limit->lines || now - limit->since >= LIMIT_TIME) {
        if (limit->left_out)
            br_log(level, "%llu lines like the next one were left out",
                   (unsigned long long)limit->left_out);
        *limit = (struct br_log_limit){.since = now};
    }
    if (limit->lines >= BR_LOG_LIMIT_LINES) {
        limit->left_out++;
        return;
    }
    limit->lines++;
    va_start(args, format);
    write_line(level, format, args);
    va_end(args);
    if (limit->lines == BR_LOG_LIMIT_LINES)
        br_log(level, "further lines like this one are only counted for a minute");
}

void br_log_limit_end(struct br_log_limit *limit, const char *what)
{
    if (limit->left_out)
        br_log_warn("%llu more lines were left out: %s", (unsigned long long)limit->left_out, what);
    *limit = (struct br_log_limit){0};
}
