/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Remote keys, and the 32 bits of an RDMA write's immediate: slot index, low bits of its
 * generation, offset in granules, and the protocol's flags. A frame that these cannot describe goes
 * as a SEND with its header. Pure arithmetic.
 *
 * The numbered notes are in doc/design/verbs.md.
 */
#ifndef BR_TRANSPORT_VERBS_RKEY_H
#define BR_TRANSPORT_VERBS_RKEY_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "transport/slot.h"
#include "transport/transport.h"

#define BR_VERBS_MAX_SLOTS 4096u /* of a table whose slots can have tokens */

struct br_verbs_rkey {
    uint64_t address; /* of the transfer's first byte */
    uint32_t rkey;
    uint32_t length;  /* of the transfer: 1 to 16 MiB */
    uint32_t granule; /* bytes */
};

struct br_verbs_imm {
    uint32_t index;      /* of the slot */
    uint32_t generation; /* its low 6 bits */
    uint32_t granules;   /* offset */
    uint8_t flags;       /* first inline byte */
};

#define BR_VERBS_ADDRESS_BITS    57
#define BR_VERBS_LENGTH_BITS     24
#define BR_VERBS_GRANULE_UNIT    64u /* granules are multiples of it (slot.c) */
#define BR_VERBS_GENERATION_BITS 6
#define BR_VERBS_GRANULE_BITS    12
#define BR_VERBS_FLAG_BITS       2

/* word: address (57 bits), low bits of the granule (7); rest: length - 1 (24 bits), high bits of
 * the granule (5). */
struct br_verbs_rkey_wire {
    uint64_t word;
    uint32_t rkey, rest;
};
static_assert(sizeof(struct br_verbs_rkey_wire) == BR_RKEY_BYTES, "a token fills its place");

/* false: the place cannot be said in a token. */
bool br_verbs_rkey_pack(const struct br_verbs_rkey *place, uint8_t token[BR_RKEY_BYTES]);

/* Any bytes give some place, with granule > 0 and length > 0. */
static inline struct br_verbs_rkey br_verbs_rkey_unpack(const uint8_t in[BR_RKEY_BYTES])
{
    struct br_verbs_rkey_wire token;
    uint32_t granule;

    memcpy(&token, in, sizeof token);
    granule = (token.rest >> BR_VERBS_LENGTH_BITS & 31) << 7 |
              (uint32_t)(token.word >> BR_VERBS_ADDRESS_BITS);
    return (struct br_verbs_rkey){.address = token.word & ((1ull << BR_VERBS_ADDRESS_BITS) - 1),
                                  .rkey = token.rkey,
                                  .length = (token.rest & ((1u << BR_VERBS_LENGTH_BITS) - 1)) + 1,
                                  .granule = (granule + 1) * BR_VERBS_GRANULE_UNIT};
}

/* Do only the lowest bits of the first byte say something? */
static inline bool br_verbs_inline_fits(const uint8_t *inline_)
{
    uint64_t words[BR_FRAME_INLINE / sizeof(uint64_t)], rest = 0;

    memcpy(words, inline_, sizeof words);
    for (size_t i = 1; i < sizeof words / sizeof *words; i++)
        rest |= words[i];
    return !(rest | words[0] >> BR_VERBS_FLAG_BITS); /* little-endian (frame.h note 3) */
}

/* Where a part of a transfer of so many bytes begins; false: it is not on the grid, inside the
 * transfer, and within one slice. */
bool br_verbs_imm_granules(uint32_t offset, uint32_t length, uint32_t transfer, uint32_t granule,
                           uint32_t *granules);

/* The immediate of a DATA frame; false: it cannot be written (note 2). */
static inline bool br_verbs_imm_pack(const struct br_frame *frame,
                                     const struct br_verbs_rkey *place, uint32_t *imm)
{
    uint32_t index = frame->slot & 0xffff, generation = frame->slot >> 16, granules = 0;

    if (index >= BR_VERBS_MAX_SLOTS || (frame->inline_ && !br_verbs_inline_fits(frame->inline_)))
        return false;
    /* What is whole is in its place, and needs no division. */
    if ((frame->offset || frame->length != place->length) &&
        !br_verbs_imm_granules(frame->offset, frame->length, place->length, place->granule,
                               &granules))
        return false;
    *imm = index << 20 | (generation & ((1u << BR_VERBS_GENERATION_BITS) - 1)) << 14 |
           granules << BR_VERBS_FLAG_BITS | (frame->inline_ ? frame->inline_[0] : 0);
    return true;
}

static inline struct br_verbs_imm br_verbs_imm_unpack(uint32_t imm)
{
    return (struct br_verbs_imm){
        .index = imm >> 20,
        .generation = imm >> 14 & ((1u << BR_VERBS_GENERATION_BITS) - 1),
        .granules = imm >> BR_VERBS_FLAG_BITS & ((1u << BR_VERBS_GRANULE_BITS) - 1),
        .flags = imm & ((1u << BR_VERBS_FLAG_BITS) - 1),
    };
}

/* The inline bytes of a written frame, by the flags of its immediate; static. */
extern const uint8_t br_verbs_imm_inline[1 << BR_VERBS_FLAG_BITS][BR_FRAME_INLINE];

/* The slot that a frame was posted for; NULL: it has another use by now. *number: its number
 * then. */
static inline struct br_slot *br_verbs_imm_slot(const struct br_slot_table *slots,
                                                struct br_verbs_imm imm, uint32_t *number)
{
    struct br_slot *slot = imm.index < slots->count ? &slots->slots[imm.index] : NULL;
    uint32_t present = slot ? slot->generation : 0;
    uint32_t age = (present - imm.generation) & ((1u << BR_VERBS_GENERATION_BITS) - 1);

    *number = (present - age) << 16 | imm.index;
    return slot && slot->used && !age ? slot : NULL;
}

#endif
