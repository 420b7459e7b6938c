/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker's part: the program's calls of an iteration, and what our thread does with a layer that
 * was handed over. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/process.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/completion.h"
#include "collectives/comm/progress.h"
#include "training/parameters/delay.h"
#include "training/parameters/parameters.h"
#include "training/parameters/update.h"

#define LOOK_AGAIN BR_SEC

/* ---- our thread ------------------------------------------------------------------------------ */

/* 1: all slices of the layer have ended. */
static int reap_layer(struct braid_parameters *p, struct braid_op **ops, uint32_t layer)
{
    for (uint32_t i = p->shards.first[layer]; i < p->shards.first[layer + 1]; i++) {
        int rc = ops[i] ? br_parameters_reap(&ops[i]) : 1;

        if (rc <= 0)
            return rc;
    }
    return 1;
}

static bool is_past_warmup(const struct braid_parameters *p, const struct br_parameters_layer *l)
{
    return l->iteration >= p->warmup;
}

static int post_pull(struct braid_parameters *p, uint32_t layer)
{
    struct br_parameters_layer *l = &p->layers[layer];
    int rc = 0;

    if (p->method == BR_PARAMETERS_SSD && is_past_warmup(p, l)) {
        float *last = l->pulled; /* the k local updates with the pull before it have been made */

        l->pulled = l->pre_weight;
        l->pre_weight = last;
    }
    for (uint32_t i = p->shards.first[layer]; i < p->shards.first[layer + 1] && !rc; i++)
        rc = br_parameters_receive(p, i, true, l->pulled + p->shards.list[i].offset,
                                   p->servers[p->shards.list[i].server], NULL, &p->pulls[i]);
    l->pulling = true;
    return rc;
}

/* Weights have arrived. */
static void parameters_worker_take(struct braid_parameters *p, struct br_parameters_layer *l)
{
    if (l->pulled != l->weight)
        memcpy(l->weight, l->pulled, l->count * sizeof *l->weight);
    l->pulling = false;
    if (is_past_warmup(p, l))
        return;
    if (l->pre_weight) /* the first local updates start with a grad_sync of 0 */
        memcpy(l->pre_weight, l->pulled, l->count * sizeof *l->pre_weight);
    atomic_store(&p->last_pull, br_comm_now(p->comm));
}

static void parameters_worker_update(struct braid_parameters *p, struct br_parameters_layer *l)
{
    const struct braid_parameters_options *o = &p->options;
    struct br_update_sgd sgd = br_parameters_rate(p, (uint32_t)(l - p->layers), l->iteration);
    uint64_t start = br_comm_now(p->comm);

    if (p->method == BR_PARAMETERS_SSD &&
        sgd.rate > 0) /* by 0 nothing moves, and factor has none */
        br_update_glu(&(struct br_update_glu){.rate = o->local_rate * sgd.rate,
                                              .own = o->own,
                                              .sync = o->sync,
                                              .decay = sgd.decay,
                                              .factor = (1 - sgd.momentum) /
                                                        (sgd.rate * (float)atomic_load(&p->steps))},
                      l->weight, l->gradients[l->iteration % 2], l->pre_weight, l->count);
    else if (p->method == BR_PARAMETERS_LOCAL)
        br_update_sgd(&sgd, l->weight, l->velocity, l->gradients[l->iteration % 2], 1, l->count);
    atomic_fetch_add(&p->local_ns, br_comm_now(p->comm) - start);
}

/* A layer that was handed over: what is still under way for it, its own update, and what leaves
 * now. */
static int parameters_worker_begin(struct braid_parameters *p, uint32_t layer)
{
    struct br_parameters_layer *l = &p->layers[layer];
    bool own = is_past_warmup(p, l) &&
               (p->method == BR_PARAMETERS_SSD || p->method == BR_PARAMETERS_LOCAL);
    bool pulls = br_parameters_pulls(p, l->iteration);
    int rc = l->pulling ? reap_layer(p, p->pulls, layer) : 1;

    if (rc <= 0)
        return rc;
    if (l->pulling)
        parameters_worker_take(p, l);
    if (own)
        parameters_worker_update(p, l);
    rc = own && pulls && p->method == BR_PARAMETERS_LOCAL
             ? br_parameters_push_layer(p, layer, l->iteration, l->weight, p->pushes[0])
             : 0;
    if (!rc && pulls)
        rc = post_pull(p, layer);
    atomic_store(&l->state, pulls && !(own && p->method == BR_PARAMETERS_SSD)
                                ? BR_PARAMETERS_PULLING
                                : BR_PARAMETERS_READY);
    return rc ? rc : 1;
}

/* A layer whose pull the next forward pass needs. Local SGD's weights are being pushed as well. */
static int parameters_worker_poll_pull(struct braid_parameters *p, uint32_t layer)
{
    struct br_parameters_layer *l = &p->layers[layer];
    int rc = reap_layer(p, p->pulls, layer);

    if (rc > 0 && p->method == BR_PARAMETERS_LOCAL)
        rc = reap_layer(p, p->pushes[0], layer);
    if (rc <= 0)
        return rc;
    parameters_worker_take(p, l);
    atomic_store(&l->state, BR_PARAMETERS_READY);
    return 1;
}

int br_parameters_work(struct braid_parameters *p)
{
    for (uint32_t l = 0; l < p->n; l++) {
        int state = atomic_load(&p->layers[l].state), rc = 0;

        if (state == BR_PARAMETERS_PUSHED)
            rc = parameters_worker_begin(p, l);
        else if (state == BR_PARAMETERS_PULLING)
            rc = parameters_worker_poll_pull(p, l);
        if (rc)
            return rc;
    }
    return 0;
}

/* ---- the program ----------------------------------------------------------------------------- */

static int parameters_worker_check(const struct braid_parameters *p, const char *name, int layer)
{
    if (!p)
        return br_error(EINVAL, "%s: parameters is NULL", name);
    if (layer < 0 || (uint32_t)layer >= p->n)
        return br_error(EINVAL, "%s: there is no layer %d, there are 0 to %u", name, layer,
                        p->n - 1);
    if (atomic_load(&p->failed))
        return br_error(-p->failed, "%s: %s", name, p->message);
    return br_comm_check(p->comm, name);
}

static bool is_app_owned(struct braid_parameters *p, int layer)
{
    return atomic_load(&p->layers[layer].state) == BR_PARAMETERS_READY &&
           br_parameters_have_room(p, (uint32_t)layer);
}

/* Until the layer is the program's. */
static int wait_app_owned(struct braid_parameters *p, const char *name, int layer)
{
    int rc = br_completion_may_block(name);

    while (!rc && !is_app_owned(p, layer)) {
        uint64_t seen = br_progress_event_count(p->comm->context);

        rc = parameters_worker_check(p, name, layer);
        if (!rc && !is_app_owned(p, layer))
            br_progress_wait_event(p->comm->context, seen, LOOK_AGAIN);
    }
    return rc;
}

/* That may still read where this iteration's gradient goes. */
static int finish_pushes(struct braid_parameters *p, uint32_t layer)
{
    struct braid_op **pushes = p->pushes[p->iteration % 2];
    int rc = 0;

    for (uint32_t i = p->shards.first[layer]; i < p->shards.first[layer + 1]; i++) {
        int failed = pushes[i] ? braid_wait(pushes[i], -1) : 0;

        pushes[i] = NULL;
        rc = rc ? rc : failed;
    }
    if (rc)
        br_parameters_fail(p, rc);
    return rc;
}

int braid_parameters_wait(struct braid_parameters *p, int layer)
{
    BR_DISABLE_CANCELLATION;
    int rc = parameters_worker_check(p, "braid_parameters_wait", layer);
    uint64_t start;

    if (rc)
        return rc;
    start = br_comm_now(p->comm);
    br_profiler_enter(&p->profiler, BR_PROFILER_WAIT, (uint32_t)layer, start);
    rc = wait_app_owned(p, "braid_parameters_wait", layer);
    br_profiler_leave(&p->profiler, br_comm_now(p->comm));
    p->report.wait += (double)(br_comm_now(p->comm) - start) / 1e9;
    return rc;
}

float *braid_parameters_gradient(struct braid_parameters *p, int layer)
{
    BR_DISABLE_CANCELLATION;
    uint64_t start;
    int rc = parameters_worker_check(p, "braid_parameters_gradient", layer);

    if (rc)
        return NULL;
    start = br_comm_now(p->comm);
    if ((uint32_t)layer == p->n - 1) /* between the passes */
        br_profiler_enter(&p->profiler, BR_PROFILER_STEP, 0, start);
    rc = wait_app_owned(p, "braid_parameters_gradient", layer);
    if (!rc)
        rc = finish_pushes(p, (uint32_t)layer);
    if (!rc)
        p->layers[layer].requested = p->iteration + 1;
    if ((uint32_t)layer == p->n - 1)
        br_profiler_leave(&p->profiler, br_comm_now(p->comm));
    p->report.wait += (double)(br_comm_now(p->comm) - start) / 1e9;
    return rc ? NULL : p->layers[layer].gradients[p->iteration % 2];
}

int br_parameters_push_layer(struct braid_parameters *p, uint32_t layer, uint64_t iteration,
                             const float *from, struct braid_op **pushes)
{
    int rc = 0;

    for (uint32_t i = p->shards.first[layer]; i < p->shards.first[layer + 1] && !rc; i++)
        rc = br_parameters_send(p, i, false, iteration, from + p->shards.list[i].offset,
                                p->servers[p->shards.list[i].server], NULL, &pushes[i]);
    return rc;
}

/* The warm-up is over: its times, the slowest rank's, and k. Collective. */
static int parameters_worker_choose(struct braid_parameters *p)
{
    struct br_layer *layers = p->passes;
    struct br_delay_times t = {0};
    uint64_t measured = p->warmup - p->options.iterations;
    double mean = measured > 1 ? p->communication / (double)(measured - 1) : 0;
    double times[4] = {0, 0, mean, 0};
    int32_t k;
    int rc;

    br_profiler_times(&p->profiler, layers);
    for (uint32_t l = 0; l < p->n; l++) {
        times[0] += layers[l].forward;
        times[1] += layers[l].backward;
    }
    times[3] = layers[p->n - 1].backward;
    rc = braid_allreduce(p->comm, times, times, 4, BRAID_FLOAT64, BRAID_MAX, NULL, NULL);
    if (rc)
        return rc;
    /* Pushes and pulls carry the same. The local update is not known yet, and next to nothing. */
    t = (struct br_delay_times){times[0], times[1], 0, times[2], times[2] / 2, times[3]};
    p->report.forward = t.forward;
    p->report.backward = t.backward;
    p->report.communication = t.communication;
    p->report.push = t.push;
    p->report.last_backward = t.last_backward;
    p->report.predicted[0] = br_delay_ssgd(&t);
    for (k = 1; k <= 5; k++)
        p->report.predicted[k] = br_delay_shared(&t, k);
    if (atomic_load(&p->steps))
        return 0;
    /* Rank 0's: the same numbers need not give the same k on different processors. */
    k = br_delay_choose(&t);
    rc = braid_broadcast(p->comm, &k, &k, 1, BRAID_INT32, 0, NULL, NULL);
    if (!rc)
        atomic_store(&p->steps, k);
    return rc;
}

/* The first push of an iteration. What the iteration before took is known by now. */
static int parameters_worker_begin_iteration(struct braid_parameters *p)
{
    uint64_t first = atomic_load(&p->first_push), last = atomic_load(&p->last_pull);
    int rc;

    if (p->iteration > p->options.iterations + 1 && p->iteration <= p->warmup && last > first)
        p->communication += (double)(last - first) / 1e9;
    atomic_store(&p->first_push, br_comm_now(p->comm));
    atomic_store(&p->begun, p->iteration + 1);
    rc = br_parameters_shutdown_check(p);
    if (rc)
        return rc;
    return p->iteration == p->warmup && p->warmup > p->options.iterations + 1
               ? parameters_worker_choose(p)
               : 0;
}

static int parameters_worker_push(struct braid_parameters *p, uint32_t layer)
{
    struct br_parameters_layer *l = &p->layers[layer];
    int rc = layer == p->n - 1 ? parameters_worker_begin_iteration(p) : 0;

    if (rc)
        return rc;
    br_parameters_keep_rate(p, layer);
    if (p->method != BR_PARAMETERS_LOCAL || p->iteration < p->warmup)
        rc = br_parameters_push_layer(p, layer, p->iteration, l->gradients[p->iteration % 2],
                                      p->pushes[p->iteration % 2]);
    l->iteration = p->iteration;
    p->next--;
    if (p->next < 0) {
        p->next = (int)p->n - 1;
        p->report.iterations = ++p->iteration;
    }
    atomic_store(&l->state, BR_PARAMETERS_PUSHED);
    br_progress_signal(p->comm->context);
    return rc;
}

int braid_parameters_push(struct braid_parameters *p, int layer)
{
    BR_DISABLE_CANCELLATION;
    int rc = parameters_worker_check(p, "braid_parameters_push", layer);

    if (rc)
        return rc;
    if (layer != p->next)
        return br_error(EINVAL,
                        "braid_parameters_push: layer %d: in the backward pass layer %d is next",
                        layer, p->next);
    if (p->method == BR_PARAMETERS_SSD && p->layers[layer].requested != p->iteration + 1)
        return br_error(EINVAL,
                        "braid_parameters_push: layer %d: ask braid_parameters_gradient() in every "
                        "iteration, as with ssd two "
                        "places take turns",
                        layer);
    if (!is_app_owned(p, layer) || finish_pushes(p, (uint32_t)layer))
        return is_app_owned(p, layer)
                   ? parameters_worker_check(p, "braid_parameters_push", layer)
                   : br_error(EINVAL,
                              "braid_parameters_push: layer %d is still being brought up to date: "
                              "braid_parameters_wait() and _gradient() come first",
                              layer);
    br_profiler_enter(&p->profiler, BR_PROFILER_READY, (uint32_t)layer, br_comm_now(p->comm));
    rc = parameters_worker_push(p, (uint32_t)layer);
    br_profiler_leave(&p->profiler, br_comm_now(p->comm));
    if (rc)
        br_parameters_fail(p, rc);
    return rc;
}
