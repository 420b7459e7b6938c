/* SPDX-License-Identifier: BSD-3-Clause */
/* Receives that learn from their message: any rank, any tag, any length up to a capacity; probes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "tests/collectives/job.h"
#include "tests/says.h"

#define GUARD 0xa5

static const struct job_options two = {
    .n = 2, .rails = 1, .network = {.seed = 1, .bits_per_second = 100ull << 30}};
static const struct job_options four = {
    .n = 4, .rails = 2, .network = {.seed = 1, .bits_per_second = 100ull << 30}};

static void fill(uint8_t *memory, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        memory[i] = (uint8_t)(i * 7 + i / 251 + seed * 31);
}

static bool is_filled(const uint8_t *memory, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        if (memory[i] != (uint8_t)(i * 7 + i / 251 + seed * 31))
            return false;
    return true;
}

/* A message with its memory. */
struct sent {
    struct br_operation op;
    uint8_t *memory;
};

static void send_to(struct job *job, struct sent *s, int from, int to, size_t bytes, uint32_t tag,
                    unsigned seed)
{
    s->memory = malloc(bytes + 1);
    fill(s->memory, bytes, seed);
    s->op = (struct br_operation){
        .kind = BR_OPERATION_SEND, .peer = to, .send = s->memory, .count = bytes, .tag = tag};
    job_submit(job, from, &s->op);
}

struct got {
    struct br_operation op;
    struct braid_received received;
    uint8_t *memory;
    size_t capacity;
};

static void receive(struct job *job, struct got *g, int at, size_t capacity, int peer, uint32_t tag,
                    uint32_t ignore)
{
    g->memory = malloc(capacity + 1);
    g->capacity = capacity;
    memset(g->memory, GUARD, capacity + 1);
    g->received = (struct braid_received){.peer = -9};
    g->op = (struct br_operation){.kind = BR_OPERATION_RECV,
                                  .peer = peer,
                                  .recv = g->memory,
                                  .count = capacity,
                                  .tag = tag,
                                  .tag_ignore = ignore,
                                  .learns = true,
                                  .received = &g->received};
    job_submit(job, at, &g->op);
}

static void is_message(const struct got *g, int peer, uint32_t tag, size_t bytes, unsigned seed)
{
    assert_int_equal(g->op.status, 0);
    assert_int_equal(g->received.peer, peer);
    assert_int_equal(g->received.tag, tag);
    assert_int_equal(g->received.bytes, bytes);
    assert_true(is_filled(g->memory, bytes, seed));
    for (size_t i = bytes; i <= g->capacity; i++)
        if (g->memory[i] != GUARD)
            fail_msg("byte %zu behind a message of %zu was written", i, bytes);
}

static void settle(struct job *job)
{
    uint64_t until = br_sim_now(job->sim) + 20 * BR_MS;

    while (br_sim_now(job->sim) < until && job_step(job))
        ;
}

/* Nothing is kept of what has been received. */
static void is_clean(const struct job *job)
{
    for (int r = 0; r < job->n; r++) {
        const struct br_worker *w = job->ranks[r].worker;

        assert_int_equal(w->failed, 0);
        assert_int_equal(w->unexpected.n_used, 0);
        assert_true(br_list_empty(&w->arrivals));
        assert_int_equal(w->unexpected.n_used, 0);
        assert_int_equal(w->receives.count, 0);
        assert_int_equal(w->sends.count, 0);
    }
}

static void drop(struct sent *s, int sent, struct got *g, int got)
{
    for (int i = 0; i < sent; i++)
        free(s[i].memory);
    for (int i = 0; i < got; i++)
        free(g[i].memory);
}

static void receive_any__shorter_messages(void **state)
{
    static const size_t sizes[] = {
        0, 1, 24, 25, 1024, 1025, 100000, BR_MAX_TRANSFER, 2 * BR_MAX_TRANSFER + 77};
    struct job job;

    (void)state;
    job_create(&job, &two);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int variant = 0; variant < 8; variant++) {
            int to = variant & 1, from = 0, before = job.ended;
            bool first = variant & 2, any = variant & 4;
            struct sent s;
            struct got g;

            if (sizes[i] > BR_MAX_TRANSFER && first == any)
                continue; /* half of the ways is enough of them */

            if (first)
                receive(&job, &g, to, sizes[i] + 100, any ? BRAID_ANY_SOURCE : from, 5,
                        any ? BRAID_ANY_TAG : 0);
            send_to(&job, &s, from, to, sizes[i], 5, 3);
            if (!first) {
                settle(&job);
                receive(&job, &g, to, sizes[i] + 100, any ? BRAID_ANY_SOURCE : from, 5,
                        any ? BRAID_ANY_TAG : 0);
            }
            job_run(&job, before + 2);
            is_message(&g, from, 5, sizes[i], 3);
            settle(&job);
            is_clean(&job);
            drop(&s, 1, &g, 1);
        }
    job_destroy(&job);
}

/* A small message does not overtake a large one of another tag. */
static void receive_any__order_over_tags(void **state)
{
    struct job job;

    (void)state;
    job_create(&job, &four);
    for (int first = 0; first < 2; first++) {
        int before = job.ended;
        struct sent s[3];
        struct got g[3];

        for (int i = 0; first && i < 3; i++)
            receive(&job, &g[i], 1, 100000, 0, 0, BRAID_ANY_TAG);
        send_to(&job, &s[0], 0, 1, 70000, 7, 0);
        send_to(&job, &s[1], 0, 1, 8, 6, 1);
        send_to(&job, &s[2], 0, 1, 30000, 5, 2);
        settle(&job);
        for (int i = 0; !first && i < 3; i++)
            receive(&job, &g[i], 1, 100000, 0, 0, BRAID_ANY_TAG);
        job_run(&job, before + 6);
        is_message(&g[0], 0, 7, 70000, 0);
        is_message(&g[1], 0, 6, 8, 1);
        is_message(&g[2], 0, 5, 30000, 2);
        drop(s, 3, g, 3);
    }
    is_clean(&job);
    job_destroy(&job);
}

/* Of receives that fit a message the one that was submitted first gets it. */
static void receive_any__order_of_receives(void **state)
{
    uint8_t exact[2][8];
    struct br_operation plain[2];
    int before;
    struct job job;
    struct sent s[4];
    struct got g[2];

    (void)state;
    job_create(&job, &two);
    before = job.ended;
    for (int i = 0; i < 2; i++)
        plain[i] = (struct br_operation){
            .kind = BR_OPERATION_RECV, .recv = exact[i], .count = 8, .tag = 4};
    job_submit(&job, 1, &plain[0]);
    receive(&job, &g[0], 1, 100, BRAID_ANY_SOURCE, 4, 0);
    job_submit(&job, 1, &plain[1]);
    receive(&job, &g[1], 1, 100, 0, 4, 0);
    for (int i = 0; i < 4; i++)
        send_to(&job, &s[i], 0, 1, 8, 4, (unsigned)i);
    job_run(&job, before + 8);
    assert_true(is_filled(exact[0], 8, 0));
    is_message(&g[0], 0, 4, 8, 1);
    assert_true(is_filled(exact[1], 8, 2));
    is_message(&g[1], 0, 4, 8, 3);
    is_clean(&job);
    drop(s, 4, g, 2);
    job_destroy(&job);
}

/* A receive of one tag does not take a message that one before it gets as soon as messages of
 * another tag are here, which left first over a slow rail and hold its credits. */
static void receive_any__order_of_receives_over_rails(void **state)
{
    (void)state;
    for (int others = 20; others <= (int)BR_UNRELEASED; others++) {
        struct br_sim_fault slow = {.kind = BR_SIM_PORT_RATE, .bits_per_second = 1000000};
        struct job_options options = two;
        struct braid_received r;
        struct sent s[BR_UNRELEASED + 2];
        struct got g[BR_UNRELEASED + 2];
        struct job job;
        int before;

        options.rails = 2;
        job_create(&job, &options);
        before = job.ended;
        assert_int_equal(br_sim_add_fault(job.sim, &slow), 0);
        job_step(&job);
        receive(&job, &g[0], 1, 8, BRAID_ANY_SOURCE, 0, 0xf);
        receive(&job, &g[1], 1, 8, 0, 5, 0);
        for (int i = 0; i < others; i++)
            send_to(&job, &s[i], 0, 1, 8, 0x20, 0);
        for (int i = 0; i < 2; i++)
            send_to(&job, &s[others + i], 0, 1, 8, 5, 1 + (unsigned)i);
        while (job.ended < before + others + 4) {
            assert_true(job_step(&job));
            if (g[1].received.peer < 0) /* nor does a probe */
                assert_int_equal(br_engine_probe(job.ranks[1].engine, NULL, 0, 5, 0, false, &r), 0);
        }
        is_message(&g[0], 0, 5, 8, 1);
        is_message(&g[1], 0, 5, 8, 2);
        for (int i = 0; i < others; i++)
            receive(&job, &g[2 + i], 1, 8, 0, 0x20, 0);
        job_run(&job, before + 2 * others + 4);
        settle(&job);
        is_clean(&job);
        drop(s, others + 2, g, others + 2);
        job_destroy(&job);
    }
}

/* Nothing but messages of collectives that it has not come to arrives, and they hold all credits:
 * the message that it waits for comes all the same. */
static void receive_any__amid_collectives_that_are_ahead(void **state)
{
    enum { AHEAD = 3 * BR_UNRELEASED };
    static struct br_operation roots[AHEAD], leaves[AHEAD];
    static uint8_t from[AHEAD], to[AHEAD];
    struct job job;
    struct sent s;
    struct got g;
    int before;

    (void)state;
    job_create(&job, &two);
    before = job.ended;
    receive(&job, &g, 1, 8, BRAID_ANY_SOURCE, 5, 0);
    for (int i = 0; i < AHEAD; i++) {
        from[i] = (uint8_t)i;
        roots[i] = leaves[i] = (struct br_operation){.kind = BR_OPERATION_COLLECTIVE,
                                                     .collective = BR_BROADCAST,
                                                     .send = &from[i],
                                                     .recv = &to[i],
                                                     .count = 1,
                                                     .type = BRAID_UINT8};
        leaves[i].send = NULL;
        roots[i].recv = &from[i];
        job_submit(&job, 0, &roots[i]);
    }
    job_run(&job, before + AHEAD);
    send_to(&job, &s, 0, 1, 8, 5, 1);
    job_run(&job, before + AHEAD + 2);
    is_message(&g, 0, 5, 8, 1);
    for (int i = 0; i < AHEAD; i++)
        job_submit(&job, 1, &leaves[i]);
    job_run(&job, before + 2 * AHEAD + 2);
    for (int i = 0; i < AHEAD; i++)
        assert_int_equal(to[i], (uint8_t)i);
    is_clean(&job);
    drop(&s, 1, &g, 1);
    job_destroy(&job);
}

/* Of the tag some bits count. */
static void receive_any__bits_of_a_tag(void **state)
{
    struct job job;
    struct sent s[2];
    struct got g[2];
    int before;

    (void)state;
    job_create(&job, &two);
    before = job.ended;
    receive(&job, &g[0], 1, 8, 0, 0x200, 0xff);
    receive(&job, &g[1], 1, 8, 0, 0x100, 0xff);
    send_to(&job, &s[0], 0, 1, 8, 0x133, 1);
    send_to(&job, &s[1], 0, 1, 8, 0x244, 2);
    job_run(&job, before + 4);
    is_message(&g[0], 0, 0x244, 8, 2);
    is_message(&g[1], 0, 0x133, 8, 1);
    drop(s, 2, g, 2);
    job_destroy(&job);
}

/* What is longer than the memory stays, and a longer receive gets it. */
static void receive_any__too_long(void **state)
{
    static const size_t sizes[] = {65, 70000};
    struct job job;

    (void)state;
    job_create(&job, &two);
    for (int i = 0; i < 4; i++) {
        size_t bytes = sizes[i % 2];
        int to = i / 2, before = job.ended;
        struct sent s;
        struct got g[2];

        receive(&job, &g[0], to, bytes - 1, BRAID_ANY_SOURCE, 0, BRAID_ANY_TAG);
        send_to(&job, &s, 0, to, bytes, 9, 1);
        job_run(&job, before + 1);
        settle(&job);
        assert_int_equal(g[0].op.status, -EMSGSIZE);
        assert_says(g[0].op.message, "rank 0|tag 9");
        assert_int_equal(g[0].received.bytes, bytes);
        assert_int_equal(g[0].received.peer, 0);
        assert_int_equal(g[0].memory[0], GUARD);
        receive(&job, &g[1], to, bytes, 0, 9, 0);
        job_run(&job, before + 3);
        is_message(&g[1], 0, 9, bytes, 1);
        settle(&job);
        is_clean(&job);
        drop(&s, 1, g, 2);
    }
    job_destroy(&job);
}

/* One of many messages, which hold all credits and which nobody receives. */
static void receive_any__behind_messages_of_others(void **state)
{
    enum { OTHERS = 200 };
    static struct sent s[OTHERS + 2];
    struct got g[2], rest[OTHERS];
    struct job job;
    int before;

    (void)state;
    job_create(&job, &two);
    before = job.ended;
    receive(&job, &g[0], 1, 100000, BRAID_ANY_SOURCE, OTHERS, 0);
    for (uint32_t i = 0; i < OTHERS; i++)
        send_to(&job, &s[i], 0, 1, i % 3 ? 100 : 5000, i, i);
    send_to(&job, &s[OTHERS], 0, 1, 8, OTHERS, OTHERS);
    send_to(&job, &s[OTHERS + 1], 0, 1, 9000, OTHERS + 1, OTHERS + 1);
    while (g[0].received.peer < 0)
        assert_true(job_step(&job));
    settle(&job);
    is_message(&g[0], 0, OTHERS, 8, OTHERS);
    receive(&job, &g[1], 1, 100000, 0, OTHERS + 1, 0);
    for (uint32_t i = OTHERS; i-- > 0;) {
        rest[i].memory = malloc(5000);
        rest[i].op = (struct br_operation){.kind = BR_OPERATION_RECV,
                                           .recv = rest[i].memory,
                                           .count = i % 3 ? 100 : 5000,
                                           .tag = i};
        job_submit(&job, 1, &rest[i].op);
    }
    job_run(&job, before + 2 * OTHERS + 4);
    is_message(&g[1], 0, OTHERS + 1, 9000, OTHERS + 1);
    for (uint32_t i = 0; i < OTHERS; i++)
        assert_true(is_filled(rest[i].memory, i % 3 ? 100 : 5000, i));
    settle(&job);
    is_clean(&job);
    drop(s, OTHERS + 2, g, 2);
    drop(NULL, 0, rest, OTHERS);
    job_destroy(&job);
}

static void receive_any__groups_are_apart(void **state)
{
    struct br_cost_model model;
    struct br_group groups[2];
    struct job job;
    struct sent s[2];
    struct got g;
    int ranks[] = {1, 0}, before;

    (void)state;
    job_create(&job, &two);
    br_cost_model_default(&model, BR_COST_HOST, 1);
    for (int r = 0; r < 2; r++)
        assert_int_equal(br_group_init(&groups[r], 3, 1 - r, 2, ranks, &model), 0);
    before = job.ended;
    receive(&job, &g, 1, 8, BRAID_ANY_SOURCE, 0, BRAID_ANY_TAG);
    s[0].memory = calloc(1, 8);
    s[0].op = (struct br_operation){
        .kind = BR_OPERATION_SEND, .peer = 0, .send = s[0].memory, .count = 8, .group = &groups[0]};
    job_submit(&job, 0, &s[0].op);
    settle(&job);
    assert_int_equal(g.received.peer, -9);
    send_to(&job, &s[1], 0, 1, 8, 2, 2);
    job_run(&job, before + 3);
    is_message(&g, 0, 2, 8, 2);
    free(g.memory);
    g.memory = malloc(9);
    memset(g.memory, GUARD, 9);
    g.op = (struct br_operation){.kind = BR_OPERATION_RECV,
                                 .peer = BRAID_ANY_SOURCE,
                                 .recv = g.memory,
                                 .count = 8,
                                 .learns = true,
                                 .group = &groups[1],
                                 .received = &g.received};
    job_submit(&job, 1, &g.op);
    job_run(&job, before + 4);
    assert_int_equal(g.received.peer, 1); /* in that group */
    drop(s, 2, &g, 1);
    for (int r = 0; r < 2; r++) {
        br_engine_forget_group(job.ranks[r].engine, &groups[r]);
        br_group_destroy(&groups[r]);
    }
    job_destroy(&job);
}

static void receive_any__peer_has_left(void **state)
{
    struct job job;
    struct sent s;
    struct got g[2];

    (void)state;
    for (int any = 0; any < 2; any++) {
        job_create(&job, &two);
        send_to(&job, &s, 0, 1, 8, 1, 1);
        settle(&job);
        br_worker_leave(job.ranks[0].worker);
        settle(&job);
        receive(&job, &g[0], 1, 8, any ? BRAID_ANY_SOURCE : 0, 0, BRAID_ANY_TAG);
        job_run(&job, 2);
        is_message(&g[0], 0, 1, 8, 1); /* what it has sent before counts */
        receive(&job, &g[1], 1, 8, any ? BRAID_ANY_SOURCE : 0, 0, BRAID_ANY_TAG);
        job_run(&job, 3);
        assert_int_equal(g[1].op.status, -ECONNRESET);
        assert_says(g[1].op.message, "left");
        drop(&s, 1, g, 2);
        job_destroy(&job);
        job_create(&job, &two); /* it leaves while the receive waits */
        receive(&job, &g[0], 1, 8, any ? BRAID_ANY_SOURCE : 0, 0, BRAID_ANY_TAG);
        br_worker_leave(job.ranks[0].worker);
        job_run(&job, 1);
        assert_int_equal(g[0].op.status, -ECONNRESET);
        drop(NULL, 0, g, 1);
        job_destroy(&job);
    }
}

static void receive_any__deadline_and_death(void **state)
{
    struct job job;
    struct got g;

    (void)state;
    job_create(&job, &four);
    receive(&job, &g, 1, 8, BRAID_ANY_SOURCE, 3, 0);
    job_run(&job, 1);
    assert_int_equal(g.op.status, -ETIMEDOUT);
    assert_says(g.op.message, "any rank|tag 3");
    drop(NULL, 0, &g, 1);
    job_destroy(&job);
    job_create(&job, &four);
    receive(&job, &g, 1, 8, BRAID_ANY_SOURCE, 3, 0);
    br_sim_add_fault(job.sim, &(struct br_sim_fault){.kind = BR_SIM_HOST_KILLED, .host = 2});
    job_run(&job, 1);
    assert_int_equal(g.op.status, -ECONNRESET);
    assert_says(g.op.message, "rank 2");
    drop(NULL, 0, &g, 1);
    job_destroy(&job);
}

static void probe__looks_and_claims(void **state)
{
    static const size_t sizes[] = {8, 70000, BR_MAX_TRANSFER + 5}; /* the last one in parts */

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int to = 0; to < 2; to++) { /* to oneself, too */
            struct braid_received r = {0};
            struct br_engine *engine;
            struct job job;
            struct sent s[2];
            struct got g[2];

            job_create(&job, &two);
            engine = job.ranks[to].engine;
            assert_int_equal(
                br_engine_probe(engine, NULL, BRAID_ANY_SOURCE, 0, BRAID_ANY_TAG, false, &r), 0);
            send_to(&job, &s[0], 0, to, sizes[i], 1, 1);
            send_to(&job, &s[1], 0, to, 100, 2, 2);
            settle(&job);
            for (int again = 0; again < 2; again++) {
                assert_int_equal(
                    br_engine_probe(engine, NULL, BRAID_ANY_SOURCE, 0, BRAID_ANY_TAG, again, &r),
                    1);
                assert_int_equal(r.peer, 0);
                assert_int_equal(r.tag, 1);
                assert_int_equal(r.bytes, sizes[i]);
            }
            receive(&job, &g[0], to, 100, BRAID_ANY_SOURCE, 0, BRAID_ANY_TAG);
            job_run(&job, 2);
            is_message(&g[0], 0, 2, 100, 2); /* the first one is claimed */
            assert_int_equal(
                br_engine_probe(engine, NULL, BRAID_ANY_SOURCE, 0, BRAID_ANY_TAG, false, &r), 0);
            g[1] = (struct got){.memory = malloc(sizes[i])};
            g[1].op = (struct br_operation){.kind = BR_OPERATION_RECV,
                                            .peer = r.peer,
                                            .recv = g[1].memory,
                                            .count = r.bytes,
                                            .tag = r.tag,
                                            .claimed = true,
                                            .claim = r.message};
            job_submit(&job, to, &g[1].op);
            job_run(&job, 4);
            assert_int_equal(g[1].op.status, 0);
            assert_true(is_filled(g[1].memory, sizes[i], 1));
            settle(&job);
            is_clean(&job);
            drop(s, 2, g, 2);
            job_destroy(&job);
        }
}

/* Messages that nobody receives hold all credits, and nobody but the probe asks for the last one.
 */
static void probe__behind_messages_of_others(void **state)
{
    enum { OTHERS = 100 };
    static struct sent s[OTHERS + 1];
    static struct got g[OTHERS + 1];
    struct braid_received r = {0};
    struct job job;
    int rc;

    (void)state;
    job_create(&job, &two);
    for (uint32_t i = 0; i <= OTHERS; i++)
        send_to(&job, &s[i], 0, 1, i % 3 ? 100 : 5000, i, i);
    while (!(rc = br_engine_probe(job.ranks[1].engine, NULL, 0, OTHERS, 0, false, &r)))
        assert_true(job_step(&job));
    assert_int_equal(rc, 1);
    assert_int_equal(r.tag, OTHERS);
    for (uint32_t i = 0; i <= OTHERS; i++)
        receive(&job, &g[i], 1, 5000, 0, i, 0);
    job_run(&job, 2 * OTHERS + 2);
    for (uint32_t i = 0; i <= OTHERS; i++)
        is_message(&g[i], 0, i, i % 3 ? 100 : 5000, i);
    settle(&job);
    is_clean(&job);
    drop(s, OTHERS + 1, g, OTHERS + 1);
    job_destroy(&job);
}

/* A message that has come since the engine's last look is the one of the receive that waits. */
static void probe__behind_a_receive(void **state)
{
    struct braid_received r = {0};
    struct br_worker *w;
    struct job job;
    struct sent s;
    struct got g;

    (void)state;
    job_create(&job, &two);
    w = job.ranks[1].worker;
    receive(&job, &g, 1, 8, BRAID_ANY_SOURCE, 0, BRAID_ANY_TAG);
    send_to(&job, &s, 0, 1, 8, 3, 1);
    while (br_list_empty(&w->arrivals)) {
        br_engine_progress(job.ranks[0].engine, br_sim_now(job.sim));
        assert_int_not_equal(br_sim_next(job.sim), BR_SIM_NEVER);
        br_sim_advance_to(job.sim, br_sim_next(job.sim));
        br_worker_poll(w, br_sim_now(job.sim));
    }
    assert_int_equal(br_engine_probe(job.ranks[1].engine, NULL, 0, 3, 0, true, &r), 0);
    job_run(&job, 2);
    is_message(&g, 0, 3, 8, 1);
    drop(&s, 1, &g, 1);
    job_destroy(&job);
}

/* ---- anything, with rails that are lost ------------------------------------------------------ */

enum { RANKS = 4, MESSAGES = 40, TAGS = 3, LONGEST = 40000 };

/* How a rank receives: what may be any, of each of its receives. */
enum mode { ANY_ANY, ANY_TAGGED, PEER_ANY, PEER_TAGGED, PLAIN, MODES };

struct plan {
    struct br_random random;
    struct job job;
    struct message {
        int from, to;
        uint32_t tag;
        size_t bytes;
        bool received;
    } messages[MESSAGES];
    struct sent sent[MESSAGES];
    struct got got[MESSAGES]; /* of receives as they were submitted */
    int at[MESSAGES];
    enum mode modes[RANKS];
};

static int below(struct plan *p, int bound)
{
    return (int)br_random_below(&p->random, (uint64_t)bound);
}

static void open_plan(struct plan *p, uint64_t seed)
{
    struct job_options options = {.network = {.seed = seed, .bits_per_second = 10000000000}};

    memset(p, 0, sizeof *p);
    br_random_seed(&p->random, seed);
    options.n = 2 + below(p, RANKS - 1);
    options.rails = 1 + below(p, 3);
    options.network.unordered = below(p, 2);
    options.network.loss_ppm = below(p, 2) ? 5000 : 0;
    options.network.reorder_ppm = below(p, 2) ? 50000 : 0;
    options.network.reorder_ns = 20 * BR_US;
    options.network.latency_ns = (uint64_t)(1 + below(p, 30)) * BR_US;
    if (!below(p, 3))
        options.network.rkey_ports = (uint32_t)below(p, 1 << options.rails);
    job_create(&p->job, &options);
    for (int r = 0; r < RANKS; r++)
        p->modes[r] = (enum mode)below(p, MODES);
    for (int i = 0; i < MESSAGES; i++)
        p->messages[i] = (struct message){
            .from = below(p, options.n),
            .to = below(p, options.n),
            .tag = (uint32_t)below(p, TAGS),
            .bytes = (size_t)(below(p, 3)   ? below(p, 1100)
                              : below(p, 2) ? below(p, LONGEST)
                                            : 1023 + below(p, 4)),
        };
    for (int i = 0; options.rails > 1 && i < 4; i++) { /* rail 0 stays */
        struct br_sim_fault fault = {.kind = BR_SIM_PORT_DOWN,
                                     .at = br_sim_now(p->job.sim) +
                                           br_random_below(&p->random, 20 * BR_MS),
                                     .host = below(p, options.n),
                                     .port = 1 + below(p, options.rails - 1)};

        assert_int_equal(br_sim_add_fault(p->job.sim, &fault), 0);
        fault.kind = BR_SIM_PORT_UP;
        fault.at += br_random_below(&p->random, 50 * BR_MS);
        assert_int_equal(br_sim_add_fault(p->job.sim, &fault), 0);
    }
}

/* The receive for message i, or for another one. */
static void post(struct plan *p, int i)
{
    const struct message *m = &p->messages[i];
    enum mode mode = p->modes[m->to];
    struct got *g = &p->got[i];
    bool any_peer = mode == ANY_ANY || mode == ANY_TAGGED;
    bool any_tag = mode == ANY_ANY || mode == PEER_ANY;

    p->at[i] = m->to;
    if (mode != PLAIN && (mode != PEER_TAGGED || below(p, 2))) {
        receive(&p->job, g, m->to, LONGEST, any_peer ? BRAID_ANY_SOURCE : m->from,
                any_tag ? 0 : m->tag, any_tag ? BRAID_ANY_TAG : 0);
        return;
    }
    g->memory = malloc(m->bytes + 1);
    g->received = (struct braid_received){.peer = m->from, .tag = m->tag, .bytes = m->bytes};
    g->op = (struct br_operation){.kind = BR_OPERATION_RECV,
                                  .peer = m->from,
                                  .recv = g->memory,
                                  .count = m->bytes,
                                  .tag = m->tag};
    job_submit(&p->job, m->to, &g->op);
}

/* Receives in the order of their submission got the messages of a peer (and tag, where they name
 * one) in the order of theirs. */
static void look(struct plan *p, uint64_t seed)
{
    for (int i = 0; i < MESSAGES; i++) {
        const struct got *g = &p->got[i];
        enum mode mode = p->modes[p->at[i]];
        bool any_tag = mode == ANY_ANY || mode == PEER_ANY;
        int k = 0;

        if (g->op.status)
            fail_msg("seed %llu, receive %d: %s", (unsigned long long)seed, i, g->op.message);
        while (k < MESSAGES && (p->messages[k].received || p->messages[k].to != p->at[i] ||
                                p->messages[k].from != g->received.peer ||
                                (!any_tag && p->messages[k].tag != g->received.tag)))
            k++;
        if (k == MESSAGES || p->messages[k].tag != g->received.tag ||
            p->messages[k].bytes != g->received.bytes ||
            !is_filled(g->memory, g->received.bytes, (unsigned)k))
            fail_msg("seed %llu, receive %d of rank %d (mode %d): got %zu bytes of rank %d, tag %u",
                     (unsigned long long)seed, i, p->at[i], mode, g->received.bytes,
                     g->received.peer, g->received.tag);
        p->messages[k].received = true;
    }
}

static void run_plan(struct plan *p, uint64_t seed)
{
    int sent = 0, posted = 0;

    open_plan(p, seed);
    while (sent < MESSAGES || posted < MESSAGES) {
        bool sends = posted == MESSAGES || (sent < MESSAGES && below(p, 2));

        if (sends) {
            const struct message *m = &p->messages[sent];

            send_to(&p->job, &p->sent[sent], m->from, m->to, m->bytes, m->tag, (unsigned)sent);
            sent++;
        } else {
            post(p, posted++);
        }
        for (int k = below(p, 4) ? 0 : below(p, 30); k-- > 0;)
            job_step(&p->job);
    }
    while (p->job.ended < 2 * MESSAGES)
        if (!job_step(&p->job))
            fail_msg("seed %llu: only %d have ended", (unsigned long long)seed, p->job.ended);
    look(p, seed);
    settle(&p->job);
    settle(&p->job);
    is_clean(&p->job);
    drop(p->sent, MESSAGES, p->got, MESSAGES);
    job_destroy(&p->job);
}

static void receive_any__seeds(void **state)
{
    static struct plan p;
    const char *many = getenv("BRAID_SEEDS"), *one = getenv("BRAID_SEED");
    uint64_t first = one ? strtoull(one, NULL, 10) : 1;

    (void)state;
    for (uint64_t seed = first; seed < first + (one    ? 1
                                                : many ? strtoull(many, NULL, 10)
                                                       : 40);
         seed++)
        run_plan(&p, seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(receive_any__shorter_messages),
        cmocka_unit_test(receive_any__order_over_tags),
        cmocka_unit_test(receive_any__order_of_receives),
        cmocka_unit_test(receive_any__order_of_receives_over_rails),
        cmocka_unit_test(receive_any__amid_collectives_that_are_ahead),
        cmocka_unit_test(receive_any__bits_of_a_tag),
        cmocka_unit_test(receive_any__too_long),
        cmocka_unit_test(receive_any__behind_messages_of_others),
        cmocka_unit_test(receive_any__groups_are_apart),
        cmocka_unit_test(receive_any__peer_has_left),
        cmocka_unit_test(receive_any__deadline_and_death),
        cmocka_unit_test(probe__looks_and_claims),
        cmocka_unit_test(probe__behind_messages_of_others),
        cmocka_unit_test(probe__behind_a_receive),
        cmocka_unit_test(receive_any__seeds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
