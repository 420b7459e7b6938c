/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/slot_view.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "base/error.h"

#define SPINS 100 /* looks at a mark before the processor is yielded to the thread that set it */

/* The numbers, which the first view of the table makes and the last one frees. */
static _Atomic uint32_t *slot_view_numbers(struct br_slot_table *table)
{
    return table->views ? table->views->numbers : calloc(table->count, sizeof(_Atomic uint32_t));
}

int br_slot_view_open(struct br_slot_table *table, struct br_slot_view **out)
{
    struct br_slot_view *view = calloc(1, sizeof *view);

    if (view)
        view->numbers = slot_view_numbers(table);
    if (!view || !view->numbers) {
        free(view);
        return br_error(ENOMEM, "no memory for a view of %u slots", table->count);
    }
    view->of = table;
    view->face.view = view;
    view->next = table->views;
    table->views = view;
    for (uint32_t i = 0; i < table->fresh; i++)
        if (table->slots[i].used)
            br_slot_views_publish(table, &table->slots[i]);
    *out = view;
    return 0;
}

void br_slot_view_close(struct br_slot_view *view)
{
    struct br_slot_view **at;

    if (!view)
        return;
    for (at = &view->of->views; *at != view; at = &(*at)->next)
        ;
    *at = view->next;
    if (!view->of->views)
        free((void *)view->numbers);
    free(view);
}

struct br_slot *br_slot_view_find(struct br_slot_view *view, uint32_t number)
{
    uint32_t index = number & 0xffff;
    _Atomic uint64_t *word = &view->touched[index / 64];
    uint64_t before = atomic_load_explicit(word, memory_order_relaxed), bit = 1ull << index % 64;

    if (index >= view->of->count || !(number >> 16))
        return NULL;
    if (!before && view->n_marks++ < BR_SLOT_VIEW_MARKS)
        view->marks[view->n_marks - 1] = (uint16_t)(index / 64);
    if (!(before & bit))
        atomic_store(word, before | bit); /* before the number is looked at: note 2 */
    return atomic_load(&view->numbers[index]) == number ? &view->of->slots[index] : NULL;
}

void br_slot_view_settle(struct br_slot_view *view)
{
    uint32_t n = view->n_marks <= BR_SLOT_VIEW_MARKS ? view->n_marks : BR_SLOTS_MAX / 64;

    for (uint32_t i = 0; i < n; i++)
        atomic_store_explicit(
            &view->touched[view->n_marks <= BR_SLOT_VIEW_MARKS ? view->marks[i] : i], 0,
            memory_order_release);
    view->n_marks = 0;
}

void br_slot_views_publish(struct br_slot_table *table, const struct br_slot *slot)
{
    atomic_store_explicit(&table->views->numbers[slot - table->slots], br_slot_number(table, slot),
                          memory_order_release);
}

void br_slot_views_retract(struct br_slot_table *table, const struct br_slot *slot)
{
    uint32_t index = (uint32_t)(slot - table->slots);
    uint64_t bit = 1ull << index % 64;

    atomic_store(&table->views->numbers[index], 0); /* before the marks are looked at: note 2 */
    for (struct br_slot_view *view = table->views; view; view = view->next)
        for (int i = 0; atomic_load(&view->touched[index / 64]) & bit; i++)
            if (i >= SPINS)
                sched_yield();
}
