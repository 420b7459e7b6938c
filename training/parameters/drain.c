/* SPDX-License-Identifier: BSD-3-Clause */
/* What all ranks do together between iterations, and at the end. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/process.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/completion.h"
#include "collectives/comm/progress.h"
#include "training/parameters/parameters.h"

#define LOOK_AGAIN BR_SEC

static int drain_failure(const struct braid_parameters *p, const char *name)
{
    return atomic_load(&p->failed) ? br_error(-p->failed, "%s: %s", name, p->message)
                                   : br_comm_check(p->comm, name);
}

/* Has our server done all that the workers pushed? Theirs are as many as ours. */
static bool drain_is_applied(struct braid_parameters *p)
{
    uint64_t rounds =
        br_parameters_rounds(p, p->iteration) - br_parameters_rounds(p, p->options.iterations);
    uint64_t pushes = rounds * (uint64_t)p->ranks;

    for (uint32_t i = 0; i < p->n_slices; i++)
        if (atomic_load(&p->slices[i].applied) < pushes || atomic_load(&p->slices[i].sending))
            return false;
    return true;
}

/* Waits for our thread. */
static int wait_until(struct braid_parameters *p, bool (*reached)(struct braid_parameters *p),
                      const char *name)
{
    int rc = drain_failure(p, name);

    while (!rc) {
        uint64_t seen = br_progress_event_count(p->comm->context);

        if (reached(p))
            return 0;
        br_progress_wait_event(p->comm->context, seen, LOOK_AGAIN);
        rc = drain_failure(p, name);
    }
    return rc;
}

static int drain_finish(struct braid_op **ops, uint32_t n)
{
    int rc = 0;

    for (uint32_t i = 0; i < n; i++) {
        int failed = ops[i] ? braid_wait(ops[i], -1) : 0;

        ops[i] = NULL;
        rc = rc ? rc : failed;
    }
    return rc;
}

int br_parameters_settle(struct braid_parameters *p, const char *name)
{
    int rc = 0;

    if (p->next != (int)p->n - 1)
        return br_error(EINVAL, "%s: in the midst of a backward pass, layer %d is next", name,
                        p->next);
    for (uint32_t l = 0; l < p->n && !rc; l++)
        rc = braid_parameters_wait(p, (int)l);
    if (!rc)
        rc = drain_finish(p->pushes[0], p->n_pushes);
    return rc ? rc : wait_until(p, drain_is_applied, name);
}

int br_parameters_drain(struct braid_parameters *p, const char *name)
{
    int rc = br_parameters_settle(p, name);

    if (!rc)
        rc = drain_finish(p->pulls, p->shards.n); /* delayed ones */
    for (uint32_t l = 0; l < p->n && !rc; l++)
        p->layers[l].pulling = false;
    return rc;
}

/* The weights of each slice, from its server's to all workers'. */
static int drain_fetch(struct braid_parameters *p)
{
    int rc = 0;

    for (uint32_t i = 0; i < p->n_slices; i++) {
        const struct br_shard *shard = p->slices[i].shard;

        memcpy(p->layers[shard->layer].weight + shard->offset, p->slices[i].weight,
               shard->count * sizeof(float));
    }
    for (uint32_t i = 0; i < p->shards.n && !rc; i++) {
        const struct br_shard *shard = &p->shards.list[i];
        float *weight = p->layers[shard->layer].weight + shard->offset;

        rc = braid_broadcast(p->comm, weight, weight, shard->count, BRAID_FLOAT32,
                             p->servers[shard->server], NULL, NULL);
    }
    for (uint32_t l = 0; l < p->n && !rc; l++)
        br_parameters_begin_delay(p, l);
    return rc;
}

int braid_parameters_sync(struct braid_parameters *p)
{
    BR_DISABLE_CANCELLATION;
    int rc = p ? br_completion_may_block("braid_parameters_sync")
               : br_error(EINVAL, "braid_parameters_sync: parameters is NULL");

    if (!rc)
        rc = drain_failure(p, "braid_parameters_sync");
    if (!rc)
        rc = br_parameters_drain(p, "braid_parameters_sync");
    if (rc)
        return rc;
    if (p->method != BR_PARAMETERS_LOCAL || p->iteration <= p->warmup)
        rc = drain_fetch(p);
    else
        for (uint32_t l = 0; l < p->n && !rc; l++)
            rc = braid_allreduce(p->comm, p->layers[l].weight, p->layers[l].weight,
                                 p->layers[l].count, BRAID_FLOAT32, BRAID_AVG, NULL, NULL);
    if (rc)
        br_parameters_fail(p, rc);
    return rc;
}

/* ---- the end --------------------------------------------------------------------------------- */

static bool has_ended(struct braid_parameters *p)
{
    return atomic_load(&p->ended);
}

/* The pushes for nobody have arrived. */
static bool drain_is_empty(struct braid_parameters *p)
{
    for (uint32_t i = 0; i < p->n_slices; i++)
        if (atomic_load(&p->slices[i].applied) != UINT64_MAX)
            return false;
    return true;
}

/* All ranks push once more, for nobody: that ends the receives (doc/design/parameters.md, section
 * 4). */
static int drain_disconnect(struct braid_parameters *p)
{
    int rc = br_parameters_drain(p, "braid_parameters_free");

    if (!rc)
        rc = br_parameters_shutdown_say(p);
    if (!rc)
        rc = braid_barrier(p->comm, NULL, NULL); /* all have what they asked for */
    if (!rc)
        rc = br_parameters_shutdown_finish(p);
    if (!rc) {
        atomic_store(&p->ending, true);
        br_progress_signal(p->comm->context);
        rc = wait_until(p, has_ended, "braid_parameters_free");
    }
    if (!rc)
        rc = braid_barrier(p->comm, NULL, NULL); /* and nobody takes what comes for a gradient */
    for (uint32_t l = p->n; l-- > 0 && !rc;)
        rc = br_parameters_push_layer(p, l, 0, p->layers[l].gradients[0], p->pushes[0]);
    if (!rc)
        rc = drain_finish(p->pushes[0], p->n_pushes);
    return rc ? rc : wait_until(p, drain_is_empty, "braid_parameters_free");
}

/* What is under way would not end by itself. */
int br_parameters_give_up(struct braid_parameters *p, int rc)
{
    char text[BR_PARAMETERS_TEXT];

    snprintf(text, sizeof text, "%s", br_error_message());
    braid_comm_abort(p->comm, text); /* who has not heard of the failure yet hears why */
    br_parameters_stop(p);
    drain_finish(p->pushes[0], p->n_pushes);
    drain_finish(p->pulls, p->shards.n);
    for (size_t i = 0; i < (size_t)p->n_slices * (size_t)p->ranks * 2; i++)
        drain_finish(&p->exchanges[i].op, 1);
    br_parameters_shutdown_finish(p);
    br_error(-rc, "%s", text);
    return br_parameters_destroy(p, rc);
}

int braid_parameters_free(struct braid_parameters *p)
{
    BR_DISABLE_CANCELLATION;
    int rc;

    if (!p)
        return 0;
    rc = br_completion_may_block("braid_parameters_free");
    if (!rc)
        rc = br_comm_check(p->comm, "braid_parameters_free");
    if (rc) /* a fork, where the thread beside the program is not, or after the end of the job */
        return rc;
    rc = drain_failure(p, "braid_parameters_free");
    if (!rc)
        rc = drain_disconnect(p);
    if (rc)
        return br_parameters_give_up(p, rc);
    br_parameters_stop(p);
    return br_parameters_destroy(p, 0);
}
