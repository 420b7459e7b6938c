/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * With priorities each group is more urgent than all that were ready before it, because the
 * backward pass goes from the last layer to the first. So the waiting groups are a stack: a new
 * group goes on top, and the group on top has the line. Each arrival overtakes one group at most,
 * so there are at most two spans a group.
 *
 * When a group becomes ready while others have the line, it goes on top later by `overtake`. If the
 * line becomes idle sooner, the group that was ready first gets it.
 */
#include "training/session/timeline.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

int br_timeline_open(struct br_timeline *line, uint32_t n)
{
    memset(line, 0, sizeof *line);
    line->layers = calloc(n, sizeof *line->layers);
    line->groups = calloc(n, sizeof *line->groups);
    line->spans = calloc(2 * (size_t)n, sizeof *line->spans);
    line->waiting = calloc(n, sizeof *line->waiting);
    line->sent_seconds = calloc(n, sizeof *line->sent_seconds);
    if (line->layers && line->groups && line->spans && line->waiting && line->sent_seconds)
        return 0;
    br_timeline_close(line);
    return br_error(ENOMEM, "no memory for a time line of %u layers", n);
}

void br_timeline_close(struct br_timeline *line)
{
    free(line->layers);
    free(line->groups);
    free(line->spans);
    free(line->waiting);
    free(line->sent_seconds);
    memset(line, 0, sizeof *line);
}

static double timeline_backward(struct br_timeline *line, const struct br_workload *work,
                                const uint8_t *joins)
{
    double now = 0, bytes = 0;
    uint32_t last = work->n - 1;

    line->n_groups = 0;
    for (uint32_t l = work->n; l-- > 0;) {
        struct br_timeline_layer *layer = &line->layers[l];

        layer->backward = now;
        now += work->layers[l].backward;
        layer->backward_end = now;
        layer->group = line->n_groups;
        bytes += work->layers[l].bytes;
        if (joins[l])
            continue;
        line->groups[line->n_groups++] = (struct br_timeline_group){
            .first = l, .last = last, .bytes = bytes, .ready = now, .start = -1};
        bytes = 0;
        last = l - 1;
    }
    return now;
}

/* Gives the line to a group for a span. */
static void timeline_send(struct br_timeline *line, uint32_t g, double from, double to)
{
    struct br_timeline_group *group = &line->groups[g];

    if (group->start < 0)
        group->start = from;
    group->end = to;
    if (to <= from)
        return;
    line->spans[line->n_spans++] = (struct br_timeline_span){g, from, to};
}

static double timeline_in_order(struct br_timeline *line, const struct br_workload *work)
{
    double now = 0;

    for (uint32_t g = 0; g < line->n_groups; g++) {
        struct br_timeline_group *group = &line->groups[g];
        double from = group->ready > now ? group->ready : now;

        now = from + br_cost_line_seconds(&work->cost, group->bytes);
        timeline_send(line, g, from, now);
    }
    return now;
}

/* Seconds of a group's service after which it can be overtaken: the end of the slice in which
 * `served` falls. */
static double slice_end(const struct br_workload *work, double served)
{
    double slice = work->slice_bytes * work->cost.b, slices;

    if (slice <= 0)
        return served > work->cost.a ? served : work->cost.a;
    /* at a boundary it is not one more */
    slices = ceil((served - work->cost.a) / slice * (1 - 1e-12));
    return work->cost.a + (slices < 1 ? 1 : slices) * slice;
}

/* Lets the group on top of the stack go on until it is through or, at the end of a slice after
 * `next`, overtaken. Returns when. */
static double timeline_advance(struct br_timeline *line, const struct br_workload *work, double now,
                               double next)
{
    uint32_t g = line->waiting[line->n_waiting - 1];
    double all = br_cost_line_seconds(&work->cost, line->groups[g].bytes),
           *served = &line->sent_seconds[g];
    double end = now + all - *served;

    if (end > next) {
        double to = slice_end(work, *served + next - now);

        if (to < all) {
            end = now + to - *served;
            end = end > next ? end : next;
            *served = to;
            timeline_send(line, g, now, end);
            return end;
        }
    }
    line->n_waiting--;
    timeline_send(line, g, now, end);
    return end;
}

static double urgent_first(struct br_timeline *line, const struct br_workload *work)
{
    double now = 0;

    memset(line->sent_seconds, 0, line->n_groups * sizeof *line->sent_seconds);
    line->n_waiting = 0;
    for (uint32_t g = 0; g < line->n_groups || line->n_waiting;) {
        if (!line->n_waiting && line->groups[g].ready > now)
            now = line->groups[g].ready;
        for (; g < line->n_groups &&
               line->groups[g].ready + (line->n_waiting ? work->overtake : 0) <= now;
             g++)
            line->waiting[line->n_waiting++] = g;
        now = timeline_advance(line, work, now,
                               g < line->n_groups ? line->groups[g].ready + work->overtake
                                                  : INFINITY);
    }
    return now;
}

static double timeline_forward(struct br_timeline *line, const struct br_workload *work, double now)
{
    double computed = now;

    line->delay = fmax(line->groups[line->layers[0].group].end - now, 0);
    line->exposed = 0;
    for (uint32_t l = 0; l < work->n; l++) {
        struct br_timeline_layer *layer = &line->layers[l];
        double there = line->groups[layer->group].end;

        layer->forward = there > computed ? there : computed;
        line->exposed += layer->forward - computed;
        computed = layer->forward + work->layers[l].forward;
        layer->forward_end = computed;
    }
    return computed;
}

void br_timeline_run(struct br_timeline *line, const struct br_workload *work, const uint8_t *joins,
                     bool urgent)
{
    double now = timeline_backward(line, work, joins);

    line->n_layers = work->n;
    line->n_spans = 0;
    line->reduced = urgent ? urgent_first(line, work) : timeline_in_order(line, work);
    line->iteration = timeline_forward(line, work, now);
}
