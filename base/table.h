/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hash table with a fixed capacity: (64-bit tag, 32-bit peer) -> pointer. Open addressing with
 * backward-shift deletion, so it neither allocates nor degrades in a long run. Not thread-safe.
 */
#ifndef BR_BASE_TABLE_H
#define BR_BASE_TABLE_H

#include <stdint.h>

struct br_table_entry {
    uint64_t tag;
    uint32_t peer;
    uint32_t used;
    void *value;
};

struct br_table {
    struct br_table_entry *entries;
    uint32_t mask, count;
};

/* Makes room for `capacity` entries, with which the table is half full. -ENOMEM with a message. */
int br_table_init(struct br_table *table, uint32_t capacity);
void br_table_destroy(struct br_table *table);
/* The key's value; NULL: the key is not there. */
void *br_table_find(const struct br_table *table, uint64_t tag, uint32_t peer);
/* 0; -EEXIST: the key is there; -ENOSPC: the table has `capacity` entries. */
int br_table_insert(struct br_table *table, uint64_t tag, uint32_t peer, void *value);
/* Removes the key and returns its value; NULL: the key was not there. */
void *br_table_remove(struct br_table *table, uint64_t tag, uint32_t peer);

#endif
