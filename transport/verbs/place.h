/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Place tokens, and the 32 bits that an RDMA write brings along. Pure arithmetic.
 *
 * 1. A frame that is written by the NIC has no header: what the receiver knows of it is the immediate, the length (byte_len of
 *    the completion) and the slot table. Immediate: slot index (12 bits), low bits of the slot's generation (6), offset in
 *    granules (12: a transfer has 64 x 64 at most), the lowest bits of the first inline byte (2: the protocol's flags).
 *    Rejected: a header SEND behind every write, which doubles the work requests and halves the rate of small frames.
 * 2. A frame that this cannot say (other inline bytes, off the grid, out of bounds, a slot's number of another shape) is not
 *    written: it goes as a SEND with a whole header, and the receiver checks and copies it (post.c). So a wrong offset of an
 *    honest sender never becomes a wrong write.
 * 3. Therefore the sender must know the grid and the length: they ride in the token, beside address and remote key.
 *    57 bits of address are more than user space has on any machine we build for.
 * 4. Stale writes. The protocol releases a place only when every frame posted for it has been SENT or its link is fenced on both
 *    sides (transport.h note 8), so no write is on its way to memory that is the user's again. What may still be to come is
 *    the completion of a frame posted with an older number of the slot, written before: its six bits of generation
 *    tell, as it cannot be 64 uses behind: it was in the completion queue before the SENT was.
 * 5. Memory without keys, and no room left in the buffers that stand in for it: the token has address 0, and all frames of the
 *    transfer go as in note 2. Slower, but it needs nothing that another transfer would have to give back first. SENT then comes
 *    before the bytes are in their place; they are checked against the slot's whole number when they are copied,
 *    so a late one is dropped.
 */
#ifndef BR_TRANSPORT_VERBS_PLACE_H
#define BR_TRANSPORT_VERBS_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/slot.h"
#include "transport/transport.h"

#define BR_VERBS_MAX_SLOTS 4096u /* of a table whose slots can have tokens */

struct br_verbs_place {
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

/* false: the place cannot be said in a token. */
bool br_verbs_place_pack(const struct br_verbs_place *place, uint8_t token[BR_PLACE_BYTES]);
/* Any bytes give some place, with granule > 0 and length > 0. */
void br_verbs_place_unpack(const uint8_t token[BR_PLACE_BYTES], struct br_verbs_place *place);

/* The immediate of a PLACED frame; false: it cannot be written (note 2). */
bool br_verbs_imm_pack(const struct br_frame *frame, const struct br_verbs_place *place, uint32_t *imm);
struct br_verbs_imm br_verbs_imm_unpack(uint32_t imm);

/* Its inline bytes: BR_FRAME_INLINE, static. */
const uint8_t *br_verbs_imm_inline(const struct br_verbs_imm *imm);

/* The slot number with which a frame was posted: that of the slot's present use, or an earlier one. */
uint32_t br_verbs_imm_number(const struct br_slot_table *slots, const struct br_verbs_imm *imm);

#endif
