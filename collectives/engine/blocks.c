/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/engine/blocks.h"

#include <errno.h>
#include <string.h>

#include "base/digest.h"
#include "base/error.h"
#include "collectives/schedule/type.h"
#include "protocol/message.h"

/* A block of more than two parts in n - 1 of all bytes goes around the ring in many fragments, from
 * this sum of all bytes on: the cost model, which knows blocks of one size only, would have its
 * owner send it n - 1 times. */
#define UNEVEN_RING (1u << 20)

/* Of a form whose sizes all ranks know: those of all blocks. */
static const size_t *known_counts(const struct br_operation *op)
{
    return op->blocks[op->collective == BR_ALLGATHER ? BR_OUTPUT : BR_INPUT].counts;
}

uint64_t br_blocks_digest(const struct br_operation *op, uint32_t n)
{
    uint64_t digest = 0;

    for (uint32_t i = 0; br_blocks_known(op) && i < n; i++) {
        const uint64_t words[] = {digest, known_counts(op)[i]};

        digest = br_digest(words, 2);
    }
    return digest;
}

uint64_t br_blocks_total(const struct br_operation *op, uint32_t n)
{
    uint64_t total = 0;

    for (uint32_t i = 0; br_blocks_known(op) && i < n; i++)
        total += known_counts(op)[i];
    return total;
}

const char *br_blocks_choice(const struct br_operation *op, uint32_t n, size_t *count)
{
    const char *straight = op->collective == BR_ALLTOALL ? "direct" : "flat";
    uint64_t total = br_blocks_total(op, n);
    size_t mean = (size_t)(total / n);
    bool named = op->algorithm[0] && strcmp(op->algorithm, "auto") != 0;

    *count = 0;
    if (!br_blocks_known(op))
        return named ? op->algorithm : straight;
    if (!named && !op->by_rank && n > 3 && total * br_type_size(op->type) >= UNEVEN_RING &&
        op->count > 2 * total / (n - 1))
        return "ring";
    for (*count = 1; *count < mean; *count *= 2)
        ; /* a choice takes long, and is remembered for each size */
    return op->algorithm;
}

int br_blocks_cut(struct br_operation *op, const struct br_schedule *schedule, size_t chunk_bytes,
                  bool serial)
{
    size_t size = br_type_size(op->type), most = BR_MAX_TRANSFER / size;
    uint32_t fragments;

    if (!schedule->by_block)
        return br_error(EINVAL,
                        "%s: this algorithm puts several blocks into one message, which must be of "
                        "the same size",
                        br_collective_uneven_name(op->collective));
    op->part = chunk_bytes / size;
    if (br_blocks_known(op)) {
        fragments = br_fragment_count(op->count, size, schedule->pieces, chunk_bytes, serial);
        op->part = fragments ? br_piece_max(op->count, fragments) : most;
    }
    op->part = op->part < 1 ? 1 : op->part > most ? most : op->part;
    op->fragments.count = br_block_fragments(op->count, op->part);
    if (br_piece_max(op->count, op->fragments.count) > most)
        return br_error(E2BIG, "%s: %zu elements in one block are too many",
                        br_collective_uneven_name(op->collective), op->count);
    return 0;
}

size_t br_blocks_most(const struct br_operation *op)
{
    size_t most = br_piece_max(op->count, br_block_fragments(op->count, op->part));

    /* a smaller block is cut into parts that may be larger than those of the largest one */
    most = most > op->part ? most : op->part;
    return most < op->count ? most : op->count;
}
