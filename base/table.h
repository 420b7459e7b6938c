/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hash table from (64-bit tag, 32-bit peer) to a pointer. Open addressing with backward-shift
 * deletion, so that it neither allocates nor gets slower in a long run; it grows only when it is
 * told to. Not thread-safe.
 */
#ifndef BR_BASE_TABLE_H
#define BR_BASE_TABLE_H

#include <stdint.h>

struct br_table_entry {
    uint64_t tag;
    uint32_t peer;
    uint32_t used; /* 0: it is free; else 1 + where the key would like to stand */
    void *value;
};

struct br_table {
    struct br_table_entry *entries;
    uint32_t mask, count;
};

/* Allocates room for at least `capacity` entries at a load of 1/2. Returns 0, or -ENOMEM with a
 * message. */
int br_table_init(struct br_table *table, uint32_t capacity);

/* Frees the table, not the values. An all-zero table is allowed. */
void br_table_destroy(struct br_table *table);

/* Returns the value of a key, or NULL when it has none. */
void *br_table_find(const struct br_table *table, uint64_t tag, uint32_t peer);

/* Adds a key with a value that is not NULL. Returns 0; -EEXIST: the key has a value already;
 * -ENOSPC: the table is full. Neither comes with a message. */
int br_table_insert(struct br_table *table, uint64_t tag, uint32_t peer, void *value);

/* Makes room for twice as many entries. Returns 0, or -ENOMEM with a message; then the table is as
 * it was. */
int br_table_grow(struct br_table *table);

/* Removes a key. Returns its value, or NULL when it had none. */
void *br_table_remove(struct br_table *table, uint64_t tag, uint32_t peer);

#endif
