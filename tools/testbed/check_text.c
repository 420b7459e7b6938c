/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/testbed/check_report.h"

#include <errno.h>
#include <stdlib.h>

double br_link_value(const struct br_survey_link *link, enum br_link_value value)
{
    if (value == BR_LINK_ALONE)
        return link->alone / 1e6;
    return value == BR_LINK_TOGETHER ? link->together / 1e6 : link->min_us;
}

struct br_spread br_link_spread(const struct br_survey *survey, uint32_t level,
                                enum br_link_value value)
{
    uint32_t links = br_survey_links(survey);
    double *values = calloc(links + 1, sizeof *values);
    int count = 0;
    for (uint32_t l = 0; l < links && values; l++)
        if (br_survey_level_of(survey, l / (survey->cube.n - 1)) == level &&
            br_link_value(&survey->links[l], value) > 0)
            values[count++] = br_link_value(&survey->links[l], value);
    struct br_spread spread = br_spread_of(values, count);
    free(values);
    return spread;
}

bool br_link_outlier(const struct br_spread *spread, const struct br_survey_link *link,
                     enum br_link_value value)
{
    static const double least[] = {
        [BR_LINK_ALONE] = 0.1, [BR_LINK_TOGETHER] = 0.5, [BR_LINK_LATENCY] = 4};
    double measured = br_link_value(link, value);
    return measured > 0 && br_spread_outlier(spread, measured, least[value]);
}

int br_check_unhealthy(const struct br_check_report *report)
{
    return br_findings_count(report->findings, BR_ERROR) +
           br_findings_count(report->findings, BR_WARNING);
}

struct paint {
    const char *bold, *red, *yellow, *green, *dim, *off;
};

static const struct paint colours = {"\033[1m",    "\033[1;31m", "\033[1;33m",
                                     "\033[1;32m", "\033[2m",    "\033[0m"};
static const struct paint plain = {"", "", "", "", "", ""};

static void print_range(const struct br_spread *spread, const char *what, const char *unit,
                        FILE *out)
{
    if (spread->count)
        fprintf(out, ", %s %.4g..%.4g %s", what, spread->min, spread->max, unit);
}

static void check_text_print_level(const struct br_survey *survey, uint32_t level, FILE *out)
{
    int sent = 0, got = 0, working = 0, planned = 0;
    for (uint32_t l = 0; l < br_survey_links(survey); l++) {
        const struct br_survey_link *link = &survey->links[l];
        if (br_survey_level_of(survey, l / (survey->cube.n - 1)) != level ||
            !br_survey_link_is(survey, l))
            continue;
        planned++;
        working += link->got > 0;
        sent += link->got > 0 ? link->sent : 0;
        got += link->got;
    }
    struct br_spread alone = br_link_spread(survey, level, BR_LINK_ALONE);
    struct br_spread together = br_link_spread(survey, level, BR_LINK_TOGETHER);
    struct br_spread latency = br_link_spread(survey, level, BR_LINK_LATENCY);
    fprintf(out, "  level %-2u   %d of %d directions work", level, working, planned);
    if (sent)
        fprintf(out, ", %d of %d echoes lost", sent - got, sent);
    print_range(&latency, "latency", "us", out);
    print_range(&alone, "alone", "Mb/s", out);
    print_range(&together, "together", "Mb/s", out);
    fputc('\n', out);
}

static void check_text_print_finding(const struct br_finding *finding, const struct paint *paint,
                                     FILE *out)
{
    const char *const severity[] = {paint->dim, paint->yellow, paint->red};
    fprintf(out, "\n%s%-7s %s%s  %s%s%s\n", severity[finding->severity],
            br_severity_name(finding->severity), finding->code, paint->off, paint->bold,
            finding->title, paint->off);
    for (int e = 0; e < finding->n_evidence; e++)
        fprintf(out, "        %s%s%s\n", paint->dim, finding->evidence[e], paint->off);
    if (finding->consequences)
        fprintf(out, "        %d directions of links do not work because of it\n",
                finding->consequences);
    if (finding->remedy[0])
        fprintf(out, "        remedy: %s\n", finding->remedy);
}

static void check_text_print_outliers(const struct br_survey *survey, FILE *out)
{
    static const char *const names[] = {"Mb/s alone", "Mb/s together", "us latency"};
    for (uint32_t level = 0; level < survey->cube.k; level++) {
        for (enum br_link_value v = BR_LINK_ALONE; v <= BR_LINK_LATENCY; v++) {
            struct br_spread spread = br_link_spread(survey, level, v);
            int shown = 0;
            for (uint32_t l = 0; l < br_survey_links(survey) && shown < 8; l++) {
                uint32_t from = l / (survey->cube.n - 1);
                double value = br_link_value(&survey->links[l], v);
                char a[160], b[160];
                if (br_survey_level_of(survey, from) != level ||
                    !br_link_outlier(&spread, &survey->links[l], v))
                    continue;
                fprintf(out, "  outlier    %s -> %s: %.4g %s, the median is %.4g\n",
                        br_survey_nic_text(survey, from, a),
                        br_survey_nic_text(survey, br_survey_link_end(survey, l), b), value,
                        names[v], spread.median);
                shown++;
            }
        }
    }
}

static int hosts_reached(const struct br_survey *survey, int *planned)
{
    int reached = 0;
    *planned = 0;
    for (int h = 0; h < survey->n_hosts; h++) {
        reached += survey->hosts[h].reached;
        *planned += !survey->hosts[h].absent;
    }
    return reached;
}

void br_check_text(const struct br_check_report *report, bool colour, FILE *out)
{
    const struct br_survey *survey = report->survey;
    const struct paint *paint = colour ? &colours : &plain;
    int planned, reached = hosts_reached(survey, &planned);
    int errors = br_findings_count(report->findings, BR_ERROR),
        warnings = br_findings_count(report->findings, BR_WARNING);
    fprintf(out, "%sBCube(%u,%u) %s%s\n\n", paint->bold, survey->cube.n, survey->cube.k,
            report->title, paint->off);
    fprintf(out, "  hosts      %d of %d reached\n", reached, planned);
    for (uint32_t level = 0; level < survey->cube.k; level++)
        check_text_print_level(survey, level, out);
    check_text_print_outliers(survey, out);
    for (int i = 0; i < report->findings->count; i++)
        check_text_print_finding(&report->findings->list[i], paint, out);
    if (!errors && !warnings)
        fprintf(out, "\n%shealthy%s, checked in %.1f s\n", paint->green, paint->off,
                report->seconds);
    else
        fprintf(out, "\n%s%d error%s, %d warning%s%s, checked in %.1f s\n",
                errors ? paint->red : paint->yellow, errors, errors == 1 ? "" : "s", warnings,
                warnings == 1 ? "" : "s", paint->off, report->seconds);
}
