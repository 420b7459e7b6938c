/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/plan/timeline.h"

#include <string.h>

#include "tools/common/format.h"

#define COLUMNS 72

/* Marks [from, to) of the iteration in the bar; something short has a column, too. */
static void timeline_text_mark(char bar[COLUMNS + 1], double iteration, double from, double to,
                               char with)
{
    int first, last;

    if (to <= from) /* as in an iteration of no time */
        return;
    first = (int)(from / iteration * COLUMNS);
    last = (int)(to / iteration * COLUMNS);
    first = first < COLUMNS ? first : COLUMNS - 1;
    last = last > first ? last : first + 1;
    memset(bar + first, with, (size_t)((last < COLUMNS ? last : COLUMNS) - first));
}

static void one_layer(const struct br_timeline_view *view, uint32_t l, FILE *out)
{
    const struct br_timeline *line = view->line;
    const struct br_timeline_layer *layer = &line->layers[l];
    const struct br_timeline_group *group = &line->groups[layer->group];
    char bytes[BR_FORMAT_BYTES], bar[COLUMNS + 1];
    double ms = 1e3;

    memset(bar, ' ', COLUMNS);
    bar[COLUMNS] = 0;
    timeline_text_mark(bar, line->iteration, layer->backward_end, group->start, '.');
    for (uint32_t i = 0; i < line->n_spans; i++)
        if (line->spans[i].group == layer->group)
            timeline_text_mark(bar, line->iteration, line->spans[i].start, line->spans[i].end, '=');
    timeline_text_mark(bar, line->iteration, layer->backward, layer->backward_end, 'b');
    timeline_text_mark(bar, line->iteration, layer->forward, layer->forward_end, 'f');
    fprintf(out, "%6u  %-28.28s %10s %9.3f %9.3f %6u %9.3f %9.3f %9.3f %9.3f  |%s|\n", l + 1,
            view->model->layers[l].name,
            br_format_bytes(bytes, (double)view->model->layers[l].parameters * sizeof(float)),
            layer->backward * ms, layer->backward_end * ms, layer->group + 1, group->start * ms,
            group->end * ms, layer->forward * ms, layer->forward_end * ms, bar);
}

void br_timeline_text(const struct br_timeline_view *view, FILE *out)
{
    fprintf(out,
            "#\n# %s, times in ms from the start of the backward pass; b backward, . waits, = "
            "all-reduce, f "
            "forward\n",
            view->policy);
    fprintf(out, "# %4s  %-28s %10s %9s %9s %6s %9s %9s %9s %9s\n", "layer", "name", "bytes",
            "backward", "to", "group", "reduce", "to", "forward", "to");
    for (uint32_t l = 0; l < view->line->n_layers; l++)
        one_layer(view, l, out);
}
