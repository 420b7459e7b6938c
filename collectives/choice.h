/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice: the cheapest way to do a collective by the cost model. All ranks choose the same if their models are the same to
 * the bit. Pure; thread-safe. Microseconds to a millisecond: the caller keeps the result.
 */
#ifndef BR_COLLECTIVES_CHOICE_H
#define BR_COLLECTIVES_CHOICE_H

#include "collectives/cost.h"
#include "collectives/way.h"

struct br_choice {
    struct br_way way;
    uint32_t fragments; /* at least 1 */
    /* by which br_fragment_count cuts into so many; 0: the model does not say how the engine cuts */
    size_t chunk_bytes;
    double seconds;
};

/* Chooses for blocks of `bytes` bytes. -EINVAL with words: a bad model, or n is 0. */
int br_choose(const struct br_cost_model *model, enum br_collective collective, uint32_t n, double bytes,
              struct br_choice *choice);

/* Decides the methods that a way leaves open, and says what it then takes. -EINVAL with words: it does not serve this
 * collective. */
int br_choose_methods(const struct br_cost_model *model, enum br_collective collective, uint32_t n,
                      double bytes, struct br_way *way, struct br_choice *choice);

/* The same for all ways that serve the collective, the cheapest first. Returns how many, or -EINVAL. */
int br_choose_all(const struct br_cost_model *model, enum br_collective collective, uint32_t n, double bytes,
                  struct br_choice choices[BR_WAYS_MAX]);

/* Why a choice takes as long as it does, in words: "latency bound", "bandwidth bound on level 1", ... */
#define BR_CHOICE_WORDS 80
int br_choice_explain(const struct br_cost_model *model, enum br_collective collective, uint32_t n,
                      double bytes, const struct br_choice *choice, char words[BR_CHOICE_WORDS]);

#endif
