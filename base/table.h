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

int br_table_init(struct br_table *table,
                  uint32_t capacity); /* holds `capacity` entries at load 1/2; -ENOMEM */
void br_table_destroy(struct br_table *table);
/* NULL: none */
void *br_table_find(const struct br_table *table, uint64_t tag, uint32_t peer);
/* -EEXIST, -ENOSPC */
int br_table_insert(struct br_table *table, uint64_t tag, uint32_t peer, void *value);
/* what stood there, or NULL */
void *br_table_remove(struct br_table *table, uint64_t tag, uint32_t peer);

#endif
