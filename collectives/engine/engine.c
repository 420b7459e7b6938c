/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/engine/engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/error.h"
#include "collectives/engine/blocks.h"
#include "collectives/engine/call.h"
#include "collectives/engine/internal.h"
#include "collectives/schedule/schedule.h"
#include "collectives/schedule/type.h"

#define DEFAULT_FRAGMENTS 64u
#define DEFAULT_CHUNK     (512u << 10)
#define DEFAULT_QUANTUM   (256u << 10)

/* ---- create and destroy ---------------------------------------------------------------------- */

static void apply_defaults(struct br_engine_config *config)
{
    if (!config->max_fragments)
        config->max_fragments = DEFAULT_FRAGMENTS;
    if (!config->chunk_bytes)
        config->chunk_bytes = DEFAULT_CHUNK;
    if (!config->quantum_bytes)
        config->quantum_bytes = DEFAULT_QUANTUM;
    if (!config->cache_share)
        config->cache_share = SIZE_MAX;
    if (!config->model.n_levels)
        br_cost_model_default(&config->model, BR_COST_HOST, 1);
    config->model.chunk_bytes = config->chunk_bytes;
}

static void init_lists(struct br_engine *engine)
{
    br_list_init(&engine->collectives);
    br_list_init(&engine->messages);
    br_list_init(&engine->to_self);
    br_list_init(&engine->from_self);
    br_list_init(&engine->flushes);
    br_receives_init(engine);
    br_list_init(&engine->storing);
    br_list_init(&engine->waiting);
    br_list_init(&engine->ready);
    br_list_init(&engine->free_fragments);
    br_staging_init(engine);
}

int br_engine_create(struct br_worker *worker, const struct br_engine_config *config,
                     struct br_engine **out)
{
    struct br_engine *engine = calloc(1, sizeof *engine);
    int rc;

    if (!engine)
        return br_error(ENOMEM, "rank %d: no memory for the engine", config->rank);
    engine->worker = worker;
    worker->disagreement_text = br_call_disagreement;
    engine->config = *config;
    engine->next_deadline = engine->expected = UINT64_MAX;
    engine->digested = SIZE_MAX;
    apply_defaults(&engine->config);
    init_lists(engine);
    engine->fragments = calloc(engine->config.max_fragments, sizeof *engine->fragments);
    rc =
        engine->fragments ? 0 : br_error(ENOMEM, "rank %d: no memory for the engine", config->rank);
    if (!rc && engine->config.max_fragments < 2)
        rc = br_error(EINVAL, "the engine needs two runs at least");
    if (!rc)
        rc =
            br_group_init(&engine->all, 0, config->rank, config->size, NULL, &engine->config.model);
    if (rc) {
        br_engine_destroy(engine);
        return rc;
    }
    for (uint32_t i = engine->config.max_fragments; i-- > 0; engine->n_free++) {
        engine->fragments[i].engine = engine;
        br_list_push_front(&engine->free_fragments, &engine->fragments[i].node);
    }
    *out = engine;
    return 0;
}

void br_engine_destroy(struct br_engine *engine)
{
    if (!engine)
        return;
    for (uint32_t i = 0; engine->fragments && i < engine->config.max_fragments; i++)
        br_fragment_destroy(engine, &engine->fragments[i]);
    br_staging_destroy(engine);
    br_notifications_destroy(&engine->notifications);
    free(engine->fragments);
    free(engine->sources);
    br_group_destroy(&engine->all);
    free(engine);
}

struct br_group *br_engine_all(struct br_engine *engine)
{
    return &engine->all;
}

/* ---- submit ---------------------------------------------------------------------------------- */

/* As the steps see it (doc/design/schedule.md, 3); false where it makes no difference, so that one
 * plan serves both. */
static bool is_in_place(const struct br_group *group, const struct br_operation *op)
{
    size_t size = br_type_size(op->type), rank = (size_t)group->rank;

    if (br_collective_rooted(op->collective) && group->rank != op->root)
        return false;
    switch (op->collective) {
    case BR_ALLREDUCE:
    case BR_BROADCAST:
    case BR_REDUCE:
    case BR_ALLTOALL:
    case BR_SCAN:
        return op->send == op->recv;
    case BR_EXSCAN:
        return op->send == op->recv && group->rank > 0;
    case BR_ALLGATHER:
    case BR_GATHER:
        return op->recv &&
               op->send == (const uint8_t *)op->recv + br_block_offset(op, BR_OUTPUT, rank) * size;
    case BR_REDUCE_SCATTER:
    case BR_SCATTER:
        return op->send &&
               op->recv == (const uint8_t *)op->send + br_block_offset(op, BR_INPUT, rank) * size;
    default:
        return false;
    }
}

/* What a message carries so that ranks that disagree notice. */
static uint16_t check_of(const struct br_operation *op, const struct br_plan_config *config)
{
    bool uneven = br_blocks_uneven(op);
    uint64_t values[] = {(uint64_t)op->collective | (uneven ? BR_CALL_UNEVEN : 0),
                         (uint64_t)op->type,
                         br_collective_reduces(op->collective) ? (uint64_t)op->reduction : 0,
                         uneven ? 0 : op->count,
                         uneven ? op->part : op->fragments.count,
                         br_collective_rooted(op->collective) ? (uint64_t)op->root : 0,
                         config->digest ^ op->packed,
                         uneven ? br_blocks_digest(op, (uint32_t)op->group->size) : 0};

    return br_digest_short(values, uneven ? 8 : 7);
}

static int engine_choose(struct br_group *group, const struct br_operation *op, uint64_t view,
                         const struct br_plan_tuning **tuning)
{
    size_t size = br_type_size(op->type), count = op->count;
    const char *text = op->algorithm;

    if (br_blocks_uneven(op))
        text = br_blocks_choice(op, (uint32_t)group->size, &count);
    group->plan_cache.disjoint_trees = group->epochs[view % 2];
    group->plan_cache.by_rank = op->by_rank && br_collective_reduces(op->collective);
    return br_plan_cache_choose(&group->plan_cache, op->collective, br_cost_class_of(size), text,
                                count * size, tuning);
}

/* All ranks know the sizes of all blocks, so all of them pack or none. */
static bool is_packed(const struct br_operation *op, const struct br_plan_tuning *tuning)
{
    uint32_t pieces = tuning->config->config.shape.threads;

    return tuning->packed && !br_blocks_uneven(op) && (pieces < 2 || op->count % pieces == 0);
}

/* Sets how many fragments there are, and the digest. */
static int cut_evenly(struct br_operation *op, const struct br_plan_tuning *tuning)
{
    struct br_operation_fragments *f = &op->fragments;
    struct br_plan_call *last = &f->plan->last;
    const struct br_schedule *s = f->plan->schedule;

    if (last->fragments && last->count == op->count && last->type == op->type &&
        last->reduction == op->reduction && last->chunk_bytes == tuning->chunk_bytes) {
        f->count = last->fragments;
        op->check = last->check;
        return 0;
    }
    f->count = s->uncut
                   ? 1
                   : br_fragment_count(op->count, br_type_size(op->type) * s->packed, s->pieces,
                                       tuning->chunk_bytes, op->group->plan_cache.model->serial);
    if (!f->count)
        return br_error(E2BIG, "%s: %zu elements a block are too many",
                        br_collective_name(op->collective), op->count);
    op->check = check_of(op, tuning->config);
    *last = (struct br_plan_call){op->type, op->reduction, op->count, tuning->chunk_bytes,
                                  f->count, op->check};
    return 0;
}

static int cut_unevenly(const struct br_engine *engine, struct br_operation *op,
                        const struct br_plan_tuning *tuning)
{
    size_t chunk = br_blocks_known(op) ? tuning->chunk_bytes : engine->config.chunk_bytes;
    int rc =
        br_blocks_cut(op, op->fragments.plan->schedule, chunk, op->group->plan_cache.model->serial);

    op->check = check_of(op, tuning->config);
    return rc;
}

static int get_plan(struct br_engine *engine, struct br_operation *op)
{
    struct br_operation_fragments *f = &op->fragments;
    const struct br_plan_tuning *tuning;
    uint32_t sources;
    int rc;

    if (op->reduction >= BRAID_REDUCTION_USER && !op->user.function)
        return br_error(EINVAL, "%s: reduction %d has been freed",
                        br_collective_name(op->collective), (int)op->reduction);
    if ((rc = engine_choose(op->group, op, op->epoch, &tuning)))
        return rc;
    op->packed = is_packed(op, tuning);
    if ((rc = br_plan_cache_get(&op->group->plan_cache, op->collective, tuning->config,
                                br_collective_rooted(op->collective) ? (uint32_t)op->root : 0,
                                is_in_place(op->group, op), op->packed, &f->plan)))
        return rc;
    sources = f->plan->schedule->max_sources;
    rc = br_blocks_uneven(op) ? cut_unevenly(engine, op, tuning) : cut_evenly(op, tuning);
    if (!rc && sources > engine->max_sources)
        rc = br_fragment_grow_sources(engine, sources);
    if (rc) {
        br_plan_put(f->plan);
        f->plan = NULL;
    }
    op->algorithm_config = &tuning->config->config;
    op->predicted = br_blocks_uneven(op) || op->packed != tuning->packed ? 0 : tuning->seconds;
    return rc;
}

/* Its view is known, and it is among the operations under way. */
static int begin_collective(struct br_engine *engine, struct br_operation *op)
{
    struct br_call call;
    const struct br_operation *called = op->parent ? op->parent : op; /* by the program */
    int rc = get_plan(engine, op);

    if (rc == -ENOMEM)
        br_worker_fail(engine->worker, ENOMEM, br_error_message());
    if (rc)
        return rc;
    call =
        br_call_of(called, op->shm_role == BR_SHM_ROLE_GPU_LOCAL ? BR_CALL_ASKED : BR_CALL_ENGINE);
    br_worker_begins(engine->worker, op->group->number, op->sequence, op->check, &call);
    if (op->parent)
        br_worker_is_part(engine->worker, op->group->number, op->sequence,
                          br_tag_of_group(called->group->number, called->sequence));
    if (!br_fragment_at_once(engine, op))
        br_admission_add(engine, op);
    return 0;
}

/* Rounds of views come later than their order says (doc/design/epochs.md, 4). */
static void insert_by_order(struct br_list *collectives, struct br_operation *op)
{
    struct br_list *behind = collectives->prev;

    while (behind != collectives &&
           br_container_of(behind, struct br_operation, node)->order > op->order)
        behind = behind->prev;
    br_list_insert_before(behind->next, &op->node);
}

static int submit_collective(struct br_engine *engine, struct br_operation *op)
{
    struct br_operation_fragments *f = &op->fragments;
    int rc = 0;

    memset(f, 0, sizeof *f);
    br_list_init(&f->active);
    br_list_init(&f->waiting);
    insert_by_order(&engine->collectives, op);
    if (op->epoch <= op->group->epoch)
        rc = begin_collective(engine, op);
    if (rc)
        br_list_remove(&op->node);
    return rc;
}

void br_engine_set_epoch(struct br_engine *engine, struct br_group *group,
                         const struct br_disjoint_trees *trees)
{
    group->epochs[++group->epoch % 2] = trees;
    br_list_for_each_safe (node, &engine->collectives) {
        struct br_operation *op = br_container_of(node, struct br_operation, node);
        int rc;

        if (op->group != group || op->fragments.plan || op->epoch > group->epoch)
            continue;
        rc = begin_collective(engine, op);
        if (!rc)
            continue;
        snprintf(op->message, sizeof op->message, "%s", br_error_message());
        br_operation_end(engine, op, rc);
    }
}

int br_engine_reserve(struct br_engine *engine, struct br_operation *op)
{
    int rc;

    if (!op->group)
        op->group = &engine->all;
    op->epoch = op->group->epoch;
    rc = get_plan(engine, op);
    if (rc)
        return rc;
    rc = br_fragment_reserve(engine, op);
    br_plan_put(op->fragments.plan);
    if (rc)
        br_engine_unreserve(engine, op);
    return rc;
}

/* Of the worker's transfers. */
static int take_ended(struct br_engine *engine)
{
    struct br_transfer *t;
    int n = 0;

    for (; (t = br_worker_done(engine->worker)); n++)
        switch (br_tag_class(t->tag)) {
        case BR_TAG_COLLECTIVE:
            br_fragment_transfer_ended(engine, t);
            break;
        case BR_TAG_P2P:
            br_p2p_transfer_ended(engine, t->owner, t);
            break;
        case BR_TAG_ONESIDED:
            br_onesided_transfer_ended(engine, t->owner, t);
            break;
        }
    return n;
}

int br_engine_submit(struct br_engine *engine, struct br_operation *op, uint64_t now)
{
    int rc;

    if (engine->worker->failed && !op->awaited)
        return br_error(ECANCELED, "the communicator has failed before: %s",
                        engine->worker->message);
    op->status = 0;
    op->message[0] = 0;
    if (!op->group)
        op->group = &engine->all;
    br_list_init(&op->node);
    if (engine->worker->failed) {
        memset(&op->parts, 0, offsetof(struct br_operation_parts, transfers));
        br_list_push_back(&engine->messages, &op->node); /* it ends with all others */
        return 0;
    }
    engine->worker->now = now;
    switch (op->kind) {
    case BR_OPERATION_COLLECTIVE:
        rc = submit_collective(engine, op);
        break;
    case BR_OPERATION_SEND:
    case BR_OPERATION_RECV:
        rc = br_p2p_submit(engine, op);
        take_ended(engine); /* a small message has left, or was here */
        break;
    case BR_OPERATION_FLUSH:
        rc = br_flush_submit(engine, op);
        break;
    default:
        rc = br_onesided_submit(engine, op);
        break;
    }
    if (!rc)
        br_deadline_expect(engine, op);
    return rc;
}

/* ---- step ------------------------------------------------------------------------------------ */

void br_operation_end(struct br_engine *engine, struct br_operation *op, int status)
{
    op->status = status;
    br_list_remove(&op->node);
    br_list_push_back(engine->config.ended, &op->node);
    if (op->kind == BR_OPERATION_COLLECTIVE) {
        if (op->fragments.plan)
            br_plan_put(op->fragments.plan);
    } else if (!br_list_empty(&engine->flushes)) {
        br_flush_ended(engine, op);
    }
}

void br_operation_fail(const struct br_engine *engine, struct br_operation *op)
{
    const struct br_worker *w = engine->worker;
    size_t used = 0;

    if (op != engine->late)
        used = br_operation_describe(op, op->message, sizeof op->message);
    snprintf(op->message + used, sizeof op->message - used, "%s%.*s", used ? ": " : "",
             (int)(sizeof op->message - used - 3), w->message);
    op->status = w->failed;
}

static int end_failed(struct br_engine *engine, struct br_list *list)
{
    int n = 0;

    for (; !br_list_empty(list); n++) {
        struct br_operation *op = br_container_of(list->next, struct br_operation, node);

        if (op->kind == BR_OPERATION_COLLECTIVE) {
            br_list_remove(&op->fragments.waiting);
            while (!br_list_empty(&op->fragments.active))
                br_fragment_forget(
                    engine, br_container_of(op->fragments.active.next, struct br_fragment, node));
        } else {
            br_staging_parts_put(engine, op);
        }
        br_operation_fail(engine, op);
        br_operation_end(engine, op, op->status);
    }
    return n;
}

/* The passes of an engine whose worker has failed. Operations end when no link is left and no GPU
 * copies, so that nobody touches the memory of what was under way. Flushes end first: each access
 * that ends may end a flush, and well. */
static int engine_fail(struct br_engine *engine, uint64_t now)
{
    int n = br_worker_poll(engine->worker, now) + br_staging_poll(engine, now);

    if (engine->worker->fail_due || br_staging_busy(engine))
        return n;
    br_list_init(&engine->ready);
    return n + end_failed(engine, &engine->flushes) + end_failed(engine, &engine->collectives) +
           end_failed(engine, &engine->messages) + end_failed(engine, &engine->to_self) +
           end_failed(engine, &engine->from_self) + end_failed(engine, &engine->receives);
}

/* Takes what the worker has finished, starts what can start, and does local work. */
static int engine_step(struct br_engine *engine, uint64_t now)
{
    size_t worked = 0;
    int n = 0, k;

    engine->worker->now = now;
    engine->grown_before = engine->late_allocations;
    do {
        k = br_list_empty(&engine->copying) ? 0 : br_staging_poll(engine, now);
        if (!br_list_empty(&engine->worker->done))
            k += take_ended(engine);
        if (engine->may_start)
            k += br_admission_start(engine);
        if (!br_list_empty(&engine->receives))
            k += br_receives_match(engine);
        while (worked < engine->config.quantum_bytes && !br_list_empty(&engine->ready)) {
            worked += br_fragment_compute(engine);
            k++;
        }
        n += k;
    } while (k);
    return n;
}

int br_engine_start(struct br_engine *engine, uint64_t now)
{
    return engine->worker->failed ? 0 : engine_step(engine, now);
}

/* Everything that is known is done, and posted. *posted: how much the pump has posted. */
static int engine_serve(struct br_engine *engine, uint64_t now, int *posted)
{
    int n = engine_step(engine, now);

    if (br_worker_has_waiting(engine->worker))
        *posted = br_worker_pump(engine->worker, now);
    return n + *posted;
}

bool br_engine_is_due(const struct br_engine *engine)
{
    return br_worker_is_due(engine->worker) || engine->worker->failed || engine->may_start ||
           !br_list_empty(&engine->ready) || !br_list_empty(&engine->receives) ||
           !br_list_empty(&engine->copying);
}

bool br_engine_follows_access(const struct br_engine *engine)
{
    const struct br_list *last = engine->messages.prev;

    return last != &engine->messages &&
           br_container_of(last, const struct br_operation, node)->kind >= BR_OPERATION_PUT;
}

int br_engine_progress(struct br_engine *engine, uint64_t now)
{
    struct br_worker *w = engine->worker;
    bool due = br_engine_is_due(engine);
    int n = 0;

    if (w->failed)
        return engine_fail(engine, now);
    for (int turn = 0; turn < 2 && (due || !turn) && !w->failed; turn++) {
        int posted = 0, arrived = 0;

        if (due)
            n += engine_serve(engine, now, &posted);
        if (!turn || posted || w->flush_due)
            n += arrived = br_worker_poll(w, now);
        due = arrived || br_worker_is_due(w);
    }
    if (!w->failed && now >= engine->next_deadline)
        br_deadline_check(engine, now);
    return w->failed ? n + 1 : n; /* the next pass begins with it */
}

uint64_t br_engine_next_deadline(const struct br_engine *engine)
{
    bool idle = br_list_empty(&engine->collectives) && br_list_empty(&engine->messages) &&
                br_list_empty(&engine->to_self) && br_list_empty(&engine->from_self) &&
                br_list_empty(&engine->receives);

    if (br_staging_busy(engine))
        return engine->worker->now + BR_STAGING_POLL_NS;
    /* of a worker that has failed they all end when its links are closed, and
     * br_worker_next_timer() says when */
    return idle || engine->worker->failed ? UINT64_MAX : engine->next_deadline;
}

uint64_t br_engine_late_allocations(const struct br_engine *engine, const struct br_group *group)
{
    return engine->late_allocations + group->plan_cache.built + group->tag_sequences.grown +
           engine->notifications.grown;
}

const char *br_engine_algorithm(struct br_engine *engine, const struct br_operation *op)
{
    struct br_group *group = op->group ? op->group : &engine->all;
    const struct br_plan_tuning *tuning;

    return engine_choose(group, op, group->epoch, &tuning) ? NULL : tuning->config->name;
}
