/* SPDX-License-Identifier: BSD-3-Clause */
/* What a gradient session (braid/training.h) holds. One thread at a time. */
#ifndef BR_TRAINING_SESSION_SESSION_H
#define BR_TRAINING_SESSION_SESSION_H

#include <braid/training.h>

#include "collectives/tuning/algorithm_config.h"
#include "training/session/group.h"
#include "training/session/profiler.h"
#include "training/session/autotune.h"

/* Where a layer is in its iteration. */
enum br_layer_state {
    BR_LAYER_WRITTEN, /* the program's: not ready yet */
    BR_LAYER_READY,   /* the session's */
    BR_LAYER_DONE     /* the program's again: it has waited for the layer */
};

struct braid_session {
    struct braid_comm *comm;
    /* with defaults; `policy` is not used, `algorithm` is the copy below */
    struct braid_session_options options;
    char algorithm[BR_ALGORITHM_TEXT]; /* "": auto */
    enum br_policy policy;
    uint32_t n;
    size_t element;  /* bytes */
    void *allocated; /* the gradients, if the program left that to us; NULL: it did not */
    struct br_gradient *gradients;
    char **names;     /* [n] of layers; NULL: has none */
    uint8_t *states;  /* [n] enum br_layer_state */
    uint32_t missing; /* layers that are not ready in this iteration; n: it has not begun */
    /* Group that leaves next: from the last one to the first whatever the order in which layers
     * become ready, because the ranks must start their all-reduces in the same order. -1: all are
     * under way. */
    int next;
    int failed; /* negative errno: only freeing makes sense */

    uint8_t *joins; /* [n] the plan, laid out in groups */
    bool urgent;
    struct br_layer_group *groups; /* [n] */
    struct braid_op **ops;         /* [n] of each group; NULL: not under way */
    uint32_t n_groups;
    void *buffer; /* of groups that are copied */
    size_t buffer_bytes;

    struct br_profiler profiler;
    struct br_layer *layers; /* [n] as measured when the plan was made */
    struct br_workload work;
    bool has_cost, is_measured, has_plan; /* a and b; these and `overtake` */
    uint64_t planned_at; /* iteration of the last review, or of the end of the last autotune */
    struct br_autotune autotune;
    uint64_t stepped; /* ns: the last step returned */
    double shortest;  /* s, of the iterations since the last look; 0: none yet */
    /* s of an iteration at the first review after the last autotune; 0: there was none yet */
    double tuned_seconds;
    struct braid_session_report report;
};

/* session.c: lays a plan out (group.h) while no operation is under way. -ENOMEM with a message. */
int br_session_lay_out(struct braid_session *session, const uint8_t *joins, bool urgent);

/* name.c: the layer in words, into text: "3", or "3 (conv1)". Returns text. */
#define BR_LAYER_TEXT 48
const char *br_session_layer(const struct braid_session *session, uint32_t layer,
                             char text[BR_LAYER_TEXT]);

/* name.c: gives each group its title, of the names of its layers. */
void br_session_title(struct braid_session *session);

/* session.c: an iteration can begin: no layer is ready. */
void br_session_begin(struct braid_session *session);

/* replan.c: combines the times of all ranks and plans. Collective; blocks. Errors with a message.
 */
int br_session_replan(struct braid_session *session);

/* replan.c: an iteration in which a plan was tried took so long; lays out the next plan, or at the
 * end the fastest one. Collective; blocks at the end of autotuning. Errors with a message. */
int br_session_try(struct braid_session *session, double seconds);

#endif
