/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log: one line a fact, on stderr, with the rank in front. BRAID_LOG=error|warn|info|debug chooses the
 * level (default warn). Thread-safe; never called per frame.
 */
#ifndef BR_BASE_LOG_H
#define BR_BASE_LOG_H

#include <stdbool.h>

enum br_log_level { BR_LOG_ERROR, BR_LOG_WARN, BR_LOG_INFO, BR_LOG_DEBUG };

/* Sets the rank that stands in front of each line; -1: none yet. In sim many ranks share a process: stays -1.
 */
void br_log_set_rank(int rank);
bool br_log_enabled(enum br_log_level level);
/* Overrides BRAID_LOG. */
void br_log_set_level(enum br_log_level level);
void br_log(enum br_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define br_log_error(...) br_log(BR_LOG_ERROR, __VA_ARGS__)
#define br_log_warn(...)  br_log(BR_LOG_WARN, __VA_ARGS__)
#define br_log_info(...)  br_log(BR_LOG_INFO, __VA_ARGS__)
#define br_log_debug(...)                                                                                    \
    do {                                                                                                     \
        if (br_log_enabled(BR_LOG_DEBUG))                                                                    \
            br_log(BR_LOG_DEBUG, __VA_ARGS__);                                                               \
    } while (0)

#endif
