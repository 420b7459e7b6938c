/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flow control under attack (doc/design/rails.md, section 4): whatever has both its ends ends.
 *
 * 1. A job has streams: collectives of several communicators, messages between all pairs of ranks,
 *    messages for receives of any source and tag, gets and atomics. Each rank goes through each
 *    stream as a thread of its own would: in the stream's order, so many operations at once, at its
 *    own pace. There is no order over streams that ranks have in common.
 * 2. Messages are received in another order than that in which they are sent, and senders do not
 *    wait. A rank may begin a stream only when it has ended one that stands before it in the list
 * of streams, while others are at it already: then what they send holds all the credits. As nobody
 *    waits for a later stream, everything can end.
 * 3. Ranks stand still for a while, the second rail breaks and comes back, packets are lost.
 *
 * BRAID_SEEDS: how many; BRAID_SEED: the first one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/log.h"
#include "flow.h"
#include "protocol/internal.h"

static uint64_t below(struct flow *f, uint64_t bound)
{
    return br_random_below(&f->random, bound);
}

static bool chance(struct flow *f, unsigned percent)
{
    return below(f, 100) < percent;
}

/* ---- actors ---------------------------------------------------------------------------------- */

static bool has_ended(const struct actor *a)
{
    return a->first == a->n;
}

static void ended_badly(const struct flow *f, const struct actor *a, int i)
{
    const struct br_operation *op = &a->ops[i];
    char what[160];

    br_operation_describe(op, what, sizeof what);
    fail_msg("seed %llu: rank %d, communicator %u, %s: status %d %s", (unsigned long long)f->seed,
             a->rank, a->stream->group, what, op->status,
             op->status ? op->message : "and a wrong result");
}

/* Takes what has ended, and submits what may begin. true: something was submitted. */
static bool act(struct flow *f, struct actor *a)
{
    bool any = false;
    int under_way = 0;

    for (int i = a->first; i < a->next; i++) {
        if (a->ops[i].state == UNDER_WAY) {
            under_way++;
            continue;
        }
        if (a->memory[i] && (a->ops[i].status || !flow_right(f, a, i)))
            ended_badly(f, a, i);
        free(a->memory[i]);
        a->memory[i] = NULL;
        if (i == a->first)
            a->first++;
    }
    for (; a->next < a->n && under_way < a->window && (!a->after || has_ended(a->after)) &&
           (any || chance(f, 70));
         under_way++) {
        flow_submit(f, a);
        any = true;
    }
    return any;
}

static struct actor *add(struct flow *f, const struct stream *s, int rank, int peer, bool sends,
                         int n)
{
    struct actor *a = &f->actors[f->n_actors++];

    *a = (struct actor){.stream = s, .rank = rank, .peer = peer, .sends = sends, .n = n};
    a->ops = calloc((size_t)n, sizeof *a->ops);
    a->received = calloc((size_t)n, sizeof *a->received);
    a->memory = calloc((size_t)n, sizeof *a->memory);
    a->order = calloc((size_t)n, sizeof *a->order);
    for (int i = 0; i < n; i++)
        a->order[i] = i;
    a->window = 1 + (int)below(f, chance(f, 50) ? 4 : (uint64_t)n);
    return a;
}

/* Receives in any order, backwards, or in turn. */
static void shuffle(struct flow *f, struct actor *a)
{
    uint64_t how = below(f, 3);

    for (int i = a->n; i-- > 1 && how;) {
        int k = how == 1 ? (int)below(f, (uint64_t)i + 1) : a->n - 1 - i, was = a->order[i];

        if (how == 2 && k >= i)
            break;
        a->order[i] = a->order[k];
        a->order[k] = was;
    }
}

static void add_messages(struct flow *f, const struct stream *s)
{
    for (int r = 0; r < f->n; r++)
        for (int peer = 0; peer < f->n; peer++) {
            if (peer == r)
                continue;
            add(f, s, r, peer, true, s->n)->window =
                s->kind == MESSAGES || chance(f, 70) ? s->n : 8;
            if (s->kind == MESSAGES)
                shuffle(f, add(f, s, r, peer, false, s->n));
        }
    for (int r = 0; r < f->n && s->kind == ANY; r++)
        add(f, s, r, 0, false, s->n * (f->n - 1));
}

/* Who waits for an earlier stream does so with all it receives there; senders never wait. */
static void gate(struct flow *f)
{
    for (int i = 0; i < f->n_actors; i++) {
        struct actor *a = &f->actors[i];
        int k = (int)below(f, (uint64_t)f->n_actors);

        if (!a->sends && f->actors[k].stream < a->stream && f->actors[k].rank == a->rank &&
            chance(f, 80))
            a->after = &f->actors[k];
    }
}

/* ---- a seed ---------------------------------------------------------------------------------- */

static void draw_streams(struct flow *f)
{
    static const enum kind kinds[STREAMS] = {COLLECTIVES, COLLECTIVES, COLLECTIVES,
                                             MESSAGES,    ANY,         ACCESSES};
    int most = chance(f, 20) ? 300 : 100;

    for (int i = 0; i < STREAMS; i++)
        f->streams[i] = (struct stream){
            .kind = kinds[i], .group = 1 + (uint32_t)i, .n = 10 + (int)below(f, (uint64_t)most)};
    for (int i = STREAMS; i-- > 1;) {
        int k = (int)below(f, (uint64_t)i + 1);
        struct stream was = f->streams[i];

        f->streams[i] = f->streams[k];
        f->streams[k] = was;
    }
}

static void draw_faults(struct flow *f)
{
    uint64_t at = br_sim_now(f->job.sim);

    for (int i = 0; i < 6 && f->rails > 1 && f->seed % 3 == 0; i++) {
        int host = (int)below(f, (uint64_t)f->n);
        struct br_sim_fault down = {
            .kind = BR_SIM_PORT_DOWN, .at = at + below(f, 20 * BR_MS), .host = host, .port = 1};
        struct br_sim_fault up = {
            .kind = BR_SIM_PORT_UP, .at = down.at + below(f, 200 * BR_MS), .host = host, .port = 1};

        assert_int_equal(br_sim_add_fault(f->job.sim, &down), 0);
        assert_int_equal(br_sim_add_fault(f->job.sim, &up), 0);
        at = up.at;
    }
}

static void open_groups(struct flow *f)
{
    for (int s = 0; s < STREAMS; s++)
        for (int r = 0; r < f->n; r++)
            assert_int_equal(br_group_init(&f->groups[s][r], f->streams[s].group, r, f->n, NULL,
                                           &br_engine_all(f->job.ranks[r].engine)->model),
                             0);
}

static void open_flow(struct flow *f, uint64_t seed)
{
    struct job_options options = {.engine = {.window = 64}};

    memset(f, 0, sizeof *f);
    f->seed = seed;
    br_random_seed(&f->random, seed * 77 + 5);
    f->n = 2 + (int)below(f, RANKS - 1);
    f->rails = 1 + (int)below(f, 2);
    f->eager = 16u << below(f, 7);
    f->pause = BR_US << below(f, 12);
    options.n = f->n;
    options.rails = f->rails;
    options.eager_bytes = f->eager;
    options.max_slots = chance(f, 40) ? 4 + (uint32_t)below(f, 30) : 1024;
    options.network = (struct br_sim_config){.seed = seed,
                                             .unordered = chance(f, 30),
                                             .early_sent = chance(f, 30),
                                             .bits_per_second = 10000000000ull,
                                             .retransmit_ns = 200 * BR_US};
    if (chance(f, 30)) {
        options.network.loss_ppm = (uint32_t)below(f, 10000);
        options.network.reorder_ppm = (uint32_t)below(f, 50000);
        options.network.duplicate_ppm = (uint32_t)below(f, 10000);
    }
    job_create(&f->job, &options);
    for (int r = 0; r < f->n; r++) {
        f->regions[r] = job_expose(&f->job, r, REGION);
        flow_fill(f->regions[r], REGION - 8, (uint64_t)r);
    }
    draw_streams(f);
    open_groups(f);
    for (int s = 0; s < STREAMS; s++) {
        const struct stream *stream = &f->streams[s];

        if (stream->kind == MESSAGES || stream->kind == ANY)
            add_messages(f, stream);
        for (int r = 0; r < f->n; r++)
            if (stream->kind == COLLECTIVES)
                add(f, stream, r, 0, false, stream->n)->window = 1 + (int)below(f, 12);
            else if (stream->kind == ACCESSES)
                add(f, stream, r, (r + 1) % f->n, false, stream->n);
    }
    gate(f);
    draw_faults(f);
}

/* No link holds more than it may, and no worker fails. */
static void look(struct flow *f, int rank)
{
    struct br_worker *w = f->job.ranks[rank].worker;

    if (w->failed)
        fail_msg("seed %llu: rank %d: %s", (unsigned long long)f->seed, rank, w->message);
    for (int p = 0; p < f->n; p++)
        for (int k = 0; k < w->peers[p].n_rails; k++) {
            uint32_t held = br_rail_held(&w->peers[p].rails[k]);

            if (held > f->held)
                f->held = held;
            assert_in_range(held, 0, BR_CREDITS);
        }
}

static uint64_t wake_of(struct flow *f, int rank)
{
    struct job_rank *r = &f->job.ranks[rank];
    uint64_t timer = br_worker_next_timer(r->worker);
    uint64_t deadline = br_engine_next_deadline(r->engine);

    return br_sim_time_of(f->job.sim, rank, deadline < timer ? deadline : timer);
}

/* One rank's turn. Returns when it wants the next one at the latest. */
static uint64_t turn(struct flow *f, int rank)
{
    struct job_rank *r = &f->job.ranks[rank];
    uint64_t now = br_sim_now(f->job.sim);
    struct br_operation *op;
    bool any;

    if (f->stopped_until[rank] > now)
        return f->stopped_until[rank];
    if (chance(f, 1) && chance(f, 30))
        f->stopped_until[rank] = now + below(f, 20 * BR_MS);
    do {
        any = false;
        for (int i = 0; i < f->n_actors; i++)
            if (f->actors[i].rank == rank && !has_ended(&f->actors[i]))
                any |= act(f, &f->actors[i]);
        for (int k = 0;
             k < 1000 && br_engine_progress(r->engine, br_sim_host_now(f->job.sim, rank)); k++)
            any = true;
        for (; (op = br_operation_pop(&r->ended)); any = true)
            op->state = OVER;
    } while (any);
    look(f, rank);
    return wake_of(f, rank);
}

static int unfinished(const struct flow *f)
{
    int n = 0;

    for (int i = 0; i < f->n_actors; i++)
        n += !has_ended(&f->actors[i]);
    return n;
}

/* What has not ended, for who looks into it. */
static void stuck(const struct flow *f)
{
    for (int i = 0; i < f->n_actors; i++) {
        const struct actor *a = &f->actors[i];
        char what[160] = "nothing";

        if (has_ended(a))
            continue;
        if (a->first < a->next)
            br_operation_describe(&a->ops[a->first], what, sizeof what);
        fprintf(stderr, "rank %d, communicator %u%s, peer %d: %d submitted, %d ended of %d: %s%s\n",
                a->rank, a->stream->group, a->sends ? ", sends" : "", a->peer, a->next, a->first,
                a->n, what, a->after && !has_ended(a->after) ? ", behind another" : "");
    }
    fail_msg("seed %llu: %d streams of ranks have no end in sight", (unsigned long long)f->seed,
             unfinished(f));
}

static void step(struct flow *f)
{
    uint64_t now = br_sim_now(f->job.sim), next = now + f->pause;

    for (int r = 0; r < f->n; r++) {
        uint64_t wake = turn(f, r);

        if (wake < next)
            next = wake;
    }
    if (br_sim_next(f->job.sim) < next)
        next = br_sim_next(f->job.sim);
    br_sim_advance_to(f->job.sim, next <= now ? now + 1 : next);
}

static void close_flow(struct flow *f)
{
    uint64_t until = br_sim_now(f->job.sim) + 300 * BR_MS; /* ACKs, broken rails */

    while (br_sim_now(f->job.sim) < until)
        step(f);
    for (int r = 0; r < f->n; r++) {
        const struct br_worker *w = f->job.ranks[r].worker;

        assert_int_equal(w->unexpected.n_used, 0);
        assert_int_equal(w->slots.n_free, w->slots.count);
    }
    for (int i = 0; i < f->n_actors; i++) {
        free(f->actors[i].ops);
        free(f->actors[i].received);
        free(f->actors[i].memory);
        free(f->actors[i].order);
    }
    job_destroy(&f->job);
    for (int s = 0; s < STREAMS; s++)
        for (int r = 0; r < f->n; r++)
            br_group_destroy(&f->groups[s][r]);
    for (int r = 0; r < f->n; r++)
        free(f->regions[r]);
}

static uint64_t number(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);

    return text && *text ? strtoull(text, NULL, 0) : fallback;
}

static void flow__whatever_has_both_ends_ends(void **state)
{
    const char *sanitize = getenv("BRAID_SANITIZE");
    uint64_t first = number("BRAID_SEED", 1);
    uint64_t n = number("BRAID_SEEDS", sanitize && *sanitize ? 30 : 200), crowded = 0,
             operations = 0;
    static struct flow f;

    (void)state;
    for (uint64_t seed = first; seed < first + n; seed++) {
        open_flow(&f, seed);
        while (unfinished(&f)) {
            step(&f);
            if (br_sim_now(f.job.sim) > LIMIT)
                stuck(&f);
        }
        crowded += f.held == BR_CREDITS;
        operations += f.operations;
        close_flow(&f);
    }
    printf("%llu seeds: %llu operations, in %llu of the seeds with all credits held\n",
           (unsigned long long)n, (unsigned long long)operations, (unsigned long long)crowded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flow__whatever_has_both_ends_ends),
    };

    br_log_set_level(BR_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
