/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/local.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/error.h"
#include "collectives/call.h"
#include "collectives/comm.h"
#include "collectives/reduce.h"
#include "collectives/share.h"
#include "collectives/type.h"
#include "transport/shm/shm.h"

#define PATIENCE  (100 * BR_MS) /* then an operation that waits tells those that it waits for */
#define SAY_AGAIN BR_SEC

_Static_assert(sizeof(struct br_call) == BR_BOARD_NOTE, "a call is the note beside a round");

/* ---- sharing ----------------------------------------------------------------------------------------------- */

static bool all_shm(const struct braid_comm *comm)
{
    return comm->size >= 2 && (uint32_t)comm->size <= BR_BOARD_RANKS &&
           br_comm_one_host(comm->family, comm->group->ranks, comm->size);
}

static struct br_link *link_to(const struct braid_comm *comm, int rank)
{
    return comm->family->worker->peers[br_group_in_job(comm->group, rank)].rails[0].link;
}

static int give(struct braid_comm *comm, struct br_local *local)
{
    int fd, rc = br_board_create(&local->board, local->n, local->rank, &fd);

    if (rc)
        return rc;
    for (int r = 1; r < comm->size && !rc; r++)
        rc = br_shm_link_send_fd(link_to(comm, r), comm->group->number, fd);
    close(fd);
    return rc;
}

static int take(struct braid_comm *comm, struct br_local *local)
{
    int fd = br_shm_link_take_fd(link_to(comm, 0), comm->group->number), rc;

    if (fd < 0)
        return fd;
    rc = br_board_attach(&local->board, local->n, local->rank, fd);
    close(fd);
    return rc;
}

int br_local_share(struct braid_comm *comm)
{
    struct br_local *local;
    int rc;

    if (!comm->family->settings.board_bytes || !all_shm(comm))
        return 0;
    local = calloc(1, sizeof *local);
    if (!local)
        return br_error(ENOMEM, "rank %d: no memory for the board", comm->rank);
    local->rank = (uint32_t)comm->rank;
    local->n = (uint32_t)comm->size;
    local->most = comm->family->settings.board_bytes;
    br_list_init(&local->queue);
    br_list_init(&local->ended);
    br_list_init(&local->passed);
    rc = comm->family->shares_gpus ? br_share_create(comm->family, &local->share) : 0;
    if (!rc)
        rc = comm->rank == 0 ? give(comm, local) : take(comm, local);
    if (rc) {
        br_share_destroy(local->share);
        br_board_close(&local->board);
        free(local);
        return rc;
    }
    local->group = comm->group;
    br_list_push_back(&comm->family->boards, &local->node);
    comm->local = local;
    return 0;
}

void br_local_destroy(struct braid_comm *comm)
{
    if (!comm->local)
        return;
    br_list_remove(&comm->local->node);
    br_share_destroy(comm->local->share);
    br_board_close(&comm->local->board);
    free(comm->local);
    comm->local = NULL;
}

/* ---- one round --------------------------------------------------------------------------------------------- */

static size_t block_bytes(const struct br_operation *op)
{
    return op->collective == BR_BARRIER ? 0 : op->count * br_type_size(op->type);
}

/* What a rank publishes; the lengths follow from the call, nothing on the board says them. */
static size_t published_bytes(const struct br_local *local, const struct br_operation *op, uint32_t rank)
{
    size_t bytes = block_bytes(op);

    switch (op->collective) {
    case BR_REDUCE_SCATTER:
    case BR_ALLTOALL:
        return bytes * local->n;
    case BR_BROADCAST:
        return rank == (uint32_t)op->root ? bytes : 0;
    case BR_SCATTER:
        return rank == (uint32_t)op->root ? bytes * local->n : 0;
    default:
        return bytes;
    }
}

bool br_local_takes(const struct br_local *local, const struct br_operation *op)
{
    size_t bytes;

    if (op->kind != BR_OPERATION_COLLECTIVE || (op->algorithm[0] && strcmp(op->algorithm, "board") != 0))
        return false;
    bytes = block_bytes(op) * br_collective_blocks(op->collective, local->n, BR_INPUT);
    return bytes <= (op->algorithm[0] ? BR_BOARD_BYTES : local->most);
}

/* Does this rank need what `rank` publishes? */
static bool needs(const struct br_local *local, const struct br_operation *op, uint32_t rank)
{
    if (br_collective_from_root(op->collective))
        return rank == (uint32_t)op->root;
    return !br_collective_to_root(op->collective) || local->rank == (uint32_t)op->root;
}

int br_local_waits_for(const struct br_local *local, const struct br_operation *op)
{
    for (uint32_t r = 0; r < local->n; r++)
        if (r != local->rank && needs(local, op, r) && !br_board_ready(&local->board, r, local->round))
            return (int)r;
    return -1;
}

static const void *part(const struct br_local *local, const struct br_operation *op, uint32_t rank)
{
    if (rank == local->rank)
        return op->send;
    return br_board_data(&local->board, rank, local->round, published_bytes(local, op, rank));
}

static void reduce(const struct br_local *local, const struct br_operation *op, size_t skip)
{
    const void *in[BR_BOARD_RANKS];

    for (uint32_t r = 0; r < local->n; r++)
        in[r] = (const uint8_t *)part(local, op, r) + skip;
    br_reduce(op->type, op->reduction, op->recv, in, (int)local->n, op->count, (int)local->n);
}

static void copy(void *out, const void *in, size_t bytes)
{
    if (bytes && out != in)
        memcpy(out, in, bytes);
}

/* Block r of the result is what rank r has published from `skip` on. */
static void copy_all(const struct br_local *local, const struct br_operation *op, size_t skip)
{
    size_t bytes = block_bytes(op);

    for (uint32_t r = 0; r < local->n; r++)
        copy((uint8_t *)op->recv + r * bytes, (const uint8_t *)part(local, op, r) + skip, bytes);
}

static void combine(const struct br_local *local, const struct br_operation *op)
{
    size_t bytes = block_bytes(op);

    if (!bytes)
        return;
    switch (op->collective) {
    case BR_ALLREDUCE:
        reduce(local, op, 0);
        break;
    case BR_REDUCE:
        if (local->rank == (uint32_t)op->root)
            reduce(local, op, 0);
        break;
    case BR_REDUCE_SCATTER:
        reduce(local, op, bytes * local->rank);
        break;
    case BR_ALLGATHER:
    case BR_ALLTOALL:
        copy_all(local, op, op->collective == BR_ALLTOALL ? bytes * local->rank : 0);
        break;
    case BR_GATHER:
        if (local->rank == (uint32_t)op->root)
            copy_all(local, op, 0);
        break;
    case BR_BROADCAST:
        copy(op->recv, part(local, op, (uint32_t)op->root), bytes);
        break;
    case BR_SCATTER:
        copy(op->recv, (const uint8_t *)part(local, op, (uint32_t)op->root) + bytes * local->rank, bytes);
        break;
    default:
        break;
    }
}

/* What the ranks must agree on, in 16 bits; root counts where there is one, as elsewhere it is the same (0). */
static uint16_t digest(const struct br_operation *op)
{
    uint64_t words[] = {(uint64_t)op->collective << 32 | (uint64_t)op->type,
                        br_collective_reduces(op->collective) ? (uint64_t)op->reduction : 0,
                        (uint64_t)op->root, op->sequence, op->count};

    return br_digest_short(words, sizeof words / sizeof *words);
}

static struct br_call call_of(const struct br_operation *op)
{
    return br_call_of(op, op->local_way == BR_LOCAL_SHARES ? BR_CALL_EITHER : BR_CALL_SHARED);
}

/* all: those that are needed have published; else those that have are looked at. */
static int check(const struct br_local *local, const struct br_operation *op, bool all)
{
    uint16_t mine = br_board_check(&local->board, local->rank, local->round);
    struct br_call theirs, ours;
    char words[300];

    for (uint32_t r = 0; r < local->n; r++) {
        if (r == local->rank || !needs(local, op, r) ||
            (!all && !br_board_ready(&local->board, r, local->round)) ||
            br_board_check(&local->board, r, local->round) == mine)
            continue;
        ours = call_of(op);
        memcpy(&theirs, br_board_description(&local->board, r, local->round), sizeof theirs);
        br_call_disagreement(
            br_group_in_job(local->group, (int)r), br_group_in_job(local->group, (int)local->rank),
            br_tag_of_group(op->group->number, op->sequence), &theirs, &ours, words, sizeof words);
        return br_error(EPROTO, "%s", words);
    }
    return 0;
}

/* Nobody's data is used before everybody whose data is needed has shown to make the same call. */
int br_local_check_agreement(const struct br_local *local, const struct br_operation *op)
{
    return check(local, op, true);
}

bool br_local_publish(struct br_local *local, const struct br_operation *op, const void *data, size_t bytes)
{
    if (!br_board_may_publish(&local->board, local->round + 1))
        return false;
    local->round++;
    local->last = call_of(op);
    local->last_group = op->group;
    local->last_sequence = op->sequence;
    local->untold = true;
    br_board_describe(&local->board, local->round, &local->last);
    br_board_publish(&local->board, local->round, digest(op), data, bytes);
    return true;
}

static bool publish(struct br_local *local, const struct br_operation *op)
{
    return br_local_publish(local, op, op->send, published_bytes(local, op, local->rank));
}

static int complete(struct br_local *local, const struct br_operation *op)
{
    int rc;

    if (br_local_waits_for(local, op) >= 0)
        return 0;
    rc = br_local_check_agreement(local, op);
    if (rc)
        return rc;
    combine(local, op);
    local->operations++;
    return 1;
}

bool br_local_begin(struct br_local *local, struct br_operation *op)
{
    if (local->busy || !br_list_empty(&local->queue) || !publish(local, op))
        return false;
    local->busy = true;
    return true;
}

int br_local_complete(struct br_local *local, struct br_operation *op)
{
    int rc = complete(local, op);

    if (rc)
        local->busy = false;
    return rc;
}

/* ---- the queue --------------------------------------------------------------------------------------------- */

void br_local_submit(struct br_local *local, struct br_operation *op)
{
    br_list_init(&op->node);
    br_list_push_back(&local->queue, &op->node);
}

static struct br_operation *head(const struct br_local *local)
{
    return br_list_empty(&local->queue) ? NULL
                                        : br_container_of(local->queue.next, struct br_operation, node);
}

/* Off the queue, into another list. */
static void leave(struct br_local *local, struct br_operation *op, struct br_list *list)
{
    br_list_remove(&op->node);
    br_list_push_back(list, &op->node);
    local->published = false;
}

static void end(struct br_local *local, struct br_operation *op, int status, const char *words)
{
    op->status = status;
    snprintf(op->words, sizeof op->words, "%s", words);
    leave(local, op, &local->ended);
}

/* The head of the queue: > 0: it has left, 0: it waits; errors with words. */
static int step(struct br_local *local, struct br_operation *op)
{
    int rc;

    if (op->local_way != BR_LOCAL_BOARD) {
        rc = op->local_way == BR_LOCAL_PASSES ? BR_SHARE_TO_ENGINE : br_share_step(local, op);
        if (rc == BR_SHARE_TO_ENGINE)
            leave(local, op, &local->passed);
        else if (rc == BR_SHARE_ENDED)
            end(local, op, 0, "");
        return rc;
    }
    if (!br_stage_board_ready(op)) /* and nobody overtakes it: rounds are taken in this order */
        return 0;
    if (!local->published && !(local->published = publish(local, op)))
        return 0;
    rc = complete(local, op);
    if (rc > 0)
        end(local, op, 0, "");
    return rc;
}

int br_local_step(struct br_local *local)
{
    struct br_operation *op;
    int n = 0, rc;

    for (; !local->busy && (op = head(local)); n++) {
        rc = step(local, op);
        if (rc < 0)
            return rc;
        if (!rc)
            break;
    }
    return n;
}

void br_local_fail(struct br_local *local, int status, const char *words)
{
    struct br_operation *op;

    while ((op = head(local)))
        end(local, op, status, words);
}

static struct br_operation *pop(struct br_list *list)
{
    struct br_list *node = br_list_pop_front(list);

    return node ? br_container_of(node, struct br_operation, node) : NULL;
}

struct br_operation *br_local_ended(struct br_local *local)
{
    return pop(&local->ended);
}

struct br_operation *br_local_passed(struct br_local *local)
{
    return pop(&local->passed);
}

/* The lowest rank whose round of before is missing, without which the head cannot publish; -1: none. */
static int behind(const struct br_local *local)
{
    for (uint32_t r = 0; local->round && r < local->n; r++)
        if (!br_board_ready(&local->board, r, local->round))
            return (int)r;
    return -1;
}

int br_local_lacks(const struct br_local *local, const struct br_operation *op)
{
    const struct br_operation *first = op ? op : head(local);

    if (!first)
        return -1;
    return op || local->published ? br_local_waits_for(local, first) : behind(local);
}

void br_local_tell_last(struct br_local *local, struct br_worker *w)
{
    if (local->untold)
        br_worker_begins(w, local->last_group->number, local->last_sequence,
                         br_board_check(&local->board, local->rank, local->round), &local->last);
    local->untold = false;
}

void br_local_watch(struct br_local *local, const struct br_operation *op, struct br_worker *w, uint64_t now)
{
    const struct br_operation *first = op ? op : head(local);
    bool published = op || local->published;
    struct br_call call;

    if (!first || first->local_way == BR_LOCAL_PASSES || w->failed)
        return;
    call = call_of(first);
    if (local->watched != first->sequence + 1) {
        br_local_tell_last(local, w);
        br_worker_begins(w, first->group->number, first->sequence, digest(first), &call);
        local->untold = false;
        local->watched = first->sequence + 1;
        local->say_at = now + PATIENCE;
    }
    if (published && check(local, first, false)) {
        br_worker_fail(w, EPROTO, br_error_words());
        return;
    }
    if (now < local->say_at)
        return;
    local->say_at = now + SAY_AGAIN;
    for (uint32_t r = 0; local->round && r < local->n; r++)
        if (r != local->rank && (!published || needs(local, first, r)) &&
            !br_board_ready(&local->board, r, local->round))
            br_worker_waits_for(w, br_group_in_job(local->group, (int)r), first->group->number,
                                first->sequence, digest(first), &call);
}

const char *br_local_name_waited(const struct br_local *local, const struct br_operation *op, char *words,
                                 size_t bytes)
{
    const struct br_operation *first = local->busy ? NULL : head(local);
    bool unpublished = first && !local->published;
    int rank = unpublished ? behind(local) : br_local_waits_for(local, first ? first : op);
    char name[80];

    if (first && br_stage_board_gpu(first))
        snprintf(words, bytes, "%s GPU %d",
                 first->local_way == BR_LOCAL_SHARES ? "a reduction on" : "copies of",
                 br_stage_board_gpu(first) - 1);
    else if (first && local->share && br_share_is_across(local->share))
        snprintf(words, bytes, "%s part between hosts", first == op ? "its" : "an earlier operation's");
    else if (rank >= 0)
        snprintf(words, bytes, "%s (level 0, device shm0)",
                 br_group_name_rank(local->group, rank, name, sizeof name));
    else
        snprintf(words, bytes, "operations submitted before it");
    return words;
}

uint64_t br_local_oldest(const struct br_local *local)
{
    const struct br_operation *first = head(local);

    return first ? first->order : UINT64_MAX;
}

struct br_operation *br_local_overdue(const struct br_local *local, uint64_t now)
{
    br_list_for_each (node, &local->queue) {
        struct br_operation *op = br_container_of(node, struct br_operation, node);

        if (op->deadline <= now)
            return op;
    }
    return NULL;
}
