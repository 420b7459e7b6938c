/* SPDX-License-Identifier: BSD-3-Clause */
/* Deadlines, and the words that say which operation waits for whom. */
#include "collectives/engine/internal.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "collectives/engine/blocks.h"
#include "collectives/schedule/type.h"

#define MOST_NAMED 3

/* Appends; *used never exceeds what is there. */
#define SAY(words, bytes, used, ...)                                                               \
    do {                                                                                           \
        int said_ = snprintf((words) + (used), (bytes) - (used), __VA_ARGS__);                     \
        (used) += said_ < 0                          ? 0                                           \
                  : (size_t)said_ < (bytes) - (used) ? (size_t)said_                               \
                                                     : (bytes) - (used)-1;                         \
    } while (0)

size_t br_operation_describe(const struct br_operation *part, char *text, size_t bytes)
{
    static const char *const verbs[] = {
        [BR_OPERATION_SEND] = "send of %zu bytes to %s (tag %u%s)",
        [BR_OPERATION_RECV] = "receive of %zu bytes from %s (tag %u%s)",
    };
    const struct br_operation *op = part->parent ? part->parent : part;
    unsigned long long sequence = op->sequence;
    char name[80], of[40] = "";
    size_t used = 0;

    if (op->group->number)
        snprintf(of, sizeof of, " of communicator %u", op->group->number);
    if (op->kind == BR_OPERATION_FLUSH)
        SAY(text, bytes, used, "flush of what was put to %s",
            op->peer == BRAID_ANY_SOURCE
                ? "any rank"
                : br_group_name_rank(op->group, op->peer, name, sizeof name));
    else if (op->kind >= BR_OPERATION_PUT)
        SAY(text, bytes, used, "%s of %zu bytes %s rank %u", br_onesided_name(op), op->count,
            op->kind == BR_OPERATION_PUT   ? "to"
            : op->kind == BR_OPERATION_GET ? "from"
                                           : "at",
            op->key.rank);
    else if (op->kind != BR_OPERATION_COLLECTIVE)
        SAY(text, bytes, used, verbs[op->kind], op->count,
            op->peer == BRAID_ANY_SOURCE
                ? "any rank"
                : br_group_name_rank(op->group, op->peer, name, sizeof name),
            op->tag, op->tag_ignore ? " or others" : "");
    else if (op->collective == BR_BARRIER)
        SAY(text, bytes, used, "barrier (operation %llu%s)", sequence, of);
    else if (br_blocks_uneven(op))
        SAY(text, bytes, used, "%s of at most %zu %s a block (operation %llu%s)",
            br_collective_uneven_name(op->collective), op->count, br_type_name(op->type), sequence,
            of);
    else
        SAY(text, bytes, used, "%s of %zu %s (operation %llu%s)",
            br_collective_name(op->collective), op->count, br_type_name(op->type), sequence, of);
    return used;
}

/* Names who is waited for, each once: the peer of a transfer, or a GPU that copies or combines. */
struct naming {
    char *text;
    size_t bytes, used;
    const struct br_worker *worker;
    const struct br_group *group; /* whose ranks the words count */
    /* peers; -2 - 2 g: copies of GPU g; -3 - 2 g: a reduction there */
    int named[MOST_NAMED], n;
};

static bool is_new(const struct naming *naming, int who)
{
    for (int i = 0; i < naming->n; i++)
        if (naming->named[i] == who)
            return false;
    return naming->n < MOST_NAMED;
}

static const char *before_name(const struct naming *naming)
{
    return naming->n ? "," : ": waits for";
}

static void name_batch(struct naming *naming, const struct br_copy_batch *batch)
{
    bool reduces = batch->direction == BR_COPY_REDUCTION;
    int who = -2 * batch->copy.gpu - reduces;

    if (!batch->copy.event || !is_new(naming, who))
        return;
    SAY(naming->text, naming->bytes, naming->used, "%s %s GPU %d", before_name(naming),
        reduces ? "a reduction on" : "copies of", batch->copy.gpu - 1);
    naming->named[naming->n++] = who;
}

static void deadline_name(struct naming *naming, const struct br_transfer *t, uint8_t level)
{
    const struct br_peer *peer;
    const struct br_rail *rail;
    char text[80];

    if (t->state == BR_TRANSFER_IDLE || t->state == BR_TRANSFER_ENDED || !is_new(naming, t->peer))
        return;
    peer = &naming->worker->peers[t->peer];
    if (!peer->n_rails) { /* a receive alone makes no rail to a rank behind others */
        if (naming->worker->relay)
            SAY(naming->text, naming->bytes, naming->used, "%s %s (level %u, device relay)",
                before_name(naming),
                br_group_name_job_rank(naming->group, t->peer, text, sizeof text),
                naming->worker->config.cube.k);
        naming->named[naming->n++] = t->peer;
        return;
    }
    rail = &peer->rails[0];
    for (int i = 1; i < peer->n_rails; i++)
        if (peer->rails[i].level == level)
            rail = &peer->rails[i];
    SAY(naming->text, naming->bytes, naming->used, "%s %s (level %d, device %s)",
        before_name(naming), br_group_name_job_rank(naming->group, t->peer, text, sizeof text),
        rail->level, rail->device->name);
    naming->named[naming->n++] = t->peer;
}

static void name_reductions(struct naming *naming, const struct br_fragment *fragment)
{
    for (int i = 0; i < BR_STAGING_REDUCTIONS; i++)
        if (fragment->engine->reductions[i].batch.copy.event &&
            fragment->engine->reductions[i].step->fragment == fragment)
            name_batch(naming, &fragment->engine->reductions[i].batch);
}

static void name_waited(struct naming *naming, const struct br_operation *op)
{
    naming->group = op->group;
    if (op->shm_staging.buffer) {
        name_batch(naming, &op->shm_staging.batch);
        return;
    }
    if (op->kind != BR_OPERATION_COLLECTIVE) {
        for (int i = 0; i < BR_OPERATION_TRANSFERS; i++) {
            deadline_name(naming, &op->parts.transfers[i], 0);
            name_batch(naming, &op->parts.staging[i].batch);
        }
        if (op->kind == BR_OPERATION_RECV && !op->parts.next && op->peer >= 0 &&
            op->peer != op->group->rank) /* its message has not come (receives.c) */
            deadline_name(naming,
                          &(struct br_transfer){.peer = br_group_in_job(op->group, op->peer),
                                                .state = BR_TRANSFER_MATCHING},
                          0);
        return;
    }
    br_list_for_each (node, &op->fragments.active) {
        const struct br_fragment *fragment = br_container_of(node, struct br_fragment, node);

        name_batch(naming, &fragment->batch);
        name_reductions(naming, fragment);
        for (uint32_t i = 0; i < fragment->schedule->n_steps; i++)
            if (fragment->schedule->steps[i].kind <= BR_STEP_RECV)
                deadline_name(naming, &fragment->steps[i].transfer,
                              fragment->schedule->steps[i].level);
            else
                name_batch(naming, &fragment->steps[i].batch);
    }
}

/* Nothing of the operation is on its way: what is it behind? */
static void name_earlier(struct naming *naming, const struct br_engine *engine,
                         const struct br_operation *op)
{
    const struct br_operation *oldest =
        br_container_of(engine->collectives.next, struct br_operation, node);

    if (op->kind != BR_OPERATION_COLLECTIVE) {
        SAY(naming->text, naming->bytes, naming->used, ": nobody matches it");
        return;
    }
    SAY(naming->text, naming->bytes, naming->used, ": it waits for operations submitted before it");
    if (oldest != op)
        name_waited(naming, oldest);
    if (!naming->n)
        SAY(naming->text, naming->bytes, naming->used, ", and these for rank %d itself",
            engine->config.rank);
}

static void deadline_missed(struct br_engine *engine, const struct br_operation *op)
{
    char text[sizeof engine->worker->message];
    struct naming naming = {.text = text, .bytes = sizeof text, .worker = engine->worker};

    naming.used = br_operation_describe(op, text, sizeof text);
    SAY(text, sizeof text, naming.used, " missed its deadline of %llu ms",
        (unsigned long long)(op->timeout / BR_MS));
    name_waited(&naming, op);
    if (!naming.n)
        name_earlier(&naming, engine, op);
    engine->late = op;
    br_worker_fail(engine->worker, ETIMEDOUT, text);
}

void br_deadline_check(struct br_engine *engine, uint64_t now)
{
    struct br_list *lists[] = {&engine->collectives, &engine->messages, &engine->to_self,
                               &engine->from_self,   &engine->storing,  &engine->receives,
                               &engine->flushes};
    uint64_t next = UINT64_MAX;

    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        br_list_for_each (node, lists[i]) {
            const struct br_operation *op = br_container_of(node, struct br_operation, node);

            if (op->deadline <= now) {
                deadline_missed(engine, op);
                return;
            }
            if (op->deadline < next)
                next = op->deadline;
        }
    engine->next_deadline = next;
}
