/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parameter servers: the weights of a network live on servers, workers push gradients and pull
 * weights. Every rank of the communicator is a worker; some or all of them are servers too, each of
 * an equal share of the weights.
 *
 *     braid_parameters_create(comm, layers, n, &options, &parameters);
 *     for (;;) {
 *         for (int l = 0; l < n; l++) {
 *             braid_parameters_wait(parameters, l);
 *             forward(l, braid_parameters_weight(parameters, l));
 *         }
 *         for (int l = n - 1; l >= 0; l--) {
 *             backward(l, braid_parameters_gradient(parameters, l));
 *             braid_parameters_push(parameters, l);
 *         }
 *     }
 *     braid_parameters_sync(parameters);       the same weights everywhere: to look at, or to save
 *     braid_parameters_free(parameters);
 *
 * Methods. t counts the iterations from 0, g is a worker's gradient, G the mean of all workers'
 * gradients, summed in the order of the ranks; k is `steps`. The servers do momentum SGD with
 * weight decay:
 *
 *     d = G + decay * w;  velocity = momentum * velocity + d;  w = w - rate * velocity
 *
 *   ssgd   each iteration uses the weights that the servers made of all gradients of the one before
 *   asgd   a server applies each worker's g / ranks as it comes and answers with the weights as
 * they are then. No two runs are the same ssd    SSD-SGD: as ssgd for `warmup` iterations. Then
 * gradients are pushed in every iteration and weights pulled in every k-th, and the pull has the
 * whole next iteration to arrive. Behind the warm-up a worker moves its own weights w' in every
 * iteration by GLU (global gradient for local update), Algorithm 2 of the paper (arXiv:2012.05396,
 * section 3.3), with a = own, b = sync and loc_lr = local_rate * rate: grad_sync = (pre_weight -
 * w') * (1 - momentum) / (rate * k) w' = w' - local_rate * rate * (own * g + decay * w' + sync *
 * grad_sync) w' are the worker's weights at that moment, the last pull's in the first of the k
 * local updates behind it. pre_weight are the weights of the pull before that one, the same on all
 * workers for these k updates. Until the first delayed pull, and behind braid_parameters_sync(), it
 * is what w' began with, so that grad_sync begins at 0 local  local SGD: as ssgd for `warmup`
 * iterations; then each worker does momentum SGD for itself, and every k iterations its weights
 *          become the mean of all workers'
 *
 * The same bits in every run but with asgd, on any processor: every formula is rounded to float32
 * after each operation, in the order written.
 *
 * Urgency. Pushes and pulls travel in slices, those of the layers that the next forward pass needs
 * first overtake the others, and are served first by the servers (P3). ssd behind its warm-up:
 * pulls and the pushes that they are made of go ahead of other pushes.
 *
 * Threads. One thread at a time uses a struct braid_parameters. A thread of its own serves the
 * weights and does the local updates while the program computes. Create, sync and free are
 * collective calls; all ranks do as many iterations.
 *
 * Errors are those of braid.h; after one that is not -EINVAL only braid_parameters_free() makes
 * sense.
 */
#ifndef BRAID_PARAMETERS_H
#define BRAID_PARAMETERS_H

#include <braid/braid.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BRAID_PARAMETERS_DROPS 4 /* at most */

struct braid_parameters;

/* A layer of the network, float32. Layers count from 0 in the order of the forward pass. */
struct braid_parameter_layer {
    size_t count; /* elements, at least 1; the same on all ranks */
    /* Its first weights, in memory of the host or of a GPU: read on rank 0 only, in
     * braid_parameters_create(). NULL: zeros. */
    const float *initial;
};

/* Zero-initialise, then set what differs; all of it the same on all ranks. */
struct braid_parameters_options {
    size_t struct_size; /* sizeof, or 0: as of version 1.0 (braid.h) */
    const char *method; /* ssgd | asgd | ssd | local; NULL: ssgd */
    /* ssd, the local update: glu | sgd (own is 1, sync 0); NULL: glu */
    const char *local;
    float rate, momentum, decay; /* rate: default 0.01; the others 0 */
    /* iterations from which on the rate is `drop` times what it was before; 0: none */
    uint64_t drops[BRAID_PARAMETERS_DROPS];
    float drop; /* default 0.1 */
    int warmup; /* ssd, local: iterations of ssgd first; default 500, negative: none */
    /* ssd, local: k; 0: by the paper's time model, or what the links need if longer, from times of
     * the warm-up, 1 to 4 */
    int steps;
    /* GLU: a, b, loc_lr / rate; all 0: 2, 0.5 and 4, which the paper found best. sgd: local_rate 0
     * is 0.25, as in the paper's comparison */
    float own, sync, local_rate;
    const int *servers; /* ranks, each once; NULL: all */
    int n_servers;
    /* of a push or pull at most; default 200,000. At least a little over twice BRAID_EAGER_BYTES,
     * as nothing overtakes a smaller message that has left; larger, too, where a rank could not
     * have so many large receives posted at once (doc/limits.md) */
    uint32_t slice_bytes;
    int32_t priority; /* of the least urgent messages; default 0 */
    /* 1: pushes and pulls leave in the order in which they come, whatever their layer; to compare
     * with */
    int in_order;
    /* made before, by parameters whose state goes on here: warm-up, drops and pulls count on from
     * there. Weights are `initial`, velocities those of braid_parameters_set_velocity(). ssd and
     * local then want `steps` */
    uint64_t iterations;
};

/* Collective; blocks until all ranks have called it. On return all ranks have rank 0's weights.
 * -EINVAL; -EPROTO: the ranks' layers or options differ; -ENOMEM; -EAGAIN, a thread cannot be
 * started. */
int braid_parameters_create(struct braid_comm *comm, const struct braid_parameter_layer *layers,
                            int n, const struct braid_parameters_options *options,
                            struct braid_parameters **parameters);

/* The layer's weights as this worker computes with them. Read by the program from
 * braid_parameters_wait() to braid_parameters_push(); never written. The pointer stays the same.
 * NULL: there is no such layer. */
float *braid_parameters_weight(struct braid_parameters *parameters, int layer);

/*
 * Where the backward pass is to leave the layer's gradient of this iteration, the mean over this
 * worker's batch; returns when no push reads it any more. ssd: two places take turns, so that a
 * push has until the gradient after next; else the pointer stays the same. NULL with a message: no
 * such layer, or it failed.
 */
float *braid_parameters_gradient(struct braid_parameters *parameters, int layer);

/* Returns when the layer's weights are those of the next forward pass. */
int braid_parameters_wait(struct braid_parameters *parameters, int layer);

/*
 * The gradient is written, and the layer's weights are not needed any more in this iteration. Each
 * layer once an iteration, from the last one to layer 0, with ssd behind
 * braid_parameters_gradient() in this iteration; -EINVAL with a message otherwise. Does not wait,
 * but the first push behind a warm-up: there the ranks put their times together.
 */
int braid_parameters_push(struct braid_parameters *parameters, int layer);

/* Between two iterations, collective, blocks: all pushes reach the servers, and all workers'
 * weights become the servers' (local: the mean). A pull that was under way is dropped. */
int braid_parameters_sync(struct braid_parameters *parameters);

/*
 * Rate, momentum and decay of a layer, in place of the options', from its next push on; the
 * options' drops count as before. The same on all ranks, in the same iteration; they may
 * change in every iteration. With asgd a server takes what its own rank has said last. rate 0:
 * the weights stay, the velocity goes on. -EINVAL: negative numbers, momentum of 1 or more.
 */
int braid_parameters_set_rate(struct braid_parameters *parameters, int layer, float rate,
                              float momentum, float decay);

/* What a program saves beside the weights of braid_parameters_sync(): the layer's velocity, `count`
 * elements in memory of the host, on all ranks; local behind its warm-up: the mean of the workers'.
 * Collective, between two iterations, blocks. Training goes on as without it: a pull that is under
 * way stays so. */
int braid_parameters_velocity(struct braid_parameters *parameters, int layer, float *velocity);

/* And gives back: before the first push, the same on all ranks. Velocities are 0 without it. asgd:
 * collective, blocks, as a server moves when the first rank has pushed. */
int braid_parameters_set_velocity(struct braid_parameters *parameters, int layer,
                                  const float *velocity);

/* Zero-initialise. */
struct braid_parameters_report {
    size_t struct_size;        /* sizeof, or 0: as of version 1.0 (braid.h) */
    uint64_t iterations;       /* those of the options included */
    int steps;                 /* k in use; 0: not chosen yet */
    int slices, served_slices; /* in all; on this rank as a server */
    double wait; /* s that braid_parameters_wait() and _gradient() took, all iterations */
    /* s an iteration in the warm-up: the time model's, the slowest rank's; 0: not measured */
    double forward, backward, local, communication, push, last_backward;
    double predicted[6]; /* s an iteration: ssgd, then ssd with k = 1 to 5; 0: not measured */
};

int braid_parameters_report(struct braid_parameters *parameters,
                            struct braid_parameters_report *report);

/* Collective; between two iterations. Waits for what is under way, and frees; before
 * braid_finalize(). NULL is allowed. After a failure, or amidst an iteration (-EINVAL), it waits
 * for nobody and aborts the communicator. A rank that has begun an iteration in which another one
 * has no part any more fails with -ECONNRESET, and so does the other's free (-ECANCELED). Returns
 * the first error. */
int braid_parameters_free(struct braid_parameters *parameters);

#ifdef __cplusplus
}
#endif

#endif
