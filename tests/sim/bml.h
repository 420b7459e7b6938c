/* SPDX-License-Identifier: BSD-3-Clause */
/* Allreduces in a simulated BCube of any size: the engine and the protocol as they are, in virtual
 * time, with neighbours linked only. */
#ifndef BR_TESTS_SIM_BML_H
#define BR_TESTS_SIM_BML_H

#include <stdint.h>

#include "bcube/disjoint_trees.h"
#include "exact.h"

#define BML_LAYERS 32

struct bml_plan {
    uint32_t n, k;
    uint64_t bits_per_second; /* of each NIC */
    /* operations, all at once: the last one first, the first one the most urgent */
    uint32_t n_layers;
    uint32_t layers[BML_LAYERS]; /* float32 of each */
    const char *algorithm;
    uint32_t chunk_bytes; /* of a fragment (engine.h) */
    uint32_t eager_bytes;
    const struct br_disjoint_trees *trees; /* for the algorithm of this name */
};

struct bml_result {
    double seconds;  /* virtual, from the first rank's start to the last one's end */
    double one_link; /* T_F: to send all of a rank's numbers once over one link */
    double theory;   /* 2(N-1)/(kN) T_F */
    uint64_t frames, payload_bytes;
    char wrong[EXACT_TEXT]; /* "": all results are right */
};

void bml_run(const struct bml_plan *plan, struct bml_result *result);

#endif
