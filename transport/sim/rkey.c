/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Place tokens, and the checks on them that an RDMA NIC does not make: whatever would let it write
 * into memory that does not wait for it any more is counted (br_sim_counters.bad_places), and the
 * link fails as it would with a wrong key.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "transport/sim/internal.h"

#define TOKEN_MAGIC 0x706c6163u

static struct br_sim_device *sim_rkey_device_of(struct br_device *base)
{
    return br_container_of(base, struct br_sim_device, base);
}

static int sim_rkey_bad(struct br_sim_device *device, int error, const char *what)
{
    device->sim->counters.bad_rkeys++;
    br_sim_trace_number(device->sim, what, device->number);
    return br_error(error, "%s: %s", device->base.name, what);
}

int br_sim_rkeys_open(struct br_sim_device *device)
{
    device->rkeys = calloc(device->base.config->slots->count, sizeof *device->rkeys);
    return device->rkeys ? 0 : br_error(ENOMEM, "%s: no memory for places", device->base.name);
}

void br_sim_rkeys_close(struct br_sim_device *device)
{
    free(device->rkeys);
}

/* Its region, if it has any, must be registered with this device and hold all of it. */
static bool has_keys(const struct br_device *device, const struct br_slot *slot)
{
    const struct br_region *region = slot->region;
    const uint8_t *base = region ? region->base : NULL;

    if (!region)
        return true;
    return region->keys[device->index] && slot->base >= base &&
           slot->base + slot->length <= base + region->bytes;
}

static int rkey_make(struct br_sim_device *device, const struct br_slot *slot,
                     uint8_t out[BR_RKEY_BYTES])
{
    const struct br_device *base = &device->base;
    uint32_t number = br_slot_number(base->config->slots, slot);
    struct br_sim_rkey *place = &device->rkeys[number & 0xffff];
    struct br_sim_rkey_wire token = {TOKEN_MAGIC, device->number, number, ++device->n_rkeys_made};

    if (!slot->used || !slot->base || place->serial)
        return sim_rkey_bad(device, EINVAL,
                            "a remote key for a slot that has no memory, or has one already");
    if (!has_keys(base, slot))
        return sim_rkey_bad(device, EINVAL, "a remote key for memory that is not registered");
    if (device->sim->config.rkey_refused_ppm &&
        br_random_below(&device->sim->random, 1000000) < device->sim->config.rkey_refused_ppm)
        return br_error(ENOMEM, "%s: cannot pin the place, as the simulation wants it", base->name);
    *place = (struct br_sim_rkey){token.serial, number};
    memcpy(out, &token, sizeof token);
    return 0;
}

static void rkey_end(struct br_sim_device *device, const struct br_slot *slot)
{
    uint32_t number = br_slot_number(device->base.config->slots, slot);
    struct br_sim_rkey *place = &device->rkeys[number & 0xffff];

    if (!slot->base || place->slot != number || !place->serial)
        sim_rkey_bad(device, EINVAL, "gave a place back that it has not, or under another number");
    place->serial = 0;
}

int br_sim_rkey(struct br_device *base, struct br_slot *slot, uint8_t token[BR_RKEY_BYTES])
{
    struct br_sim_device *device = sim_rkey_device_of(base);

    if (token)
        return rkey_make(device, slot, token);
    rkey_end(device, slot);
    return 0;
}

int br_sim_rkey_post(struct br_sim_link *link, const struct br_frame *frame)
{
    struct br_sim_device *device = sim_rkey_device_of(link->base.device);
    bool needs = device->base.caps.needs_rkey && frame->kind == BR_FRAME_DATA;

    if (needs == (frame->rkey != NULL))
        return 0;
    return sim_rkey_bad(device, EINVAL,
                        needs ? "a frame without a remote key" : "a remote key that nobody needs");
}

int br_sim_rkey_check(struct br_sim_link *link, const struct br_sim_frame *frame)
{
    struct br_sim_device *device = sim_rkey_device_of(link->base.device);
    const struct br_slot_table *slots = device->base.config->slots;
    const struct br_sim_rkey_wire *token = &frame->rkey;
    uint32_t index = frame->header.slot & 0xffff, offset = frame->header.offset;
    const struct br_slot *slot;

    if (token->magic != TOKEN_MAGIC || token->device != device->number ||
        token->slot != frame->header.slot || index >= slots->count)
        return sim_rkey_bad(device, EPROTO, "a frame with a wrong remote key");
    if (token->serial != device->rkeys[index].serial)
        return sim_rkey_bad(device, EPROTO, "a frame with a remote key that is void");
    slot = br_slot_find(slots, frame->header.slot);
    if (!slot)
        return sim_rkey_bad(device, EPROTO,
                            "a frame for a slot that was put without giving its place back");
    if (offset < slot->length && !(slot->missing >> offset / slot->slice_bytes & 1))
        return sim_rkey_bad(
            device, EPROTO,
            "a frame for a slice that is complete, which its NIC would have written again");
    return 0;
}
