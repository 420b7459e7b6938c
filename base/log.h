/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log: one line a fact, on stderr, with the rank in front. BRAID_LOG=error|warn|info|debug
 * chooses the level (default warn). Thread-safe; never called per frame.
 */
#ifndef BR_BASE_LOG_H
#define BR_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum br_log_level { BR_LOG_ERROR, BR_LOG_WARN, BR_LOG_INFO, BR_LOG_DEBUG };

/* Sets the rank that stands in front of each line; -1: none yet. In sim many ranks share a process:
 * stays -1. */
void br_log_set_rank(int rank);
bool br_log_enabled(enum br_log_level level);
/* Overrides BRAID_LOG. */
void br_log_set_level(enum br_log_level level);
void br_log(enum br_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Lines that somebody else can cause, such as an unauthenticated peer that connects again and
 * again: at most BR_LOG_LIMIT_LINES of them a minute are written, the others are counted. All zero
 * to begin with. Not thread-safe: each limit belongs to one thread at a time.
 */
#define BR_LOG_LIMIT_LINES 8
struct br_log_limit {
    uint64_t since; /* ns: when the current minute began */
    uint32_t lines; /* written in it */
    uint64_t left_out;
};

/* Like br_log(), within the limit. The first line after a minute with lines left out is preceded by
 * their number. now: ns of any clock that does not go back. */
void br_log_limited(struct br_log_limit *limit, uint64_t now, enum br_log_level level,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Says at level warn how many lines have been left out and not yet been counted in words, if any;
 * `what` names them. */
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
