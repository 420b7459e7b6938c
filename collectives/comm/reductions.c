/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A reduction's number is BRAID_REDUCTION_USER + generation * 64 + place: the lowest place that is
 * free, so ranks that create and free in the same order have the same numbers; and how often the
 * place was taken before, so that a number that was freed is not another one's. The places are
 * protected by the pool's lock. Operations have a copy of what stands there, so one under way does
 * not need its reduction any more.
 */
#include "collectives/comm/reductions.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/engine/operation.h"
#include "collectives/schedule/type.h"

#define PLACES      64u
#define GENERATIONS 1024u

struct br_reduction_place {
    struct br_user_reduction user; /* no function: free */
    uint32_t generation;
};

static struct br_reduction_place *reductions_at(const struct braid_comm *comm,
                                                enum braid_reduction reduction)
{
    uint32_t number = (uint32_t)reduction - BRAID_REDUCTION_USER;
    struct br_reduction_place *place = comm->reductions && number < GENERATIONS * PLACES
                                           ? &comm->reductions[number % PLACES]
                                           : NULL;

    return place && place->user.function && place->generation == number / PLACES ? place : NULL;
}

static int reductions_unknown(const char *name, enum braid_reduction reduction)
{
    return br_error(EINVAL,
                    "%s: there is no reduction %d; it was freed, or is another communicator's",
                    name, (int)reduction);
}

int braid_reduction_create(struct braid_comm *comm, braid_reduce_function *function, void *context,
                           int commutative, enum braid_reduction *out)
{
    int rc = br_comm_check(comm, "braid_reduction_create");
    uint32_t i = 0;

    if (rc)
        return rc;
    if (!function || !out)
        return br_error(EINVAL, "braid_reduction_create: function or out is NULL");
    pthread_mutex_lock(&comm->context->pool_lock);
    if (!comm->reductions)
        comm->reductions = calloc(PLACES, sizeof *comm->reductions);
    while (comm->reductions && i < PLACES && comm->reductions[i].user.function)
        i++;
    if (!comm->reductions) {
        rc = br_error(ENOMEM, "braid_reduction_create: no memory");
    } else if (i == PLACES) {
        rc = br_error(ENOSPC,
                      "braid_reduction_create: the communicator has %u reductions already; "
                      "braid_reduction_free() those that are not needed",
                      PLACES);
    } else {
        struct br_reduction_place *place = &comm->reductions[i];

        place->user = (struct br_user_reduction){function, context, commutative != 0};
        place->generation = (place->generation + 1) % GENERATIONS;
        *out = (enum braid_reduction)(BRAID_REDUCTION_USER + place->generation * PLACES + i);
    }
    pthread_mutex_unlock(&comm->context->pool_lock);
    return rc;
}

int braid_reduction_free(struct braid_comm *comm, enum braid_reduction reduction)
{
    int rc = br_comm_check(comm, "braid_reduction_free");
    struct br_reduction_place *place;

    if (rc)
        return rc;
    pthread_mutex_lock(&comm->context->pool_lock);
    place = reductions_at(comm, reduction);
    if (place)
        place->user.function = NULL;
    pthread_mutex_unlock(&comm->context->pool_lock);
    return place ? 0 : reductions_unknown("braid_reduction_free", reduction);
}

static int reductions_find(const struct braid_comm *comm, enum braid_reduction reduction,
                           struct br_user_reduction *out)
{
    const struct br_reduction_place *place;

    pthread_mutex_lock(&comm->context->pool_lock);
    place = reductions_at(comm, reduction);
    if (place)
        *out = place->user;
    pthread_mutex_unlock(&comm->context->pool_lock);
    return place ? 0 : -EINVAL;
}

int br_reductions_check(const struct braid_comm *comm, const char *name, enum braid_type type,
                        enum braid_reduction reduction)
{
    struct br_user_reduction user;

    if (reduction < BRAID_REDUCTION_USER)
        return br_reduction_check(name, type, reduction);
    return reductions_find(comm, reduction, &user) ? reductions_unknown(name, reduction) : 0;
}

void br_reductions_apply(const struct braid_comm *comm, struct br_operation *op)
{
    if (!reductions_find(comm, op->reduction, &op->user))
        op->by_rank |= !op->user.commutative;
}

void br_reductions_close(struct braid_comm *comm)
{
    free(comm->reductions);
    comm->reductions = NULL;
}
