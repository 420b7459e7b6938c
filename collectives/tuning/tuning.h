/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tuning: chooses the cheapest configuration for a collective by the cost model. All ranks choose
 * the same if their models are the same to the bit. Pure; thread-safe. A choice takes microseconds
 * to a millisecond, so the caller keeps the result.
 */
#ifndef BR_COLLECTIVES_TUNING_TUNING_H
#define BR_COLLECTIVES_TUNING_TUNING_H

#include "collectives/tuning/cost.h"
#include "collectives/tuning/algorithm_config.h"

/* An all-reduce of large messages in a BCube is cut into at least so many fragments, and one that
 * has just so many runs all of them at once, as the last one alone would wait in each step for the
 * slowest flow of a NIC. Measured: doc/design/engine.md, note 1. */
#define BR_CUBE_FRAGMENTS 4u

struct br_tuning {
    struct br_algorithm_config config;
    uint32_t fragments; /* at least 1 */
    bool packed;        /* br_schedule_request.packed */
    /* by which br_fragment_count cuts into so many (packed: what is not packed); 0: the model does
     * not say how the engine cuts */
    size_t chunk_bytes;
    double seconds; /* by the model's own cut, also where BR_CUBE_FRAGMENTS are made */
};

/* Chooses for blocks of `bytes` bytes. Returns 0, or -EINVAL with a message: the model is bad, or n
 * is 0. */
int br_tuning_choose(const struct br_cost_model *model, enum br_collective collective, uint32_t n,
                     double bytes, struct br_tuning *tuning);

/* Decides the methods that a configuration leaves undecided, and estimates it. Returns 0, or
 * -EINVAL with a message: it does not serve this collective. */
int br_tuning_choose_methods(const struct br_cost_model *model, enum br_collective collective,
                             uint32_t n, double bytes, struct br_algorithm_config *config,
                             struct br_tuning *tuning);

/* The same for all configurations that serve the collective, the cheapest first. Returns how many
 * there are, or -EINVAL. */
int br_tuning_choose_all(const struct br_cost_model *model, enum br_collective collective,
                         uint32_t n, double bytes, struct br_tuning tunings[BR_ALGORITHM_CONFIGS]);

/* Writes what bounds the time of a choice: "latency bound", "bandwidth bound on level 1", ...
 * Returns 0, or -EINVAL with a message. */
#define BR_TUNING_TEXT 80
int br_tuning_explain(const struct br_cost_model *model, enum br_collective collective, uint32_t n,
                      double bytes, const struct br_tuning *tuning, char text[BR_TUNING_TEXT]);

#endif
