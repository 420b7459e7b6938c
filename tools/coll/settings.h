/* SPDX-License-Identifier: BSD-3-Clause */
/* What the user asked of `braid allreduce` and its sisters: nccl-tests' options and braid's own. */
#ifndef BR_TOOLS_COLL_SETTINGS_H
#define BR_TOOLS_COLL_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/common/coll_table.h"

enum br_average { BR_AVERAGE_RANK0, BR_AVERAGE_MEAN, BR_AVERAGE_MIN, BR_AVERAGE_MAX };

struct br_coll_settings {
    const struct br_coll *kind;
    int64_t min_bytes, max_bytes, step_bytes, step_factor; /* factor 1: steps of step_bytes */
    int64_t iterations, warmup, checks;
    int64_t average; /* enum br_average: which rank's time counts */
    enum braid_type types[BRAID_TYPES];
    enum braid_reduction reductions[BRAID_REDUCTIONS];
    int type_count, reduction_count;
    int root;        /* -1: all in turn */
    int64_t depth;   /* calls under way at once; 1: each blocks */
    int64_t barrier; /* 1: a barrier after each call */
    int64_t timeout; /* of one call in s; 0: the library's */
    int64_t priority, rails, slice_bytes, seed;
    /* NULL: default, except memory: "alloc" or "malloc" */
    const char *algorithm, *backend, *memory, *json;
};

/* argv as the tool got it; argv[0] names the collective. 0; 1: help was wanted and is printed to
 * stdout; -EINVAL with a message. The root is checked against the number of ranks later, by who
 * knows it. */
int br_coll_settings_parse(struct br_coll_settings *settings, int argc, char **argv);

#endif
