/* SPDX-License-Identifier: BSD-3-Clause */
/* One fragment on its way through the schedule. Its steps start when what they wait for has ended;
 * starting a step never ends one, so there is no recursion. The notes below are those of
 * doc/design/engine.md. */
#include "collectives/engine/internal.h"

#include "base/copy.h"
#include "base/error.h"
#include "collectives/engine/blocks.h"
#include "collectives/engine/user_reduction.h"
#include "collectives/schedule/type.h"

#define FEW_SENDS     2u    /* tcp gathers more of them in one system call */
#define LEAST_QUANTUM 4096u /* bytes of one source: less is all overhead */

/* ---- places ---------------------------------------------------------------------------------- */

/* The block of a step in this fragment. */
static struct br_block_range block_of(const struct br_fragment *fragment,
                                      const struct br_step *step)
{
    return br_block_range(fragment->op, step->sized_by, step->block, fragment->index);
}

static size_t piece_offset(const struct br_fragment *fragment, uint32_t piece)
{
    return fragment->shorter * piece + (piece < fragment->longer ? piece : fragment->longer);
}

static size_t step_elements(const struct br_fragment *fragment, const struct br_step *step)
{
    uint32_t pieces = fragment->schedule->pieces;
    size_t elements;

    if (!fragment->uneven)
        return piece_offset(fragment, step->piece + step->span.count) -
               piece_offset(fragment, step->piece);
    elements = block_of(fragment, step).elements;
    return br_piece_offset(elements, pieces, step->piece + step->span.count) -
           br_piece_offset(elements, pieces, step->piece);
}

/* A message of a block that has ended before this fragment: neither end sends or receives it. */
static bool is_skipped(const struct br_fragment *fragment, const struct br_step *step)
{
    return fragment->uneven && step->kind <= BR_STEP_RECV && block_of(fragment, step).skipped;
}

size_t br_fragment_step_bytes(const struct br_fragment *fragment, const struct br_step *step)
{
    return step_elements(fragment, step) * br_type_size(fragment->op->type);
}

uint8_t *br_fragment_user_address(const struct br_fragment *fragment, const struct br_span *span)
{
    const struct br_operation *op = fragment->op;
    uint32_t pieces = fragment->schedule->pieces, piece = span->first % pieces;
    size_t block = span->first / pieces, element;
    uint8_t *base = span->buffer == BR_INPUT ? (uint8_t *)(uintptr_t)op->send : op->recv;
    struct br_block_range range;

    if (fragment->uneven) {
        range = br_block_range(op, span->buffer, block, fragment->index);
        element = br_block_offset(op, span->buffer, block) + range.first +
                  br_piece_offset(range.elements, pieces, piece);
    } else {
        element = block * op->count + fragment->first + piece_offset(fragment, piece);
    }
    return element ? base + element * br_type_size(op->type) : base;
}

/* Where a span begins, and in which region that lies. */
static uint8_t *fragment_locate(const struct br_fragment *fragment, const struct br_span *span,
                                struct br_region **region)
{
    const struct br_operation *op = fragment->op;
    size_t size = br_type_size(op->type);
    uint8_t *base = NULL;

    if (span->buffer == BR_SCRATCH) {
        *region = fragment->pipeline.gpu ? fragment->pipeline.region : fragment->scratch_region;
        base = fragment->pipeline.gpu ? fragment->pipeline.memory : fragment->scratch;
        return base + span->first * (fragment->shorter + (fragment->longer > 0)) * size;
    }
    if (br_operation_is_staged(op))
        base = br_staging_fragment_block(fragment, span->buffer,
                                         span->first / fragment->schedule->pieces);
    if (base) {
        uint32_t pieces = fragment->schedule->pieces, piece = span->first % pieces;
        size_t block = span->first / pieces, elements = fragment->elements;

        if (fragment->uneven)
            elements = br_block_range(op, span->buffer, block, fragment->index).elements;
        *region = fragment->scratch_region;
        return base + br_piece_offset(elements, pieces, piece) * size;
    }
    *region = span->buffer == BR_INPUT ? op->send_region : op->recv_region;
    return br_fragment_user_address(fragment, span);
}

uint8_t *br_fragment_address(const struct br_fragment *fragment, const struct br_span *span)
{
    struct br_region *region;

    return fragment_locate(fragment, span, &region);
}

static const void *source_address(const struct br_fragment *fragment,
                                  const struct br_source *source)
{
    if (source->recv >= 0 && fragment->steps[source->recv].transfer.mapped)
        return fragment->steps[source->recv].transfer.mapped;
    return br_fragment_address(fragment, &source->span);
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Does the rank only send, and so little that messages leave one by one (note 7)? */
static bool sends_alone(const struct br_schedule *schedule)
{
    return !schedule->n_recvs && schedule->n_sends <= FEW_SENDS;
}

/* Does a step write part of the result that no other step reads, and that will have left the caches
 * when the program reads it? */
static bool writes_uncached(const struct br_engine *engine, const struct br_fragment *fragment,
                            const struct br_step *step)
{
    const struct br_operation *op = fragment->op;

    return !step->n_successors && step->span.buffer == BR_OUTPUT && !br_operation_is_staged(op) &&
           op->send_bytes + op->recv_bytes > engine->config.cache_share;
}

static void fragment_post(struct br_engine *engine, struct br_fragment *fragment,
                          const struct br_step *step, struct br_fragment_step *rs)
{
    const struct br_operation *op = fragment->op;
    struct br_transfer *t = &rs->transfer;
    int rc;

    t->tag = br_tag_collective(op->group->number, op->sequence, fragment->index, step->match);
    t->peer = br_group_in_job(op->group, (int)step->peer);
    t->length = (uint32_t)br_fragment_step_bytes(fragment, step);
    t->memory = fragment_locate(fragment, &step->span, &t->region);
    t->priority = op->priority;
    t->order = op->order;
    t->within = br_fragment_order(fragment, (uint32_t)(rs - fragment->steps));
    t->check = op->check;
    t->total = 0;
    if (fragment->uneven && !br_blocks_known(op))
        t->total = br_block_count(op, step->sized_by, step->block) * br_type_size(op->type);
    t->may_map = (step->flags & BR_STEP_MAY_MAP) != 0;
    t->uncached = writes_uncached(engine, fragment, step);
    t->traced = op->traced;
    t->alone = op->alone && sends_alone(fragment->schedule);
    t->streamed = op->alone && br_collective_rooted(op->collective); /* note 7 */
    t->rendezvous = false;
    t->request = NULL;
    t->owner = rs;
    rc = step->kind == BR_STEP_SEND ? br_transfer_send(engine->worker, t)
                                    : br_transfer_receive(engine->worker, t);
    if (rc)
        br_p2p_failed(engine, rc, br_collective_name(op->collective), t->peer);
}

static bool fragment_before(const struct br_fragment_step *a, const struct br_fragment_step *b)
{
    const struct br_operation *x = a->fragment->op, *y = b->fragment->op;

    if (x != y)
        return x->priority != y->priority ? x->priority > y->priority : x->order < y->order;
    if (a->fragment != b->fragment)
        return a->fragment->index < b->fragment->index;
    return a < b;
}

void br_fragment_step_ready(struct br_engine *engine, struct br_fragment_step *rs)
{
    struct br_list *behind = engine->ready.prev;

    while (behind != &engine->ready &&
           fragment_before(rs, br_container_of(behind, struct br_fragment_step, node)))
        behind = behind->prev;
    br_list_insert_before(behind->next, &rs->node);
}

/* ---- combining as it comes (note 5) ---------------------------------------------------------- */

static void reduce_on_receive(void *context, uint32_t offset, const uint8_t *bytes, uint32_t length)
{
    struct br_fragment_step *rs = context;
    const struct br_fragment *fragment = rs->fragment;
    const struct br_step *step = &fragment->schedule->steps[rs - fragment->steps];
    const struct br_source *sources = &fragment->schedule->sources[step->first_source];
    size_t size = br_type_size(fragment->op->type);
    const void **from = fragment->engine->sources;
    int rc;

    for (uint32_t i = 0; i < step->n_sources; i++)
        from[i] = sources[i].recv >= 0 && !fragment->steps[sources[i].recv].ended
                      ? bytes
                      : (const uint8_t *)source_address(fragment, &sources[i]) + offset;
    rc = br_reduce_operation(fragment->op, br_fragment_address(fragment, &step->span) + offset,
                             from, (int)step->n_sources, length / size,
                             step->flags & BR_STEP_FINAL ? fragment->op->group->size : 0);
    if (rc) /* not the arguments: they were checked at submit */
        br_worker_fail(fragment->engine->worker, -rc, br_error_message());
}

/* The REDUCE that reads RECV number `recv` and waits for nothing else; NULL: there is none. */
static struct br_fragment_step *waits_only_for(struct br_fragment *fragment, uint32_t recv)
{
    const struct br_schedule *s = fragment->schedule;
    const struct br_step *step = &s->steps[recv];

    if (fragment->steps[recv].readers != 1)
        return NULL;
    for (uint32_t i = 0; i < step->n_successors; i++) {
        uint32_t next = s->successors[step->first_successor + i];

        if (fragment->steps[next].remaining != 1)
            continue;
        for (uint32_t k = 0; k < s->steps[next].n_sources; k++)
            if (s->sources[s->steps[next].first_source + k].recv == (int32_t)recv)
                return &fragment->steps[next];
    }
    return NULL;
}

static void has_reduced(struct br_fragment_step *recv)
{
    struct br_fragment_step *reduce = recv->reducer.context;
    const struct br_fragment *fragment = recv->fragment;

    reduce->done = step_elements(fragment, &fragment->schedule->steps[reduce - fragment->steps]);
}

/* RECV number `recv` has been posted, or the step that reads it waits for less. */
static void try_reduce_on_receive(struct br_engine *engine, struct br_fragment *fragment,
                                  uint32_t recv)
{
    struct br_fragment_step *rs = &fragment->steps[recv], *reduce = waits_only_for(fragment, recv);

    if (fragment->pipeline.gpu || !reduce || rs->transfer.state == BR_TRANSFER_IDLE ||
        (br_operation_is_staged(fragment->op) &&
         br_staging_reduce_pays(fragment, &fragment->schedule->steps[reduce - fragment->steps])))
        return;
    reduce->fragment = fragment;
    rs->reducer = (struct br_slot_reducer){reduce_on_receive, reduce};
    (void)br_transfer_reduce(engine->worker, &rs->transfer, &rs->reducer);
}

static void try_sources(struct br_engine *engine, struct br_fragment *fragment,
                        const struct br_step *step)
{
    for (uint32_t i = 0; i < step->n_sources; i++) {
        int32_t recv = fragment->schedule->sources[step->first_source + i].recv;

        if (recv >= 0 && !fragment->steps[recv].ended)
            try_reduce_on_receive(engine, fragment, (uint32_t)recv);
    }
}

static void trace_step(struct br_engine *engine, const struct br_fragment *fragment, uint32_t index)
{
    static const struct br_trace_kind kind = {
        .category = "step", .detail = true, .args = {"order", "fragment", "step", "peer", "bytes"}};
    static const char *const names[] = {[BR_STEP_SEND] = "send",
                                        [BR_STEP_RECV] = "receive",
                                        [BR_STEP_REDUCE] = "reduce",
                                        [BR_STEP_COPY] = "copy"};
    const struct br_step *step = &fragment->schedule->steps[index];
    bool moves = step->kind == BR_STEP_SEND || step->kind == BR_STEP_RECV;
    struct br_trace_event event = {
        .kind = &kind,
        .name = names[step->kind],
        .args = {(int64_t)fragment->op->order, fragment->index, index,
                 moves ? br_group_in_job(fragment->op->group, (int)step->peer) : -1,
                 (int64_t)br_fragment_step_bytes(fragment, step)},
    };

    br_trace_end(engine->worker->config.trace, &fragment->steps[index].span, engine->worker->now,
                 &event);
}

static void start_step(struct br_engine *engine, struct br_fragment *fragment, uint32_t index)
{
    const struct br_step *step = &fragment->schedule->steps[index];
    struct br_fragment_step *rs = &fragment->steps[index];

    rs->fragment = fragment;
    if (fragment->op->traced)
        br_trace_begin(engine->worker->config.trace, BR_TRACE_STEPS, engine->worker->now,
                       &rs->span);
    if (is_skipped(fragment, step)) {
        rs->transfer.slot = NULL;
        br_fragment_step_ready(engine, rs); /* to end there, as nothing may end here */
    } else if (step->kind == BR_STEP_SEND || step->kind == BR_STEP_RECV) {
        fragment_post(engine, fragment, step, rs);
    } else if (fragment->pipeline.gpu) {
        br_gpu_pipeline_step(engine, rs);
    } else if (step->kind != BR_STEP_REDUCE || !br_operation_is_staged(fragment->op) ||
               !br_staging_reduce(engine, rs)) {
        br_fragment_step_ready(engine, rs);
    }
    if (step->flags & BR_STEP_MAY_MAP)
        try_reduce_on_receive(engine, fragment, index);
}

static void fragment_release(struct br_engine *engine, struct br_fragment *fragment)
{
    if (br_operation_is_staged(fragment->op))
        br_gpu_pipeline_end(engine, &fragment->pipeline);
    br_list_remove(&fragment->node);
    br_list_push_front(&engine->free_fragments, &fragment->node);
    fragment->op = NULL;
    engine->n_free++;
    engine->may_start = true;
}

static void fragment_ended(struct br_engine *engine, struct br_fragment *fragment)
{
    struct br_operation *op = fragment->op;

    fragment_release(engine, fragment);
    op->fragments.running--;
    if (++op->fragments.ended == op->fragments.count)
        br_operation_end(engine, op, 0);
}

static void fragment_stored(struct br_engine *engine, struct br_copy_batch *batch)
{
    fragment_ended(engine, br_container_of(batch, struct br_fragment, batch));
}

static void steps_ended(struct br_engine *engine, struct br_fragment *fragment)
{
    if (!br_operation_is_staged(fragment->op) ||
        !br_staging_fragment_store(engine, fragment, fragment_stored))
        fragment_ended(engine, fragment);
}

static void step_ended(struct br_engine *engine, struct br_fragment *fragment, uint32_t index)
{
    const struct br_schedule *s = fragment->schedule;
    const struct br_step *step = &s->steps[index];

    fragment->steps[index].ended = true;
    if (fragment->steps[index].span.row)
        trace_step(engine, fragment, index);
    for (uint32_t i = 0; i < step->n_successors; i++) {
        uint32_t next = s->successors[step->first_successor + i];

        if (--fragment->steps[next].remaining == 0)
            start_step(engine, fragment, next);
        else if (fragment->steps[next].remaining == 1)
            try_sources(engine, fragment, &s->steps[next]);
    }
    if (--fragment->steps_left == 0)
        steps_ended(engine, fragment);
}

void br_fragment_transfer_ended(struct br_engine *engine, struct br_transfer *t)
{
    struct br_fragment_step *rs = t->owner;

    if (!t->is_send && t->reduced)
        has_reduced(rs);
    if (!t->is_send && rs->fragment->pipeline.gpu && !br_gpu_pipeline_arrived(engine, rs->fragment))
        return;
    step_ended(engine, rs->fragment, (uint32_t)(rs - rs->fragment->steps));
}

/* ---- local work ------------------------------------------------------------------------------ */

/* false: what was read may be wrong, and the worker has failed. */
static bool release_mapped(struct br_engine *engine, struct br_fragment *fragment,
                           const struct br_step *step)
{
    bool right = true;

    for (uint32_t i = 0; i < step->n_sources; i++) {
        int32_t recv = fragment->schedule->sources[step->first_source + i].recv;
        struct br_fragment_step *rs = recv < 0 ? NULL : &fragment->steps[recv];

        if (rs && --rs->readers == 0)
            right = br_transfer_release(engine->worker, &rs->transfer) && right;
    }
    return right;
}

/* `n` elements from element `first` on. */
static int fragment_compute(struct br_engine *engine, const struct br_fragment *fragment,
                            const struct br_step *step, size_t first, size_t n)
{
    const struct br_source *sources = &fragment->schedule->sources[step->first_source];
    size_t size = br_type_size(fragment->op->type), offset = first * size;
    uint8_t *to = br_fragment_address(fragment, &step->span);

    if (!n)
        return 0;
    if (step->kind == BR_STEP_COPY) {
        const uint8_t *from = (const uint8_t *)source_address(fragment, sources) + offset;

        if (writes_uncached(engine, fragment, step))
            br_copy_uncached(to + offset, from, n * size);
        else
            br_copy(to + offset, from, n * size);
        return 0;
    }
    for (uint32_t i = 0; i < step->n_sources; i++)
        engine->sources[i] = (const uint8_t *)source_address(fragment, &sources[i]) + offset;
    return br_reduce_operation(fragment->op, to + offset, engine->sources, (int)step->n_sources, n,
                               step->flags & BR_STEP_FINAL ? fragment->op->group->size : 0);
}

void br_fragment_step_reduced(struct br_engine *engine, struct br_fragment_step *rs)
{
    uint32_t index = (uint32_t)(rs - rs->fragment->steps);

    if (release_mapped(engine, rs->fragment, &rs->fragment->schedule->steps[index]))
        step_ended(engine, rs->fragment, index);
}

size_t br_fragment_compute(struct br_engine *engine)
{
    struct br_fragment_step *rs =
        br_container_of(engine->ready.next, struct br_fragment_step, node);
    struct br_fragment *fragment = rs->fragment;
    const struct br_step *step = &fragment->schedule->steps[rs - fragment->steps];
    size_t left = step_elements(fragment, step) - rs->done, size = br_type_size(fragment->op->type);
    uint32_t sources = step->n_sources ? step->n_sources : 1; /* none: a message that is skipped */
    size_t bytes = engine->config.quantum_bytes / sources, n;
    int rc;

    n = (bytes < LEAST_QUANTUM ? LEAST_QUANTUM : bytes) / size;
    if (n > left)
        n = left;
    rc = engine->config.hollow ? 0 : fragment_compute(engine, fragment, step, rs->done, n);
    if (rc) { /* not the arguments: they were checked at submit */
        br_worker_fail(engine->worker, -rc, br_error_message());
        br_list_remove(&rs->node);
        return 0;
    }
    rs->done += n;
    if (n == left) {
        br_list_remove(&rs->node);
        br_fragment_step_reduced(engine, rs);
    }
    return n * size * sources + 1;
}

/* ---- start and end --------------------------------------------------------------------------- */

size_t br_fragment_bytes(const struct br_operation *op, uint32_t fragment)
{
    return br_fragment_elements(op, fragment) * br_type_size(op->type) *
           op->fragments.plan->schedule->packed;
}

static void fragment_prepare(struct br_fragment *fragment, struct br_operation *op)
{
    const struct br_plan *plan = op->fragments.plan;
    const struct br_schedule *s = plan->schedule;

    fragment->op = op;
    fragment->schedule = s;
    fragment->index = op->fragments.next;
    fragment->uneven = br_blocks_uneven(op);
    fragment->first = br_piece_offset(op->count, op->fragments.count, fragment->index);
    fragment->shorter = fragment->elements / s->pieces;
    fragment->longer = fragment->elements % s->pieces;
    fragment->steps_left = s->n_steps;
}

static void prepare_steps(struct br_fragment *fragment, const struct br_plan *plan)
{
    for (uint32_t i = 0; i < plan->schedule->n_steps; i++) {
        struct br_fragment_step *rs = &fragment->steps[i];

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

static void start_steps(struct br_engine *engine, struct br_fragment *fragment)
{
    const struct br_schedule *s = fragment->schedule;

    for (uint32_t i = 0; i < s->n_ready; i++)
        start_step(engine, fragment, s->ready[i]);
    if (!s->n_steps)
        steps_ended(engine, fragment);
}

static void fragment_loaded(struct br_engine *engine, struct br_copy_batch *batch)
{
    start_steps(engine, br_container_of(batch, struct br_fragment, batch));
}

void br_fragment_start(struct br_engine *engine, struct br_operation *op)
{
    struct br_fragment *fragment;
    int rc = br_fragment_get(engine, op, &fragment);

    br_list_push_back(&op->fragments.active, &fragment->node);
    fragment_prepare(fragment, op);
    op->fragments.next++;
    op->fragments.running++;
    if (rc) {
        br_worker_fail(engine->worker, -rc, br_error_message());
        return;
    }
    prepare_steps(fragment, op->fragments.plan);
    if (!br_operation_is_staged(op) || !br_staging_fragment_load(engine, fragment, fragment_loaded))
        start_steps(engine, fragment);
}

/* The message of a step whose fragment is not under way; false: it has to go as a transfer. */
static bool send_step_at_once(struct br_engine *engine, const struct br_fragment *fragment,
                              const struct br_step *step)
{
    const struct br_operation *op = fragment->op;

    return br_worker_send_at_once(
        engine->worker, br_group_in_job(op->group, (int)step->peer),
        br_tag_collective(op->group->number, op->sequence, fragment->index, step->match), op->check,
        br_fragment_address(fragment, &step->span),
        (uint32_t)br_fragment_step_bytes(fragment, step), op->priority);
}

/* Sends the only message, and does the local work. */
static bool run_at_once(struct br_engine *engine, const struct br_fragment *fragment)
{
    const struct br_schedule *s = fragment->schedule;
    const struct br_step *send = s->steps;

    while (send->kind != BR_STEP_SEND)
        send++;
    if (!send_step_at_once(engine, fragment, send))
        return false;
    for (const struct br_step *step = s->steps; step < s->steps + s->n_steps; step++) {
        int rc = step == send || engine->config.hollow
                     ? 0
                     : fragment_compute(engine, fragment, step, 0, step_elements(fragment, step));

        if (rc)
            br_worker_fail(engine->worker, -rc, br_error_message());
    }
    return true;
}

bool br_fragment_at_once(struct br_engine *engine, struct br_operation *op)
{
    const struct br_schedule *s = op->fragments.plan->schedule;
    struct br_fragment *fragment;
    bool done;

    if (!op->alone || s->n_sends != 1 || s->n_recvs || s->n_ready != s->n_steps ||
        op->fragments.count != 1 || br_blocks_uneven(op) || br_operation_is_staged(op) ||
        op->traced || !engine->n_free)
        return false;
    /* It stays free, as it only says where the spans lie. */
    fragment = br_container_of(engine->free_fragments.next, struct br_fragment, node);
    fragment->elements = op->count;
    fragment_prepare(fragment, op);
    done = run_at_once(engine, fragment);
    fragment->op = NULL;
    if (done && !engine->worker->failed) /* else it ends with all others */
        br_operation_end(engine, op, 0);
    return done;
}

void br_fragment_forget(struct br_engine *engine, struct br_fragment *fragment)
{
    fragment_release(engine, fragment);
}
