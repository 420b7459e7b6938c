/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/table.h"

#include "base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CAPACITY (UINT32_C(1) << 30) /* twice as many entries must be counted by 32 bits */

int br_table_init(struct br_table *table, uint32_t capacity)
{
    size_t n = 2;

    memset(table, 0, sizeof *table);
    if (capacity > MAX_CAPACITY)
        return br_error(ENOMEM, "a table of %u entries is beyond the limit of %u", capacity,
                        MAX_CAPACITY);
    while (n < (size_t)capacity * 2)
        n *= 2;
    table->entries = calloc(n, sizeof *table->entries);
    if (!table->entries)
        return br_error(ENOMEM, "no memory for a table of %u entries", capacity);
    table->mask = (uint32_t)(n - 1);
    return 0;
}

void br_table_destroy(struct br_table *table)
{
    free(table->entries);
    memset(table, 0, sizeof *table);
}

/* Where a key would like to stand: the finalizer of MurmurHash3 spreads tags, but those that differ
 * in five bits only stand side by side: bits 32 to 36, in which tags of messages count
 * (protocol/message.h), and of tags that begin with two ones, those of accesses, bits 3 to 7. In a
 * table larger than a core's cache each entry on its own would be a miss for each message, and for
 * the first ones a page fault of some microseconds, as nobody has used the page before. */
static uint32_t base_table_home(const struct br_table *table, uint64_t tag, uint32_t peer)
{
    const unsigned at = tag >> 62 == 3 ? 3 : 32;
    const uint64_t beside = UINT64_C(31) << at;
    uint64_t x = (tag & ~beside) + (uint64_t)peer * UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ (x >> 33)) * UINT64_C(0xff51afd7ed558ccd);
    x = (x ^ (x >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
    x = x ^ (x >> 33);
    return (uint32_t)(x + ((tag & beside) >> at)) & table->mask;
}

/* The key's entry, or the free one where it would be inserted. There always is one, as the load is
 * at most 1/2. */
static uint32_t base_table_position(const struct br_table *table, uint64_t tag, uint32_t peer,
                                    uint32_t home)
{
    uint32_t i = home;

    while (table->entries[i].used &&
           (table->entries[i].tag != tag || table->entries[i].peer != peer))
        i = (i + 1) & table->mask;
    return i;
}

void *br_table_find(const struct br_table *table, uint64_t tag, uint32_t peer)
{
    uint32_t home = base_table_home(table, tag, peer);

    /* NULL in a free entry */
    return table->entries[base_table_position(table, tag, peer, home)].value;
}

int br_table_insert(struct br_table *table, uint64_t tag, uint32_t peer, void *value)
{
    uint32_t home = base_table_home(table, tag, peer);
    struct br_table_entry *entry = &table->entries[base_table_position(table, tag, peer, home)];

    if (entry->used)
        return -EEXIST;
    if (table->count > table->mask / 2)
        return -ENOSPC;
    *entry = (struct br_table_entry){.tag = tag, .peer = peer, .used = home + 1, .value = value};
    table->count++;
    return 0;
}

int br_table_grow(struct br_table *table)
{
    struct br_table larger;
    int rc = br_table_init(&larger, (table->mask + 1)); /* twice what it has room for now */

    if (rc)
        return rc;
    for (uint32_t i = 0; i <= table->mask; i++) {
        const struct br_table_entry *entry = &table->entries[i];

        if (entry->used)
            br_table_insert(&larger, entry->tag, entry->peer, entry->value);
    }
    free(table->entries);
    *table = larger;
    return 0;
}

void *br_table_remove(struct br_table *table, uint64_t tag, uint32_t peer)
{
    uint32_t gap = base_table_position(table, tag, peer, base_table_home(table, tag, peer));
    void *value = table->entries[gap].value;

    if (!table->entries[gap].used)
        return NULL;
    /* Close the gap: each follower moves into it unless its home lies between the gap and
     * itself. */
    for (uint32_t i = (gap + 1) & table->mask; table->entries[i].used; i = (i + 1) & table->mask) {
        uint32_t wanted = table->entries[i].used - 1;

        if (((i - wanted) & table->mask) >= ((i - gap) & table->mask)) {
            table->entries[gap] = table->entries[i];
            gap = i;
        }
    }
    table->entries[gap] = (struct br_table_entry){0};
    table->count--;
    return value;
}
