/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/shm/round.h"

#include <errno.h>
#include <string.h>

#include "base/copy.h"
#include "base/error.h"
#include "collectives/engine/blocks.h"
#include "collectives/engine/call.h"
#include "collectives/engine/engine.h"
#include "collectives/engine/group.h"
#include "collectives/engine/user_reduction.h"
#include "collectives/schedule/type.h"
#include "collectives/shm/mapped.h"
#include "collectives/shm/split.h"

_Static_assert(sizeof(struct br_call) == BR_SHM_COLL_NOTE, "a call is the note beside a round");

/* Blocks that a rank publishes; the lengths follow from the call, nothing on the shared segment
 * says them. */
static uint32_t round_blocks(const struct br_shm_executor *shm, const struct br_operation *op,
                             uint32_t rank)
{
    bool root = rank == (uint32_t)op->root;

    if (br_collective_from_root(op->collective) ? !root
                                                : br_collective_to_root(op->collective) && root)
        return 0;
    return br_shm_round_blocks(shm->n, op->collective);
}

/* The first one of these in the rank's input. */
static uint32_t round_first_block(const struct br_shm_executor *shm, const struct br_operation *op)
{
    return shm->n == 2 && br_collective_blocks(op->collective, 2, BR_INPUT) == 2 ? !shm->rank : 0;
}

/* Elements [first, first + count) of each block are those of the current round. */
struct elements {
    size_t first, count;
};

static struct elements round_elements(const struct br_shm_executor *shm,
                                      const struct br_operation *op)
{
    size_t first = shm->round * shm->chunk, left = op->count - first;

    return (struct elements){.first = first, .count = left < shm->chunk ? left : shm->chunk};
}

/* Into how many rounds the operation is cut, and how many elements of a block one round has: in all
 * but the last as many whole cache lines, of `bytes` bytes at most. */
static void round_cut(struct br_shm_executor *shm, const struct br_operation *op, size_t bytes)
{
    size_t line = BR_SHM_COLL_LINE / br_type_size(op->type), most = bytes / BR_SHM_COLL_LINE * line,
           rounds = op->count > most ? (op->count + most - 1) / most : 1;

    shm->rounds = (uint32_t)rounds;
    shm->chunk = ((op->count + rounds - 1) / rounds + line - 1) / line * line;
}

/* Ranks [first, end). */
struct ranks {
    uint32_t first, end;
};

/* Those whose rounds this rank needs; it may be one of them. */
static struct ranks round_needed(const struct br_shm_executor *shm, const struct br_operation *op)
{
    bool from_root = br_collective_from_root(op->collective);
    uint32_t root = (uint32_t)op->root;

    /* The next round begins when all have published this one, unless it is only a piece; and all
     * say whether they could read */
    if ((shm->has_read && !shm->pieces) || shm->form == BR_SHM_OUTCOMES ||
        shm->form == BR_SHM_SPLIT ||
        (!from_root && (!br_collective_to_root(op->collective) || shm->rank == root)))
        return (struct ranks){0, shm->n};
    return from_root ? (struct ranks){root, root + 1} : (struct ranks){0, 0};
}

bool br_shm_round_needs(const struct br_shm_executor *shm, const struct br_operation *op,
                        uint32_t rank)
{
    struct ranks needed = round_needed(shm, op);

    return rank >= needed.first && rank < needed.end;
}

int br_shm_round_waits_for(const struct br_shm_executor *shm, const struct br_operation *op)
{
    struct ranks needed = round_needed(shm, op);

    for (uint32_t r = needed.first; r < needed.end; r++)
        if (r != shm->rank && !br_shm_coll_ready(&shm->coll, r, shm->epoch))
            return (int)r;
    return -1;
}

/* How many bytes `rank` publishes in this round. */
static size_t round_given(const struct br_shm_executor *shm, const struct br_operation *op,
                          uint32_t rank)
{
    if (shm->rounds > 1 && !shm->pieces)
        return BR_SHM_COLL_BYTES;
    return op->collective == BR_BARRIER
               ? 0
               : round_blocks(shm, op, rank) * round_elements(shm, op).count *
                     br_type_size(op->type);
}

/* What `rank` gives in this round of a block. */
static const void *round_part(const struct br_shm_executor *shm, const struct br_operation *op,
                              uint32_t rank, uint32_t block)
{
    struct elements part = round_elements(shm, op);
    size_t size = br_type_size(op->type), bytes = part.count * size;

    if (rank == shm->rank)
        return (const uint8_t *)op->send + (block * op->count + part.first) * size;
    if (shm->form == BR_SHM_MAPPED)
        return shm->direct.there;
    if (shm->place != BR_SHM_IN_RING)
        return br_shm_coll_given(&shm->coll, shm->place, rank);
    return (const uint8_t *)br_shm_coll_data(&shm->coll, rank, shm->epoch,
                                             round_given(shm, op, rank)) +
           (shm->n == 2 ? 0 : block) * bytes;
}

/* Where this round's elements of a block of the result go. */
static void *round_out(const struct br_shm_executor *shm, const struct br_operation *op,
                       uint32_t block)
{
    return (uint8_t *)op->recv +
           (block * op->count + round_elements(shm, op).first) * br_type_size(op->type);
}

/* block: of what each rank gives. */
static void round_reduce(const struct br_shm_executor *shm, const struct br_operation *op,
                         uint32_t block)
{
    const void *in[BR_SHM_COLL_RANKS];

    for (uint32_t r = 0; r < shm->n; r++)
        in[r] = round_part(shm, op, r, block);
    br_reduce_operation(op, round_out(shm, op, 0), in, (int)shm->n, round_elements(shm, op).count,
                        (int)shm->n);
}

/* Will what is copied have left the caches when the program reads it? What all ranks give and get
 * together is large where each gets something from every other one. */
static bool round_copies_uncached(const struct br_shm_executor *shm, const struct br_operation *op)
{
    return (op->collective == BR_ALLGATHER || op->collective == BR_ALLTOALL) &&
           br_shm_round_bytes(shm->n, op) + shm->n * br_shm_round_block_bytes(op) >
               shm->cache_share;
}

/* A block of what `rank` gives becomes a block of the result. */
static void round_copy(const struct br_shm_executor *shm, const struct br_operation *op,
                       uint32_t rank, uint32_t from, uint32_t to)
{
    size_t bytes = round_elements(shm, op).count * br_type_size(op->type);
    const void *in = round_part(shm, op, rank, from);
    void *out = round_out(shm, op, to);

    if (!bytes || out == in)
        return;
    if (round_copies_uncached(shm, op))
        br_copy_uncached(out, in, bytes);
    else
        br_copy(out, in, bytes);
}

/* Block r of the result is a block of what rank r gives. */
static void round_copy_all(const struct br_shm_executor *shm, const struct br_operation *op,
                           uint32_t from)
{
    for (uint32_t r = 0; r < shm->n; r++)
        round_copy(shm, op, r, from, r);
}

static void round_combine(const struct br_shm_executor *shm, const struct br_operation *op)
{
    if (!br_shm_round_block_bytes(op))
        return;
    switch (op->collective) {
    case BR_ALLREDUCE:
        round_reduce(shm, op, 0);
        break;
    case BR_REDUCE:
        if (shm->rank == (uint32_t)op->root)
            round_reduce(shm, op, 0);
        break;
    case BR_REDUCE_SCATTER:
        round_reduce(shm, op, shm->rank);
        break;
    case BR_ALLGATHER:
    case BR_ALLTOALL:
        round_copy_all(shm, op, op->collective == BR_ALLTOALL ? shm->rank : 0);
        break;
    case BR_GATHER:
        if (shm->rank == (uint32_t)op->root)
            round_copy_all(shm, op, 0);
        break;
    case BR_BROADCAST:
        round_copy(shm, op, (uint32_t)op->root, 0, 0);
        break;
    case BR_SCATTER:
        round_copy(shm, op, (uint32_t)op->root, shm->rank, 0);
        break;
    default:
        break;
    }
}

#define ON_GPU 0x100u /* behind the collectives */

uint16_t br_shm_round_digest(const struct br_operation *op)
{
    bool reduces = br_collective_reduces(op->collective);

    return br_shm_call_digest((uint32_t)op->collective | (op->stays_on_gpu ? ON_GPU : 0),
                              (uint32_t)op->type, reduces ? (uint32_t)op->reduction : 0,
                              (uint32_t)op->root, op->sequence, op->count);
}

struct br_call br_shm_round_call(const struct br_operation *op)
{
    return br_call_of(op, op->stays_on_gpu                        ? BR_CALL_STREAM
                          : op->shm_role == BR_SHM_ROLE_GPU_LOCAL ? BR_CALL_EITHER
                                                                  : BR_CALL_SHARED);
}

int br_shm_round_check(const struct br_shm_executor *shm, const struct br_operation *op)
{
    struct ranks needed = round_needed(shm, op);
    struct br_call theirs, ours;
    char text[300];

    for (uint32_t r = needed.first; r < needed.end; r++) {
        if (r == shm->rank || !br_shm_coll_ready(&shm->coll, r, shm->epoch) ||
            br_shm_coll_check(&shm->coll, r, shm->epoch) == shm->check)
            continue;
        ours = br_shm_round_call(op);
        memcpy(&theirs, br_shm_coll_description(&shm->coll, r, shm->epoch), sizeof theirs);
        br_call_disagreement(
            br_group_in_job(shm->group, (int)r), br_group_in_job(shm->group, (int)shm->rank),
            br_tag_of_group(op->group->number, op->sequence), &theirs, &ours, text, sizeof text);
        return br_error(EPROTO, "%s", text);
    }
    return 0;
}

/* data NULL: they are in their space. */
static void round_show(struct br_shm_executor *shm, const struct br_operation *op, const void *data,
                       size_t bytes)
{
    struct br_call call = br_shm_round_call(op);

    shm->epoch++;
    shm->seen = 0;
    shm->rounds_of[shm->epoch % BR_SHM_COLL_DEPTH].group = op->group;
    shm->rounds_of[shm->epoch % BR_SHM_COLL_DEPTH].sequence = op->sequence;
    shm->check = br_shm_round_digest(op);
    br_shm_coll_describe(&shm->coll, shm->epoch, &call);
    br_shm_coll_publish(&shm->coll, shm->epoch, shm->check, data, bytes);
}

bool br_shm_round_publish(struct br_shm_executor *shm, const struct br_operation *op,
                          const void *data, size_t bytes)
{
    if (!br_shm_coll_may_publish(&shm->coll, shm->epoch + 1, bytes))
        return false;
    round_show(shm, op, data, bytes);
    return true;
}

/* May a more urgent operation take its rounds between those of this one, which has begun? Training
 * has all-reduces that do not fit into a round, and those of the layers that are needed first have
 * to overtake. */
static bool round_yields(const struct br_shm_executor *shm, const struct br_operation *op)
{
    if (shm->form == BR_SHM_SPLIT)
        return br_shm_round_block_bytes(op) > BR_SHM_COLL_BYTES;
    return shm->form == BR_SHM_CHUNKS && shm->rounds > 1 && shm->n == 2 &&
           !br_collective_rooted(op->collective);
}

/* So many turns others may have before the oldest operation: then it comes first until it ends. */
#define PASSED_OVER 8u

/* Rank 0 says which operation comes after this round, as priorities may differ from rank to rank:
 * of those that all ranks had submitted in the round before the most urgent one, or the oldest if
 * it has been passed over too often, so that nobody starves. 0: the order stays as it is. */
static uint64_t round_choose(struct br_shm_executor *shm, const struct br_operation *op)
{
    bool ends = shm->round + 1 == shm->rounds;
    const struct br_operation *most = ends ? NULL : op, *oldest = most;
    uint64_t submitted = UINT64_MAX;

    for (uint32_t r = 0; r < shm->n; r++) {
        struct br_shm_agenda agenda = br_shm_coll_agenda(&shm->coll, r, shm->epoch);

        submitted = agenda.submitted < submitted ? agenda.submitted : submitted;
    }
    br_list_for_each (node, &shm->queue) {
        const struct br_operation *other = br_container_of(node, struct br_operation, node);

        if (other == op || other->group != shm->group || other->sequence >= submitted)
            continue;
        if (!most || other->priority > most->priority)
            most = other;
        if (!oldest || other->order < oldest->order)
            oldest = other;
    }
    if (!most)
        return 0;
    if (shm->oldest != oldest->order) {
        shm->oldest = oldest->order;
        shm->passed_over = 0;
    }
    if (shm->passed_over == PASSED_OVER)
        most = oldest;
    else if (most != op && most != oldest)
        shm->passed_over++;
    return most == op ? 0 : most->sequence + 1;
}

/* With the round that is published next. */
static void round_say_agenda(struct br_shm_executor *shm, const struct br_operation *op)
{
    struct br_shm_agenda agenda = {.submitted = shm->submitted};

    if (!round_yields(shm, op))
        return;
    if (!shm->rank && shm->round != shm->first_round)
        agenda.next = round_choose(shm, op);
    br_shm_coll_set_agenda(&shm->coll, shm->epoch + 1, agenda);
}

/* Gives each other rank the elements of this round of its block, or all the same. */
static void round_give_each(struct br_shm_executor *shm, const struct br_operation *op)
{
    bool one = br_collective_blocks(op->collective, shm->n, BR_INPUT) == 1;

    br_shm_coll_give(&shm->coll, shm->place, round_part(shm, op, shm->rank, 0),
                     one ? 0 : br_shm_round_block_bytes(op),
                     round_elements(shm, op).count * br_type_size(op->type));
}

/* What this rank gives of the elements of this round, block behind block. */
static void round_write_chunk(struct br_shm_executor *shm, const struct br_operation *op)
{
    size_t bytes = round_elements(shm, op).count * br_type_size(op->type);
    uint32_t first = round_first_block(shm, op), blocks = round_blocks(shm, op, shm->rank);
    uint8_t *out = br_shm_coll_space(&shm->coll, shm->epoch + 1);

    for (uint32_t block = first; block < first + blocks; block++, out += bytes)
        if (blocks == 1 || block != shm->rank) /* its own one of several nobody else reads */
            br_shm_past_copy(&shm->coll.past, out, round_part(shm, op, shm->rank, block), bytes);
}

/* Publishes the next round of an operation that has several. All ranks have published the one
 * before. */
static void round_show_next(struct br_shm_executor *shm, const struct br_operation *op)
{
    struct br_shm_offer offer;
    struct br_shm_mapped_offer mapped;
    bool in_ring;

    switch (shm->form) {
    case BR_SHM_CHUNKS:
        if (shm->place == BR_SHM_IN_RING)
            round_write_chunk(shm, op);
        else
            round_give_each(shm, op);
        round_say_agenda(shm, op);
        round_show(shm, op, NULL, shm->place == BR_SHM_IN_RING ? BR_SHM_COLL_BYTES : 0);
        break;
    case BR_SHM_SPLIT:
        br_shm_split_write(&shm->coll, op, shm->round, shm->first_round, shm->epoch + 1);
        round_say_agenda(shm, op);
        in_ring = shm->round != shm->first_round &&
                  br_shm_split_sums_place(&shm->coll, op) == BR_SHM_IN_RING;
        round_show(shm, op, NULL, in_ring ? BR_SHM_COLL_BYTES : 0); /* its sums */
        break;
    case BR_SHM_OFFERS:
        br_shm_direct_offer(&shm->direct, op, &offer);
        round_show(shm, op, &offer, sizeof offer);
        break;
    case BR_SHM_MAPPED:
        mapped = br_shm_mapped_offer(shm, op);
        round_show(shm, op, &mapped, sizeof mapped);
        break;
    case BR_SHM_OUTCOMES:
        round_show(shm, op, &shm->direct.outcome, sizeof shm->direct.outcome);
        break;
    }
}

/* Publishes what this rank gives in this round, at once. false: there is no room. */
static bool round_give(struct br_shm_executor *shm, const struct br_operation *op)
{
    size_t gives = round_given(shm, op, shm->rank);
    const void *data = gives ? round_part(shm, op, shm->rank, round_first_block(shm, op)) : NULL;

    return br_shm_round_publish(shm, op, data, gives);
}

/* How many bytes of a block in the ring one round has. */
static size_t round_most(const struct br_shm_executor *shm, const struct br_operation *op)
{
    if (op->collective == BR_SCATTER && br_shm_round_bytes(shm->n, op) <= shm->max_whole_bytes)
        return br_shm_round_block_bytes(op);
    return BR_SHM_COLL_BYTES / br_shm_round_blocks(shm->n, op->collective);
}

/* A piece of a block of so many bytes: an eighth, as both ranks are busy at the same time only with
 * several, but not less than BR_SHM_PIECE_BYTES, as each costs a line that crosses between them. */
static size_t round_piece_bytes(size_t block)
{
    size_t bytes = block / 8;

    if (bytes < BR_SHM_PIECE_BYTES)
        return BR_SHM_PIECE_BYTES;
    return bytes < BR_SHM_COLL_PLACE ? bytes : BR_SHM_COLL_PLACE;
}

bool br_shm_round_begin(struct br_shm_executor *shm, const struct br_operation *op)
{
    size_t block = br_shm_round_block_bytes(op);
    enum br_shm_place place = br_shm_round_place(shm, op->collective, block);
    bool in_ring = place == BR_SHM_IN_RING, in_cells = place == BR_SHM_IN_CELLS;
    /* of a block, that one round has */
    size_t most = in_cells  ? shm->coll.cell_bytes
                  : in_ring ? round_most(shm, op)
                            : BR_SHM_COLL_COMMON;
    bool may_split = shm->n > 2 && (op->collective == BR_ALLREDUCE || op->collective == BR_REDUCE);
    bool split = (may_split && block > most) || br_shm_round_splits(shm, op->collective, block);

    shm->form = BR_SHM_CHUNKS;
    shm->place = place;
    shm->round = shm->first_round = op->shm_round;
    shm->rounds = 1;
    shm->chunk = op->count;
    shm->has_read = false;
    shm->pieces = br_shm_round_in_pieces(shm, op->collective, block);
    if (shm->pieces && br_shm_mapped_suits(shm, op)) {
        if (!br_shm_coll_may_publish(&shm->coll, shm->epoch + 1, 0))
            return false;
        shm->form = BR_SHM_MAPPED;
        round_show_next(shm, op);
        return true;
    }
    if (shm->pieces)
        round_cut(shm, op, round_piece_bytes(block));
    if (shm->pieces || (!split && in_ring && block <= most))
        return round_give(shm, op);
    if (!br_shm_coll_may_publish(&shm->coll, shm->epoch + 1,
                                 in_ring && !split ? BR_SHM_COLL_BYTES : 0))
        return false;
    if (split) {
        shm->form = BR_SHM_SPLIT;
        shm->rounds = br_shm_split_rounds(&shm->coll, op);
    } else if (block > most) {
        round_cut(shm, op, most); /* for direct reads, too, which may have to begin anew */
        if (shm->direct.allowed && br_shm_direct_suits(op->collective) &&
            !(in_cells && (shm->rounds <= BR_SHM_EXCHANGE_ROUNDS || br_shm_round_in_cells(shm))))
            shm->form = BR_SHM_OFFERS;
        else if (br_shm_mapped_suits(shm, op))
            shm->form = BR_SHM_MAPPED;
    }
    round_show_next(shm, op);
    return true;
}

/* Does the other one of two ranks, whose ring this one reads, ask what that takes? */
static inline bool round_is_asked(const struct br_shm_executor *shm, const struct br_operation *op)
{
    bool root = shm->rank == (uint32_t)op->root;

    return shm->coll.past.told && br_collective_rooted(op->collective) &&
           root == br_collective_to_root(op->collective) &&
           br_shm_coll_asks(&shm->coll, !shm->rank, shm->epoch,
                            round_elements(shm, op).count * br_type_size(op->type));
}

/* A function of its own: inlined, it made gathers of 32 KiB a sixth slower where nobody asks. */
__attribute__((noinline)) static void round_combine_and_answer(const struct br_shm_executor *shm,
                                                               const struct br_operation *op)
{
    uint64_t began = br_shm_coll_begin_answer();

    round_combine(shm, op);
    br_shm_coll_answer(&shm->coll, shm->epoch, began);
}

/* A rooted operation of two ranks whose memory is mapped, all of it at once. */
static void round_read_mapped(struct br_shm_executor *shm, const struct br_operation *op)
{
    bool gives = br_shm_mapped_gives(op, shm->rank);

    if (!gives && !(shm->direct.there = br_shm_mapped_there(shm, op))) {
        shm->direct.outcome = BR_SHM_BY_CHUNKS;
        return;
    }
    round_combine(shm, op);
    if (gives)
        return;
    if (br_shm_coll_has_withdrawn(&shm->coll, !shm->rank))
        shm->direct.outcome = BR_SHM_BY_CHUNKS; /* in which it has no part */
    else
        *shm->direct.read_bytes += br_shm_round_block_bytes(op);
}

/* What the operation needs of this round, in which all that it waits for have published. */
enum progress { READS, NEXT_ROUND, COMPLETE };

static enum progress round_read(struct br_shm_executor *shm, const struct br_operation *op)
{
    switch (shm->form) {
    case BR_SHM_SPLIT:
        if (shm->round != shm->first_round)
            br_shm_split_read(&shm->coll, op, shm->round, shm->epoch);
        break;
    case BR_SHM_OFFERS:
        if (!br_shm_direct_read(&shm->direct, &shm->coll, op, shm->epoch))
            return READS;
        return NEXT_ROUND;
    case BR_SHM_MAPPED:
        /* asked once: what the other rank has published may change if it is not braid */
        if (!shm->direct.bytes_done)
            shm->direct.offered = br_shm_mapped_offered(shm, op);
        if (shm->direct.offered && shm->pieces)
            round_read_mapped(shm, op);
        else if (shm->direct.offered && !br_shm_mapped_read(shm, op))
            return READS;
        return NEXT_ROUND;
    case BR_SHM_OUTCOMES:
        return br_shm_direct_agreed(&shm->direct, &shm->coll, shm->epoch) ? COMPLETE : NEXT_ROUND;
    default:
        if (round_is_asked(shm, op))
            round_combine_and_answer(shm, op);
        else
            round_combine(shm, op);
        break;
    }
    if (round_yields(shm, op))
        shm->next = br_shm_coll_agenda(&shm->coll, 0, shm->epoch).next;
    return shm->round + 1 == shm->rounds ? COMPLETE : NEXT_ROUND;
}

static void round_go_on(struct br_shm_executor *shm, const struct br_operation *op)
{
    if (shm->form == BR_SHM_OFFERS || (shm->form == BR_SHM_MAPPED && shm->direct.offered))
        shm->form = BR_SHM_OUTCOMES;
    else if (shm->form == BR_SHM_OUTCOMES || shm->form == BR_SHM_MAPPED) /* a rank cannot read */
        shm->form = BR_SHM_CHUNKS;
    else
        shm->round++;
    round_show_next(shm, op);
}

/* Publishes what comes next in an operation in pieces. false: there is no room yet. */
static bool round_give_next(struct br_shm_executor *shm, const struct br_operation *op)
{
    if (shm->form == BR_SHM_CHUNKS) {
        shm->round++;
        if (round_give(shm, op))
            return true;
        shm->round--;
        return false;
    }
    if (!br_shm_coll_may_publish(&shm->coll, shm->epoch + 1, BR_SHM_COLL_PLACE))
        return false;
    if (shm->form == BR_SHM_MAPPED && shm->direct.offered) {
        round_go_on(shm, op);
        return true;
    }
    shm->form = BR_SHM_CHUNKS;
    round_cut(shm, op, round_piece_bytes(br_shm_round_block_bytes(op)));
    return round_give(shm, op);
}

/* This rank has read the round, and those that it waits for have published it. false: the next one
 * cannot be published yet, or has been, and what is more urgent may have to be submitted before it
 * is read. */
static bool round_go_on_read(struct br_shm_executor *shm, const struct br_operation *op)
{
    if (!shm->pieces) {
        round_go_on(shm, op);
        shm->reads = round_yields(shm, op);
    } else if (!round_give_next(shm, op)) {
        return false;
    }
    shm->has_read = false;
    return !shm->reads;
}

/* Have the ranks whose round is needed published it? A look at many ranks is as many lines, on
 * pages of their own, so it goes on where the last one found a rank missing. 1: yes, for the same
 * call; 0: not all; -EPROTO with a message. */
static int round_look(struct br_shm_executor *shm, const struct br_operation *op,
                      struct ranks needed)
{
    if (shm->seen < needed.first)
        shm->seen = needed.first;
    for (; shm->seen < needed.end; shm->seen++) {
        int rc;

        if (br_shm_coll_published(&shm->coll, shm->seen, shm->epoch, shm->check))
            continue;
        if (!br_shm_coll_ready(&shm->coll, shm->seen, shm->epoch))
            return 0;
        if ((rc = br_shm_round_check(shm, op)))
            return rc;
    }
    return 1;
}

int br_shm_round_complete(struct br_shm_executor *shm, const struct br_operation *op)
{
    enum progress progress;
    struct ranks needed;
    int rc;

    shm->reads = false;
    for (;;) {
        needed = round_needed(shm, op);
        rc = round_look(shm, op, needed);
        if (rc <= 0)
            return rc;
        if (needed.end - needed.first == shm->n)
            br_shm_coll_learn(&shm->coll, shm->epoch);
        if (shm->has_read) {
            if (!round_go_on_read(shm, op))
                return 0;
            continue;
        }
        progress = round_read(shm, op);
        shm->reads = progress == READS;
        if (progress == COMPLETE)
            break;
        if (shm->next && shm->form == BR_SHM_CHUNKS)
            shm->round++; /* this one has been read, and in place what it gave is gone */
        if (shm->reads || shm->next)
            return 0;
        /* Who has read says so without waiting for all to begin: it needs its core once less. */
        if (shm->form == BR_SHM_OFFERS &&
            br_shm_coll_may_publish(&shm->coll, shm->epoch + 1, sizeof shm->direct.outcome)) {
            round_go_on(shm, op);
            continue;
        }
        shm->has_read = true;
        if (needed.end - needed.first < shm->n)
            shm->seen = 0; /* now all are needed */
    }
    if (shm->direct.gather.burst)
        br_shm_direct_ended(&shm->direct, op);
    shm->form = BR_SHM_CHUNKS;
    shm->operations++;
    return 1;
}
