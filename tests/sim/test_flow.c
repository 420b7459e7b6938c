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

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "protocol/internal.h"
#include "tests/collectives/job.h"

#define RANKS   4
#define COMMS   3
#define STREAMS (COMMS + 3)
#define LIMIT   (60 * BR_SEC) /* virtual */
#define REGION  4096u

enum { UNDER_WAY = 1, OVER }; /* br_operation.state */
enum kind { COLLECTIVES, MESSAGES, ANY, ACCESSES };

struct stream {
    enum kind kind;
    uint32_t group; /* number of its communicator */
    int n;          /* operations of a rank; of messages those to each other rank */
};

/* A rank's part in a stream, or one end of its messages with another rank. */
struct actor {
    const struct stream *stream;
    const struct actor *after; /* begins when this one has ended; NULL: at once */
    int rank, peer;
    bool sends;
    int n, window, first, next; /* first: the first that has not ended */
    int *order;                 /* messages: which one comes when */
    struct br_operation *ops;
    struct braid_received *received;
    uint8_t **memory;
};

struct flow {
    uint64_t seed;
    struct br_random random;
    struct job job;
    int n, rails;
    uint32_t eager;
    struct stream streams[STREAMS];
    struct br_group groups[STREAMS][RANKS];
    uint64_t next_order[RANKS], next_sequence[STREAMS][RANKS];
    struct actor actors[2 * STREAMS * RANKS * RANKS];
    int n_actors;
    uint64_t stopped_until[RANKS], pause;
    uint8_t *regions[RANKS];
    uint64_t held; /* the most messages that have waited on a link */
};

static uint64_t total_operations, total_asked;

static uint64_t below(struct flow *f, uint64_t bound)
{
    return br_random_below(&f->random, bound);
}

static bool chance(struct flow *f, unsigned percent)
{
    return below(f, 100) < percent;
}

static uint64_t mix(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t x =
        (a ^ b * 0x9e3779b97f4a7c15ull ^ c * 0xc2b2ae3d27d4eb4full) * 0xbf58476d1ce4e5b9ull;

    return (x ^ x >> 29) * 0x94d049bb133111ebull >> 8;
}

/* ---- what is sent ---------------------------------------------------------------------------- */

/* Bytes of message i from one rank to another, or elements of collective i: most are small. */
static uint32_t size_of(const struct flow *f, const struct stream *s, int from, int to, int i)
{
    uint64_t x = mix(f->seed + s->group, (uint64_t)(from * RANKS + to), (uint64_t)i);

    if (s->kind == COLLECTIVES)
        return x % 10 ? 1 + (uint32_t)(x % 8) : 1 + (uint32_t)(x % (3 * f->eager));
    return x % 12 ? (uint32_t)(x % (f->eager + 1)) : f->eager + 1 + (uint32_t)(x % 5000);
}

static void fill(uint8_t *memory, uint32_t bytes, uint64_t seed)
{
    for (uint32_t k = 0; k < bytes; k++)
        memory[k] = (uint8_t)(seed + k * 7);
}

static bool is_filled(const uint8_t *memory, uint32_t bytes, uint64_t seed)
{
    for (uint32_t k = 0; k < bytes; k++)
        if (memory[k] != (uint8_t)(seed + k * 7))
            return false;
    return true;
}

static uint64_t fill_of(const struct stream *s, int from, int to, uint32_t tag)
{
    return mix(s->group, (uint64_t)(from * RANKS + to), tag);
}

static enum br_collective collective_of(const struct flow *f, const struct stream *s, int i)
{
    static const enum br_collective kinds[] = {BR_ALLREDUCE, BR_BROADCAST, BR_REDUCE};

    return kinds[mix(f->seed, s->group, (uint64_t)i) % 3];
}

static int root_of(const struct flow *f, const struct stream *s, int i)
{
    return (int)(mix(f->seed + 1, s->group, (uint64_t)i) % (uint64_t)f->n);
}

static int32_t value_of(int rank, int i)
{
    return rank * 1000 + i;
}

/* ---- operations ------------------------------------------------------------------------------ */

static void prepare_collective(struct flow *f, struct actor *a, int i)
{
    uint32_t count = size_of(f, a->stream, 0, 0, i);
    int32_t *memory = malloc(2 * count * sizeof *memory);

    a->memory[i] = (uint8_t *)memory;
    for (uint32_t k = 0; k < 2 * count; k++)
        memory[k] = k < count ? value_of(a->rank, i) : -1;
    a->ops[i] = (struct br_operation){.kind = BR_OPERATION_COLLECTIVE,
                                      .collective = collective_of(f, a->stream, i),
                                      .send = memory,
                                      .recv = memory + count,
                                      .count = count,
                                      .type = BRAID_INT32,
                                      .reduction = BRAID_SUM,
                                      .root = root_of(f, a->stream, i)};
    if (a->ops[i].collective == BR_BROADCAST && a->rank != a->ops[i].root)
        a->ops[i].send = NULL;
    if (a->ops[i].collective == BR_REDUCE && a->rank != a->ops[i].root)
        a->ops[i].recv = NULL;
}

static void prepare_message(struct flow *f, struct actor *a, int i)
{
    uint32_t tag = (uint32_t)a->order[i], bytes;

    if (a->stream->kind == ANY && !a->sends) {
        bytes = f->eager + 6000;
        a->memory[i] = malloc(bytes);
        a->ops[i] = (struct br_operation){.kind = BR_OPERATION_RECV,
                                          .peer = BRAID_ANY_SOURCE,
                                          .recv = a->memory[i],
                                          .count = bytes,
                                          .tag_ignore = UINT32_MAX,
                                          .learns = true,
                                          .received = &a->received[i]};
        return;
    }
    bytes = a->sends ? size_of(f, a->stream, a->rank, a->peer, (int)tag)
                     : size_of(f, a->stream, a->peer, a->rank, (int)tag);
    a->memory[i] = malloc(bytes + 1u);
    if (a->sends)
        fill(a->memory[i], bytes, fill_of(a->stream, a->rank, a->peer, tag));
    a->ops[i] = (struct br_operation){.kind = a->sends ? BR_OPERATION_SEND : BR_OPERATION_RECV,
                                      .peer = a->peer,
                                      .send = a->sends ? a->memory[i] : NULL,
                                      .recv = a->sends ? NULL : a->memory[i],
                                      .count = bytes,
                                      .tag = tag};
}

static void prepare_access(struct flow *f, struct actor *a, int i)
{
    bool adds = i % 2;
    uint32_t bytes = adds ? 8 : 1 + (uint32_t)below(f, REGION - 8);

    a->memory[i] = malloc(bytes);
    a->ops[i] = (struct br_operation){.kind = adds ? BR_OPERATION_ADD : BR_OPERATION_GET,
                                      .recv = a->memory[i],
                                      .count = bytes,
                                      .key = {.rank = (uint32_t)a->peer, .id = 1, .check = 77},
                                      .offset = adds ? REGION - 8 : 0,
                                      .operands = {.value = 1}};
}

static void submit(struct flow *f, struct actor *a)
{
    int i = a->next++, which = (int)(a->stream - f->streams);
    uint64_t now = br_sim_host_now(f->job.sim, a->rank);
    struct br_operation *op = &a->ops[i];

    if (a->stream->kind == COLLECTIVES)
        prepare_collective(f, a, i);
    else if (a->stream->kind == ACCESSES)
        prepare_access(f, a, i);
    else
        prepare_message(f, a, i);
    op->group = a->stream->kind == ACCESSES ? NULL : &f->groups[which][a->rank];
    op->priority = (int32_t)(mix(f->seed + 2, a->stream->group, (uint64_t)i) % 3);
    op->timeout = LIMIT;
    op->deadline = now + LIMIT;
    op->order = f->next_order[a->rank]++;
    op->state = UNDER_WAY;
    if (a->stream->kind == COLLECTIVES)
        op->sequence = f->next_sequence[which][a->rank]++;
    if (br_engine_submit(f->job.ranks[a->rank].engine, op, now))
        fail_msg("seed %llu: %s", (unsigned long long)f->seed, br_error_message());
    total_operations++;
}

static bool collective_right(const struct flow *f, const struct actor *a, int i)
{
    const struct br_operation *op = &a->ops[i];
    const int32_t *recv = op->recv;
    int32_t sum = 0;

    for (int r = 0; r < f->n; r++)
        sum += value_of(r, i);
    if (op->collective == BR_BROADCAST)
        sum = value_of(op->root, i);
    for (size_t k = 0; recv && k < op->count; k++)
        if (recv[k] != sum && (op->collective != BR_BROADCAST || a->rank != op->root))
            return false;
    return true;
}

static bool right(const struct flow *f, const struct actor *a, int i)
{
    const struct braid_received *r = &a->received[i];

    if (a->stream->kind == COLLECTIVES)
        return collective_right(f, a, i);
    if (a->stream->kind == ACCESSES)
        return i % 2 || is_filled(a->memory[i], (uint32_t)a->ops[i].count, (uint64_t)a->peer);
    if (a->sends)
        return true;
    if (a->stream->kind == ANY)
        return r->bytes == size_of(f, a->stream, r->peer, a->rank, (int)r->tag) &&
               is_filled(a->memory[i], (uint32_t)r->bytes,
                         fill_of(a->stream, r->peer, a->rank, r->tag));
    return is_filled(a->memory[i], (uint32_t)a->ops[i].count,
                     fill_of(a->stream, a->peer, a->rank, a->ops[i].tag));
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
        if (a->memory[i] && (a->ops[i].status || !right(f, a, i)))
            ended_badly(f, a, i);
        free(a->memory[i]);
        a->memory[i] = NULL;
        if (i == a->first)
            a->first++;
    }
    for (; a->next < a->n && under_way < a->window && (!a->after || has_ended(a->after)) &&
           (any || chance(f, 70));
         under_way++) {
        submit(f, a);
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
        fill(f->regions[r], REGION - 8, (uint64_t)r);
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
        for (; (op = br_engine_ended(r->engine)); any = true)
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
        total_asked += w->counters.credit_stalls > 0;
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
    uint64_t n = number("BRAID_SEEDS", sanitize && *sanitize ? 30 : 200), crowded = 0;
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
        close_flow(&f);
    }
    printf("%llu seeds: %llu operations, in %llu of the seeds with all credits held\n",
           (unsigned long long)n, (unsigned long long)total_operations,
           (unsigned long long)crowded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flow__whatever_has_both_ends_ends),
    };

    br_log_set_level(BR_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
