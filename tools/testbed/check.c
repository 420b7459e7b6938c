/* SPDX-License-Identifier: BSD-3-Clause */
/* `braid bcube check`: asks every host, compares with the plan, says what is wrong and how to
 * remedy it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "tools/testbed/bcube.h"
#include "tools/testbed/check_report.h"
#include "tools/testbed/collect.h"
#include "tools/testbed/diagnose.h"
#include "tools/testbed/site.h"
#include "tools/common/options.h"
#include "tools/common/output.h"

#define LLDP_MS 30000 /* switches speak every 30 s */

struct options {
    bool full, no_color;
    struct br_site_options site;
    const char *json, *html;
};

/* All that is asked of the hosts. */
static int survey_all(struct br_collect *collect)
{
    uint64_t begun = br_clock_now();
    br_collect_facts(collect, false);
    int rc = br_collect_probes(collect);
    if (!rc)
        rc = br_collect_arp(collect);
    if (!rc)
        rc = br_collect_echoes(collect);
    if (!rc)
        rc = br_collect_rates(collect);
    if (!rc)
        br_collect_facts(collect, true);
    if (!rc) {
        int spent = (int)((br_clock_now() - begun) / BR_MS);
        br_collect_lldp(collect, collect->full && spent < LLDP_MS ? LLDP_MS - spent : 0);
    }
    return rc;
}

static int check_write_file(const char *path, const struct br_check_report *report,
                            int (*print)(const struct br_check_report *report, FILE *out))
{
    int rc;
    FILE *out = br_output_open(path, true, &rc);
    return out ? br_output_close(out, path, print(report, out)) : rc;
}

static int check_report_all(const struct options *options, const struct br_check_report *report)
{
    bool json = options->json && !strcmp(options->json, "-"); /* then it is alone on stdout */
    int rc = 0;
    if (!json)
        br_check_text(report, !options->no_color && isatty(1), stdout);
    if (options->json)
        rc = check_write_file(options->json, report, br_check_json);
    if (!rc && options->html)
        rc = check_write_file(options->html, report, br_check_html);
    if (!rc && options->html && !json)
        printf("page: %s\n", options->html);
    return rc;
}

/* The exit code, or a negative errno with a message. */
static int check_site(const struct options *options, struct br_site *site)
{
    uint64_t begun = br_clock_now();
    struct br_findings findings = {0};
    struct br_survey survey = {0};
    struct br_agents agents = {0};
    struct br_collect collect = {
        .inventory = &site->inventory,
        .agents = &agents,
        .survey = &survey,
        .full = options->full,
        .progress = isatty(2) ? br_site_progress : NULL,
    };
    int rc = br_collect_plan(&survey, &site->inventory, site->testbed);
    if (!rc)
        rc = br_agents_start(&agents, &site->inventory, options->site.agent);
    if (!rc)
        rc = survey_all(&collect);
    if (collect.progress)
        br_site_progress(NULL);
    br_collect_end(&collect);
    br_agents_stop(&agents);
    if (!rc)
        rc = br_diagnose(&survey, &findings);
    if (!rc) {
        struct br_check_report report = {
            .survey = &survey,
            .findings = &findings,
            .cabling = &site->inventory.cabling,
            .title = site->title,
            .seconds = (double)(br_clock_now() - begun) / 1e9,
        };
        rc = check_report_all(options, &report);
        if (!rc)
            rc = !br_site_any_reached(&survey) ? 2 : br_check_unhealthy(&report) ? 1 : 0;
    }
    br_findings_destroy(&findings);
    br_survey_destroy(&survey);
    return rc;
}

int br_bcube_check(int argc, char **argv)
{
    struct options options = {0};
    struct br_site site = {0};
    const struct br_option table[] = {
        {"full", 0, BR_OPTION_FLAG, &options.full, 0, 0,
         " more of everything, one level at a time, and LLDP (30 s at least)"},
        BR_SITE_OPTIONS(&options.site),
        {"json", 0, BR_OPTION_TEXT, &options.json, 0, 0,
         "FILE the result for programs; - is standard output"},
        {"html", 0, BR_OPTION_TEXT, &options.html, 0, 0,
         "FILE the result as one page with a drawing"},
        {"no-color", 0, BR_OPTION_FLAG, &options.no_color, 0, 0, " no colours on a terminal"},
        {0},
    };
    int rc = br_options_parse(
        table, "braid bcube check [option...]: exit code 0 healthy, 1 findings, 2 could not check",
        argc, argv);
    if (rc > 0)
        return 0;
    if (!rc)
        rc = br_site_open(&site, &options.site);
    if (!rc)
        rc = check_site(&options, &site);
    if (rc < 0) {
        fprintf(stderr, "braid bcube check: %s\n", br_error_message());
        rc = 2;
    }
    br_site_close(&site);
    return rc;
}
