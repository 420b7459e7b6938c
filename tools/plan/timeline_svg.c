/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/plan/timeline.h"

#include <math.h>
#include <string.h>

#include "tools/testbed/draw.h"

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
