/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Remote keys, and the 32 bits of an RDMA write's immediate: slot index, low bits of its
 * generation, offset in granules, and the protocol's flags. A frame that these cannot describe is
 * sent as a SEND with its header. The functions only compute; they may be called from any thread,
 * but those that take a slot table under its worker's lock.
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

#define BR_VERBS_MAX_SLOTS 4096u /* Slots with a lower index can have remote keys. */

/* What is in a remote key. */
struct br_verbs_rkey {
    uint64_t address; /* Of the first byte of the transfer; 0: nothing can be written (note 5). */
    uint32_t rkey;    /* The NIC's key of the memory. */
    uint32_t length;  /* Bytes of the transfer, 1 to 2^24. */
    uint32_t granule; /* Bytes of a granule. */
};

/* What is in the immediate of an RDMA write. */
struct br_verbs_imm {
    uint32_t index;      /* The index of the slot. */
    uint32_t generation; /* The low 6 bits of the slot's generation. */
    uint32_t granules;   /* The offset in the transfer, in granules. */
    uint8_t flags;       /* The first inline byte of the frame. */
};

#define BR_VERBS_ADDRESS_BITS    57
#define BR_VERBS_LENGTH_BITS     24
#define BR_VERBS_GRANULE_UNIT    64u /* A granule has a multiple of so many bytes (slot.c). */
#define BR_VERBS_GENERATION_BITS 6
#define BR_VERBS_GRANULE_BITS    12
#define BR_VERBS_FLAG_BITS       2

/* A remote key as it is sent. word: address (57 bits), then the low 7 bits of the granule; rest:
 * length - 1 (24 bits), then the high 5 bits of the granule. The granule is counted in
 * BR_VERBS_GRANULE_UNIT, less one. */
struct br_verbs_rkey_wire {
    uint64_t word;
    uint32_t rkey, rest;
};
static_assert(sizeof(struct br_verbs_rkey_wire) == BR_RKEY_BYTES, "a token fills its place");

/* Writes a remote key as it is sent to `token`. Returns false when it does not fit. */
bool br_verbs_rkey_pack(const struct br_verbs_rkey *place, uint8_t token[BR_RKEY_BYTES]);

/* Reads a remote key that a peer has sent. Takes any bytes; granule and length are then above 0,
 * but otherwise unchecked. */
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

/* Returns whether the inline bytes of a frame fit into an immediate: all bits but the lowest
 * BR_VERBS_FLAG_BITS of the first byte are 0. */
static inline bool br_verbs_inline_fits(const uint8_t *inline_)
{
    uint64_t words[BR_FRAME_INLINE / sizeof(uint64_t)], rest = 0;

    memcpy(words, inline_, sizeof words);
    for (size_t i = 1; i < sizeof words / sizeof *words; i++)
        rest |= words[i];
    return !(rest | words[0] >> BR_VERBS_FLAG_BITS); /* little-endian (frame.h note 3) */
}

/* Writes the offset of a frame in granules to *granules. offset, length: of the frame; transfer:
 * bytes of the transfer; granule: bytes of a granule. Returns false when the frame does not consist
 * of whole granules of one slice of the transfer. */
bool br_verbs_imm_granules(uint32_t offset, uint32_t length, uint32_t transfer, uint32_t granule,
                           uint32_t *granules);

/* Writes the immediate of a DATA frame to *imm. place: the remote key of its slot. Returns false
 * when the frame cannot be written by RDMA (note 2). */
static inline bool br_verbs_imm_pack(const struct br_frame *frame,
                                     const struct br_verbs_rkey *place, uint32_t *imm)
{
    uint32_t index = frame->slot & 0xffff, generation = frame->slot >> 16, granules = 0;

    if (index >= BR_VERBS_MAX_SLOTS || (frame->inline_ && !br_verbs_inline_fits(frame->inline_)))
        return false;
    /* A frame with the whole transfer needs no division. */
    if ((frame->offset || frame->length != place->length) &&
        !br_verbs_imm_granules(frame->offset, frame->length, place->length, place->granule,
                               &granules))
        return false;
    *imm = index << 20 | (generation & ((1u << BR_VERBS_GENERATION_BITS) - 1)) << 14 |
           granules << BR_VERBS_FLAG_BITS | (frame->inline_ ? frame->inline_[0] : 0);
    return true;
}

/* Reads an immediate that a peer has sent, which may have any value. */
static inline struct br_verbs_imm br_verbs_imm_unpack(uint32_t imm)
{
    return (struct br_verbs_imm){
        .index = imm >> 20,
        .generation = imm >> 14 & ((1u << BR_VERBS_GENERATION_BITS) - 1),
        .granules = imm >> BR_VERBS_FLAG_BITS & ((1u << BR_VERBS_GRANULE_BITS) - 1),
        .flags = imm & ((1u << BR_VERBS_FLAG_BITS) - 1),
    };
}

/* The inline bytes of a frame that was written by RDMA, by the flags in its immediate. Constant. */
extern const uint8_t br_verbs_imm_inline[1 << BR_VERBS_FLAG_BITS][BR_FRAME_INLINE];

/* Returns the slot that a frame was posted for, or NULL when the slot has another use by now or
 * does not exist. *number is the number of the slot that the frame was posted with. */
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
