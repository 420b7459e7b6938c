/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slots are what the receiver expects: where the bytes of a transfer go, and which of them have
 * arrived. A slot's number is (generation << 16 | index), so that a late or forged frame finds no
 * slot. A transfer has at most 64 slices of at most 64 granules, with one bit each. A table belongs
 * to one worker, whose lock protects it.
 *
 * The numbered notes are in doc/design/back_ends.md.
 */
#ifndef BR_TRANSPORT_SLOT_H
#define BR_TRANSPORT_SLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BR_SLOT_SLICES   64 /* slices of one transfer, at most */
#define BR_SLOT_GRANULES 64 /* granules of one slice, at most */
#define BR_RKEY_BYTES    16 /* of a remote key, opaque above transport/ */
#define BR_SLOT_DEVICES  8  /* devices of a worker, at most */

struct br_device;
struct br_region;

/* What becomes of the bytes of a transfer where they are not wanted as they are. */
struct br_slot_reducer {
    /* [offset, offset + length) of the transfer stands at `bytes`: whole granules, or up to its
     * end. Neither blocks nor fails. */
    void (*reduce)(void *context, uint32_t offset, const uint8_t *bytes, uint32_t length);
    void *context;
};

struct br_slot {
    uint16_t generation; /* of the present or next use; 0: it has had none */
    uint16_t first;      /* generation with which the present use began (br_slot_renew) */
    bool used;
    /* the owner also takes a mapping instead of the bytes in `base` (see br_event.mapped) */
    bool may_map;
    uint32_t length;      /* bytes of the transfer */
    uint32_t slice_bytes; /* multiple of granule_bytes; the last slice may be shorter */
    uint32_t granule_bytes;
    /* the place; NULL is allowed only with may_map (the bytes must come as a mapping) */
    uint8_t *base;
    const struct br_slot_reducer *reducer; /* note 5; NULL: the bytes go to `base`. The owner's */
    struct br_region *region;              /* that `base` lies in, or NULL; set by the owner */
    void *owner;                           /* the transfer, for the protocol */
    uint64_t missing;                      /* bit i: slice i is not complete */
    /* bit j of [i]: granule j of slice i is there, or has been combined */
    uint64_t arrived[BR_SLOT_SLICES];
    /* start of the transfer in the peer's memory, once mapped; else NULL */
    const uint8_t *mapped;
    bool copied;                  /* bytes have arrived otherwise */
    struct br_device *map_device; /* where to give the mappings back */
    /* mapped frames to give back; a slice is mapped by one frame */
    uint32_t n_maps;
    uint64_t map_handles[BR_SLOT_SLICES]; /* their handles (struct br_event.map_handle) */
    /* devices that have made a token for it, a bit each by br_device.index; the owner's */
    uint8_t arrived_direct;
    uint8_t rkeys[BR_SLOT_DEVICES][BR_RKEY_BYTES]; /* these tokens; the owner's */
};

struct br_slot_table {
    struct br_slot *slots;
    uint32_t *free_;
    uint32_t count, n_free;
    uint64_t stale_frames; /* frames for a freed slot or a complete slice, dropped */
    uint64_t bad_frames;   /* frames out of bounds or off the grid */
};

/* 1 to 65,536; -EINVAL, -ENOMEM */
int br_slot_table_init(struct br_slot_table *table, uint32_t count);
void br_slot_table_destroy(struct br_slot_table *table);

/* A free slot prepared for `length` > 0 bytes, or NULL when all are in use. slice_bytes is raised
 * where length would need more than 64 slices. */
struct br_slot *br_slot_get(struct br_slot_table *table, void *base, uint32_t length,
                            uint32_t slice_bytes);
void br_slot_put(struct br_slot_table *table,
                 struct br_slot *slot); /* the number dies, the next use has another */
/* Another number for the same place, as if its incomplete slices had not begun to arrive. Not with
 * mapped bytes. */
void br_slot_renew(struct br_slot *slot);
/* Was this a number of the slot's present use, before it was renewed? */
bool br_slot_was_renewed(const struct br_slot_table *table, uint32_t number);
uint32_t br_slot_number(const struct br_slot_table *table, const struct br_slot *slot);
/* NULL: stale or out of range. */
static inline struct br_slot *br_slot_find(const struct br_slot_table *table, uint32_t number)
{
    uint32_t index = number & 0xffff;
    struct br_slot *slot = index < table->count ? &table->slots[index] : NULL;

    return slot && slot->used && slot->generation == number >> 16 ? slot : NULL;
}

/* slice_bytes that br_slot_get would choose; the sender cuts on the same grid. */
uint32_t br_slot_slice_bytes(uint32_t length, uint32_t slice_bytes);
uint32_t br_slot_granule_bytes(uint32_t slice_bytes);
uint64_t br_slot_all(uint32_t length,
                     uint32_t slice_bytes); /* a bit for each slice: `missing` at the start */

/*
 * For back ends, before the payload is written: *slot_out and 0 when `length` bytes at `offset` are
 * expected; -ESTALE when nobody expects them any more (receive and drop them, counted); -EPROTO
 * with a message when they are out of bounds or off the grid (the link must fail, counted). The
 * place is slot->base + offset.
 */
int br_slot_expect(struct br_slot_table *table, uint32_t number, uint32_t offset, uint32_t length,
                   struct br_slot **slot_out);
/* The same for a slot that has been found, or has not (NULL): 0, -ESTALE, -EPROTO. */
int br_slot_admit_any(struct br_slot_table *table, const struct br_slot *slot, uint32_t offset,
                      uint32_t length);
static inline int br_slot_admit(struct br_slot_table *table, const struct br_slot *slot,
                                uint32_t offset, uint32_t length)
{
    /* A whole transfer of one slice, as all small ones are: no division. */
    if (slot && !offset && length == slot->length && length <= slot->slice_bytes && slot->missing)
        return 0;
    return br_slot_admit_any(table, slot, offset, length);
}

/* From now on its bytes are combined. false: some have arrived already, they go to `base` as
 * before. */
bool br_slot_set_reducer(struct br_slot *slot, const struct br_slot_reducer *reducer);
/* Combines those granules of [offset, offset + length) that have not been yet, and marks them:
 * whole granules of one slice, or up to the end of the transfer, as br_slot_expect() wants them.
 * For back ends and for the protocol. */
void br_slot_reduce(struct br_slot *slot, uint32_t offset, const uint8_t *bytes, uint32_t length);

/* For the protocol, on a DATA event: marks the bytes. true when the transfer has become complete
 * just now. */
bool br_slot_arrive(struct br_slot *slot, uint32_t offset, uint32_t length);

#endif
