/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perf/mesh.h"

#include <stdbool.h>
#include <stdlib.h>

#include <cJSON.h>

#include <braid/braid.h>

#include "base/median.h"
#include "tools/common/output.h"

#define CELL_WIDTH  58
#define CELL_HEIGHT 24
#define LABEL       40
#define MARGIN      20
#define HEAD        50

enum quantity { ALONE, AT_ONCE, LATENCY, QUANTITIES };

static const char *const titles[] = {[ALONE] = "alone, Gb/s",
                                     [AT_ONCE] = "all pairs at once, Gb/s",
                                     [LATENCY] = "latency alone, us"};
static const char *const names[] = {
    [ALONE] = "alone_gbit", [AT_ONCE] = "at_once_gbit", [LATENCY] = "latency_us"};

/* 0: there is none. */
static double mesh_print_value_of(const struct br_mesh *m, enum quantity q, uint32_t from,
                                  uint32_t to)
{
    size_t at = (size_t)from * m->n + to;
    const double *values = q == ALONE ? m->alone : q == AT_ONCE ? m->at_once : m->latency;

    if (values[at] <= 0)
        return 0;
    return q == LATENCY ? values[at] * 1e6 : 8e-9 / values[at];
}

struct spread {
    double min, median, max;
};

/* Zeros where nothing was measured. */
static struct spread mesh_print_spread_of(const struct br_mesh *m, enum quantity q)
{
    double *values = calloc((size_t)m->n * m->n, sizeof *values);
    struct spread s = {0};
    size_t n = 0;

    for (uint32_t from = 0; values && from < m->n; from++)
        for (uint32_t to = 0; to < m->n; to++)
            if (mesh_print_value_of(m, q, from, to) > 0)
                values[n++] = mesh_print_value_of(m, q, from, to);
    if (n) {
        double median = br_median(values, n);

        s = (struct spread){values[0], median, values[n - 1]};
    }
    free(values);
    return s;
}

/* Four digits, or all in front of the point. */
static const char *mesh_print_number(double value, char text[24])
{
    snprintf(text, 24, value < 9999.5 ? "%.4g" : "%.0f", value);
    return text;
}

/* ---- text ------------------------------------------------------------------------------------ */

void br_mesh_text(const struct br_mesh *m, FILE *out)
{
    fprintf(out, "# braid perf mesh: %s, messages of %lld bytes; rows send\n", m->title,
            (long long)m->bytes);
    for (enum quantity q = ALONE; q < QUANTITIES; q++) {
        struct spread s = mesh_print_spread_of(m, q);

        fprintf(out, "#\n# %s: median %.4g, from %.4g to %.4g\n# %4s", titles[q], s.median, s.min,
                s.max, "");
        for (uint32_t to = 0; to < m->n; to++)
            fprintf(out, " %8u", to);
        fputc('\n', out);
        for (uint32_t from = 0; from < m->n; from++) {
            fprintf(out, "  %4u", from);
            for (uint32_t to = 0; to < m->n; to++) {
                double value = mesh_print_value_of(m, q, from, to);
                char text[24];

                fprintf(out, " %8s", value > 0 ? mesh_print_number(value, text) : "-");
            }
            fputc('\n', out);
        }
    }
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void add_matrix(cJSON *root, const struct br_mesh *m, enum quantity q)
{
    cJSON *rows = cJSON_AddArrayToObject(root, names[q]);

    for (uint32_t from = 0; from < m->n; from++) {
        cJSON *row = cJSON_CreateArray();

        for (uint32_t to = 0; to < m->n; to++) {
            double value = mesh_print_value_of(m, q, from, to);

            cJSON_AddItemToArray(row, value > 0 ? cJSON_CreateNumber(value) : cJSON_CreateNull());
        }
        cJSON_AddItemToArray(rows, row);
    }
}

int br_mesh_json(const struct br_mesh *m, FILE *out)
{
    cJSON *root = cJSON_CreateObject();
    int rc;

    cJSON_AddStringToObject(root, "braid", braid_version());
    cJSON_AddStringToObject(root, "network", m->title);
    cJSON_AddNumberToObject(root, "ranks", m->n);
    cJSON_AddNumberToObject(root, "bytes", (double)m->bytes);
    if (m->level >= 0)
        cJSON_AddNumberToObject(root, "level", (double)m->level);
    for (enum quantity q = ALONE; q < QUANTITIES; q++)
        add_matrix(root, m, q);
    rc = br_output_json(out, root);
    cJSON_Delete(root);
    return rc;
}

/* ---- SVG ------------------------------------------------------------------------------------- */

/* White is as good as the median or better, orange half as good or worse. */
static void mesh_print_draw_cell(const struct spread *s, enum quantity q, double value, int x,
                                 int y, FILE *out)
{
    char text[24];
    double off = q == LATENCY ? value / s->median - 1 : 2 * (1 - value / s->median);

    if (value <= 0) {
        fprintf(out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#dde1e6\"/>\n", x,
                y, CELL_WIDTH, CELL_HEIGHT);
        return;
    }
    off = off < 0 ? 0 : off > 1 ? 1 : off;
    fprintf(out,
            "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"rgb(255,%d,%d)\" "
            "stroke=\"#c5cad0\"/>"
            "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
            x, y, CELL_WIDTH, CELL_HEIGHT, (int)(255 - 95 * off), (int)(255 - 215 * off),
            x + CELL_WIDTH / 2, y + 16, mesh_print_number(value, text));
}

static void mesh_print_draw_panel(const struct br_mesh *m, enum quantity q, int top, FILE *out)
{
    struct spread s = mesh_print_spread_of(m, q);

    fprintf(out, "<text x=\"%d\" y=\"%d\">%s: median %.4g, from %.4g to %.4g</text>\n", MARGIN,
            top + 14, titles[q], s.median, s.min, s.max);
    for (uint32_t to = 0; to < m->n; to++)
        fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">to %u</text>\n",
                MARGIN + LABEL + (int)to * CELL_WIDTH + CELL_WIDTH / 2, top + HEAD - 10, to);
    for (uint32_t from = 0; from < m->n; from++) {
        int y = top + HEAD + (int)from * CELL_HEIGHT;

        fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%u</text>\n", MARGIN + LABEL - 8,
                y + 16, from);
        for (uint32_t to = 0; to < m->n; to++)
            mesh_print_draw_cell(&s, q, mesh_print_value_of(m, q, from, to),
                                 MARGIN + LABEL + (int)to * CELL_WIDTH, y, out);
    }
}

void br_mesh_svg(const struct br_mesh *m, FILE *out)
{
    int panel = HEAD + (int)m->n * CELL_HEIGHT + MARGIN, columns = (int)m->n < 8 ? 8 : (int)m->n;
    int width = 2 * MARGIN + LABEL + columns * CELL_WIDTH, height = 2 * MARGIN + QUANTITIES * panel;

    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d "
            "%d\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" "
            "fill=\"#fff\"/>\n",
            width, height, width, height);
    fprintf(out, "<text x=\"%d\" y=\"%d\">%s, messages of %lld bytes; rows send</text>\n", MARGIN,
            MARGIN, m->title, (long long)m->bytes);
    for (enum quantity q = ALONE; q < QUANTITIES; q++)
        mesh_print_draw_panel(m, q, MARGIN + 10 + (int)q * panel, out);
    fputs("</svg>\n", out);
}
