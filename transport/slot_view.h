/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A view of a table of slots, for the thread of one device (threaded/), which looks slots up and
 * writes to their memory while the owner of the table uses it on another thread. There is no lock:
 *
 * 1. The table has a list of the numbers of its slots in use, `numbers`. As long as a slot's number
 *    stands there, none of the fields that views read changes, apart from `missing`.
 * 2. The thread first marks a slot as `touched`, and then looks for its number. The owner first
 *    takes the number back, and then waits until no view has the slot marked. So either the thread
 *    finds no number, or the owner waits until the thread has written what it was about to write:
 *    br_slot_put() returns when no byte can come any more.
 * 3. The thread unmarks what it has touched at the end of each poll, before it reports what has
 *    arrived. When a transfer ends because its bytes have arrived, the owner therefore finds no
 *    mark. It waits, for a poll at most, when a transfer ends early because something has failed.
 *
 * Rejected: a lock for each slot or for the table, which every frame of every device would take; a
 * copy of the table in each device, because taking a slot back would need an answer from each
 * thread before the operation may end.
 */
#ifndef BR_TRANSPORT_SLOT_VIEW_H
#define BR_TRANSPORT_SLOT_VIEW_H

#include <stdatomic.h>
#include <stdint.h>

#include "transport/slot.h"

#define BR_SLOT_VIEW_MARKS 64 /* Slots that are unmarked one by one; beyond that, all are. */

struct br_slot_view {
    /* What the device gets in the place of the table: without slots of its own, so that
     * br_slot_expect() asks the view. Its counters are the thread's. */
    struct br_slot_table face;
    struct br_slot_table *of; /* The table. */
    struct br_slot_view *next;
    /* [of->count] of the table; all its views share them. 0: not in use. */
    _Atomic uint32_t *numbers;
    _Atomic uint64_t touched[BR_SLOTS_MAX / 64]; /* A bit for each slot. */
    /* The thread's: in which words of `touched` bits are set, n_marks of them. More than
     * BR_SLOT_VIEW_MARKS: they are not listed. */
    uint32_t n_marks;
    uint16_t marks[BR_SLOT_VIEW_MARKS];
};

/* Makes a view of a table, whose owner calls this. Allocates. Returns 0, and the caller has to call
 * br_slot_view_close() before the table is destroyed; or -ENOMEM with a message. */
int br_slot_view_open(struct br_slot_table *table, struct br_slot_view **out);
/* Frees a view that no thread uses any more. By the owner of the table. view: may be NULL. */
void br_slot_view_close(struct br_slot_view *view);

/* For br_slot_expect(), by the thread: returns the slot that has this number, marked as touched, or
 * NULL. Takes any number. */
struct br_slot *br_slot_view_find(struct br_slot_view *view, uint32_t number);
/* By the thread, at the end of a poll: from now on it writes to no slot that was found before. */
void br_slot_view_settle(struct br_slot_view *view);

/* For br_slot_get() and br_slot_renew(), by the owner: lets the views of the table find a slot. */
void br_slot_views_publish(struct br_slot_table *table, const struct br_slot *slot);
/* For br_slot_put() and br_slot_renew(), by the owner: when this returns, no view finds the slot,
 * and no thread writes to its memory. Waits, for the end of a poll of a device at most. */
void br_slot_views_retract(struct br_slot_table *table, const struct br_slot *slot);

#endif
