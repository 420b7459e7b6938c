/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `braid bcube matrix`: alpha and beta of every link over plain TCP.
 *
 * 1. alpha is half the time from sending 64 bytes to hearing that they arrived.
 * 2. beta is the slope of the times of four large sizes (Theil and Sen). A shaper lets the first
 *    bytes pass at once; that shifts all these times alike and leaves the slope.
 * 3. The sizes follow the nominal rate: large enough for a slope above the noise, small enough for
 *    slow links.
 */
#include "tools/testbed/matrix.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "tools/testbed/bcube.h"
#include "tools/testbed/site.h"
#include "tools/common/options.h"
#include "tools/common/output.h"

#define SMALL      64
#define LARGE_MIN  (256 << 10) /* twice the burst of the emulation's shapers */
#define LARGE_MAX  (8 << 20)
#define LARGE_TIME 0.002 /* s that the first large size takes on a fast link */

struct options {
    bool no_color;
    struct br_site_options site;
    const char *json, *svg;
};

static void choose_sizes(const struct br_survey *survey, double sizes[BR_TRIP_SIZES])
{
    double rate = 0;
    for (uint32_t p = 0; p < br_survey_ports(survey); p++)
        rate = survey->ports[p].rate > rate ? survey->ports[p].rate : rate;
    double step = rate / 8 * LARGE_TIME;
    step = step < LARGE_MIN ? LARGE_MIN : step > LARGE_MAX ? LARGE_MAX : step;
    sizes[0] = SMALL;
    for (int i = 1; i < BR_TRIP_SIZES; i++)
        sizes[i] = (double)(int64_t)step * i;
}

static int matrix_measure(struct br_collect *collect, struct br_matrix *matrix)
{
    double sizes[BR_TRIP_SIZES];
    uint32_t links = br_survey_links(collect->survey);
    double(*us)[BR_TRIP_SIZES] = calloc(links + 1, sizeof *us);
    matrix->cells = calloc(links + 1, sizeof *matrix->cells);
    if (!us || !matrix->cells) {
        free(us);
        return br_error(ENOMEM, "no memory for %u links", links);
    }
    br_collect_facts(collect, false);
    int rc = br_collect_echoes(collect);
    if (!rc) {
        choose_sizes(collect->survey, sizes);
        rc = br_collect_trips(collect, sizes, us);
    }
    for (uint32_t l = 0; l < links && !rc; l++)
        matrix->cells[l] = br_matrix_fit(sizes, us[l]);
    free(us);
    return rc;
}

static int matrix_write_svg(const struct br_matrix *matrix, FILE *out)
{
    br_matrix_svg(matrix, out);
    return 0;
}

static int matrix_write_file(const char *path, const struct br_matrix *matrix,
                             int (*print)(const struct br_matrix *matrix, FILE *out))
{
    int rc;
    FILE *out = br_output_open(path, true, &rc);
    return out ? br_output_close(out, path, print(matrix, out)) : rc;
}

static int run_site(const struct options *options, struct br_site *site)
{
    struct br_survey survey = {0};
    struct br_agents agents = {0};
    struct br_matrix matrix = {.survey = &survey, .title = site->title};
    struct br_collect collect = {.inventory = &site->inventory,
                                 .agents = &agents,
                                 .survey = &survey,
                                 .progress = isatty(2) ? br_site_progress : NULL};
    int rc = br_collect_plan(&survey, &site->inventory, site->testbed);
    if (!rc)
        rc = br_agents_start(&agents, &site->inventory, options->site.agent);
    if (!rc)
        rc = matrix_measure(&collect, &matrix);
    if (collect.progress)
        br_site_progress(NULL);
    br_collect_end(&collect);
    br_agents_stop(&agents);
    if (!rc && !br_site_any_reached(&survey))
        rc = br_error(EHOSTUNREACH, "no host can be asked; %s: %s", survey.hosts[0].name,
                      survey.hosts[0].message);
    /* standard output is the JSON's then */
    if (!rc && !(options->json && !strcmp(options->json, "-")))
        br_matrix_text(&matrix, !options->no_color && isatty(1), stdout);
    if (!rc && options->json)
        rc = matrix_write_file(options->json, &matrix, br_matrix_json);
    if (!rc && options->svg)
        rc = matrix_write_file(options->svg, &matrix, matrix_write_svg);
    free(matrix.cells);
    br_survey_destroy(&survey);
    return rc;
}

int br_bcube_matrix(int argc, char **argv)
{
    struct options options = {0};
    struct br_site site = {0};
    const struct br_option table[] = {
        BR_SITE_OPTIONS(&options.site),
        {"json", 0, BR_OPTION_TEXT, &options.json, 0, 0,
         "FILE alpha and beta of every link; - is standard output"},
        {"svg", 0, BR_OPTION_TEXT, &options.svg, 0, 0, "FILE the heat map as a drawing"},
        {"no-color", 0, BR_OPTION_FLAG, &options.no_color, 0, 0, " no colours on a terminal"},
        {0},
    };
    int rc = br_options_parse(table, "braid bcube matrix [option...]", argc, argv);
    if (rc > 0)
        return 0;
    bool usage = rc < 0;
    if (!rc)
        rc = br_site_open(&site, &options.site);
    if (!rc)
        rc = run_site(&options, &site);
    if (rc < 0)
        fprintf(stderr, "braid bcube matrix: %s\n", br_error_message());
    br_site_close(&site);
    return usage ? 2 : rc ? 1 : 0;
}
