/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/rkey.h"

#define MAX_GRANULE 4096u /* of its units: slices of 16 MiB */

const uint8_t br_verbs_imm_inline[1 << BR_VERBS_FLAG_BITS][BR_FRAME_INLINE] = {{0}, {1}, {2}, {3}};

bool br_verbs_rkey_pack(const struct br_verbs_rkey *place, uint8_t out[BR_RKEY_BYTES])
{
    uint32_t granule = place->granule / BR_VERBS_GRANULE_UNIT - 1;
    struct br_verbs_rkey_wire token;

    if (place->address >> BR_VERBS_ADDRESS_BITS || !place->length ||
        place->length > 1u << BR_VERBS_LENGTH_BITS || place->granule % BR_VERBS_GRANULE_UNIT ||
        granule >= MAX_GRANULE)
        return false;
    token.word = place->address | (uint64_t)granule << BR_VERBS_ADDRESS_BITS;
    token.rkey = place->rkey;
    token.rest = (place->length - 1) | granule >> 7 << BR_VERBS_LENGTH_BITS;
    memcpy(out, &token, sizeof token);
    return true;
}

bool br_verbs_imm_granules(uint32_t offset, uint32_t length, uint32_t transfer, uint32_t granule,
                           uint32_t *granules)
{
    uint32_t end = offset + length;

    *granules = offset / granule;
    return length && offset % granule == 0 && offset < transfer && length <= transfer - offset &&
           (end % granule == 0 || end == transfer) &&
           *granules / BR_SLOT_GRANULES == (end - 1) / granule / BR_SLOT_GRANULES &&
           !(*granules >> BR_VERBS_GRANULE_BITS);
}
