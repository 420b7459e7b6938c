/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the blocks of a collective lie and how each is cut into fragments.
 *
 * Of the even forms all blocks have op->count elements, follow each other, and are cut alike. Of
 * the uneven ones (allgatherv and the like) each block has its own size, place and number of
 * fragments, by its size alone: so both ends of a message cut alike, though in alltoallv, gatherv
 * and scatterv they know the size of no other block. A block that has fewer fragments than others
 * has no elements in the later ones, and then its steps are skipped at both ends.
 *
 * Pure functions; those of blocks.c are for uneven forms only. n: ranks of the group.
 */
#ifndef BR_COLLECTIVES_ENGINE_BLOCKS_H
#define BR_COLLECTIVES_ENGINE_BLOCKS_H

#include "collectives/engine/operation.h"

/* Fragments of one operation, at most: 16 bits in the tag. */
#define BR_BLOCK_FRAGMENTS 65536u

/* Have the blocks different sizes? */
static inline bool br_blocks_uneven(const struct br_operation *op)
{
    return op->blocks[BR_INPUT].counts || op->blocks[BR_OUTPUT].counts;
}

/* Do all ranks know the sizes of all blocks? Else the two ends of a message know its size. */
static inline bool br_blocks_known(const struct br_operation *op)
{
    return br_collective_by_blocks(op->collective);
}

/* Elements of a block of a user buffer, and the first of them in the buffer. */
static inline size_t br_block_count(const struct br_operation *op, uint32_t buffer, size_t block)
{
    return br_blocks_uneven(op) ? op->blocks[buffer].counts[block] : op->count;
}

static inline size_t br_block_offset(const struct br_operation *op, uint32_t buffer, size_t block)
{
    return br_blocks_uneven(op) ? op->blocks[buffer].offsets[block] : op->count * block;
}

/* Uneven forms: into how many fragments a block of so many elements is cut, at least 1. part: the
 * target size of a fragment, elements. */
static inline uint32_t br_block_fragments(size_t count, size_t part)
{
    size_t n = count ? (count - 1) / part + 1 : 1;

    return n < BR_BLOCK_FRAGMENTS ? (uint32_t)n : BR_BLOCK_FRAGMENTS;
}

struct br_block_range {
    size_t first, elements; /* of the block */
    bool skipped;           /* the block has ended before this fragment */
};

/* A digest of the sizes of all blocks; 0 where not all ranks know them. */
uint64_t br_blocks_digest(const struct br_operation *op, uint32_t n);

/* Elements of all blocks; 0 where not all ranks know that. */
uint64_t br_blocks_total(const struct br_operation *op, uint32_t n);

/* By which algorithm: as in op->algorithm, or a ring for a few large blocks. *count: the elements
 * of a block, for the choice; the mean, rounded up to a power of two. Where not all ranks know the
 * sizes, none may depend on them, and messages go straight to where they belong. */
const char *br_blocks_choice(const struct br_operation *op, uint32_t n, size_t *count);

/* Sets op->part and the number of fragments. chunk_bytes: target size of a fragment of a block;
 * serial: as for br_fragment_count(). Returns 0, or with a message -EINVAL: not with this schedule;
 * -E2BIG. */
int br_blocks_cut(struct br_operation *op, const struct br_schedule *schedule, size_t chunk_bytes,
                  bool serial);

/* Elements of a block of a fragment, at most. */
size_t br_blocks_most(const struct br_operation *op);

/* What a fragment covers of a block. */
static inline struct br_block_range br_block_range(const struct br_operation *op, uint32_t buffer,
                                                   size_t block, uint32_t fragment)
{
    size_t count = br_block_count(op, buffer, block), first;
    uint32_t n = br_blocks_uneven(op) ? br_block_fragments(count, op->part) : op->fragments.count;

    if (fragment >= n)
        return (struct br_block_range){count, 0, true};
    first = br_piece_offset(count, n, fragment);
    return (struct br_block_range){first, br_piece_offset(count, n, fragment + 1) - first, false};
}

/* Elements of each block of a fragment, or what no block of any fragment has more than, where they
 * differ in size. */
static inline size_t br_fragment_elements(const struct br_operation *op, uint32_t fragment)
{
    return br_blocks_uneven(op) ? br_blocks_most(op)
                                : br_block_range(op, BR_INPUT, 0, fragment).elements;
}

#endif
