/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions in virtual time: which plans are tried, and when again. A rank's all-reduces go one
 * after the other over a line that is there instead of the communicator (--wrap, in
 * tests/CMakeLists.txt), and computation only moves the clock.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "collectives/comm/gpu_ops.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/engine/group.h"
#include "training/session/agree.h"
#include "training/session/session.h"

#define MANY      600
#define FEW       6
#define STARTS_UP (20 * BR_US) /* each all-reduce; its bytes take no time */
#define WARMUP    2            /* iterations */
#define REVIEW    40           /* iterations, longer than a trial */
#define TRIED     (WARMUP + 1 + BR_AUTOTUNE_SAMPLES * BR_POLICIES) /* the first trial is over */

static struct br_context replan_context = {.gpu = &br_gpu_cuda};
static struct br_group group;
static struct braid_comm comm = {.context = &replan_context, .size = 2, .group = &group};
static uint64_t now, idle; /* ns: the clock; the line has nothing more to do */

/* ---- what training/ calls -------------------------------------------------------------------- */

uint64_t __wrap_br_comm_now(const struct braid_comm *c);
int __wrap_braid_rank(const struct braid_comm *c);
int __wrap_br_agree(struct braid_comm *c, uint64_t digest, int rc, const char *who,
                    const char *what);
void *__wrap_braid_alloc(struct braid_comm *c, size_t bytes);
void __wrap_braid_free(struct braid_comm *c, void *memory);
int __wrap_braid_barrier(struct braid_comm *c, const struct braid_options *options,
                         struct braid_op **op);
int __wrap_braid_broadcast(struct braid_comm *c, const void *from, void *to, size_t count,
                           enum braid_type type, int root, const struct braid_options *options,
                           struct braid_op **op);
int __wrap_braid_allreduce(struct braid_comm *c, const void *from, void *to, size_t count,
                           enum braid_type type, enum braid_reduction reduction,
                           const struct braid_options *options, struct braid_op **op);
int __wrap_braid_wait(struct braid_op *op, int timeout_ms);
int __wrap_braid_wait_any(struct braid_op **ops, size_t n, size_t *index, int timeout_ms);

uint64_t __wrap_br_comm_now(const struct braid_comm *c)
{
    (void)c;
    return now;
}

int __wrap_braid_rank(const struct braid_comm *c)
{
    return c->rank;
}

int __wrap_br_agree(struct braid_comm *c, uint64_t digest, int rc, const char *who,
                    const char *what)
{
    (void)c;
    (void)digest;
    (void)who;
    (void)what;
    return rc;
}

void *__wrap_braid_alloc(struct braid_comm *c, size_t bytes)
{
    (void)c;
    return calloc(1, bytes);
}

void __wrap_braid_free(struct braid_comm *c, void *memory)
{
    (void)c;
    free(memory);
}

int __wrap_braid_barrier(struct braid_comm *c, const struct braid_options *options,
                         struct braid_op **op)
{
    (void)c;
    (void)options;
    (void)op;
    return 0;
}

int __wrap_braid_broadcast(struct braid_comm *c, const void *from, void *to, size_t count,
                           enum braid_type type, int root, const struct braid_options *options,
                           struct braid_op **op)
{
    (void)c;
    (void)count;
    (void)type;
    (void)root;
    (void)options;
    (void)op;
    assert_ptr_equal(from, to);
    return 0;
}

int __wrap_braid_allreduce(struct braid_comm *c, const void *from, void *to, size_t count,
                           enum braid_type type, enum braid_reduction reduction,
                           const struct braid_options *options, struct braid_op **op)
{
    uint64_t *end;

    (void)c;
    (void)count;
    (void)type;
    (void)reduction;
    (void)options;
    assert_ptr_equal(from, to);
    idle = (idle > now ? idle : now) + STARTS_UP;
    if (!op) {
        now = idle;
        return 0;
    }
    end = malloc(sizeof *end);
    assert_non_null(end);
    *end = idle;
    *op = (struct braid_op *)end;
    return 0;
}

int __wrap_braid_wait(struct braid_op *op, int timeout_ms)
{
    uint64_t *end = (uint64_t *)op;

    (void)timeout_ms;
    now = *end > now ? *end : now;
    free(end);
    return 0;
}

int __wrap_braid_wait_any(struct braid_op **ops, size_t n, size_t *index, int timeout_ms)
{
    struct braid_op *op = ops[0];

    assert_int_equal(n, 1);
    ops[0] = NULL;
    *index = 0;
    return __wrap_braid_wait(op, timeout_ms);
}

/* ---- the program ----------------------------------------------------------------------------- */

static struct braid_session *open_session(int n)
{
    /* by this law a plan of many groups is near enough to be tried if computation is as long as
     * below */
    struct braid_session_options options = {
        .warmup = WARMUP, .replan = REVIEW, .a = (double)STARTS_UP / BR_SEC};
    struct braid_layer layers[MANY] = {0};
    struct braid_session *session;

    for (int l = 0; l < n; l++)
        layers[l].count = 4;
    assert_int_equal(braid_session_create(&comm, layers, n, &options, &session), 0);
    return session;
}

/* Layer 0 computes for ms; the gradients stay under way. */
static void iterate(struct braid_session *session, int n, uint64_t ms)
{
    for (int l = 0; l < n; l++) {
        assert_int_equal(braid_gradient_wait(session, l), 0);
        now += l ? 0 : ms * BR_MS;
    }
    assert_int_equal(braid_session_step(session), 0);
    for (int l = n - 1; l >= 0; l--)
        assert_int_equal(braid_gradient_ready(session, l), 0);
}

static struct braid_session_report report_of(struct braid_session *session)
{
    struct braid_session_report report = {0};

    assert_int_equal(braid_session_report(session, &report), 0);
    return report;
}

/* A plan that sends each of very many layers for itself is one of those that are tried. */
static void session_review__tries_plans_of_many_groups(void **state)
{
    struct braid_session *session = open_session(MANY);
    struct braid_session_report report;

    (void)state;
    for (int i = 0; i < 2 * TRIED; i++)
        iterate(session, MANY, 30);
    report = report_of(session);
    assert_true(report.policies[BR_POLICY_P3] <= 1.5 * report.policies[BR_POLICY_AUTO]);
    assert_true(report.tried[BR_POLICY_P3] > 0 || report.tried[BR_POLICY_LAYERWISE] > 0);
    assert_int_equal(braid_session_free(session), 0);
}

static void iterate_more(struct braid_session *session, int iterations, uint64_t ms, int pause)
{
    for (int i = 0; i < iterations; i++) {
        iterate(session, FEW, ms);
        now += pause && i % pause == pause - 1 ? 100 * BR_MS : 0;
    }
}

/* Evaluating or saving every 15 iterations is no change of what an iteration takes; computing twice
 * as long is. */
static void session_review__tries_again_when_iterations_have_changed(void **state)
{
    struct braid_session *session = open_session(FEW);

    (void)state;
    iterate_more(session, TRIED, 10, 0);
    assert_int_equal(report_of(session).trying, 0);
    iterate_more(session, 5 * REVIEW, 10, 15);
    assert_int_equal(report_of(session).plans, 1);
    iterate_more(session, 2 * REVIEW, 20, 0);
    assert_int_equal(report_of(session).plans, 2);
    iterate_more(session, 5 * REVIEW, 20, 15);
    assert_int_equal(report_of(session).plans, 2);
    assert_int_equal(report_of(session).trying, 0);
    assert_int_equal(braid_session_free(session), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(session_review__tries_plans_of_many_groups),
        cmocka_unit_test(session_review__tries_again_when_iterations_have_changed),
    };

    return cmocka_run_group_tests_name("review", tests, NULL, NULL);
}
