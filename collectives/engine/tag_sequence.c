/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/engine/tag_sequence.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"

#define FIRST_ENTRIES 256u

int br_tag_sequences_init(struct br_tag_sequences *numbers)
{
    *numbers = (struct br_tag_sequences){.mask = FIRST_ENTRIES - 1};
    numbers->entries = calloc(FIRST_ENTRIES, sizeof *numbers->entries);
    return numbers->entries ? 0 : br_error(ENOMEM, "no memory for the counters of messages");
}

void br_tag_sequences_destroy(struct br_tag_sequences *numbers)
{
    free(numbers->entries);
    numbers->entries = NULL;
}

static int tag_sequence_grow(struct br_tag_sequences *numbers)
{
    uint32_t mask = numbers->mask * 2 + 1;
    struct br_tag_sequence *entries = calloc((size_t)mask + 1, sizeof *entries);

    if (!entries)
        return br_error(ENOMEM, "no memory for the counters of %u tags", numbers->count);
    for (uint32_t i = 0; i <= numbers->mask; i++) {
        const struct br_tag_sequence *old = &numbers->entries[i];

        if (old->key)
            *br_tag_sequence_place(entries, mask, old->key, old->tag) = *old;
    }
    free(numbers->entries);
    numbers->entries = entries;
    numbers->mask = mask;
    numbers->grown++;
    return 0;
}

int br_tag_sequences_take(struct br_tag_sequences *numbers, int peer, bool send, uint32_t tag,
                          uint32_t many, uint64_t *first)
{
    uint64_t key = br_tag_sequence_key(peer, send);
    struct br_tag_sequence *entry =
        br_tag_sequence_place(numbers->entries, numbers->mask, key, tag);
    int rc;

    if (!entry->key) {
        if (numbers->count * 2 > numbers->mask) {
            if ((rc = tag_sequence_grow(numbers)))
                return rc;
            entry = br_tag_sequence_place(numbers->entries, numbers->mask, key, tag);
        }
        *entry = (struct br_tag_sequence){.key = key, .tag = tag};
        numbers->count++;
    }
    *first = entry->next;
    entry->next += many;
    return 0;
}

uint64_t br_tag_sequences_next(const struct br_tag_sequences *numbers, int peer, bool send,
                               uint32_t tag)
{
    return br_tag_sequence_place(numbers->entries, numbers->mask, br_tag_sequence_key(peer, send),
                                 tag)
        ->next;
}
