/* SPDX-License-Identifier: BSD-3-Clause */
/* Rate, momentum and decay of the layers, which the program may change between iterations; and the
 * velocities, to be saved and restored. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/process.h"
#include "training/parameters/parameters.h"

struct br_update_sgd br_parameters_rate(const struct braid_parameters *p, uint32_t layer,
                                        uint64_t iteration)
{
    const struct br_parameters_layer *l = &p->layers[layer];
    struct br_update_sgd sgd =
        l->rates[p->method == BR_PARAMETERS_ASGD ? atomic_load(&l->latest)
                                                 : iteration % BR_PARAMETERS_RATES];

    for (int i = 0; i < BRAID_PARAMETERS_DROPS; i++)
        if (p->options.drops[i] && iteration >= p->options.drops[i])
            sgd.rate *= p->options.drop;
    return sgd;
}

void br_parameters_keep_rate(struct braid_parameters *p, uint32_t layer)
{
    struct br_parameters_layer *l = &p->layers[layer];
    uint32_t slot = (uint32_t)(p->iteration % BR_PARAMETERS_RATES);

    l->rates[slot] = l->next_rate;
    atomic_store(&l->latest, slot);
}

bool br_parameters_have_room(const struct braid_parameters *p, uint32_t layer)
{
    uint64_t made = p->iteration - p->options.iterations;

    /* Only with ssd does a worker go on without an answer; local SGD, which does so as well, leaves
     * no rate to its servers then, which take means. */
    if (p->method != BR_PARAMETERS_SSD || made < BR_PARAMETERS_RATES)
        return true;
    for (uint32_t i = 0; i < p->n_slices; i++)
        if (p->slices[i].shard->layer == layer &&
            atomic_load(&p->slices[i].applied) <
                (made - BR_PARAMETERS_RATES + 1) * (uint64_t)p->ranks)
            return false;
    return true;
}

static int rates_check(const struct braid_parameters *p, const char *name, int layer)
{
    if (!p)
        return br_error(EINVAL, "%s: parameters is NULL", name);
    if (layer < 0 || (uint32_t)layer >= p->n)
        return br_error(EINVAL, "%s: there is no layer %d, there are 0 to %u", name, layer,
                        p->n - 1);
    return 0;
}

int braid_parameters_set_rate(struct braid_parameters *p, int layer, float rate, float momentum,
                              float decay)
{
    BR_DISABLE_CANCELLATION;
    int rc = rates_check(p, "braid_parameters_set_rate", layer);

    if (rc)
        return rc;
    if (!(rate >= 0) || !(decay >= 0) || isinf(rate) || isinf(decay) || !(momentum >= 0) ||
        !(momentum < 1))
        return br_error(EINVAL,
                        "braid_parameters_set_rate: layer %d: rate %g, momentum %g, decay %g; none "
                        "may be negative, and momentum is less than 1",
                        layer, (double)rate, (double)momentum, (double)decay);
    p->layers[layer].next_rate = (struct br_update_sgd){rate, momentum, decay};
    return 0;
}

int braid_parameters_velocity(struct braid_parameters *p, int layer, float *velocity)
{
    BR_DISABLE_CANCELLATION;
    int rc = rates_check(p, "braid_parameters_velocity", layer);
    const struct br_parameters_layer *l;

    if (!rc && !velocity)
        rc = br_error(EINVAL, "braid_parameters_velocity: velocity is NULL");
    if (!rc)
        rc = br_parameters_settle(p, "braid_parameters_velocity");
    if (rc)
        return rc;
    l = &p->layers[layer];
    if (p->method == BR_PARAMETERS_LOCAL && p->iteration > p->warmup)
        return braid_allreduce(p->comm, l->velocity, velocity, l->count, BRAID_FLOAT32, BRAID_AVG,
                               NULL, NULL);
    for (uint32_t i = 0; i < p->n_slices; i++)
        if (p->slices[i].shard->layer == (uint32_t)layer)
            memcpy(velocity + p->slices[i].shard->offset, p->slices[i].velocity,
                   p->slices[i].shard->count * sizeof *velocity);
    for (uint32_t i = p->shards.first[layer]; i < p->shards.first[layer + 1] && !rc; i++) {
        float *at = velocity + p->shards.list[i].offset;

        rc = braid_broadcast(p->comm, at, at, p->shards.list[i].count, BRAID_FLOAT32,
                             p->servers[p->shards.list[i].server], NULL, NULL);
    }
    return rc;
}

int braid_parameters_set_velocity(struct braid_parameters *p, int layer, const float *velocity)
{
    BR_DISABLE_CANCELLATION;
    int rc = rates_check(p, "braid_parameters_set_velocity", layer);

    if (!rc && !velocity)
        rc = br_error(EINVAL, "braid_parameters_set_velocity: velocity is NULL");
    if (!rc && (p->iteration != p->options.iterations || p->next != (int)p->n - 1))
        rc = br_error(EINVAL, "braid_parameters_set_velocity: only before the first push");
    if (rc)
        return rc;
    if (p->layers[layer].velocity)
        memcpy(p->layers[layer].velocity, velocity, p->layers[layer].count * sizeof *velocity);
    for (uint32_t i = 0; i < p->n_slices; i++)
        if (p->slices[i].shard->layer == (uint32_t)layer)
            memcpy(p->slices[i].velocity, velocity + p->slices[i].shard->offset,
                   p->slices[i].shard->count * sizeof *velocity);
    /* Its server may otherwise see the first push of a faster rank in the midst of this. */
    if (p->method != BR_PARAMETERS_ASGD)
        return 0;
    rc = braid_barrier(p->comm, NULL, NULL);
    if (rc)
        br_parameters_fail(p, rc);
    return rc;
}
