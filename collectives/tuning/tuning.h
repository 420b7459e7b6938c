/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice: the cheapest way to do a collective by the cost model. All ranks choose the same if
 * their models are the same to the bit. Pure; thread-safe. Microseconds to a millisecond: the
 * caller keeps the result.
 */
#ifndef BR_COLLECTIVES_TUNING_TUNING_H
#define BR_COLLECTIVES_TUNING_TUNING_H

#include "collectives/tuning/cost.h"
#include "collectives/tuning/algorithm_config.h"

struct br_tuning {
    struct br_algorithm_config config;
    uint32_t fragments; /* at least 1 */
    /* by which br_fragment_count cuts into so many; 0: the model does not say how the engine
     * cuts */
    size_t chunk_bytes;
    double seconds;
};

/* Chooses for blocks of `bytes` bytes. -EINVAL with a message: a bad model, or n is 0. */
int br_tuning_choose(const struct br_cost_model *model, enum br_collective collective, uint32_t n,
                     double bytes, struct br_tuning *tuning);

/* Decides the methods that a way leaves open, and says what it then takes. -EINVAL with a message:
 * it does not serve this collective. */
int br_tuning_choose_methods(const struct br_cost_model *model, enum br_collective collective,
                             uint32_t n, double bytes, struct br_algorithm_config *config,
                             struct br_tuning *tuning);

/* The same for all ways that serve the collective, the cheapest first. Returns how many, or
 * -EINVAL. */
int br_tuning_choose_all(const struct br_cost_model *model, enum br_collective collective,
                         uint32_t n, double bytes, struct br_tuning tunings[BR_ALGORITHM_CONFIGS]);

/* Why a choice takes as long as it does, as text: "latency bound", "bandwidth bound on level 1",
 * ... */
#define BR_TUNING_TEXT 80
int br_tuning_explain(const struct br_cost_model *model, enum br_collective collective, uint32_t n,
                      double bytes, const struct br_tuning *tuning, char text[BR_TUNING_TEXT]);

#endif
