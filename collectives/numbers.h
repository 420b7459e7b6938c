/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters by (peer, direction, tag): which message of its kind a send or receive is. Both ends count
 * alike, so the number in a transfer's tag makes messages with one tag match in order. A hash table that
 * grows, as a program may use any number of tags; nothing is ever taken out. Not thread-safe.
 */
#ifndef BR_COLLECTIVES_NUMBERS_H
#define BR_COLLECTIVES_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

struct br_number {
    uint64_t key; /* 0: free */
    uint32_t tag;
    uint64_t next;
};

struct br_numbers {
    struct br_number *entries;
    uint32_t mask, count;
    uint64_t grown; /* times */
};

int br_numbers_init(struct br_numbers *numbers);     /* -ENOMEM */
void br_numbers_destroy(struct br_numbers *numbers); /* safe on a zeroed one */

/* Takes `many` numbers in a row; *first is the first of them. -ENOMEM with words. */
int br_numbers_take(struct br_numbers *numbers, int peer, bool send, uint32_t tag, uint32_t many,
                    uint64_t *first);

#endif
