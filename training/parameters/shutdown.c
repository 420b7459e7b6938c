/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How ranks learn that another one has ended. A rank that ends tells all others, by a message with
 * a tag of its own, how many iterations it has done. A rank that has begun more of them would wait
 * without end for pushes, or for answers, of that rank, and fails instead
 * (doc/design/parameters.md, section 9).
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "training/parameters/parameters.h"

/* Behind those of pushes and pulls. */
static uint32_t shutdown_tag(const struct braid_parameters *p)
{
    return 2 * p->shards.n;
}

/* Any thread that drives progress. */
static void shutdown_came(void *context, int status)
{
    struct br_parameters_shutdown *other = context;
    struct braid_parameters *p = other->parameters;
    uint64_t first = atomic_load(&p->first_shutdown), came;

    if (status)
        return;
    came = other->iterations * (uint64_t)p->ranks + (uint64_t)(other - p->shutdowns);
    while (came < first && !atomic_compare_exchange_weak(&p->first_shutdown, &first, came))
        ;
}

int br_parameters_shutdown_start(struct braid_parameters *p)
{
    int rc = 0;

    p->shutdowns = calloc((size_t)p->ranks, sizeof *p->shutdowns);
    if (!p->shutdowns)
        return br_error(ENOMEM, "braid_parameters_create: no memory for %d ranks", p->ranks);
    for (int r = 0; r < p->ranks && !rc; r++) {
        struct br_parameters_shutdown *other = &p->shutdowns[r];
        struct braid_options o = {.tag = shutdown_tag(p),
                                  .timeout_ms = INT_MAX, /* however long the training takes */
                                  .done = shutdown_came,
                                  .context = other};

        other->parameters = p;
        if (r != p->rank)
            rc = braid_recv(p->comm, &other->iterations, sizeof other->iterations, r, &o,
                            &other->op);
    }
    return rc;
}

int br_parameters_shutdown_say(struct braid_parameters *p)
{
    struct braid_options o = {.tag = shutdown_tag(p)};
    int rc = 0;

    for (int i = 1; i < p->ranks && !rc; i++)
        rc = braid_send(p->comm, &p->iteration, sizeof p->iteration, (p->rank + i) % p->ranks, &o,
                        NULL);
    return rc;
}

int br_parameters_shutdown_finish(struct braid_parameters *p)
{
    int rc = 0;

    for (int r = 0; p->shutdowns && r < p->ranks; r++) {
        struct br_parameters_shutdown *other = &p->shutdowns[r];
        int failed = other->op ? braid_wait(other->op, -1) : 0;

        other->op = NULL;
        rc = rc ? rc : failed;
    }
    return rc;
}

int br_parameters_shutdown_check(struct braid_parameters *p)
{
    uint64_t begun = atomic_load(&p->begun), first = atomic_load(&p->first_shutdown);
    uint64_t ranks = (uint64_t)p->ranks;
    char text[BR_PARAMETERS_TEXT];

    if (first / ranks >= begun)
        return 0;
    snprintf(
        text, sizeof text,
        "rank %d has ended its training after %llu iterations, and rank %d has begun iteration "
        "%llu: all ranks do as many",
        (int)(first % ranks), (unsigned long long)(first / ranks), p->rank,
        (unsigned long long)begun);
    br_error(ECONNRESET, "%s", text);
    br_parameters_fail(p, -ECONNRESET);
    braid_comm_abort(p->comm, text); /* it waits for us */
    return br_error(ECONNRESET, "%s", text);
}
