/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters by (peer, direction, tag): which message of its kind a send or receive is. Both ends
 * count alike, so the number in a transfer's tag makes messages with one tag match in order. It is
 * a hash table that grows, as a program may use any number of tags; no entry is ever removed. One
 * thread at a time may use a table. The functions do not block.
 */
#ifndef BR_COLLECTIVES_ENGINE_TAG_SEQUENCE_H
#define BR_COLLECTIVES_ENGINE_TAG_SEQUENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct br_tag_sequence {
    uint64_t key; /* Peer and direction; 0 when the entry is free. */
    uint32_t tag;
    uint64_t next; /* The next number. */
};

struct br_tag_sequences {
    struct br_tag_sequence *entries; /* mask + 1 of them, owned. */
    uint32_t mask, count;            /* count: the entries in use. */
    uint64_t grown;                  /* How often the table has grown. */
};

/* Makes an empty table. Returns 0, or -ENOMEM with a message. */
int br_tag_sequences_init(struct br_tag_sequences *numbers);
/* Frees the entries. Allowed on a table that is all zero. */
void br_tag_sequences_destroy(struct br_tag_sequences *numbers);

/* Takes `many` numbers in a row of a counter. peer: the other rank. send: the direction is from
 * this rank to the peer. Returns 0, and *first is the first number; or -ENOMEM with a message, and
 * no number is taken. */
int br_tag_sequences_take(struct br_tag_sequences *numbers, int peer, bool send, uint32_t tag,
                          uint32_t many, uint64_t *first);

static inline uint64_t br_tag_sequence_key(int peer, bool send)
{
    return ((uint64_t)(uint32_t)peer << 1 | send) + 1;
}

/* The entry of a key, or the free one where it belongs. */
static inline struct br_tag_sequence *
br_tag_sequence_place(struct br_tag_sequence *entries, uint32_t mask, uint64_t key, uint32_t tag)
{
    uint64_t hash = (key << 32 ^ tag) * 0x9e3779b97f4a7c15ull;
    uint32_t i = (uint32_t)(hash >> 32) & mask;

    while (entries[i].key && (entries[i].key != key || entries[i].tag != tag))
        i = (i + 1) & mask;
    return &entries[i];
}

/* The counter itself, to look at its `next` and to count on; NULL: no number was taken of it yet.
 * It may be used until the next call of br_tag_sequences_take(). */
static inline struct br_tag_sequence *br_tag_sequences_find(const struct br_tag_sequences *numbers,
                                                            int peer, bool send, uint32_t tag)
{
    struct br_tag_sequence *entry = br_tag_sequence_place(numbers->entries, numbers->mask,
                                                          br_tag_sequence_key(peer, send), tag);

    return entry->key ? entry : NULL;
}

/* Returns the number that the counter's next message has. */
uint64_t br_tag_sequences_next(const struct br_tag_sequences *numbers, int peer, bool send,
                               uint32_t tag);

#endif
