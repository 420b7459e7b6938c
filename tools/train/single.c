/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One process does what N workers and their servers do, one after the other, in plain loops: the
 * reference for the bits of parameter servers (ssgd, ssd), and the quick way to the accuracy of a
 * method.
 *
 * What a worker pulls at the end of iteration t it takes behind its backward pass of t + 1. The
 * servers have seen no gradient of t + 1 by then, because they move their weights when the last
 * worker has pushed: so nothing needs to be kept of what was pulled.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tools/train/method.h"

/* A layer on the servers. */
struct server {
    float *weight, *velocity, *sum, *gradient; /* gradient: of the worker whose turn it is */
};

/* A layer on a worker; ssd only. */
struct worker {
    float *weight, *pre_weight; /* as in training/parameters/update.h */
    float *last_pull;           /* what `weight` began with */
};

struct br_train_single {
    bool delays; /* ssd */
    struct br_update_glu glu;
    float local_rate; /* over the servers' */
    struct server servers[BR_TRAIN_LAYERS];
    struct worker (*workers)[BR_TRAIN_LAYERS]; /* of each rank */
};

static bool has_memory(struct br_train *t, int layer)
{
    struct br_train_single *a = t->single;
    struct server *s = &a->servers[layer];
    size_t count = t->network.layers[layer].count;
    bool fine;

    *s = (struct server){calloc(count, sizeof(float)), calloc(count, sizeof(float)),
                         calloc(count, sizeof(float)), calloc(count, sizeof(float))};
    fine = s->weight && s->velocity && s->sum && s->gradient;
    for (int r = 0; r < t->ranks && a->delays; r++) {
        struct worker *w = &a->workers[r][layer];

        *w = (struct worker){calloc(count, sizeof(float)), calloc(count, sizeof(float)),
                             calloc(count, sizeof(float))};
        fine = fine && w->weight && w->pre_weight && w->last_pull;
    }
    return fine;
}

/* Of a pull as well, from the warm-up's last one on: pre_weight is the one before it. */
static void alone_take(struct br_train *t, int layer, int rank, bool delayed)
{
    struct worker *w = &t->single->workers[rank][layer];
    const float *servers = t->single->servers[layer].weight;
    size_t bytes = t->network.layers[layer].count * sizeof(float);

    memcpy(w->pre_weight, delayed ? w->last_pull : servers, bytes);
    memcpy(w->last_pull, servers, bytes);
    memcpy(w->weight, servers, bytes);
}

static void alone_begin(struct br_train *t, int layer)
{
    struct br_train_single *a = t->single;

    br_train_network_draw(&t->network, layer, (uint64_t)t->settings->seed,
                          a->servers[layer].weight);
    for (int r = 0; r < t->ranks && a->delays; r++)
        alone_take(t, layer, r, false);
}

static int alone_open(struct br_train *t)
{
    const struct br_train_settings *s = t->settings;
    bool plain = s->local && !strcmp(s->local, "sgd"), fine;
    struct br_train_single *a = t->single = calloc(1, sizeof *a);

    fine = a && (a->workers = calloc((size_t)t->ranks, sizeof *a->workers));
    if (a) {
        a->delays = s->servers && !strcmp(s->servers, "ssd");
        a->glu = (struct br_update_glu){
            .own = plain ? 1 : 2, .sync = plain ? 0 : 0.5f, .decay = BR_TRAIN_DECAY};
        a->local_rate = plain ? 0.25f : 4;
    }
    for (int l = 0; l < BR_TRAIN_LAYERS && fine; l++)
        fine = has_memory(t, l);
    if (!fine)
        return br_error(ENOMEM, "no memory for the weights of %d ranks", t->ranks);
    for (int l = 0; l < BR_TRAIN_LAYERS; l++)
        alone_begin(t, l);
    return 0;
}

static float *alone_weight(struct br_train *t, int layer)
{
    struct br_train_single *a = t->single;

    return a->delays ? a->workers[t->rank][layer].weight : a->servers[layer].weight;
}

static float *alone_gradient(struct br_train *t, int layer)
{
    return t->single->servers[layer].gradient;
}

static bool alone_is_delayed(const struct br_train *t, uint64_t iteration)
{
    return iteration >= (uint64_t)t->settings->warmup;
}

static bool alone_pulls(const struct br_train *t, uint64_t iteration)
{
    return !alone_is_delayed(t, iteration) ||
           (iteration - (uint64_t)t->settings->warmup + 1) % (uint64_t)t->settings->steps == 0;
}

/* A worker past the warm-up has its gradient. */
static void alone_move(struct br_train *t, int layer)
{
    struct br_train_single *a = t->single;
    struct worker *w = &a->workers[t->rank][layer];
    float rate = br_train_rate(t->settings, t->iteration);

    if (t->iteration && alone_is_delayed(t, t->iteration - 1) && alone_pulls(t, t->iteration - 1))
        alone_take(t, layer, t->rank, true);
    a->glu.rate = a->local_rate * rate;
    a->glu.factor = (1 - BR_TRAIN_MOMENTUM) / (rate * (float)t->settings->steps);
    br_update_glu(&a->glu, w->weight, a->servers[layer].gradient, w->pre_weight,
                  t->network.layers[layer].count);
}

/* The servers have all gradients of an iteration. */
static void single_apply_round(struct br_train *t, int layer)
{
    struct br_update_sgd sgd = {br_train_rate(t->settings, t->iteration), BR_TRAIN_MOMENTUM,
                                BR_TRAIN_DECAY};
    struct server *s = &t->single->servers[layer];

    br_update_sgd(&sgd, s->weight, s->velocity, s->sum, 1.0f / (float)t->ranks,
                  t->network.layers[layer].count);
    for (int r = 0; r < t->ranks && t->single->delays && !alone_is_delayed(t, t->iteration); r++)
        alone_take(t, layer, r, false);
}

/* The sum in the order of the ranks. */
static int alone_ready(struct br_train *t, int layer)
{
    struct server *s = &t->single->servers[layer];
    size_t count = t->network.layers[layer].count;

    if (!t->rank)
        memcpy(s->sum, s->gradient, count * sizeof *s->sum);
    for (size_t i = 0; i < count && t->rank; i++)
        s->sum[i] = s->sum[i] + s->gradient[i];
    if (t->single->delays && alone_is_delayed(t, t->iteration))
        alone_move(t, layer);
    if (t->rank == t->ranks - 1)
        single_apply_round(t, layer);
    return 0;
}

static int alone_wait(struct br_train *t, int layer)
{
    (void)t;
    (void)layer;
    return 0;
}

static int alone_step(struct br_train *t)
{
    (void)t;
    return 0;
}

/* As braid_parameters_sync(): what counts are the servers' weights. */
static int alone_finish(struct br_train *t)
{
    for (int l = 0; l < BR_TRAIN_LAYERS && t->single->delays; l++)
        memcpy(t->single->workers[0][l].weight, t->single->servers[l].weight,
               t->network.layers[l].count * sizeof(float));
    return 0;
}

static int alone_close(struct br_train *t)
{
    struct br_train_single *a = t->single;

    for (int l = 0; a && l < BR_TRAIN_LAYERS; l++) {
        struct server *s = &a->servers[l];

        free(s->weight), free(s->velocity), free(s->sum), free(s->gradient);
        for (int r = 0; a->workers && r < t->ranks; r++) {
            struct worker *w = &a->workers[r][l];

            free(w->weight), free(w->pre_weight), free(w->last_pull);
        }
    }
    if (a)
        free(a->workers);
    free(a);
    return 0;
}

const struct br_train_method br_train_single = {
    .open = alone_open,
    .weight = alone_weight,
    .wait = alone_wait,
    .gradient = alone_gradient,
    .ready = alone_ready,
    .step = alone_step,
    .finish = alone_finish,
    .close = alone_close,
};
