/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters by (peer, direction, tag): which message of its kind a send or receive is. Both ends
 * count alike, so the number in a transfer's tag makes messages with one tag match in order. A hash
 * table that grows, as a program may use any number of tags; nothing is ever taken out. Not
 * thread-safe.
 */
#ifndef BR_COLLECTIVES_ENGINE_TAG_SEQUENCE_H
#define BR_COLLECTIVES_ENGINE_TAG_SEQUENCE_H

#include <stdbool.h>
#include <stdint.h>

struct br_tag_sequence {
    uint64_t key; /* 0: free */
    uint32_t tag;
    uint64_t next;
};

struct br_tag_sequences {
    struct br_tag_sequence *entries;
    uint32_t mask, count;
    uint64_t grown; /* times */
};

int br_tag_sequences_init(struct br_tag_sequences *numbers);     /* -ENOMEM */
void br_tag_sequences_destroy(struct br_tag_sequences *numbers); /* safe on a zeroed one */

/* Takes `many` numbers in a row; *first is the first of them. -ENOMEM with a message. */
int br_tag_sequences_take(struct br_tag_sequences *numbers, int peer, bool send, uint32_t tag,
                          uint32_t many, uint64_t *first);

#endif
