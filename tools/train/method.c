/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/train/method.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* The iteration from which on the rate drops for the i-th time, i = 0, 1. */
static uint64_t method_drop(const struct br_train_settings *s, int i)
{
    return (uint64_t)(s->iterations * (i ? 85 : 60) / 100);
}

float br_train_rate(const struct br_train_settings *s, uint64_t iteration)
{
    float rate = s->rate;

    for (int i = 0; i < 2; i++)
        if (iteration >= method_drop(s, i))
            rate *= BR_TRAIN_DROP;
    return rate;
}

/* ---- weights of one's own -------------------------------------------------------------------- */

static int get_weights(struct br_train *t)
{
    for (int l = 0; l < BR_TRAIN_LAYERS; l++) {
        size_t count = t->network.layers[l].count;

        t->weights[l] = calloc(count, sizeof(float));
        t->velocities[l] = calloc(count, sizeof(float));
        if (!t->weights[l] || !t->velocities[l])
            return br_error(ENOMEM, "no memory for %zu weights", count);
        br_train_network_draw(&t->network, l, (uint64_t)t->settings->seed, t->weights[l]);
    }
    return 0;
}

static void forget_weights(struct br_train *t)
{
    for (int l = 0; l < BR_TRAIN_LAYERS; l++) {
        free(t->weights[l]);
        free(t->velocities[l]);
    }
}

static float *own_weight(struct br_train *t, int layer)
{
    return t->weights[layer];
}

/* By the sum of all ranks' gradients of the iteration before; in the first there is none. */
static void method_update(struct br_train *t, int layer, const float *sum)
{
    struct br_update_sgd sgd = {0, BR_TRAIN_MOMENTUM, BR_TRAIN_DECAY};

    if (!t->iteration)
        return;
    sgd.rate = br_train_rate(t->settings, t->iteration - 1);
    br_update_sgd(&sgd, t->weights[layer], t->velocities[layer], sum, 1.0f / (float)t->ranks,
                  t->network.layers[layer].count);
}

/* ---- a gradient session ---------------------------------------------------------------------- */

static int session_open(struct br_train *t)
{
    struct braid_session_options options = {.policy = t->settings->policy,
                                            .algorithm = t->settings->algorithm};
    struct braid_layer layers[BR_TRAIN_LAYERS] = {0};
    int rc = get_weights(t);

    for (int l = 0; l < BR_TRAIN_LAYERS; l++)
        layers[l].count = t->network.layers[l].count;
    return rc ? rc : braid_session_create(t->comm, layers, BR_TRAIN_LAYERS, &options, &t->session);
}

static int session_wait(struct br_train *t, int layer)
{
    int rc = braid_gradient_wait(t->session, layer);

    if (!rc)
        method_update(t, layer, braid_gradient(t->session, layer));
    return rc;
}

static float *session_gradient(struct br_train *t, int layer)
{
    return braid_gradient(t->session, layer);
}

static int session_ready(struct br_train *t, int layer)
{
    return braid_gradient_ready(t->session, layer);
}

static int session_step(struct br_train *t)
{
    return braid_session_step(t->session);
}

static int session_finish(struct br_train *t)
{
    int rc = 0;

    for (int l = 0; l < BR_TRAIN_LAYERS && !rc; l++)
        rc = session_wait(t, l);
    return rc;
}

static int session_close(struct br_train *t)
{
    int rc = braid_session_free(t->session);

    forget_weights(t);
    return rc;
}

const struct br_train_method br_train_session = {
    .open = session_open,
    .weight = own_weight,
    .wait = session_wait,
    .gradient = session_gradient,
    .ready = session_ready,
    .step = session_step,
    .finish = session_finish,
    .close = session_close,
};

/* ---- parameter servers ----------------------------------------------------------------------- */

static int servers_open(struct br_train *t)
{
    const struct br_train_settings *s = t->settings;
    struct braid_parameters_options options = {
        .method = s->servers,
        .local = s->local,
        .rate = s->rate,
        .momentum = BR_TRAIN_MOMENTUM,
        .decay = BR_TRAIN_DECAY,
        .drops = {method_drop(s, 0), method_drop(s, 1)},
        .drop = BR_TRAIN_DROP,
        .warmup = s->warmup ? (int)s->warmup : -1,
        .steps = (int)s->steps,
        .slice_bytes = (uint32_t)s->slice,
    };
    struct braid_parameter_layer layers[BR_TRAIN_LAYERS];
    int ranks[1024], rc = get_weights(t);

    if (s->count > t->ranks)
        return br_error(EINVAL, "--count %d: there are %d ranks", (int)s->count, t->ranks);
    for (int i = 0; i < s->count && i < 1024; i++)
        ranks[i] = i;
    options.servers = s->count ? ranks : NULL;
    options.n_servers = (int)s->count;
    for (int l = 0; l < BR_TRAIN_LAYERS; l++)
        layers[l] = (struct braid_parameter_layer){t->network.layers[l].count, t->weights[l]};
    if (!rc)
        rc = braid_parameters_create(t->comm, layers, BR_TRAIN_LAYERS, &options, &t->parameters);
    return rc;
}

static float *servers_weight(struct br_train *t, int layer)
{
    return braid_parameters_weight(t->parameters, layer);
}

static int servers_wait(struct br_train *t, int layer)
{
    return braid_parameters_wait(t->parameters, layer);
}

static float *servers_gradient(struct br_train *t, int layer)
{
    return braid_parameters_gradient(t->parameters, layer);
}

static int servers_ready(struct br_train *t, int layer)
{
    return braid_parameters_push(t->parameters, layer);
}

static int method_nothing(struct br_train *t)
{
    (void)t;
    return 0;
}

static int servers_finish(struct br_train *t)
{
    return braid_parameters_sync(t->parameters);
}

static int servers_close(struct br_train *t)
{
    int rc = braid_parameters_free(t->parameters);

    forget_weights(t);
    return rc;
}

const struct br_train_method br_train_servers = {
    .open = servers_open,
    .weight = servers_weight,
    .wait = servers_wait,
    .gradient = servers_gradient,
    .ready = servers_ready,
    .step = method_nothing,
    .finish = servers_finish,
    .close = servers_close,
};
