/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A run: one fragment on its way through the schedule.
 *
 * 1. Every step counts the steps that it still waits for. At zero a SEND or RECV is posted to the worker,
 *    which sorts by priority itself; a REDUCE or COPY joins the ready list.
 * 2. A step that ends starts its successors, and starting never ends a step: so there is no recursion.
 * 3. Of one operation, transfers of earlier steps go first, of whichever fragment: others wait for them. Behind
 *    the large sends of a late step on the same level they would leave the others' levels idle. Rejected: the
 *    earlier fragment first; in the simulator that loses more at the end, when little is left to fill the gaps. In a forest it is the
 *    other way (br_schedule.follows): first everything goes up, then down, so fragments in step use a host's one link in one
 *    direction at a time (1.41 T_F instead of 1.09 on BCube(3,2) with a NIC out).
 * 4. Local work is done in quanta, and the ready list is asked anew for each: what is more urgent
 *    overtakes in between.
 * 5. Where a REDUCE waits for nothing but the bytes of one RECV, they are combined as they come instead of lying in scratch first
 *    (transport/slot.h, note 5), and the step has nothing left to do when its turn comes. The order of the sources is that of the
 *    step, so the bits are the same either way. If bytes have come before the other sources were there, it is done as always.
 * 6. On memory of GPUs a run is staged (stage.h) or direct (direct_run.h): what differs are the places, and who does the local work.
 */
#include "collectives/engine_internal.h"

#include <string.h>

#include "base/error.h"
#include "collectives/reduce.h"
#include "collectives/type.h"

#define LEAST_QUANTUM 4096u /* bytes of one source: less is all overhead */

/* ---- places --------------------------------------------------------------------------------- */

static size_t piece_offset(const struct br_run *run, uint32_t piece)
{
    return run->shorter * piece + (piece < run->longer ? piece : run->longer);
}

static size_t step_elements(const struct br_run *run, const struct br_step *step)
{
    return piece_offset(run, step->piece + step->span.count) - piece_offset(run, step->piece);
}

size_t br_run_step_bytes(const struct br_run *run, const struct br_step *step)
{
    return step_elements(run, step) * br_type_size(run->op->type);
}

uint8_t *br_run_user_place(const struct br_run *run, const struct br_span *span)
{
    const struct br_operation *op = run->op;
    size_t block = span->first / run->schedule->pieces,
           element = block * op->count + run->first + piece_offset(run, span->first % run->schedule->pieces);
    uint8_t *base = span->buffer == BR_INPUT ? (uint8_t *)(uintptr_t)op->send : op->recv;

    return element ? base + element * br_type_size(op->type) : base;
}

/* Where a span begins, and in which region that lies. */
static uint8_t *locate(const struct br_run *run, const struct br_span *span, struct br_region **region)
{
    const struct br_operation *op = run->op;
    size_t size = br_type_size(op->type);
    uint8_t *base = NULL;

    if (span->buffer == BR_SCRATCH) {
        *region = run->direct.gpu ? run->direct.region : run->scratch_region;
        base = run->direct.gpu ? run->direct.memory : run->scratch;
        return base + span->first * (run->shorter + (run->longer > 0)) * size;
    }
    if (op->send_gpu || op->recv_gpu)
        base = br_stage_run_block(run, span->buffer, span->first / run->schedule->pieces);
    if (base) {
        *region = run->scratch_region;
        return base + piece_offset(run, span->first % run->schedule->pieces) * size;
    }
    *region = span->buffer == BR_INPUT ? op->send_region : op->recv_region;
    return br_run_user_place(run, span);
}

uint8_t *br_run_place(const struct br_run *run, const struct br_span *span)
{
    struct br_region *region;

    return locate(run, span, &region);
}

static const void *source_address(const struct br_run *run, const struct br_source *source)
{
    if (source->recv >= 0 && run->steps[source->recv].transfer.mapped)
        return run->steps[source->recv].transfer.mapped;
    return br_run_place(run, &source->span);
}

/* ---- steps ---------------------------------------------------------------------------------- */

static void post(struct br_engine *engine, struct br_run *run, const struct br_step *step,
                 struct br_run_step *rs)
{
    const struct br_operation *op = run->op;
    struct br_transfer *t = &rs->transfer;
    int rc;

    t->tag = br_tag_collective(op->group->number, op->sequence, run->fragment, step->match);
    t->peer = br_group_in_job(op->group, (int)step->peer);
    t->length = (uint32_t)br_run_step_bytes(run, step);
    t->memory = locate(run, &step->span, &t->region);
    t->priority = op->priority;
    t->order = op->order;
    t->within = br_run_within(run, (uint32_t)(rs - run->steps));
    t->check = op->check;
    t->total = 0;
    t->may_map = (step->flags & BR_STEP_MAY_MAP) != 0;
    t->traced = op->traced;
    t->rendezvous = false;
    t->request = NULL;
    t->owner = rs;
    rc = step->kind == BR_STEP_SEND ? br_transfer_send(engine->worker, t)
                                    : br_transfer_receive(engine->worker, t);
    if (rc)
        br_p2p_failed(engine, rc, br_collective_name(op->collective), t->peer);
}

static bool before(const struct br_run_step *a, const struct br_run_step *b)
{
    const struct br_operation *x = a->run->op, *y = b->run->op;

    if (x != y)
        return x->priority != y->priority ? x->priority > y->priority : x->order < y->order;
    if (a->run != b->run)
        return a->run->fragment < b->run->fragment;
    return a < b;
}

void br_run_ready(struct br_engine *engine, struct br_run_step *rs)
{
    struct br_list *behind = engine->ready.prev;

    while (behind != &engine->ready && before(rs, br_container_of(behind, struct br_run_step, node)))
        behind = behind->prev;
    br_list_insert_before(behind->next, &rs->node);
}

/* ---- combining as it comes (note 5) ---------------------------------------------------------- */

static void combine(void *context, uint32_t offset, const uint8_t *bytes, uint32_t length)
{
    struct br_run_step *rs = context;
    const struct br_run *run = rs->run;
    const struct br_step *step = &run->schedule->steps[rs - run->steps];
    const struct br_source *sources = &run->schedule->sources[step->first_source];
    size_t size = br_type_size(run->op->type);
    const void **from = run->engine->sources;
    int rc;

    for (uint32_t i = 0; i < step->n_sources; i++)
        from[i] = sources[i].recv >= 0 && !run->steps[sources[i].recv].ended
                      ? bytes
                      : (const uint8_t *)source_address(run, &sources[i]) + offset;
    rc = br_reduce(run->op->type, run->op->reduction, br_run_place(run, &step->span) + offset, from,
                   (int)step->n_sources, length / size,
                   step->flags & BR_STEP_FINAL ? run->op->group->size : 0);
    if (rc) /* not the arguments: they were checked at submit */
        br_worker_fail(run->engine->worker, -rc, br_error_words());
}

/* The REDUCE that reads RECV number `recv` and waits for nothing else; NULL: there is none. */
static struct br_run_step *waits_only_for(struct br_run *run, uint32_t recv)
{
    const struct br_schedule *s = run->schedule;
    const struct br_step *step = &s->steps[recv];

    if (run->steps[recv].readers != 1)
        return NULL;
    for (uint32_t i = 0; i < step->n_successors; i++) {
        uint32_t next = s->successors[step->first_successor + i];

        if (run->steps[next].remaining != 1)
            continue;
        for (uint32_t k = 0; k < s->steps[next].n_sources; k++)
            if (s->sources[s->steps[next].first_source + k].recv == (int32_t)recv)
                return &run->steps[next];
    }
    return NULL;
}

static void has_combined(struct br_run_step *recv)
{
    struct br_run_step *reduce = recv->combiner.context;
    const struct br_run *run = recv->run;

    reduce->done = step_elements(run, &run->schedule->steps[reduce - run->steps]);
}

/* RECV number `recv` has been posted, or the step that reads it waits for less. */
static void try_combine(struct br_engine *engine, struct br_run *run, uint32_t recv)
{
    struct br_run_step *rs = &run->steps[recv], *reduce = waits_only_for(run, recv);

    if (run->direct.gpu || !reduce || rs->transfer.state == BR_TRANSFER_IDLE ||
        br_stage_reduce_pays(run, &run->schedule->steps[reduce - run->steps]))
        return;
    reduce->run = run;
    rs->combiner = (struct br_combiner){combine, reduce};
    (void)br_transfer_combine(engine->worker, &rs->transfer, &rs->combiner);
}

static void try_sources(struct br_engine *engine, struct br_run *run, const struct br_step *step)
{
    for (uint32_t i = 0; i < step->n_sources; i++) {
        int32_t recv = run->schedule->sources[step->first_source + i].recv;

        if (recv >= 0 && !run->steps[recv].ended)
            try_combine(engine, run, (uint32_t)recv);
    }
}

static void trace_step(struct br_engine *engine, const struct br_run *run, uint32_t index)
{
    static const struct br_trace_kind kind = {
        .category = "step", .detail = true, .args = {"order", "fragment", "step", "peer", "bytes"}};
    static const char *const names[] = {[BR_STEP_SEND] = "send",
                                        [BR_STEP_RECV] = "receive",
                                        [BR_STEP_REDUCE] = "reduce",
                                        [BR_STEP_COPY] = "copy"};
    const struct br_step *step = &run->schedule->steps[index];
    bool moves = step->kind == BR_STEP_SEND || step->kind == BR_STEP_RECV;
    struct br_trace_event event = {
        .kind = &kind,
        .name = names[step->kind],
        .args = {(int64_t)run->op->order, run->fragment, index,
                 moves ? br_group_in_job(run->op->group, (int)step->peer) : -1,
                 (int64_t)br_run_step_bytes(run, step)},
    };

    br_trace_end(engine->worker->config.trace, &run->steps[index].span, engine->worker->now, &event);
}

static void start_step(struct br_engine *engine, struct br_run *run, uint32_t index)
{
    const struct br_step *step = &run->schedule->steps[index];
    struct br_run_step *rs = &run->steps[index];

    rs->run = run;
    if (run->op->traced)
        br_trace_begin(engine->worker->config.trace, BR_TRACE_STEPS, engine->worker->now, &rs->span);
    if (step->kind == BR_STEP_SEND || step->kind == BR_STEP_RECV)
        post(engine, run, step, rs);
    else if (run->direct.gpu)
        br_direct_run_step(engine, rs);
    else if (step->kind != BR_STEP_REDUCE || !br_stage_reduce(engine, rs))
        br_run_ready(engine, rs);
    if (step->flags & BR_STEP_MAY_MAP)
        try_combine(engine, run, index);
}

static void release(struct br_engine *engine, struct br_run *run)
{
    br_direct_run_end(engine, &run->direct);
    br_list_remove(&run->node);
    br_list_push_front(&engine->free_runs, &run->node);
    run->op = NULL;
    engine->n_free++;
    engine->may_start = true;
}

static void run_ended(struct br_engine *engine, struct br_run *run)
{
    struct br_operation *op = run->op;

    release(engine, run);
    op->fragments.running--;
    if (++op->fragments.ended == op->fragments.count)
        br_operation_end(engine, op, 0);
    else
        br_admission_oldest(engine);
}

static void stored(struct br_engine *engine, struct br_batch *batch)
{
    if (!engine->worker->failed)
        run_ended(engine, br_container_of(batch, struct br_run, batch));
}

static void steps_ended(struct br_engine *engine, struct br_run *run)
{
    if (!br_stage_run_store(engine, run, stored))
        run_ended(engine, run);
}

static bool needs_credit(const struct br_engine *engine, const struct br_run *run, const struct br_step *step)
{
    bool is_send = step->kind == BR_STEP_SEND;

    return (is_send || step->kind == BR_STEP_RECV) &&
           br_transfer_needs_credit(engine->worker, br_group_in_job(run->op->group, (int)step->peer), is_send,
                                    (uint32_t)br_run_step_bytes(run, step));
}

/* The oldest step has ended, or the run begins. */
static void find_oldest(struct br_engine *engine, struct br_run *run)
{
    const struct br_schedule *s = run->schedule;

    while (run->oldest < s->n_steps &&
           (run->steps[run->oldest].ended || !needs_credit(engine, run, &s->steps[run->oldest])))
        run->oldest++;
    br_admission_oldest(engine);
}

static void step_ended(struct br_engine *engine, struct br_run *run, uint32_t index)
{
    const struct br_schedule *s = run->schedule;
    const struct br_step *step = &s->steps[index];

    run->steps[index].ended = true;
    if (run->steps[index].span.row)
        trace_step(engine, run, index);
    if (index == run->oldest)
        find_oldest(engine, run);
    for (uint32_t i = 0; i < step->n_successors && !engine->worker->failed; i++) {
        uint32_t next = s->successors[step->first_successor + i];

        if (--run->steps[next].remaining == 0)
            start_step(engine, run, next);
        else if (run->steps[next].remaining == 1)
            try_sources(engine, run, &s->steps[next]);
    }
    if (--run->left == 0 && !engine->worker->failed)
        steps_ended(engine, run);
}

void br_run_transfer_ended(struct br_engine *engine, struct br_transfer *t)
{
    struct br_run_step *rs = t->owner;

    if (!t->is_send && t->combined)
        has_combined(rs);
    if (!t->is_send && rs->run->direct.gpu && !br_direct_run_arrived(engine, rs->run))
        return;
    step_ended(engine, rs->run, (uint32_t)(rs - rs->run->steps));
}

/* ---- local work ----------------------------------------------------------------------------- */

static void release_mapped(struct br_engine *engine, struct br_run *run, const struct br_step *step)
{
    for (uint32_t i = 0; i < step->n_sources; i++) {
        int32_t recv = run->schedule->sources[step->first_source + i].recv;
        struct br_run_step *rs = recv < 0 ? NULL : &run->steps[recv];

        if (rs && --rs->readers == 0)
            br_transfer_release(engine->worker, &rs->transfer);
    }
}

/* `n` elements from element rs->done on. */
static int compute(struct br_engine *engine, const struct br_run *run, const struct br_step *step,
                   const struct br_run_step *rs, size_t n)
{
    const struct br_source *sources = &run->schedule->sources[step->first_source];
    size_t size = br_type_size(run->op->type), offset = rs->done * size;
    uint8_t *to = br_run_place(run, &step->span);

    if (!n)
        return 0;
    if (step->kind == BR_STEP_COPY) {
        memcpy(to + offset, (const uint8_t *)source_address(run, sources) + offset, n * size);
        return 0;
    }
    for (uint32_t i = 0; i < step->n_sources; i++)
        engine->sources[i] = (const uint8_t *)source_address(run, &sources[i]) + offset;
    return br_reduce(run->op->type, run->op->reduction, to + offset, engine->sources, (int)step->n_sources, n,
                     step->flags & BR_STEP_FINAL ? run->op->group->size : 0);
}

void br_run_reduced(struct br_engine *engine, struct br_run_step *rs)
{
    uint32_t index = (uint32_t)(rs - rs->run->steps);

    release_mapped(engine, rs->run, &rs->run->schedule->steps[index]);
    step_ended(engine, rs->run, index);
}

size_t br_run_work(struct br_engine *engine)
{
    struct br_run_step *rs = br_container_of(engine->ready.next, struct br_run_step, node);
    struct br_run *run = rs->run;
    const struct br_step *step = &run->schedule->steps[rs - run->steps];
    size_t left = step_elements(run, step) - rs->done, size = br_type_size(run->op->type);
    size_t bytes = engine->config.quantum_bytes / step->n_sources, n;
    int rc;

    n = (bytes < LEAST_QUANTUM ? LEAST_QUANTUM : bytes) / size;
    if (n > left)
        n = left;
    rc = compute(engine, run, step, rs, n);
    if (rc) { /* not the arguments: they were checked at submit */
        br_worker_fail(engine->worker, -rc, br_error_words());
        return 0;
    }
    rs->done += n;
    if (n == left) {
        br_list_remove(&rs->node);
        br_run_reduced(engine, rs);
    }
    return n * size * step->n_sources + 1;
}

/* ---- start and end -------------------------------------------------------------------------- */

size_t br_run_elements(const struct br_operation *op, uint32_t fragment)
{
    return br_piece_offset(op->count, op->fragments.count, fragment + 1) -
           br_piece_offset(op->count, op->fragments.count, fragment);
}

size_t br_run_bytes(const struct br_operation *op, uint32_t fragment)
{
    return br_run_elements(op, fragment) * br_type_size(op->type) * op->fragments.plan->schedule->packed;
}

static void prepare(struct br_run *run, struct br_operation *op)
{
    const struct br_plan *plan = op->fragments.plan;
    const struct br_schedule *s = plan->schedule;

    run->op = op;
    run->schedule = s;
    run->fragment = op->fragments.next;
    run->first = br_piece_offset(op->count, op->fragments.count, run->fragment);
    run->elements = br_run_elements(op, run->fragment);
    run->shorter = run->elements / s->pieces;
    run->longer = run->elements % s->pieces;
    run->left = s->n_steps;
    run->oldest = 0;
}

static void prepare_steps(struct br_run *run, const struct br_plan *plan)
{
    for (uint32_t i = 0; i < plan->schedule->n_steps; i++) {
        struct br_run_step *rs = &run->steps[i];

        rs->remaining = plan->schedule->steps[i].n_dependencies;
        rs->readers = plan->readers[i];
        rs->done = 0;
        rs->batch.copy.event = NULL;
        rs->ended = false;
        rs->span.row = 0;
        rs->transfer.state = BR_TRANSFER_IDLE;
        rs->transfer.mapped = NULL;
        br_list_init(&rs->node);
    }
}

static void start_steps(struct br_engine *engine, struct br_run *run)
{
    const struct br_schedule *s = run->schedule;

    for (uint32_t i = 0; i < s->n_ready && !engine->worker->failed; i++)
        start_step(engine, run, s->ready[i]);
    if (!s->n_steps)
        steps_ended(engine, run);
}

static void loaded(struct br_engine *engine, struct br_batch *batch)
{
    if (!engine->worker->failed)
        start_steps(engine, br_container_of(batch, struct br_run, batch));
}

void br_run_start(struct br_engine *engine, struct br_operation *op)
{
    struct br_run *run;
    int rc = br_run_take(engine, op, &run);

    br_list_push_back(&op->fragments.runs, &run->node);
    prepare(run, op);
    op->fragments.next++;
    op->fragments.running++;
    if (rc) {
        br_worker_fail(engine->worker, -rc, br_error_words());
        return;
    }
    prepare_steps(run, op->fragments.plan);
    find_oldest(engine, run);
    if (!br_stage_run_load(engine, run, loaded))
        start_steps(engine, run);
}

void br_run_forget(struct br_engine *engine, struct br_run *run)
{
    release(engine, run);
}
