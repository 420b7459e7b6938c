/* SPDX-License-Identifier: BSD-3-Clause */
/* The result of a check as one HTML page without anything outside it: verdict, drawing, findings,
 * links, hosts. */
#include "tools/testbed/check_report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "tools/testbed/draw.h"

#define GOOD    "#1b9e77"
#define WARNED  "#e6a000"
#define BAD     "#d62728"
#define UNKNOWN "#9aa0a6"

static const char style[] =
    "body{font:15px/1.5 system-ui,'DejaVu "
    "Sans',sans-serif;color:#1f2328;max-width:1180px;margin:1.5em "
    "auto;padding:0 1em}"
    "h1{font-size:1.5em;margin:0}h2{font-size:1.15em;margin:1.8em 0 .5em}"
    ".verdict{color:#fff;border-radius:8px;padding:.7em 1em;margin:1em "
    "0;font-size:1.15em;font-weight:600}"
    ".finding{border:1px solid #d0d7de;border-left:6px solid;border-radius:6px;padding:.6em "
    "1em;margin:.7em "
    "0}"
    ".finding b{font-size:1.05em}.code{font-family:monospace;margin-right:.7em}"
    ".finding ul{margin:.3em 0;color:#57606a}"
    "pre{background:#f6f8fa;border-radius:6px;padding:.5em .8em;margin:.4em "
    "0;white-space:pre-wrap;font-size:.9em}"
    "table{border-collapse:collapse;font-size:.9em;margin:.3em 0}th,td{border:1px solid "
    "#d0d7de;padding:.25em .6em;text-align:right}"
    "th{background:#f6f8fa;font-weight:600}td.l,th.l{text-align:left}.scroll{overflow-x:auto}"
    ".switches{display:flex;flex-wrap:wrap;gap:1.2em}.dim{color:#57606a;font-size:.9em}"
    "svg{max-width:100%;height:auto;border:1px solid #d0d7de;border-radius:8px}"
    "@media print{.finding{break-inside:avoid}}";

static const char *check_html_colour_of(int worst)
{
    return worst == BR_ERROR ? BAD : worst == BR_WARNING ? WARNED : GOOD;
}

static int check_html_worse(int a, int b)
{
    return a > b ? a : b;
}

/* ---- the drawing ----------------------------------------------------------------------------- */

static void add_findings(const struct br_check_report *report, enum br_location_kind kind,
                         uint32_t number, struct br_paint *paint)
{
    for (int i = 0; i < report->findings->count; i++) {
        const struct br_finding *finding = &report->findings->list[i];
        size_t used = strlen(paint->tooltip);
        for (int p = 0; p < finding->n_locations; p++)
            if (finding->locations[p].kind == kind && finding->locations[p].number == number) {
                snprintf(paint->tooltip + used, sizeof paint->tooltip - used, "%s%s %s",
                         used ? "\n" : "", finding->code, finding->title);
                break;
            }
    }
}

static void check_html_paint_host(void *user, uint32_t host, struct br_paint *paint)
{
    const struct br_check_report *report = user;
    const struct br_survey *survey = report->survey;
    int worst = br_findings_at(report->findings, BR_LOCATION_HOST, host);
    for (uint32_t level = 0; level < survey->cube.k; level++)
        worst = check_html_worse(worst, br_findings_at(report->findings, BR_LOCATION_PORT,
                                                       br_survey_port_of(survey, host, level)));
    if (!survey->hosts[host].reached && !survey->hosts[host].absent)
        worst = BR_ERROR;
    snprintf(paint->label, sizeof paint->label, "%s", survey->hosts[host].name);
    snprintf(paint->tooltip, sizeof paint->tooltip, "%s: %s", survey->hosts[host].name,
             survey->hosts[host].reached ? survey->hosts[host].kernel
                                         : survey->hosts[host].message);
    add_findings(report, BR_LOCATION_HOST, host, paint);
    snprintf(paint->colour, sizeof paint->colour, "%s",
             worst == BR_ERROR     ? "#f4b6b0"
             : worst == BR_WARNING ? "#fbe0a0"
                                   : "#cdeedd");
    paint->dashed = survey->hosts[host].absent;
    paint->bold = worst >= BR_WARNING;
}

static void check_html_paint_switch(void *user, uint32_t level, uint32_t index,
                                    struct br_paint *paint)
{
    const struct br_check_report *report = user;
    const struct br_bcube *cube = &report->survey->cube;
    uint32_t number = level * br_bcube_power(cube, cube->k - 1) + index;
    int worst = br_findings_at(report->findings, BR_LOCATION_SWITCH, number);
    snprintf(paint->label, sizeof paint->label, "%s", report->survey->switches[number]);
    snprintf(paint->tooltip, sizeof paint->tooltip, "switch %s", report->survey->switches[number]);
    add_findings(report, BR_LOCATION_SWITCH, number, paint);
    snprintf(paint->colour, sizeof paint->colour, "%s", check_html_colour_of(worst));
    paint->bold = worst >= BR_WARNING;
}

static void check_html_paint_cable(void *user, uint32_t host, uint32_t level,
                                   struct br_paint *paint)
{
    const struct br_check_report *report = user;
    const struct br_survey *survey = report->survey;
    uint32_t port = br_survey_port_of(survey, host, level);
    char nic[160], place[160];
    int worst = check_html_worse(br_findings_at(report->findings, BR_LOCATION_PORT, port),
                                 br_findings_at(report->findings, BR_LOCATION_HOST, host));
    snprintf(paint->tooltip, sizeof paint->tooltip, "%s to %s",
             br_survey_nic_text(survey, port, nic), br_survey_switch_text(survey, port, place));
    add_findings(report, BR_LOCATION_PORT, port, paint);
    snprintf(paint->colour, sizeof paint->colour, "%s",
             survey->ports[port].absent ? UNKNOWN : check_html_colour_of(worst));
    paint->bold = worst >= BR_WARNING;
    paint->dashed = !br_survey_alive(survey, port);
}

static int print_drawing(const struct br_check_report *report, FILE *out)
{
    static const struct br_draw_key keys[] = {
        {GOOD, "as planned"}, {WARNED, "warning"}, {BAD, "error"}, {UNKNOWN, "dashed: no link"}};
    struct br_drawing drawing = {
        .cabling = *report->cabling,
        .title = report->title,
        .keys = keys,
        .n_keys = sizeof keys / sizeof *keys,
        .host = check_html_paint_host,
        .switch_ = check_html_paint_switch,
        .cable = check_html_paint_cable,
        .user = (void *)report,
    };
    fputs("<h2>The cube</h2>\n", out);
    if (report->survey->n_hosts > BR_DRAW_HOSTS_MAX) {
        fprintf(out, "<p class=dim>Too many hosts for a drawing: %d.</p>\n",
                report->survey->n_hosts);
        return 0;
    }
    return br_draw(&drawing, out);
}

/* ---- findings -------------------------------------------------------------------------------- */

static void check_html_print_finding(const struct br_finding *finding, FILE *out)
{
    const char *colour =
        finding->severity == BR_NOTE ? UNKNOWN : check_html_colour_of((int)finding->severity);
    fprintf(out,
            "<div class=finding style='border-left-color:%s'><span class=code style='color:%s'>%s "
            "%s</span><b>",
            colour, colour, br_severity_name(finding->severity), finding->code);
    br_draw_escape(finding->title, out);
    fputs("</b><ul>", out);
    for (int e = 0; e < finding->n_evidence; e++) {
        fputs("<li>", out);
        br_draw_escape(finding->evidence[e], out);
        fputs("</li>", out);
    }
    if (finding->consequences)
        fprintf(out, "<li>%d directions of links do not work because of it</li>",
                finding->consequences);
    fputs("</ul>", out);
    if (finding->remedy[0]) {
        fputs("<pre>", out);
        br_draw_escape(finding->remedy, out);
        fputs("</pre>", out);
    }
    fputs("</div>\n", out);
}

static void print_findings(const struct br_check_report *report, FILE *out)
{
    fputs("<h2>Findings</h2>\n", out);
    if (!report->findings->count)
        fputs("<p>None.</p>\n", out);
    for (int i = 0; i < report->findings->count; i++)
        check_html_print_finding(&report->findings->list[i], out);
}

/* ---- links ----------------------------------------------------------------------------------- */

/* From white (the median) to orange (half of it, or twice the latency). */
static void check_html_print_cell(const struct br_survey_link *link, enum br_link_value v,
                                  const struct br_spread *spread, FILE *out)
{
    double value = br_link_value(link, v);
    if (!link->probed || !link->got || value <= 0) {
        fprintf(out, "<td style='background:%s;color:#fff'>%s</td>", link->probed ? BAD : UNKNOWN,
                link->probed ? "fails" : "-");
        return;
    }
    double off = v == BR_LINK_LATENCY ? value / spread->median - 1
                                      : (spread->median - value) / spread->median * 2;
    off = off < 0 ? 0 : off > 1 ? 1 : off;
    fprintf(out, "<td style='background:rgb(255,%d,%d)'>%.4g%s</td>", (int)(255 - 95 * off),
            (int)(255 - 215 * off), value, br_link_outlier(spread, link, v) ? " *" : "");
}

static void print_switch(const struct br_survey *survey, uint32_t level, uint32_t index,
                         enum br_link_value v, const struct br_spread *spread, FILE *out)
{
    const struct br_bcube *cube = &survey->cube;
    uint32_t number = level * br_bcube_power(cube, cube->k - 1) + index;
    fputs("<table><tr><th class=l>", out);
    br_draw_escape(survey->switches[number], out);
    for (int head = 1; head >= 0; head--) {
        for (uint32_t a = 0; a < cube->n; a++) {
            uint32_t from = br_bcube_switch_host(cube, level, index, a);
            if (from >= (uint32_t)survey->n_hosts)
                continue;
            fputs(head ? "<th>to " : "<tr><th class=l>", out);
            br_draw_escape(survey->hosts[from].name, out);
            fputs("</th>", out);
            for (uint32_t b = 0; b < cube->n && !head; b++) {
                uint32_t base = br_survey_port_of(survey, from, level) * (cube->n - 1);
                if (br_bcube_switch_host(cube, level, index, b) >= (uint32_t)survey->n_hosts)
                    continue;
                if (a == b)
                    fputs("<td></td>", out);
                else
                    check_html_print_cell(&survey->links[base + b - (b > a)], v, spread, out);
            }
            if (!head)
                fputs("</tr>\n", out);
        }
        if (head)
            fputs("</tr>\n", out);
    }
    fputs("</table>\n", out);
}

static void check_html_print_links(const struct br_survey *survey, FILE *out)
{
    static const char *const names[] = {"Mb/s, each link alone", "Mb/s, all links at once",
                                        "Latency, us (least round trip)"};
    const struct br_bcube *cube = &survey->cube;
    uint32_t switches = br_bcube_power(cube, cube->k - 1);
    fputs("<h2>Links</h2>\n<p class=dim>Rows send to columns. * marks outliers by median and MAD "
          "of the "
          "level.</p>\n",
          out);
    for (uint32_t level = 0; level < cube->k; level++) {
        for (enum br_link_value v = BR_LINK_ALONE; v <= BR_LINK_LATENCY; v++) {
            struct br_spread spread = br_link_spread(survey, level, v);
            fprintf(out, "<h3>Level %u: %s", level, names[v]);
            if (spread.count)
                fprintf(out, "; median %.4g", spread.median);
            fputs("</h3>\n<div class=switches>\n", out);
            for (uint32_t index = 0; index < switches; index++)
                print_switch(survey, level, index, v, &spread, out);
            fputs("</div>\n", out);
        }
    }
}

/* ---- hosts ----------------------------------------------------------------------------------- */

static void print_nic(const struct br_check_report *report, uint32_t port, FILE *out)
{
    const struct br_survey *survey = report->survey;
    const struct br_survey_host *host = &survey->hosts[br_survey_host_of(survey, port)];
    const struct br_nic *nic = br_survey_nic(survey, port);
    char place[160], address[BR_ADDRESS_TEXT] = "none";
    int worst = check_html_worse(
        br_findings_at(report->findings, BR_LOCATION_PORT, port),
        br_findings_at(report->findings, BR_LOCATION_HOST, br_survey_host_of(survey, port)));
    fprintf(out, "<tr><td class=l style='border-left:6px solid %s'>", check_html_colour_of(worst));
    br_draw_escape(host->name, out);
    fprintf(out, "</td><td class=l>%s</td><td>%u</td><td class=l>", survey->ports[port].nic,
            br_survey_level_of(survey, port));
    br_draw_escape(br_survey_switch_text(survey, port, place), out);
    if (!nic) {
        fprintf(out, "</td><td class=l colspan=8>%s</td></tr>\n",
                host->reached ? "not there" : "host not reached");
        return;
    }
    if (nic->n_addresses)
        br_address_text(nic->addresses[0].ip, (uint32_t)nic->addresses[0].prefix, address);
    fprintf(out, "</td><td class=l>%s</td><td>%s</td><td>%d</td><td>%lld</td><td class=l>", address,
            !nic->up       ? "down"
            : nic->carrier ? "up"
                           : "no carrier",
            nic->mtu, (long long)nic->speed);
    br_draw_escape(nic->driver, out);
    fputs(" ", out);
    br_draw_escape(nic->firmware, out);
    fputs("</td><td class=l>", out);
    br_draw_escape(nic->pci, out);
    fprintf(out, "</td><td>%d</td><td class=l>", nic->numa);
    br_draw_escape(survey->ports[port].lldp, out);
    fputs("</td></tr>\n", out);
}

static void print_rdma(const struct br_survey *survey, FILE *out)
{
    int devices = 0;
    for (int h = 0; h < survey->n_hosts; h++)
        for (int i = 0; i < survey->hosts[h].n_rdma; i++) {
            const struct br_rdma *rdma = &survey->hosts[h].rdma[i];
            if (!devices++)
                fputs("<h2>RDMA</h2>\n<div class=scroll><table><tr><th class=l>host<th "
                      "class=l>device<th>port<th class=l>NIC"
                      "<th class=l>state<th>GID index<th class=l>type<th class=l>firmware<th "
                      "class=l>PFC, "
                      "ECN, DSCP</tr>\n",
                      out);
            fputs("<tr><td class=l>", out);
            br_draw_escape(survey->hosts[h].name, out);
            fputs("</td><td class=l>", out);
            br_draw_escape(rdma->device, out);
            fprintf(out, "</td><td>%d</td><td class=l>", rdma->port);
            br_draw_escape(rdma->netdev, out);
            fputs("</td><td class=l>", out);
            br_draw_escape(rdma->state, out);
            fprintf(out, "</td><td>%d</td><td class=l>", rdma->gid_index);
            br_draw_escape(rdma->gid_type, out);
            fputs("</td><td class=l>", out);
            br_draw_escape(rdma->firmware, out);
            fputs("</td><td class=l>", out);
            br_draw_escape(rdma->quality, out);
            fputs("</td></tr>\n", out);
        }
    if (devices)
        fputs("</table></div>\n", out);
}

static void print_hosts(const struct br_check_report *report, FILE *out)
{
    fputs("<h2>NICs</h2>\n<div class=scroll><table><tr><th class=l>host<th class=l>NIC<th>level<th "
          "class=l>planned cable"
          "<th class=l>address<th>link<th>MTU<th>Mb/s<th class=l>driver, firmware<th "
          "class=l>PCI<th>NUMA<th "
          "class=l>LLDP</tr>\n",
          out);
    for (uint32_t p = 0; p < br_survey_ports(report->survey); p++)
        if (!report->survey->ports[p].absent)
            print_nic(report, p, out);
    fputs("</table></div>\n", out);
    print_rdma(report->survey, out);
}

static void print_verdict(const struct br_check_report *report, FILE *out)
{
    int errors = br_findings_count(report->findings, BR_ERROR),
        warnings = br_findings_count(report->findings, BR_WARNING);
    fprintf(out, "<h1>BCube(%u,%u) ", report->survey->cube.n, report->survey->cube.k);
    br_draw_escape(report->title, out);
    fprintf(out, "</h1>\n<div class=verdict style='background:%s'>",
            errors     ? BAD
            : warnings ? WARNED
                       : GOOD);
    if (errors || warnings)
        fprintf(out, "%d error%s, %d warning%s", errors, errors == 1 ? "" : "s", warnings,
                warnings == 1 ? "" : "s");
    else
        fputs("Healthy: everything is as planned", out);
    fprintf(out, "</div>\n<p class=dim>braid bcube check, %d hosts, %.1f s</p>\n",
            report->survey->n_hosts, report->seconds);
}

int br_check_html(const struct br_check_report *report, FILE *out)
{
    fprintf(out, "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8><title>BCube(%u,%u) ",
            report->survey->cube.n, report->survey->cube.k);
    br_draw_escape(report->title, out);
    fprintf(out, "</title><style>%s</style></head><body>\n", style);
    print_verdict(report, out);
    int rc = print_drawing(report, out);
    print_findings(report, out);
    check_html_print_links(report->survey, out);
    print_hosts(report, out);
    fputs("</body></html>\n", out);
    if (rc)
        return rc;
    return ferror(out) ? br_error(EIO, "cannot write the page: %s", strerror(errno)) : 0;
}
