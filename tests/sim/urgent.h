/* SPDX-License-Identifier: BSD-3-Clause */
/* How long a small urgent all-reduce takes while large ones are under way, and what that costs the
 * large ones: the engine and the protocol as they are, in virtual time, over a switch. */
#ifndef BR_TESTS_SIM_URGENT_H
#define BR_TESTS_SIM_URGENT_H

#include <stdbool.h>
#include <stdint.h>

#include "exact.h"

#define URGENT_MOST 64

struct urgent_plan {
    uint32_t n;                           /* ranks */
    uint64_t bits_per_second, latency_ns; /* of a NIC; of a cable, of which a path has two */
    bool early_sent;         /* as a byte stream: SENT says only that the memory is free */
    uint32_t large, n_large; /* bytes of a large one; so many, one after the other; 0: none */
    uint32_t small, n_small; /* bytes of an urgent one; so many; 0: none */
    uint64_t pace_ns;        /* from one urgent one to the next */
    const char *algorithm;   /* of the large ones */
};

struct urgent_result {
    uint32_t n_small;
    double small_us[URGENT_MOST]; /* in order: from the submission to the end of the last rank */
    double large_ms;              /* all of the large ones */
    char wrong[EXACT_TEXT];       /* "": all results are right */
};

void urgent_run(const struct urgent_plan *plan, struct urgent_result *result);

#endif
