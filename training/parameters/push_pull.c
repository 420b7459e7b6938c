/* SPDX-License-Identifier: BSD-3-Clause */
/* What is the same on all ranks in an iteration, or for a slice; and the operations of one
 * slice. */
#include <limits.h>

#include "collectives/comm/handles.h"
#include "training/parameters/parameters.h"

static bool push_pull_is_delayed(const struct braid_parameters *p, uint64_t iteration)
{
    return (p->method == BR_PARAMETERS_SSD || p->method == BR_PARAMETERS_LOCAL) &&
           iteration >= p->warmup;
}

bool br_parameters_pulls(const struct braid_parameters *p, uint64_t iteration)
{
    return !push_pull_is_delayed(p, iteration) ||
           (iteration - p->warmup + 1) % (uint64_t)atomic_load(&p->steps) == 0;
}

bool br_parameters_pushes(const struct braid_parameters *p, uint64_t iteration)
{
    return p->method != BR_PARAMETERS_LOCAL || br_parameters_pulls(p, iteration);
}

uint64_t br_parameters_rounds(const struct braid_parameters *p, uint64_t iterations)
{
    if (p->method != BR_PARAMETERS_LOCAL || iterations <= p->warmup)
        return iterations;
    return p->warmup + (iterations - p->warmup) / (uint64_t)atomic_load(&p->steps);
}

/* ---- operations ------------------------------------------------------------------------------ */

int br_parameters_reap(struct braid_op **op)
{
    int rc;

    if (!br_operation_has_ended(*op))
        return 0;
    rc = braid_wait(*op, -1);
    *op = NULL;
    return rc ? rc : 1;
}

static int32_t push_pull_layer_priority(const struct braid_parameters *p, uint32_t slice)
{
    return p->options.in_order ? 0 : (int32_t)(p->n - p->shards.list[slice].layer);
}

/* Larger leaves first: doc/design/parameters.md, section 7. */
static int32_t push_pull_priority(const struct braid_parameters *p, uint32_t slice,
                                  uint64_t iteration)
{
    bool delayed = !p->options.in_order && p->method == BR_PARAMETERS_SSD &&
                   push_pull_is_delayed(p, iteration);

    return delayed ? br_parameters_pulls(p, iteration) : push_pull_layer_priority(p, slice);
}

/* Any thread that drives progress. */
static void push_pull_ended(void *context, int status)
{
    struct br_parameters_exchange *exchange = context;

    (void)status; /* braid_wait() returns it */
    atomic_store(&exchange->ended, true);
    atomic_fetch_or(exchange->slice->due, exchange->slice->due_bit);
}

static void push_pull_tell(struct br_parameters_exchange *exchange, struct braid_options *options)
{
    if (!exchange)
        return;
    atomic_store(&exchange->ended, false);
    options->done = push_pull_ended;
    options->context = exchange;
}

/* However long the program pauses between two iterations; a peer that has died is noticed
 * anyway. */
static struct braid_options push_pull_options(const struct braid_parameters *p, uint32_t slice,
                                              bool pull, int32_t urgent)
{
    const struct br_parameters_layer *l = &p->layers[p->shards.list[slice].layer];

    return (struct braid_options){.priority = p->options.priority + urgent,
                                  .tag = 2 * slice + pull,
                                  .timeout_ms = INT_MAX,
                                  .title = pull ? l->pull_title : l->push_title};
}

int br_parameters_send(struct braid_parameters *p, uint32_t slice, bool pull, uint64_t iteration,
                       const float *from, int peer, struct br_parameters_exchange *exchange,
                       struct braid_op **op)
{
    struct braid_options o =
        push_pull_options(p, slice, pull, push_pull_priority(p, slice, iteration));

    push_pull_tell(exchange, &o);
    return braid_send(p->comm, from, p->shards.list[slice].count * sizeof *from, peer, &o, op);
}

/* That it is posted is all that travels, and k may not be known yet. */
int br_parameters_receive(struct braid_parameters *p, uint32_t slice, bool pull, float *to,
                          int peer, struct br_parameters_exchange *exchange, struct braid_op **op)
{
    struct braid_options o = push_pull_options(p, slice, pull, push_pull_layer_priority(p, slice));

    push_pull_tell(exchange, &o);
    return braid_recv(p->comm, to, p->shards.list[slice].count * sizeof *to, peer, &o, op);
}
