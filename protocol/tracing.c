/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames in the timeline (base/trace.h): a row for each rail and direction. A sent frame begins
 * when it was posted, or when the one before it had left, and ends when the back end has reported
 * it; an arrived one is a moment.
 */
#include "protocol/internal.h"

#include <stdio.h>

static const struct br_trace_kind kind = {
    .category = "slice", .detail = true, .args = {"order", "slice", "offset", "bytes", "priority"}};

static uint32_t tracing_row(const struct br_rail *rail, bool sends)
{
    return BR_TRACE_OWN_ROWS + 2 * ((uint32_t)rail->peer->rank * BR_MAX_RAILS + rail->index) +
           (sends ? 0 : 1);
}

static struct br_trace_event event_of(const struct br_rail *rail, const struct br_transfer *t,
                                      bool sends, uint32_t slice_bytes, uint32_t offset,
                                      uint32_t length)
{
    return (struct br_trace_event){
        .kind = &kind,
        .name = sends ? "send slice" : "slice arrives",
        .row = tracing_row(rail, sends),
        .args = {(int64_t)t->order, offset / slice_bytes, offset, length, t->priority},
    };
}

void br_tracing_sent(struct br_worker *w, const struct br_flight *flight)
{
    struct br_rail *rail = flight->rail;
    struct br_trace_event event =
        event_of(rail, flight->transfer, true, flight->transfer->slice_bytes, flight->offset,
                 flight->length);

    event.begin = flight->posted > rail->traced ? flight->posted : rail->traced;
    event.end = rail->traced = w->now;
    br_trace_add(w->config.trace, &event);
}

void br_tracing_arrived(struct br_worker *w, const struct br_rail *rail,
                        const struct br_transfer *t, const struct br_event *arrival)
{
    struct br_trace_event event =
        event_of(rail, t, false, br_slot_slice_bytes(t->length, w->config.slice_bytes),
                 arrival->offset, arrival->length);

    event.begin = event.end = w->now;
    br_trace_add(w->config.trace, &event);
}

void br_tracing_name(const struct br_worker *w)
{
    char text[120];

    for (int rank = 0; rank < w->config.size; rank++) {
        const struct br_peer *peer = &w->peers[rank];

        for (int i = 0; i < peer->n_rails; i++) {
            const struct br_rail *rail = &peer->rails[i];

            snprintf(text, sizeof text, "to rank %d, rail %d (%s:%.40s)", peer->rank, i,
                     rail->device->ops->name, rail->device->name);
            br_trace_name(w->config.trace, tracing_row(rail, true), text);
            snprintf(text, sizeof text, "from rank %d, rail %d", peer->rank, i);
            br_trace_name(w->config.trace, tracing_row(rail, false), text);
        }
    }
}
