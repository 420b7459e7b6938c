/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A turn is an order of 8 bytes, which the other rank sends back when it waits for the message that
 * follows, and this message, which it sends back, too. The shortest way of an order is alpha. The
 * message grows until it takes a multiple of what schedulers add. Its bytes, without the time of an
 * order, are beta.
 */
#include "collectives/comm/link_trial.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>

#include <braid/braid.h>

#include "base/clock.h"
#include "base/error.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/comm/progress_lock.h"
#include "collectives/engine/group.h"
#include "collectives/tuning/network.h"

#define FEWEST_TURNS 8 /* of orders, of which the shortest counts */
#define LEAST_BYTES  (64u << 10)
#define MOST_BYTES   (1u << 20)
#define LONG_ENOUGH  4e-3          /* s, the bytes of a message on both ways */
#define ALL          (200 * BR_MS) /* ns: no further turn begins later, but the fewest of a size */
#define SETTLED      1.25          /* times what the turn before took: no slower */

struct trial {
    struct braid_comm *comm;
    uint64_t deadline; /* ns: braid_init()'s */
    int other;
    uint8_t *out, *in; /* MOST_BYTES each */
    double order;      /* s, the shortest way of an order there and back */
    double message;    /* the last message's */
};

/* No message outlives the time that braid_init() has, whatever the other rank does. They are as
 * urgent as short messages, so that none is in a traffic class of the program's. */
static struct braid_options in_time(const struct trial *t)
{
    uint64_t now = br_comm_now(t->comm), left = t->deadline > now ? (t->deadline - now) / BR_MS : 0;

    return (struct braid_options){.struct_size = sizeof(struct braid_options),
                                  .priority = INT32_MAX,
                                  .timeout_ms = left < 1         ? 1
                                                : left > INT_MAX ? INT_MAX
                                                                 : (int)left};
}

/* Sends, and waits for the answer of as many bytes, whose receive is posted before. */
static int there_and_back(const struct trial *t, const void *out, void *in, size_t bytes,
                          double *seconds)
{
    const struct braid_options options = in_time(t);
    struct braid_op *op;
    uint64_t start;
    int rc = braid_recv(t->comm, in, bytes, t->other, &options, &op), ended;

    *seconds = 0;
    if (rc)
        return rc;
    start = br_comm_now(t->comm);
    rc = braid_send(t->comm, out, bytes, t->other, &options, NULL);
    ended = braid_wait(op, -1);
    *seconds = (double)(br_comm_now(t->comm) - start) / 1e9;
    return rc ? rc : ended;
}

/* bytes 0: the last one. */
static int trial_lead(struct trial *t, uint64_t bytes)
{
    uint64_t answer;
    double order;
    int rc = there_and_back(t, &bytes, &answer, sizeof bytes, &order);

    t->order = fmin(t->order, order);
    return rc || !bytes ? rc : there_and_back(t, t->out, t->in, bytes, &t->message);
}

/* Its receive of the message is posted before it answers the order. */
static int trial_follow(struct trial *t, uint64_t *bytes)
{
    const struct braid_options options = in_time(t);
    struct braid_op *op = NULL;
    int rc = braid_recv(t->comm, bytes, sizeof *bytes, 0, &options, NULL), ended = 0;

    if (!rc && *bytes > MOST_BYTES)
        rc = br_error(EPROTO, "rank 0 tries a link with more than %u bytes", MOST_BYTES);
    if (!rc && *bytes)
        rc = braid_recv(t->comm, t->in, *bytes, 0, &options, &op);
    if (!rc)
        rc = braid_send(t->comm, bytes, sizeof *bytes, 0, &options, NULL);
    if (op)
        ended = braid_wait(op, -1);
    rc = rc ? rc : ended;
    return rc || !*bytes ? rc : braid_send(t->comm, t->out, *bytes, 0, &options, NULL);
}

/* Turns of one size, until one is no slower than the one before it: the bucket of a shaper lets the
 * first bytes through at once. *taken: s, the bytes of a message there and back. */
static int trial_settle(struct trial *t, uint64_t bytes, uint64_t until, double *taken)
{
    double before;
    int rc = trial_lead(t, bytes);

    do {
        before = t->message;
        rc = rc ? rc : trial_lead(t, bytes);
    } while (!rc && t->message > SETTLED * before && br_comm_now(t->comm) < until);
    *taken = fmax(t->message - t->order, 0);
    return rc;
}

static int trial_measure(struct trial *t, struct br_cost_level *link)
{
    uint64_t bytes = LEAST_BYTES, until = br_comm_now(t->comm) + ALL;
    double taken = 0;
    int rc = 0;

    for (int i = 0; i < FEWEST_TURNS && !rc && (!i || br_comm_now(t->comm) < until); i++)
        rc = trial_lead(t, sizeof bytes);
    while (!rc && !(rc = trial_settle(t, bytes, until, &taken)) && taken < LONG_ENOUGH &&
           bytes < MOST_BYTES && br_comm_now(t->comm) < until)
        bytes *= 2;
    link->alpha = t->order / 2;
    link->beta = taken / 2 / (double)bytes;
    return rc ? rc : trial_lead(t, 0);
}

static int trial_run(struct br_context *context, struct br_cost_level *link)
{
    struct trial t = {
        .comm = context->world, .deadline = context->init_deadline, .order = INFINITY};
    uint64_t bytes = 1;
    int rc = 0;

    t.other = context->rank ? 0 : br_network_tried(&context->network);
    t.out = braid_alloc(t.comm, MOST_BYTES);
    t.in = t.out ? braid_alloc(t.comm, MOST_BYTES) : NULL;
    if (!t.in)
        rc = -ENOMEM;
    else if (context->rank == 0)
        rc = trial_measure(&t, link);
    while (!rc && context->rank && bytes)
        rc = trial_follow(&t, &bytes);
    if (t.in)
        braid_free(t.comm, t.in);
    if (t.out)
        braid_free(t.comm, t.out);
    return rc;
}

int br_link_trial(struct br_context *context)
{
    struct br_cost_level link = {0};
    bool tries = context->rank == 0 || context->rank == br_network_tried(&context->network);
    int rc = tries ? trial_run(context, &link) : 0;

    if (!rc)
        rc = br_network_agree_on_link(&context->network, context->rank, &link, context->store,
                                      context->init_deadline);
    br_progress_lock(context);
    if (!rc)
        context->world->group->model.link = context->network.model.link;
    context->world->operations = 0; /* those of the trial are not the program's */
    br_progress_unlock(context);
    return rc;
}
