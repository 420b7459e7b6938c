/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/demo_report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "tools/format.h"

#define REDRAW (100 * BR_MS)
#define RAILS  1024
#define LEVELS 64

static const char *const phase_names[BR_DEMO_PHASES] = {"each layer alone", "all at once, priorities",
                                                        "all at once, no priorities"};

int br_demo_report_open(struct br_demo_report *report, const struct br_model *model, int ranks,
                        int iterations, bool live)
{
    size_t count = (size_t)model->count + 1;
    *report = (struct br_demo_report){.model = model, .ranks = ranks, .iterations = iterations, .live = live};
    double *all = calloc(count * (BR_DEMO_PHASES + 1), sizeof *all);
    if (!all)
        return br_error(ENOMEM, "no memory for the report");
    report->last_us = all;
    for (int phase = 0; phase < BR_DEMO_PHASES; phase++)
        report->sum_us[phase] = all + count * (size_t)(phase + 1);
    return 0;
}

void br_demo_report_close(struct br_demo_report *report)
{
    free(report->last_us);
}

void br_demo_opening(const struct br_demo_report *report, struct braid_comm *comm)
{
    char bytes[BR_FORMAT_BYTES];
    struct braid_rail_stats rails[LEVELS];
    int count = braid_rail_stats(comm, rails, LEVELS);
    printf("\nbraid %s: the gradients of %.*s\n", braid_version(), (int)strcspn(report->model->title, ","),
           report->model->title);
    printf("%d layers, %s as float32 on each of %d ranks", report->model->count,
           br_format_bytes(bytes, (double)report->model->parameters * 4), report->ranks);
    if (count > 0)
        printf("; %d rails a peer, the first over %s", count / (report->ranks > 1 ? report->ranks - 1 : 1),
               rails[0].device);
    printf("\n\n");
    fflush(stdout);
}

void br_demo_phase_begin(struct br_demo_report *report, enum br_demo_phase phase, int iteration)
{
    report->phase = phase;
    report->iteration = iteration;
    if (!report->started)
        report->started = br_clock_now();
}

static void draw_bar(double share)
{
    int full = (int)(share * 24 + 0.5);
    for (int i = 0; i < 24; i++)
        fputs(i < full ? "━" : "·", stdout);
}

void br_demo_progress(struct br_demo_report *report, const char *what, uint64_t bytes, uint64_t now)
{
    if (!report->live || (now - report->drawn < REDRAW && report->drawn))
        return;
    double total = (double)report->model->parameters * 4;
    char done[BR_FORMAT_BYTES];
    report->drawn = now;
    printf("\r\033[K%5.1f s  round %d of %d  %-26s ", (double)(now - report->started) / 1e9,
           report->iteration, report->iterations, phase_names[report->phase]);
    draw_bar((double)bytes / total);
    printf("  %s  %s", br_format_bytes(done, (double)bytes), what ? what : "");
    fflush(stdout);
}

void br_demo_phase_end(struct br_demo_report *report, enum br_demo_phase phase, uint64_t wrong)
{
    char time[BR_FORMAT_BYTES], first[BR_FORMAT_BYTES];
    int layers = report->model->count;
    for (int i = 0; i <= layers; i++)
        report->sum_us[phase][i] += report->last_us[i];
    report->rounds[phase]++;
    report->checked += (uint64_t)report->model->parameters * (uint64_t)report->ranks;
    if (report->live)
        printf("\r\033[K");
    printf("%5.1f s  round %d of %d  %-26s %9s, first layer after %9s, ",
           (double)(br_clock_now() - report->started) / 1e9, report->iteration, report->iterations,
           phase_names[phase], br_format_time(time, report->last_us[layers]),
           br_format_time(first, report->last_us[0]));
    if (wrong)
        printf("%" PRIu64 " values WRONG\n", wrong);
    else
        printf("every value right\n");
    fflush(stdout);
}

static double mean(const struct br_demo_report *report, enum br_demo_phase phase, int i)
{
    return report->rounds[phase] ? report->sum_us[phase][i] / report->rounds[phase] : 0;
}

static void print_row(const struct br_demo_report *report, const char *name, double bytes, int i)
{
    char size[BR_FORMAT_BYTES], alone[BR_FORMAT_BYTES], urgent[BR_FORMAT_BYTES], equal[BR_FORMAT_BYTES];
    double us = mean(report, BR_DEMO_ALONE, i), algorithm = us > 0 ? bytes / us / 1e3 : 0;
    printf("  %-16.16s %9s  %9s %7.2f %7.2f    %9s  %9s\n", name, br_format_bytes(size, bytes),
           br_format_time(alone, us), algorithm, algorithm * 2 * (report->ranks - 1) / report->ranks,
           br_format_time(urgent, mean(report, BR_DEMO_PRIORITIES, i)),
           br_format_time(equal, mean(report, BR_DEMO_EQUAL, i)));
}

static void print_layers(const struct br_demo_report *report)
{
    const struct br_model *model = report->model;
    printf("\n                                     each layer alone          all at once: ready after\n");
    printf("  %-16s %9s  %9s %7s %7s    %9s  %9s\n", "layer", "size", "time", "algbw", "busbw", "priority",
           "equal");
    printf("  %-16s %9s  %9s %7s %7s\n", "", "", "", "GB/s", "GB/s");
    for (int i = 0; i < model->count; i++)
        print_row(report, model->layers[i].name, (double)model->layers[i].parameters * 4, i);
    printf("  %.76s\n", "----------------------------------------------------------------------------");
    print_row(report, "all", (double)model->parameters * 4, model->count);
}

static void print_rails(struct braid_comm *comm)
{
    struct braid_rail_stats *rails = calloc(RAILS, sizeof *rails);
    int count = rails ? braid_rail_stats(comm, rails, RAILS) : 0;
    uint64_t bytes[LEVELS] = {0}, total = 0;
    const char *device[LEVELS] = {0};
    for (int i = 0; i < count && i < RAILS; i++) {
        int level = rails[i].level >= 0 && rails[i].level < LEVELS ? rails[i].level : LEVELS - 1;
        bytes[level] += rails[i].tx_bytes;
        total += rails[i].tx_bytes;
        device[level] = rails[i].device;
    }
    if (total)
        printf("\n  rails of rank 0      sent   share\n");
    for (int level = 0; level < LEVELS; level++) {
        char text[BR_FORMAT_BYTES];
        if (!device[level] || !total)
            continue;
        double share = (double)bytes[level] / (double)total;
        printf("  %d  %-12.12s %9s  %5.1f %%  ", level, device[level],
               br_format_bytes(text, (double)bytes[level]), share * 100);
        draw_bar(share);
        printf("\n");
    }
    free(rails);
}

static void print_first_layer(const struct br_demo_report *report)
{
    char alone[BR_FORMAT_BYTES], urgent[BR_FORMAT_BYTES], equal[BR_FORMAT_BYTES];
    double with = mean(report, BR_DEMO_PRIORITIES, 0), without = mean(report, BR_DEMO_EQUAL, 0);
    printf("\n  The first layer, which the next forward pass waits for, is ready\n");
    printf("    alone               after %9s\n", br_format_time(alone, mean(report, BR_DEMO_ALONE, 0)));
    printf("    with priorities     after %9s", br_format_time(urgent, with));
    printf("   %s\n    without priorities  after %9s\n", "while all the others are under way",
           br_format_time(equal, without));
    if (with > 0)
        printf("  Priorities (P3) make it %.1f times as early.\n", without / with);
}

void br_demo_report(const struct br_demo_report *report, struct braid_comm *comm)
{
    print_layers(report);
    print_rails(comm);
    print_first_layer(report);
    if (report->wrong)
        printf("\n  %" PRIu64 " of %" PRIu64 " values are WRONG.\n\n", report->wrong, report->checked);
    else
        printf("\n  All %" PRIu64 " values that the %d ranks received are right.\n\n", report->checked,
               report->ranks);
    fflush(stdout);
}
