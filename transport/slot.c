/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/slot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "transport/slot_view.h"

#define MIN_GRANULE 64u

int br_slot_table_init(struct br_slot_table *table, uint32_t count)
{
    memset(table, 0, sizeof *table);
    if (!count || count > BR_SLOTS_MAX)
        return br_error(EINVAL, "%u slots: 1 to %u are possible", count, BR_SLOTS_MAX);
    table->slots = calloc(count, sizeof *table->slots);
    table->returned = calloc(count, sizeof *table->returned);
    if (!table->slots || !table->returned) {
        br_slot_table_destroy(table);
        return br_error(ENOMEM, "no memory for %u slots", count);
    }
    table->count = table->n_free = count;
    return 0;
}

void br_slot_table_limit(struct br_slot_table *table, uint32_t most)
{
    if (most >= table->count || most < table->fresh)
        return;
    table->n_free -= table->count - most;
    table->count = most;
}

void br_slot_table_destroy(struct br_slot_table *table)
{
    free(table->slots);
    free(table->returned);
    memset(table, 0, sizeof *table);
}

uint32_t br_slot_slice_bytes(uint32_t length, uint32_t slice_bytes)
{
    uint32_t unit = MIN_GRANULE * BR_SLOT_GRANULES;
    uint32_t least = (uint32_t)(((uint64_t)length + BR_SLOT_SLICES - 1) / BR_SLOT_SLICES);
    uint32_t most = UINT32_MAX / unit * unit;

    if (slice_bytes < least)
        slice_bytes = least;
    if (slice_bytes > most - unit)
        return most;
    return (slice_bytes + unit - 1) / unit * unit;
}

uint32_t br_slot_granule_bytes(uint32_t slice_bytes)
{
    return slice_bytes / BR_SLOT_GRANULES;
}

uint64_t br_slot_all(uint32_t length, uint32_t slice_bytes)
{
    uint32_t n = (uint32_t)(((uint64_t)length + slice_bytes - 1) / slice_bytes);

    return n >= 64 ? ~0ull : (1ull << n) - 1;
}

struct br_slot *br_slot_get(struct br_slot_table *table, void *base, uint32_t length,
                            uint32_t slice_bytes)
{
    struct br_slot *slot;

    if (!table->n_free)
        return NULL;
    table->n_free--;
    if (table->n_returned) {
        slot = &table->slots[table->returned[--table->n_returned]];
    } else {
        slot = &table->slots[table->fresh++];
        slot->generation = 1;
    }
    slot->used = true;
    slot->first = slot->generation;
    slot->region = NULL;
    slot->arrived_direct = 0;
    slot->may_map = false;
    slot->uncached = false;
    slot->reducer = NULL;
    slot->base = base;
    slot->length = length;
    slot->slice_bytes = br_slot_slice_bytes(length, slice_bytes);
    slot->granule_bytes = br_slot_granule_bytes(slot->slice_bytes);
    slot->owner = NULL;
    slot->mapped = NULL;
    slot->n_maps = 0;
    slot->copied = false;
    slot->missing = br_slot_all(length, slot->slice_bytes);
    memset(slot->arrived, 0, (size_t)__builtin_popcountll(slot->missing) * sizeof slot->arrived[0]);
    if (table->views)
        br_slot_views_publish(table, slot);
    return slot;
}

static void next_generation(struct br_slot *slot)
{
    if (++slot->generation == 0)
        slot->generation = 1;
}

void br_slot_put(struct br_slot_table *table, struct br_slot *slot)
{
    if (table->views)
        br_slot_views_retract(table, slot);
    slot->used = false;
    slot->owner = NULL;
    slot->base = NULL;
    slot->reducer = NULL;
    slot->region = NULL;
    next_generation(slot);
    table->returned[table->n_returned++] = (uint32_t)(slot - table->slots);
    table->n_free++;
}

void br_slot_renew(struct br_slot_table *table, struct br_slot *slot)
{
    if (table->views)
        br_slot_views_retract(table, slot);
    next_generation(slot);
    for (uint64_t left = slot->missing; left; left &= left - 1)
        slot->arrived[__builtin_ctzll(left)] = 0;
    if (table->views)
        br_slot_views_publish(table, slot);
}

bool br_slot_was_renewed(const struct br_slot_table *table, uint32_t number)
{
    const struct br_slot *slot = &table->slots[(number & 0xffff) % table->count];
    uint16_t age = (uint16_t)((number >> 16) - slot->first),
             now = (uint16_t)(slot->generation - slot->first);

    return (number & 0xffff) < table->count && slot->used && age < now;
}

uint32_t br_slot_number(const struct br_slot_table *table, const struct br_slot *slot)
{
    return (uint32_t)slot->generation << 16 | (uint32_t)(slot - table->slots);
}

/* Granules [first, last] of one slice that cover [offset, offset + length) of the transfer. */
static uint64_t granule_mask(const struct br_slot *slot, uint32_t offset, uint32_t length)
{
    uint32_t in_slice = offset % slot->slice_bytes;
    uint32_t first = in_slice / slot->granule_bytes;
    uint32_t last = (in_slice + length - 1) / slot->granule_bytes;

    return (~0ull >> (63 - (last - first))) << first;
}

/* Bytes that may come: within one slice, on the grid. 0 or -EPROTO with a message. */
static int slot_check_frame(const struct br_slot *slot, uint32_t offset, uint32_t length)
{
    uint32_t end = offset + length;

    if (!length || offset >= slot->length || length > slot->length - offset ||
        offset / slot->slice_bytes != (end - 1) / slot->slice_bytes)
        return br_error(EPROTO,
                        "frame [%u, +%u) does not lie in one slice of a transfer of %u bytes",
                        offset, length, slot->length);
    if (offset % slot->granule_bytes || (end % slot->granule_bytes && end != slot->length))
        return br_error(EPROTO, "frame [%u, +%u) is not on the grid of %u bytes", offset, length,
                        slot->granule_bytes);
    return 0;
}

int br_slot_admit_any(struct br_slot_table *table, const struct br_slot *slot, uint32_t offset,
                      uint32_t length)
{
    int rc;

    if (!slot) {
        table->stale_frames++;
        return -ESTALE;
    }
    rc = slot_check_frame(slot, offset, length);
    if (rc) {
        table->bad_frames++;
        return rc;
    }
    if (!(__atomic_load_n(&slot->missing, __ATOMIC_RELAXED) >> offset / slot->slice_bytes & 1)) {
        table->stale_frames++;
        return -ESTALE;
    }
    return 0;
}

struct br_slot *br_slot_lookup(const struct br_slot_table *table, uint32_t number)
{
    return table->view ? br_slot_view_find(table->view, number) : br_slot_find(table, number);
}

int br_slot_expect(struct br_slot_table *table, uint32_t number, uint32_t offset, uint32_t length,
                   struct br_slot **slot_out)
{
    struct br_slot *slot = br_slot_lookup(table, number);
    int rc = br_slot_admit(table, slot, offset, length);

    if (!rc)
        *slot_out = slot;
    return rc;
}

bool br_slot_set_reducer(struct br_slot *slot, const struct br_slot_reducer *reducer)
{
    uint64_t all = br_slot_all(slot->length, slot->slice_bytes);

    if (slot->missing != all || slot->n_maps)
        return false;
    for (int i = 0; i < __builtin_popcountll(all); i++)
        if (slot->arrived[i])
            return false;
    slot->reducer = reducer;
    return true;
}

void br_slot_reduce(struct br_slot *slot, uint32_t offset, const uint8_t *bytes, uint32_t length)
{
    uint32_t slice = offset / slot->slice_bytes, end = offset + length;
    uint64_t left = granule_mask(slot, offset, length) & ~slot->arrived[slice];

    slot->arrived[slice] |= left;
    slot->copied = true; /* what comes mapped now comes too late */
    while (left) {       /* each run of them in one call */
        uint32_t first = (uint32_t)__builtin_ctzll(left);
        uint64_t gap = ~(left >> first);
        uint32_t n = gap ? (uint32_t)__builtin_ctzll(gap) : BR_SLOT_GRANULES;
        uint32_t from = slice * slot->slice_bytes + first * slot->granule_bytes;
        uint32_t part = n * slot->granule_bytes;

        if (part > end - from)
            part = end - from;
        slot->reducer->reduce(slot->reducer->context, from, bytes + (from - offset), part);
        left &= first + n < BR_SLOT_GRANULES ? ~0ull << (first + n) : 0;
    }
}

bool br_slot_arrive(struct br_slot *slot, uint32_t offset, uint32_t length)
{
    uint32_t slice = offset / slot->slice_bytes;
    uint32_t start = slice * slot->slice_bytes;
    uint32_t bytes =
        slot->length - start < slot->slice_bytes ? slot->length - start : slot->slice_bytes;

    if (!(slot->missing >> slice & 1))
        return false;
    slot->arrived[slice] |= granule_mask(slot, offset, length);
    if (slot->arrived[slice] == granule_mask(slot, start, bytes))
        __atomic_store_n(&slot->missing, slot->missing & ~(1ull << slice), __ATOMIC_RELAXED);
    return !slot->missing;
}
