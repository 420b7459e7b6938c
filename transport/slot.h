/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slots: the receiver's expectations. Where the bytes of a transfer go, and which of them have arrived.
 *
 * 1. A slot's number is (generation << 16 | index). The receiver chooses it, READY carries it, the sender echoes
 *    it in every PLACED frame: arrival is one array look-up. The generation changes when the slot is freed, so
 *    a late or forged frame finds nobody and is dropped.
 * 2. A transfer is cut into at most 64 slices and a slice into at most 64 granules: one bit each. Frames begin on
 *    granules. A slice or frame that comes twice (another rail took over) is recognised by its bits: bytes of a
 *    complete slice are never written again, because the engine may already have consumed them.
 *    Rejected: a byte counter a slice, which counts a duplicate twice.
 * 3. A slot whose frames must all be sent again (place tokens: transport.h note 8) gets a new number and keeps its complete
 *    slices (br_slot_renew). Of the others nothing counts: a frame posted with the old number may come in late, and if it
 *    counted, the transfer could be complete before the frame that repeats it has landed.
 * 4. A table belongs to one worker; back ends of this worker read it in poll(). No locks.
 */
#ifndef BR_TRANSPORT_SLOT_H
#define BR_TRANSPORT_SLOT_H

#include <stdbool.h>
#include <stdint.h>

#define BR_SLOT_SLICES   64 /* slices of one transfer, at most */
#define BR_SLOT_GRANULES 64 /* granules of one slice, at most */
#define BR_PLACE_BYTES   16 /* of a place token, opaque above transport/ */
#define BR_SLOT_DEVICES  8  /* devices of a worker, at most */

struct br_device;
struct br_region;

struct br_slot {
    uint16_t generation; /* of the present or next use */
    uint16_t first;      /* generation with which the present use began (br_slot_renew) */
    bool used;
    bool may_map;    /* the owner also takes a mapping instead of the bytes in `base` (see br_event.mapped) */
    uint32_t length; /* bytes of the transfer */
    uint32_t slice_bytes; /* multiple of granule_bytes; the last slice may be shorter */
    uint32_t granule_bytes;
    uint8_t *base; /* the place; NULL is allowed only with may_map (the bytes must come as a mapping) */
    struct br_region *region;         /* that `base` lies in, or NULL; set by the owner */
    void *owner;                      /* the transfer, for the protocol */
    uint64_t missing;                 /* bit i: slice i is not complete */
    uint64_t arrived[BR_SLOT_SLICES]; /* bit j of [i]: granule j of slice i is there */
    const uint8_t *mapped;            /* start of the transfer in the peer's memory, once mapped; else NULL */
    bool copied;                      /* bytes have arrived otherwise */
    struct br_device *map_device;     /* where to give the mappings back */
    uint32_t n_maps;                  /* mapped frames to give back; a slice is mapped by one frame */
    uint64_t map_handles[BR_SLOT_SLICES]; /* their handles (struct br_event.map_handle) */
    uint8_t placed; /* devices that have made a token for it, a bit each by br_device.index; the owner's */
    uint8_t places[BR_SLOT_DEVICES][BR_PLACE_BYTES]; /* these tokens; the owner's */
};

struct br_slot_table {
    struct br_slot *slots;
    uint32_t *free_;
    uint32_t count, n_free;
    uint64_t stale_frames; /* frames for a freed slot or a complete slice, dropped */
    uint64_t bad_frames;   /* frames out of bounds or off the grid */
};

int br_slot_table_init(struct br_slot_table *table, uint32_t count); /* 1 to 65,536; -EINVAL, -ENOMEM */
void br_slot_table_destroy(struct br_slot_table *table);

/* A free slot prepared for `length` > 0 bytes, or NULL when all are in use. slice_bytes is raised where length
 * would need more than 64 slices. */
struct br_slot *br_slot_get(struct br_slot_table *table, void *base, uint32_t length, uint32_t slice_bytes);
void br_slot_put(struct br_slot_table *table,
                 struct br_slot *slot); /* the number dies, the next use has another */
/* Another number for the same place, as if its incomplete slices had not begun to arrive. Not with mapped bytes. */
void br_slot_renew(struct br_slot *slot);
/* Was this a number of the slot's present use, before it was renewed? */
bool br_slot_was_renewed(const struct br_slot_table *table, uint32_t number);
uint32_t br_slot_number(const struct br_slot_table *table, const struct br_slot *slot);
struct br_slot *br_slot_find(const struct br_slot_table *table,
                             uint32_t number); /* NULL: stale or out of range */

/* slice_bytes that br_slot_get would choose; the sender cuts on the same grid. */
uint32_t br_slot_slice_bytes(uint32_t length, uint32_t slice_bytes);
uint32_t br_slot_granule_bytes(uint32_t slice_bytes);
uint64_t br_slot_all(uint32_t length,
                     uint32_t slice_bytes); /* a bit for each slice: `missing` at the start */

/* For back ends, before the payload is written: *slot_out and 0 when `length` bytes at `offset` are expected;
 * -ESTALE when nobody expects them any more (receive and drop them, counted); -EPROTO with words when they are
 * out of bounds or off the grid (the link must fail, counted). The place is slot->base + offset. */
int br_slot_expect(struct br_slot_table *table, uint32_t number, uint32_t offset, uint32_t length,
                   struct br_slot **slot_out);

/* For the protocol, on a PLACED event: marks the bytes. true when the transfer has become complete just now. */
bool br_slot_arrive(struct br_slot *slot, uint32_t offset, uint32_t length);

#endif
