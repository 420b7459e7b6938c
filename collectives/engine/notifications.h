/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Notifications that puts of peers have brought and the program has not taken yet
 * (braid_put_notify()), of all groups, in the order in which they came. A ring that grows: nothing
 * bounds how many a program leaves. Under the worker's lock; no function blocks.
 */
#ifndef BR_COLLECTIVES_ENGINE_NOTIFICATIONS_H
#define BR_COLLECTIVES_ENGINE_NOTIFICATIONS_H

#include <stdbool.h>
#include <stdint.h>

struct br_notifications {
    struct br_notification_entry {
        uint64_t value;
        uint32_t group; /* number */
        int rank;       /* in the job */
    } * entries;        /* [size], owned; a ring */
    uint32_t size;      /* a power of two, or 0 */
    uint32_t first, n;
    uint64_t added; /* so far */
    uint64_t grown; /* how often it has grown */
};

/* One that is all zero is empty. Frees the entries. */
void br_notifications_destroy(struct br_notifications *q);
/* 0, or -ENOMEM with a message. */
int br_notifications_add(struct br_notifications *q, uint32_t group, int rank, uint64_t value);
/* Takes the group's oldest one out. false: it has none. */
bool br_notifications_take(struct br_notifications *q, uint32_t group, int *rank, uint64_t *value);
/* The group ends: drops its notifications. */
void br_notifications_forget(struct br_notifications *q, uint32_t group);

#endif
