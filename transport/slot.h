/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slots are what the receiver expects: where the bytes of a transfer go, and which of them have
 * arrived. A slot's number is (generation << 16 | index), so that a late or forged frame finds no
 * slot. A transfer has at most 64 slices of at most 64 granules, with one bit each.
 *
 * A table belongs to one worker. All functions are called under that worker's lock; none blocks,
 * and only br_slot_table_init() allocates. The thread of a device that has one (threaded/) looks
 * slots up in a view of the table (slot_view.h).
 *
 * The numbered notes are in doc/design/back_ends.md.
 */
#ifndef BR_TRANSPORT_SLOT_H
#define BR_TRANSPORT_SLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BR_SLOTS_MAX     65536u /* An index has 16 bits. */
#define BR_SLOT_SLICES   64     /* The most slices of one transfer. */
#define BR_SLOT_GRANULES 64     /* The most granules of one slice. */
#define BR_RKEY_BYTES    16     /* Bytes of a remote key, which only the back end can read. */
#define BR_SLOT_DEVICES  8      /* The most devices of a worker. */

struct br_device;
struct br_region;
struct br_slot_view;

/* What to do with the bytes of a transfer instead of writing them to the slot's memory. */
struct br_slot_reducer {
    /* Combines bytes [offset, offset + length) of the transfer, which are at `bytes`, with what the
     * owner has. They are whole granules, or reach to the end of the transfer. `bytes` is valid
     * during the call. Neither blocks nor fails. */
    void (*reduce)(void *context, uint32_t offset, const uint8_t *bytes, uint32_t length);
    void *context; /* The first argument of reduce(). */
};

/* A transfer that is expected. "The owner" is the protocol, which has called br_slot_get(). */
struct br_slot {
    uint16_t generation; /* Of the present use, or of the next; 0 when there was no use yet. */
    uint16_t first;      /* The generation with which the present use began (br_slot_renew()). */
    bool used;           /* Between br_slot_get() and br_slot_put(). */
    /* Set by the owner when it takes a mapping, too, instead of bytes at `base`
     * (br_event.mapped). */
    bool may_map;
    /* Set by the owner when the bytes will have left the caches before anybody reads them: a copy
     * may go past them (br_copy_uncached()). */
    bool uncached;
    uint32_t length;        /* Bytes of the transfer. */
    uint32_t slice_bytes;   /* A multiple of granule_bytes; the last slice may be shorter. */
    uint32_t granule_bytes; /* Bytes of a granule; the last one may be shorter. */
    /* Where the transfer is written; constant while the slot is in use. May be NULL only with
     * may_map: then all bytes have to come as a mapping. The memory belongs to the owner of the
     * slot. */
    uint8_t *base;
    /* Combines the bytes (note 5); NULL when they are written to `base`. Belongs to the owner. */
    const struct br_slot_reducer *reducer;
    struct br_region *region; /* The region that `base` lies in, or NULL; set by the owner. */
    void *owner;              /* The protocol's transfer; set by the owner. */
    /* Bit i is set while slice i is not complete. Views read it while the owner changes it. */
    uint64_t missing;
    /* Bit j of arrived[i] is set when granule j of slice i has arrived or has been combined. */
    uint64_t arrived[BR_SLOT_SLICES];
    /* The start of the transfer in the peer's memory once a frame was mapped; else NULL. */
    const uint8_t *mapped;
    bool copied;                  /* Bytes have arrived other than as a mapping. */
    struct br_device *map_device; /* The device whose release() takes maps. */
    uint32_t n_maps;              /* Entries of maps; one frame maps a slice. */
    void *maps[BR_SLOT_SLICES];   /* br_event.buffer of mappings not yet given back. */
    /* Which devices have made a remote key for the slot: a bit each, by br_device.index. Set by the
     * owner. */
    uint8_t arrived_direct;
    uint8_t rkeys[BR_SLOT_DEVICES][BR_RKEY_BYTES]; /* These keys, by br_device.index. */
};

struct br_slot_table {
    struct br_slot *slots; /* `count` of them, owned by the table. */
    /* The indexes of the slots that were in use and are free: the first n_returned entries. Slots
     * from index `fresh` on have not been in use yet, and nobody has touched their pages. */
    uint32_t *returned;
    uint32_t count, n_free, n_returned, fresh;
    uint64_t stale_frames; /* Frames dropped: their slot was freed or their slice was complete. */
    uint64_t bad_frames;   /* Frames out of bounds or not made of whole granules. */
    struct br_slot_view *views; /* Of this table; NULL: there are none. */
    struct br_slot_view *view; /* The view that this table is the face of (slot_view.h), or NULL. */
};

/* Makes a table of `count` free slots, 1 to BR_SLOTS_MAX. Memory is used only by those that were in
 * use. Returns 0, and the caller has to call
 * br_slot_table_destroy(); or with a message -EINVAL when count is out of range, or -ENOMEM. */
int br_slot_table_init(struct br_slot_table *table, uint32_t count);
/* For back ends, in device_open(): the device takes only slots with an index below `most`. */
void br_slot_table_limit(struct br_slot_table *table, uint32_t most);
/* Frees the slots. Allowed on a table that is all zero, and after a failed br_slot_table_init(). */
void br_slot_table_destroy(struct br_slot_table *table);

/* Returns a slot for a transfer of `length` > 0 bytes to `base`, or NULL when all are in use.
 * slice_bytes: the size of a slice that is wanted; the slot has that of br_slot_slice_bytes(). The
 * slot has no reducer, region or owner. It is the caller's until br_slot_put(). */
struct br_slot *br_slot_get(struct br_slot_table *table, void *base, uint32_t length,
                            uint32_t slice_bytes);
/* Frees a slot. Its number becomes invalid, and the next use has another one. */
void br_slot_put(struct br_slot_table *table, struct br_slot *slot);
/* Gives a slot in use another number, and forgets what has arrived of its incomplete slices. Not
 * for a slot with mapped bytes. */
void br_slot_renew(struct br_slot_table *table, struct br_slot *slot);
/* Returns whether `number` was a number of a slot's present use before br_slot_renew(). */
bool br_slot_was_renewed(const struct br_slot_table *table, uint32_t number);
/* Returns the present number of a slot. */
uint32_t br_slot_number(const struct br_slot_table *table, const struct br_slot *slot);
/* Returns the slot in use that has this number, or NULL when there is none. Takes any number. */
static inline struct br_slot *br_slot_find(const struct br_slot_table *table, uint32_t number)
{
    uint32_t index = number & 0xffff;
    struct br_slot *slot = index < table->count ? &table->slots[index] : NULL;

    return slot && slot->used && slot->generation == number >> 16 ? slot : NULL;
}

/* Returns the bytes of a slice that br_slot_get() chooses for a transfer of `length` bytes: about
 * `slice_bytes`, or more where that would make more than BR_SLOT_SLICES slices. The sender uses it
 * to cut at the same offsets. */
uint32_t br_slot_slice_bytes(uint32_t length, uint32_t slice_bytes);
/* Returns the bytes of a granule for slices of this size, which br_slot_slice_bytes() returned. */
uint32_t br_slot_granule_bytes(uint32_t slice_bytes);
/* Returns a bit for each slice of a transfer of `length` bytes: br_slot.missing at its start. */
uint64_t br_slot_all(uint32_t length, uint32_t slice_bytes);

/* For back ends: br_slot_find(), also in the table that the thread of a device has (slot_view.h).
 */
struct br_slot *br_slot_lookup(const struct br_slot_table *table, uint32_t number);
/*
 * For back ends, before they write the payload of a frame: checks that `length` bytes at `offset`
 * of slot `number` are expected. Takes any numbers. Returns
 * 0:       they are; *slot_out is the slot, and the bytes go to (*slot_out)->base + offset;
 * -ESTALE: they are not expected any more: the back end drops them. Counted, without a message;
 * -EPROTO: they are out of bounds or not made of whole granules: the back end fails the link.
 *          Counted, with a message.
 */
int br_slot_expect(struct br_slot_table *table, uint32_t number, uint32_t offset, uint32_t length,
                   struct br_slot **slot_out);
/* Like br_slot_expect() for the result of br_slot_lookup(): `slot` may be NULL, which is -ESTALE.
 */
int br_slot_admit_any(struct br_slot_table *table, const struct br_slot *slot, uint32_t offset,
                      uint32_t length);
/* The same, without a call and a division for a whole transfer of one slice. */
static inline int br_slot_admit(struct br_slot_table *table, const struct br_slot *slot,
                                uint32_t offset, uint32_t length)
{
    if (slot && !offset && length == slot->length && length <= slot->slice_bytes &&
        __atomic_load_n(&slot->missing, __ATOMIC_RELAXED))
        return 0;
    return br_slot_admit_any(table, slot, offset, length);
}

/* Has the bytes of a slot combined by `reducer`, which the caller keeps until br_slot_put().
 * Returns false, and changes nothing, when bytes have arrived already: these and the others then go
 * to `base`. */
bool br_slot_set_reducer(struct br_slot *slot, const struct br_slot_reducer *reducer);
/* Gives those granules of [offset, offset + length) that have not been combined yet to the slot's
 * reducer, and marks them in `arrived`. bytes: the payload for that range, which br_slot_expect()
 * has accepted. For back ends and for the protocol. */
void br_slot_reduce(struct br_slot *slot, uint32_t offset, const uint8_t *bytes, uint32_t length);

/* For the protocol, on a DATA event: marks the bytes of a frame, which br_slot_expect() has
 * accepted, as arrived. Returns true when this has completed the transfer. */
bool br_slot_arrive(struct br_slot *slot, uint32_t offset, uint32_t length);

#endif
