/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/plan/timeline.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/error.h"
#include "tools/common/format.h"
#include "tools/testbed/draw.h"

/* ---- text ------------------------------------------------------------------------------------ */

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

/* ---- SVG ------------------------------------------------------------------------------------- */

#define LEFT   150 /* pixels */
#define WIDTH  1000
#define RIGHT  110
#define TOP    76
#define PANEL  76
#define LANE   22
#define LETTER 6 /* pixels that a box needs for each of its label */

struct drawing {
    FILE *out;
    double scale; /* pixels a second */
};

/* The first layer is red, the last one violet, so that what belongs together is seen. */
static int timeline_svg_hue(const struct br_timeline *line, uint32_t layer)
{
    return (int)(280.0 * layer / (line->n_layers > 1 ? line->n_layers - 1 : 1));
}

static void timeline_svg_box(const struct drawing *d, double y, double from, double to,
                             const char *style, const char *label, const char *title)
{
    double x = LEFT + from * d->scale, width = (to - from) * d->scale;

    if (to <= from)
        return;
    fprintf(d->out, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\" %s><title>", x, y,
            fmax(width, 0.3), LANE, style);
    br_draw_escape(title, d->out);
    fputs("</title></rect>\n", d->out);
    if (width >= LETTER * (double)(1 + strlen(label)))
        fprintf(d->out, "<text x=\"%.2f\" y=\"%.1f\" class=\"in\">%s</text>\n", x + width / 2,
                y + LANE - 7, label);
}

static void timeline_svg_passes(const struct drawing *d, const struct br_timeline_view *view,
                                double y)
{
    for (uint32_t l = 0; l < view->line->n_layers; l++) {
        const struct br_timeline_layer *layer = &view->line->layers[l];
        char style[64], title[160], label[16];

        snprintf(label, sizeof label, "%u", l + 1);
        snprintf(style, sizeof style, "fill=\"hsl(%d,60%%,72%%)\"",
                 timeline_svg_hue(view->line, l));
        snprintf(title, sizeof title, "backward %u %s: %.3f to %.3f ms", l + 1,
                 view->model->layers[l].name, layer->backward * 1e3, layer->backward_end * 1e3);
        timeline_svg_box(d, y, layer->backward, layer->backward_end, style, label, title);
        snprintf(style, sizeof style,
                 "fill=\"hsl(%d,60%%,86%%)\" stroke=\"#888\" stroke-width=\"0.3\"",
                 timeline_svg_hue(view->line, l));
        snprintf(title, sizeof title, "forward %u %s: %.3f to %.3f ms", l + 1,
                 view->model->layers[l].name, layer->forward * 1e3, layer->forward_end * 1e3);
        timeline_svg_box(d, y, layer->forward, layer->forward_end, style, label, title);
    }
}

static void timeline_svg_reductions(const struct drawing *d, const struct br_timeline_view *view,
                                    double y)
{
    for (uint32_t i = 0; i < view->line->n_spans; i++) {
        const struct br_timeline_span *span = &view->line->spans[i];
        const struct br_timeline_group *group = &view->line->groups[span->group];
        char style[96], title[200], label[32];

        if (group->first == group->last)
            snprintf(label, sizeof label, "%u", group->first + 1);
        else
            snprintf(label, sizeof label, "%u-%u", group->first + 1, group->last + 1);
        snprintf(style, sizeof style,
                 "fill=\"hsl(%d,65%%,60%%)\" stroke=\"white\" stroke-width=\"0.4\"",
                 timeline_svg_hue(view->line, group->first));
        snprintf(title, sizeof title,
                 "layers %u to %u, %.0f bytes: ready %.3f, %.3f to %.3f, all by %.3f ms",
                 group->first + 1, group->last + 1, group->bytes, group->ready * 1e3,
                 span->start * 1e3, span->end * 1e3, group->end * 1e3);
        timeline_svg_box(d, y, span->start, span->end, style, label, title);
    }
}

static void timeline_svg_panel(const struct drawing *d, const struct br_timeline_view *view,
                               double y)
{
    double end = LEFT + view->line->iteration * d->scale;
    double computes = view->line->iteration > 0 ? view->compute / view->line->iteration : 1;

    fprintf(d->out, "<text x=\"%d\" y=\"%.1f\" class=\"name\">%s</text>\n", LEFT - 10, y + LANE - 2,
            view->policy);
    fprintf(d->out, "<text x=\"%d\" y=\"%.1f\" class=\"note\">%u all-reduce%s</text>\n", LEFT - 10,
            y + 2 * LANE - 4, view->line->n_groups, view->line->n_groups == 1 ? "" : "s");
    fprintf(d->out, "<rect x=\"%d\" y=\"%.1f\" width=\"%.2f\" height=\"%d\" fill=\"#f2f2f2\"/>\n",
            LEFT, y, view->line->iteration * d->scale, 2 * LANE + 4);
    timeline_svg_passes(d, view, y);
    timeline_svg_reductions(d, view, y + LANE + 4);
    fprintf(d->out, "<text x=\"%.2f\" y=\"%.1f\" class=\"time\">%.2f ms</text>\n", end + 6,
            y + LANE - 4, view->line->iteration * 1e3);
    fprintf(d->out, "<text x=\"%.2f\" y=\"%.1f\" class=\"note left\">%.1f %%</text>\n", end + 6,
            y + 2 * LANE - 4, 100 * computes);
}

static void timeline_svg_axis(const struct drawing *d, double most, int height)
{
    double step = pow(10, floor(log10(most)));

    while (most / step < 5)
        step /= 2;
    for (int i = 0; i * step <= most; i++) {
        double x = LEFT + i * step * d->scale;

        fprintf(d->out,
                "<line x1=\"%.2f\" y1=\"%d\" x2=\"%.2f\" y2=\"%d\" stroke=\"#ccc\" "
                "stroke-width=\"0.7\"/>\n",
                x, TOP - 8, x, height - 8);
        fprintf(d->out, "<text x=\"%.2f\" y=\"%d\" class=\"tick\">%g</text>\n", x, TOP - 12,
                i * step * 1e3);
    }
}

void br_timeline_svg(const struct br_timeline_view *views, int n, FILE *out)
{
    struct drawing d = {.out = out};
    int height = TOP + n * PANEL;
    double most = 0;

    for (int i = 0; i < n; i++)
        most = fmax(most, views[i].line->iteration);
    most = most > 0 ? most : 1e-9;
    d.scale = WIDTH / most;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d "
            "%d\">\n"
            "<style>text{font:12px "
            "sans-serif;fill:#222}.title{font-size:15px}.name{text-anchor:end;font-weight:bold}"
            ".note{text-anchor:end;font-size:11px;fill:#666}.left{text-anchor:start}.tick{text-"
            "anchor:middle;"
            "font-size:10px;"
            "fill:#666}.in{text-anchor:middle;font-size:10px}</style>\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n<text x=\"10\" y=\"22\" "
            "class=\"title\">",
            LEFT + WIDTH + RIGHT, height, LEFT + WIDTH + RIGHT, height);
    br_draw_escape(views[0].model->title, out);
    fputs("</text>\n<text x=\"10\" y=\"42\" class=\"note left\">ms; above: backward pass, then "
          "forward pass; "
          "below: "
          "all-reduces, in the colour of their first layer; right: one iteration, and the part of "
          "it that "
          "computes</text>\n",
          out);
    timeline_svg_axis(&d, most, height);
    for (int i = 0; i < n; i++)
        timeline_svg_panel(&d, &views[i], TOP + i * PANEL);
    fputs("</svg>\n", out);
}

/* ---- trace ----------------------------------------------------------------------------------- */

#define PASSES     0 /* threads of a process */
#define REDUCTIONS 1

static cJSON *timeline_trace_event(cJSON *events, const char *phase, int process, int thread,
                                   const char *name)
{
    cJSON *e = cJSON_CreateObject();

    cJSON_AddStringToObject(e, "ph", phase);
    cJSON_AddNumberToObject(e, "pid", process);
    cJSON_AddNumberToObject(e, "tid", thread);
    cJSON_AddStringToObject(e, "name", name);
    cJSON_AddItemToArray(events, e);
    return e;
}

static void timeline_trace_call(cJSON *events, const char *what, int process, int thread,
                                const char *name)
{
    cJSON *arguments =
        cJSON_AddObjectToObject(timeline_trace_event(events, "M", process, thread, what), "args");

    cJSON_AddStringToObject(arguments, "name", name);
}

static cJSON *timeline_trace_span(cJSON *events, int process, int thread, const char *name,
                                  double from, double to)
{
    cJSON *e = timeline_trace_event(events, "X", process, thread, name);

    cJSON_AddNumberToObject(e, "ts", from * 1e6);
    cJSON_AddNumberToObject(e, "dur", (to - from) * 1e6);
    return e;
}

static void timeline_trace_add(cJSON *events, int process, const struct br_timeline_view *view)
{
    const struct br_timeline *line = view->line;
    char name[120];

    timeline_trace_call(events, "process_name", process, PASSES, view->policy);
    timeline_trace_call(events, "thread_name", process, PASSES, "passes");
    timeline_trace_call(events, "thread_name", process, REDUCTIONS, "all-reduces");
    for (uint32_t l = 0; l < line->n_layers; l++) {
        const struct br_timeline_layer *layer = &line->layers[l];

        snprintf(name, sizeof name, "backward %u %s", l + 1, view->model->layers[l].name);
        timeline_trace_span(events, process, PASSES, name, layer->backward, layer->backward_end);
        snprintf(name, sizeof name, "forward %u %s", l + 1, view->model->layers[l].name);
        timeline_trace_span(events, process, PASSES, name, layer->forward, layer->forward_end);
    }
    for (uint32_t i = 0; i < line->n_spans; i++) {
        const struct br_timeline_group *group = &line->groups[line->spans[i].group];
        cJSON *arguments;

        snprintf(name, sizeof name, "layers %u to %u", group->first + 1, group->last + 1);
        arguments =
            cJSON_AddObjectToObject(timeline_trace_span(events, process, REDUCTIONS, name,
                                                        line->spans[i].start, line->spans[i].end),
                                    "args");
        cJSON_AddNumberToObject(arguments, "bytes", group->bytes);
        cJSON_AddNumberToObject(arguments, "ready_us", group->ready * 1e6);
    }
}

int br_timeline_trace(const struct br_timeline_view *views, int n, FILE *out)
{
    cJSON *root = cJSON_CreateObject(), *events = cJSON_AddArrayToObject(root, "traceEvents");
    char *text;
    int rc = 0;

    for (int i = 0; i < n; i++)
        timeline_trace_add(events, i, &views[i]);
    text = cJSON_PrintUnformatted(root);
    if (!text)
        rc = br_error(ENOMEM, "no memory for the trace");
    else if (fprintf(out, "%s\n", text) < 0)
        rc = br_error(EIO, "cannot write the trace");
    cJSON_free(text);
    cJSON_Delete(root);
    return rc;
}
