/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/engine/notifications.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"

#define FIRST_ENTRIES 256u

static struct br_notification_entry *entry(const struct br_notifications *q, uint32_t i)
{
    return &q->entries[(q->first + i) & (q->size - 1)];
}

void br_notifications_destroy(struct br_notifications *q)
{
    free(q->entries);
    *q = (struct br_notifications){0};
}

static int notifications_grow(struct br_notifications *q)
{
    uint32_t size = q->size ? q->size * 2 : FIRST_ENTRIES;
    struct br_notification_entry *entries =
        size ? calloc(size, sizeof *entries) : NULL; /* 0: 2^32 of them */

    if (!entries)
        return br_error(ENOMEM, "no memory for more than %u notifications that nobody takes", q->n);
    for (uint32_t i = 0; i < q->n; i++)
        entries[i] = *entry(q, i);
    q->grown += q->size > 0;
    free(q->entries);
    q->entries = entries;
    q->size = size;
    q->first = 0;
    return 0;
}

int br_notifications_add(struct br_notifications *q, uint32_t group, int rank, uint64_t value)
{
    int rc = q->n == q->size ? notifications_grow(q) : 0;

    if (rc)
        return rc;
    *entry(q, q->n++) = (struct br_notification_entry){value, group, rank};
    q->added++;
    return 0;
}

bool br_notifications_take(struct br_notifications *q, uint32_t group, int *rank, uint64_t *value)
{
    uint32_t at = 0;

    while (at < q->n && entry(q, at)->group != group)
        at++;
    if (at == q->n)
        return false;
    *rank = entry(q, at)->rank;
    *value = entry(q, at)->value;
    for (; at > 0; at--) /* those of other groups before it */
        *entry(q, at) = *entry(q, at - 1);
    q->first = (q->first + 1) & (q->size - 1);
    q->n--;
    return true;
}

void br_notifications_forget(struct br_notifications *q, uint32_t group)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < q->n; i++)
        if (entry(q, i)->group != group)
            *entry(q, kept++) = *entry(q, i);
    q->n = kept;
}
