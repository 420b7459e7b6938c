/* SPDX-License-Identifier: BSD-3-Clause */
/* The ways to train of `braid train`: a gradient session, parameter servers, or one process that
 * does the work of all ranks. */
#ifndef BR_TOOLS_TRAIN_METHOD_H
#define BR_TOOLS_TRAIN_METHOD_H

#include <braid/parameters.h>
#include <braid/training.h>

#include "tools/train/network.h"
#include "training/parameters/update.h"

#define BR_TRAIN_MOMENTUM 0.9f
#define BR_TRAIN_DECAY    1e-4f
#define BR_TRAIN_DROP     0.1f /* the rate, after 60 and after 85 % of the iterations */

struct br_train_settings {
    /* policy: of a session; servers: method; both NULL: auto */
    const char *policy, *servers, *local;
    const char *algorithm; /* of a session's all-reduces; NULL: auto */
    int64_t iterations, batch, width, seed, samples, test, steps, warmup, single, device_ms;
    int64_t count, slice; /* of servers; of theirs, bytes */
    float rate;
};

struct br_train {
    const struct br_train_settings *settings;
    struct braid_comm *comm; /* NULL: alone */
    int rank, ranks;         /* alone: that it is at work for, and as many as it stands for */
    struct br_train_network network;
    uint64_t iteration;
    uint64_t device_free; /* ns: when the pretended device is done with what it has */
    const struct br_train_method *method;

    struct braid_session *session;
    struct braid_parameters *parameters;
    /* session; servers: the first weights */
    float *weights[BR_TRAIN_LAYERS], *velocities[BR_TRAIN_LAYERS];
    struct br_train_single *single;
};

/* All but name: negative errno with a message. In an iteration, of each layer: wait, forward pass;
 * gradient, backward pass, ready. */
struct br_train_method {
    int (*open)(struct br_train *train);
    float *(*weight)(struct br_train *train, int layer);
    int (*wait)(struct br_train *train, int layer);
    /* where it is to be written; NULL with a message */
    float *(*gradient)(struct br_train *train, int layer);
    int (*ready)(struct br_train *train, int layer);
    int (*step)(struct br_train *train);   /* between the passes */
    int (*finish)(struct br_train *train); /* all weights are those of the end */
    int (*close)(struct br_train *train);  /* after a failure too */
};

extern const struct br_train_method br_train_session, br_train_servers, br_train_single;

float br_train_rate(const struct br_train_settings *settings, uint64_t iteration);

#endif
