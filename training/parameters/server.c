/* SPDX-License-Identifier: BSD-3-Clause */
/* A server's part: collects pushes of its slices, moves the weights, answers. Our thread's. */
#include <limits.h>
#include <string.h>

#include "collectives/engine/reduce.h"
#include "training/parameters/parameters.h"
#include "training/parameters/update.h"

static bool is_averaging(const struct braid_parameters *p, uint64_t round)
{
    return p->method == BR_PARAMETERS_LOCAL && round >= p->warmup;
}

/* Of every round's pushes the workers want an answer but with delayed pulls. */
static bool server_answers(const struct braid_parameters *p, uint64_t round)
{
    return is_averaging(p, round) || br_parameters_pulls(p, round);
}

static int server_post(struct braid_parameters *p, struct br_parameters_slice *s, int worker)
{
    struct br_parameters_exchange *exchange = &s->receives[worker];

    return br_parameters_receive(p, s->number, false, s->in[worker], worker, exchange,
                                 &exchange->op);
}

static int server_answer(struct braid_parameters *p, struct br_parameters_slice *s,
                         uint64_t iteration, int worker, const float *from)
{
    struct br_parameters_exchange *exchange = &s->sends[worker];

    atomic_fetch_add(&s->sending, 1);
    return br_parameters_send(p, s->number, true, iteration, from, worker, exchange, &exchange->op);
}

static void server_move(struct braid_parameters *p, struct br_parameters_slice *s,
                        uint64_t iteration, const float *gradient)
{
    struct br_update_sgd sgd = br_parameters_rate(p, s->shard->layer, iteration);

    br_update_sgd(&sgd, s->weight, s->velocity, gradient, 1.0f / (float)p->ranks, s->shard->count);
}

/* ---- all workers together -------------------------------------------------------------------- */

/* As br_parameters_reap(). The operation is over when whoever tells of its end has come back. */
static int reap(struct br_parameters_exchange *exchange)
{
    int rc;

    if (!atomic_load(&exchange->ended))
        return 0;
    rc = braid_wait(exchange->op, -1);
    exchange->op = NULL;
    return rc ? rc : 1;
}

/* Takes what has ended out of the n exchanges. Returns whether none is under way; or an error. */
static int reap_all(struct br_parameters_exchange *exchanges, int n, _Atomic int *under_way)
{
    int left = 0;

    for (int i = 0; i < n; i++) {
        int rc = exchanges[i].op ? reap(&exchanges[i]) : 0;

        if (rc < 0)
            return rc;
        if (rc && under_way)
            atomic_fetch_sub(under_way, 1);
        left += exchanges[i].op != NULL;
    }
    return !left;
}

static int server_apply(struct braid_parameters *p, struct br_parameters_slice *s)
{
    bool average = is_averaging(p, s->round);
    int rc =
        br_reduce(BRAID_FLOAT32, average ? BRAID_AVG : BRAID_SUM, average ? s->weight : s->in[0],
                  s->sources, p->ranks, s->shard->count, average ? p->ranks : 0);

    if (!rc && !average)
        server_move(p, s, s->round, s->in[0]);
    for (int r = 0; r < p->ranks && !rc; r++)
        rc = server_post(p, s, r);
    return rc;
}

static int server_sync(struct braid_parameters *p, struct br_parameters_slice *s)
{
    int rc = reap_all(s->sends, p->ranks, &s->sending), sent = rc;
    bool replies;

    if (rc >= 0)
        rc = reap_all(s->receives, p->ranks, NULL);
    if (rc <= 0)
        return rc;
    replies = server_answers(p, s->round); /* not sooner: the workers may not have chosen k */
    if (replies && !sent)
        return 0;
    rc = server_apply(p, s);
    if (!rc && replies)
        memcpy(s->answer, s->weight, s->shard->count * sizeof *s->answer);
    for (int r = 0; r < p->ranks && replies && !rc; r++)
        rc = server_answer(p, s, s->round, r, s->answer);
    s->round++;
    atomic_fetch_add(&s->applied, (uint64_t)p->ranks);
    return rc < 0 ? rc : 1;
}

/* ---- each worker for itself ------------------------------------------------------------------ */

static int server_async_worker(struct braid_parameters *p, struct br_parameters_slice *s,
                               int worker)
{
    uint64_t iteration;
    int rc;

    if (s->sends[worker].op) {
        rc = reap(&s->sends[worker]);
        if (rc <= 0)
            return rc;
        rc = server_post(p, s, worker);
        atomic_fetch_sub(&s->sending, 1); /* not before the receive is posted */
        return rc ? rc : 1;
    }
    rc = s->receives[worker].op ? reap(&s->receives[worker]) : 0;
    if (rc <= 0)
        return rc;
    iteration = s->pushes[worker]++;
    server_move(p, s, iteration, s->in[worker]);
    memcpy(s->in[worker], s->weight, s->shard->count * sizeof *s->weight);
    rc = server_answer(p, s, iteration, worker, s->in[worker]);
    atomic_fetch_add(&s->applied, 1);
    return rc ? rc : 1;
}

static int server_async(struct braid_parameters *p, struct br_parameters_slice *s)
{
    int done = 0, rc = 0;

    for (int r = 0; r < p->ranks && rc >= 0; r++) {
        rc = server_async_worker(p, s, r);
        done += rc > 0;
    }
    return rc < 0 ? rc : done;
}

/* ---- for the thread -------------------------------------------------------------------------- */

/* The last pushes are for nobody. */
static int server_discard(struct braid_parameters *p, struct br_parameters_slice *s)
{
    int rc = reap_all(s->receives, p->ranks, NULL);

    if (rc > 0 && s->round != UINT64_MAX) {
        s->round = UINT64_MAX;
        atomic_store(&s->applied, UINT64_MAX);
        return 1;
    }
    return rc < 0 ? rc : 0;
}

static int server_slice(struct braid_parameters *p, struct br_parameters_slice *s)
{
    return atomic_load(&p->ended)            ? server_discard(p, s)
           : p->method == BR_PARAMETERS_ASGD ? server_async(p, s)
                                             : server_sync(p, s);
}

int br_parameters_serve(struct braid_parameters *p)
{
    uint32_t words = (p->n_slices + 63) / 64;
    int rc = 0;

    /* by layer: what the next forward pass needs first; or what comes first */
    for (uint32_t i = 0; i < words && !rc; i++) {
        uint32_t word = p->options.in_order ? words - 1 - i : i;
        uint64_t due;

        while (!rc && (due = atomic_load(&p->due[word]))) {
            int bit = p->options.in_order ? 63 - __builtin_clzll(due) : __builtin_ctzll(due);

            /* first, so that what ends from here on is seen the next time */
            atomic_fetch_and(&p->due[word], ~(1ull << bit));
            rc = server_slice(p, &p->slices[64 * word + (uint32_t)bit]);
        }
    }
    return rc;
}

int br_parameters_serve_start(struct braid_parameters *p)
{
    int rc = 0;

    for (uint32_t i = 0; i < p->n_slices; i++)
        for (int r = 0; r < p->ranks && !rc; r++)
            rc = server_post(p, &p->slices[i], r);
    return rc;
}
