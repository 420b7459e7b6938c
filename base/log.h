/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log: one line for each fact, on stderr, with the rank in front. BRAID_LOG=error|warn|info|
 * debug chooses the level (default warn). From any thread, except for br_log_limited(); not on the
 * data path.
 */
#ifndef BR_BASE_LOG_H
#define BR_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum br_log_level { BR_LOG_ERROR, BR_LOG_WARN, BR_LOG_INFO, BR_LOG_DEBUG };

/* Sets the rank that stands in front of each line; -1: none, as before the rank is known and in the
 * simulator, where many ranks share a process. */
void br_log_set_rank(int rank);

/* Returns whether lines of this level are written. */
bool br_log_enabled(enum br_log_level level);

/* Sets the level; overrides BRAID_LOG. */
void br_log_set_level(enum br_log_level level);

/* Writes one line; what is longer than 1,024 bytes is cut. */
void br_log(enum br_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * A limit for lines that somebody else can cause, such as an unauthenticated peer that connects
 * again and again: at most BR_LOG_LIMIT_LINES of them a minute are written, the others are counted.
 * It starts as all zero. One thread at a time for one limit.
 */
#define BR_LOG_LIMIT_LINES 8
struct br_log_limit {
    uint64_t since; /* ns: when the current minute began */
    uint32_t lines; /* written in it */
    uint64_t left_out;
};

/* Like br_log(), within the limit. Before the first line after a minute with lines left out comes a
 * line with their number. now: ns of any clock that does not go back. */
void br_log_limited(struct br_log_limit *limit, uint64_t now, enum br_log_level level,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Ends the use of a limit: writes at level warn how many lines were left out since the last such
 * line, if any. what: names these lines. The limit is all zero afterwards. */
void br_log_limit_end(struct br_log_limit *limit, const char *what);

#define br_log_error(...) br_log(BR_LOG_ERROR, __VA_ARGS__)
#define br_log_warn(...)  br_log(BR_LOG_WARN, __VA_ARGS__)
#define br_log_info(...)  br_log(BR_LOG_INFO, __VA_ARGS__)
#define br_log_debug(...)                                                                          \
    do {                                                                                           \
        if (br_log_enabled(BR_LOG_DEBUG))                                                          \
            br_log(BR_LOG_DEBUG, __VA_ARGS__);                                                     \
    } while (0)

#endif
