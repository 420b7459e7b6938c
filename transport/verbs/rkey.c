/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/rkey.h"

#include <errno.h>

#include "base/error.h"
#include "base/log.h"
#include "transport/verbs/verbs.h"

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

static int rkey_make(struct br_verbs_device *device, struct br_slot *slot,
                     uint8_t token[BR_RKEY_BYTES])
{
    const struct br_device *base = &device->base;
    const struct ibv_mr *mr = br_verbs_region_mr(slot->region, base->index);
    struct br_verbs_rkey place = {.length = slot->length, .granule = slot->granule_bytes};
    uint32_t index = (uint32_t)(slot - base->config->slots->slots);
    void *staged = NULL;
    int rc;

    if (index >= BR_VERBS_MAX_SLOTS)
        return br_error(E2BIG, "device %s: slot %u; %u can have places", base->name, index,
                        BR_VERBS_MAX_SLOTS);
    if (!mr && slot->region && slot->region->gpu)
        return br_error(EFAULT, "device %s: memory of a GPU without keys has no place", base->name);
    if (mr) {
        place.address = (uintptr_t)slot->base;
        place.rkey = mr->rkey;
    } else {
        rc = br_verbs_bounce_get(&device->rx, slot->length, &staged);
        if (rc)
            br_log_debug("device %s: slot %u has no place; its frames come in pieces", base->name,
                         index);
        else
            place.rkey = device->rx.mr->rkey;
        place.address = (uintptr_t)staged; /* 0: nothing is to be written (rkey.h note 5) */
    }
    if (!br_verbs_rkey_pack(&place, token)) {
        if (staged)
            br_verbs_bounce_put(&device->rx, staged);
        return br_error(EINVAL, "device %s: no token for a place of %u bytes, cut every %u, at %p",
                        base->name, slot->length, slot->granule_bytes, (void *)slot->base);
    }
    device->staging[index] = staged;
    br_verbs_open_links(device); /* a frame may be written as soon as the token is known */
    return 0;
}

static void rkey_end(struct br_verbs_device *device, const struct br_slot *slot)
{
    void **staged = &device->staging[slot - device->base.config->slots->slots];

    if (*staged)
        br_verbs_bounce_put(&device->rx, *staged);
    *staged = NULL;
}

int br_verbs_rkey(struct br_device *device, struct br_slot *slot, uint8_t token[BR_RKEY_BYTES])
{
    if (token)
        return rkey_make((struct br_verbs_device *)device, slot, token);
    rkey_end((struct br_verbs_device *)device, slot);
    return 0;
}
