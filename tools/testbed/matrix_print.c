/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/testbed/matrix.h"

#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "tools/testbed/draw.h"
#include "tools/testbed/statistics.h"
#include "tools/common/output.h"

#define CELL_WIDTH  62
#define CELL_HEIGHT 24
#define LABEL       90
#define MARGIN      20
#define HEAD        64

enum quantity { GBIT, ALPHA };

static const char *const names[] = {[GBIT] = "1/beta, Gb/s", [ALPHA] = "alpha, us"};

struct br_matrix_cell br_matrix_fit(const double sizes[BR_TRIP_SIZES],
                                    const double us[BR_TRIP_SIZES])
{
    struct br_matrix_cell cell = {.alpha = us[0] / 2};
    double x[BR_TRIP_SIZES], y[BR_TRIP_SIZES], slope, intercept;
    int count = 0;
    for (int i = 1; i < BR_TRIP_SIZES; i++) {
        if (us[i] <= 0)
            continue;
        x[count] = sizes[i];
        y[count++] = us[i];
    }
    if (br_cost_line_fit(x, y, count, &slope, &intercept) && slope > 0)
        cell.beta = slope / 1e6;
    return cell;
}

double br_matrix_gbit(const struct br_matrix_cell *cell)
{
    return cell->beta > 0 ? 8 / cell->beta / 1e9 : 0;
}

static double matrix_print_value_of(const struct br_matrix_cell *cell, enum quantity quantity)
{
    return quantity == GBIT ? br_matrix_gbit(cell) : cell->alpha;
}

/* Of all links that were measured; count 0 without memory. */
static struct br_spread matrix_print_spread_of(const struct br_matrix *matrix,
                                               enum quantity quantity)
{
    uint32_t links = br_survey_links(matrix->survey);
    double *values = calloc(links + 1, sizeof *values);
    int count = 0;
    for (uint32_t l = 0; l < links && values; l++)
        if (matrix_print_value_of(&matrix->cells[l], quantity) > 0)
            values[count++] = matrix_print_value_of(&matrix->cells[l], quantity);
    struct br_spread spread = br_spread_of(values, count);
    free(values);
    return spread;
}

/* The cell from a host to the digit of a level; NULL: itself, or nobody. */
static const struct br_matrix_cell *cell_at(const struct br_matrix *matrix, uint32_t host,
                                            uint32_t level, uint32_t digit)
{
    const struct br_survey *survey = matrix->survey;
    uint32_t own = br_bcube_digit(&survey->cube, host, level);
    uint32_t link =
        br_survey_port_of(survey, host, level) * (survey->cube.n - 1) + digit - (digit > own);
    return digit == own || !br_survey_link_is(survey, link) ? NULL : &matrix->cells[link];
}

/* White is as good as the median or better, orange half as good or worse. */
static void matrix_print_colour_of(double value, const struct br_spread *spread,
                                   enum quantity quantity, int rgb[3])
{
    double off = quantity == GBIT ? 2 * (1 - value / spread->median) : value / spread->median - 1;
    off = off < 0 ? 0 : off > 1 ? 1 : off;
    rgb[0] = 255;
    rgb[1] = (int)(255 - 95 * off);
    rgb[2] = (int)(255 - 215 * off);
}

/* ---- text ------------------------------------------------------------------------------------ */

static void matrix_print_print_cell(const struct br_matrix_cell *cell,
                                    const struct br_spread *spread, enum quantity quantity,
                                    bool colour, FILE *out)
{
    double value = cell ? matrix_print_value_of(cell, quantity) : 0;
    int rgb[3];
    if (!cell) {
        fprintf(out, "        ");
    } else if (value <= 0) {
        fprintf(out, colour ? "\033[41;97m%7s\033[0m " : "%7s ", "fails");
    } else if (colour) {
        matrix_print_colour_of(value, spread, quantity, rgb);
        fprintf(out, "\033[48;2;%d;%d;%dm\033[30m%7.4g\033[0m ", rgb[0], rgb[1], rgb[2], value);
    } else {
        fprintf(out, "%7.4g ", value);
    }
}

static void print_head(const struct br_bcube *cube, FILE *out)
{
    fprintf(out, "%-10s", "");
    for (uint32_t level = 0; level < cube->k; level++) {
        char text[32];
        snprintf(text, sizeof text, "level %u, to digit", level);
        fprintf(out, "  %-*s", (int)(8 * cube->n), text);
    }
    fprintf(out, "\n%-10s", "");
    for (uint32_t level = 0; level < cube->k; level++) {
        fputs("  ", out);
        for (uint32_t digit = 0; digit < cube->n; digit++)
            fprintf(out, "%7u ", digit);
    }
    fputc('\n', out);
}

void br_matrix_text(const struct br_matrix *matrix, bool colour, FILE *out)
{
    const struct br_survey *survey = matrix->survey;
    const struct br_bcube *cube = &survey->cube;
    fprintf(out, "BCube(%u,%u) %s: rows send\n", cube->n, cube->k, matrix->title);
    for (enum quantity quantity = GBIT; quantity <= ALPHA; quantity++) {
        struct br_spread spread = matrix_print_spread_of(matrix, quantity);
        fprintf(out, "\n%s", names[quantity]);
        if (spread.count)
            fprintf(out, ": median %.4g, from %.4g to %.4g", spread.median, spread.min, spread.max);
        fputc('\n', out);
        print_head(cube, out);
        for (uint32_t h = 0; h < (uint32_t)survey->n_hosts; h++) {
            fprintf(out, "%-10s", survey->hosts[h].name);
            for (uint32_t level = 0; level < cube->k; level++) {
                fputs("  ", out);
                for (uint32_t digit = 0; digit < cube->n; digit++)
                    matrix_print_print_cell(cell_at(matrix, h, level, digit), &spread, quantity,
                                            colour, out);
            }
            fputc('\n', out);
        }
    }
}

/* ---- SVG ------------------------------------------------------------------------------------- */

static void draw_text(FILE *out, int x, int y, const char *anchor, const char *text)
{
    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"%s\">", x, y, anchor);
    br_draw_escape(text, out);
    fputs("</text>\n", out);
}

static void matrix_print_draw_cell(const struct br_matrix *matrix, uint32_t host, uint32_t level,
                                   uint32_t digit, int x, int y, const struct br_spread *spread,
                                   enum quantity quantity, FILE *out)
{
    const struct br_matrix_cell *cell = cell_at(matrix, host, level, digit);
    double value = cell ? matrix_print_value_of(cell, quantity) : 0;
    int rgb[3] = {221, 225, 230};
    char text[32] = "";
    if (cell && value > 0) {
        matrix_print_colour_of(value, spread, quantity, rgb);
        snprintf(text, sizeof text, "%.4g", value);
    } else if (cell) {
        rgb[0] = 214;
        rgb[1] = 39;
        rgb[2] = 40;
        snprintf(text, sizeof text, "fails");
    }
    fprintf(out,
            "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"rgb(%d,%d,%d)\" "
            "stroke=\"#c5cad0\"/>\n",
            x, y, CELL_WIDTH, CELL_HEIGHT, rgb[0], rgb[1], rgb[2]);
    if (text[0])
        draw_text(out, x + CELL_WIDTH / 2, y + 16, "middle", text);
}

static void matrix_print_draw_panel(const struct br_matrix *matrix, int top, enum quantity quantity,
                                    FILE *out)
{
    const struct br_survey *survey = matrix->survey;
    const struct br_bcube *cube = &survey->cube;
    struct br_spread spread = matrix_print_spread_of(matrix, quantity);
    char text[128];
    snprintf(text, sizeof text, "%s: median %.4g, from %.4g to %.4g", names[quantity],
             spread.median, spread.min, spread.max);
    draw_text(out, MARGIN, top + 16, "start", text);
    for (uint32_t level = 0; level < cube->k; level++) {
        int left = MARGIN + LABEL + (int)level * ((int)cube->n * CELL_WIDTH + MARGIN);
        snprintf(text, sizeof text, "level %u, to digit", level);
        draw_text(out, left, top + 38, "start", text);
        for (uint32_t digit = 0; digit < cube->n; digit++) {
            snprintf(text, sizeof text, "%u", digit);
            draw_text(out, left + (int)digit * CELL_WIDTH + CELL_WIDTH / 2, top + 56, "middle",
                      text);
            for (uint32_t h = 0; h < (uint32_t)survey->n_hosts; h++)
                matrix_print_draw_cell(matrix, h, level, digit, left + (int)digit * CELL_WIDTH,
                                       top + HEAD + (int)h * CELL_HEIGHT, &spread, quantity, out);
        }
    }
    for (uint32_t h = 0; h < (uint32_t)survey->n_hosts; h++)
        draw_text(out, MARGIN + LABEL - 8, top + HEAD + (int)h * CELL_HEIGHT + 16, "end",
                  survey->hosts[h].name);
}

void br_matrix_svg(const struct br_matrix *matrix, FILE *out)
{
    const struct br_bcube *cube = &matrix->survey->cube;
    int panel = HEAD + matrix->survey->n_hosts * CELL_HEIGHT + MARGIN;
    int width = MARGIN + LABEL + (int)cube->k * ((int)cube->n * CELL_WIDTH + MARGIN),
        height = 2 * panel + 2 * MARGIN + 10;
    char text[300];
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d "
            "%d\" "
            "font-family=\"sans-serif\" "
            "font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            width, height, width, height);
    snprintf(text, sizeof text, "BCube(%u,%u) %s: rows send", cube->n, cube->k, matrix->title);
    draw_text(out, MARGIN, MARGIN + 4, "start", text);
    matrix_print_draw_panel(matrix, MARGIN + 14, GBIT, out);
    matrix_print_draw_panel(matrix, MARGIN + 14 + panel, ALPHA, out);
    fputs("</svg>\n", out);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

int br_matrix_json(const struct br_matrix *matrix, FILE *out)
{
    const struct br_survey *survey = matrix->survey;
    cJSON *root = cJSON_CreateObject(), *shape = cJSON_AddObjectToObject(root, "shape");
    cJSON_AddNumberToObject(shape, "n", survey->cube.n);
    cJSON_AddNumberToObject(shape, "k", survey->cube.k);
    cJSON *links = cJSON_AddArrayToObject(root, "links");
    for (uint32_t l = 0; l < br_survey_links(survey); l++) {
        uint32_t from = l / (survey->cube.n - 1);
        if (!br_survey_link_is(survey, l))
            continue;
        cJSON *object = cJSON_CreateObject();
        cJSON_AddStringToObject(object, "from",
                                survey->hosts[br_survey_host_of(survey, from)].name);
        cJSON_AddStringToObject(
            object, "to",
            survey->hosts[br_survey_host_of(survey, br_survey_link_end(survey, l))].name);
        cJSON_AddNumberToObject(object, "level", br_survey_level_of(survey, from));
        cJSON_AddNumberToObject(object, "alpha_us", matrix->cells[l].alpha);
        cJSON_AddNumberToObject(object, "beta_s_per_byte", matrix->cells[l].beta);
        cJSON_AddNumberToObject(object, "gbit", br_matrix_gbit(&matrix->cells[l]));
        cJSON_AddItemToArray(links, object);
    }
    int rc = br_output_json(out, root);
    cJSON_Delete(root);
    return rc;
}
