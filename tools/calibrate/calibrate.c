/* SPDX-License-Identifier: BSD-3-Clause */
/* `braid calibrate`: measures what the cost model needs, in a job, and saves it. doc/calibrate.md
 * has the method. */
#include "tools/calibrate/calibrate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/median.h"
#include "collectives/schedule/type.h"
#include "tools/calibrate/measure.h"
#include "tools/common/job.h"
#include "tools/common/options.h"
#include "tools/common/output.h"
#include "tools/common/config_check.h"
#include "tools/common/tool.h"

#define MOST_BYTES ((int64_t)256 << 20)

struct settings {
    const char *file, *collectives;
    int64_t most, rounds;
    bool no_links;
};

static int calibrate_parse(struct settings *s, int argc, char **argv)
{
    const struct br_option options[] = {
        {"output", 'o', BR_OPTION_TEXT, &s->file, 0, 0, "FILE default calibration.json"},
        {"collectives", 0, BR_OPTION_TEXT, &s->collectives, 0, 0,
         "NAMES whose algorithms are measured, with commas; default "
         "allreduce,reduce_scatter,allgather,broadcast; none: no algorithm"},
        {"maxbytes", 'e', BR_OPTION_BYTES, &s->most, 256, MOST_BYTES,
         "SIZE largest for an algorithm; default 4M"},
        {"rounds", 0, BR_OPTION_NUMBER, &s->rounds, 1, BR_CALIBRATE_ROUNDS,
         "N times that all is measured; medians count; default 3"},
        {"no-links", 0, BR_OPTION_FLAG, &s->no_links, 0, 0,
         " leave single links out: their time grows with their number"},
        {0},
    };
    int rc = br_options_parse(options, "braid run -n N -- braid calibrate [options]", argc, argv);

    if (!rc && !strcmp(s->file, "-"))
        rc = br_error(EINVAL, "--output -: standard output has the table; name a file");
    return rc;
}

/* ---- measuring ------------------------------------------------------------------------------- */

/* The median beta of each level's links. Without links nothing is known of them alone. */
static int sum_up_links(struct br_calibration *c)
{
    double *betas = calloc(c->n_links + 1, sizeof *betas);

    if (!betas)
        return br_error(ENOMEM, "no memory for %u links", c->n_links);
    for (uint32_t level = 0; level < c->model.n_levels && c->links; level++) {
        size_t n = 0;

        for (uint32_t i = 0; i < c->n_links; i++)
            if (c->links[i].level == level)
                betas[n++] = c->links[i].streams.slope;
        c->congestion[level].alone = br_median(betas, n);
    }
    free(betas);
    return 0;
}

static bool calibrate_is_possible(const char *name)
{
    enum br_collective collective;

    return br_coll_find(name) && !br_collective_find(name, &collective) && collective != BR_BARRIER;
}

static int not_possible(const char *name)
{
    char list[256] = "";
    size_t used = 0;

    for (int i = 0; i < BR_COLLECTIVES; i++)
        if (calibrate_is_possible(br_collective_name((enum br_collective)i)))
            used += (size_t)snprintf(list + used, sizeof list - used, "%s, ",
                                     br_collective_name((enum br_collective)i));
    return br_error(EINVAL,
                    "--collectives: \"%s\" is no collective that moves bytes; possible are: %snone",
                    name, list);
}

/* Every name of --collectives; without a communicator it only looks at them. */
static int each_collective(struct braid_comm *comm, const struct settings *s,
                           struct br_calibration *c)
{
    char names[256], *save = NULL;
    int rc = 0;

    snprintf(names, sizeof names, "%s", s->collectives);
    for (char *name = strtok_r(names, ",", &save); name && !rc; name = strtok_r(NULL, ",", &save)) {
        const struct br_coll *coll = br_coll_find(name);
        enum br_collective collective;

        if (!strcmp(name, "none"))
            continue;
        if (!calibrate_is_possible(name) || br_collective_find(name, &collective))
            rc = not_possible(name);
        else if (comm)
            rc =
                br_calibrate_algorithms(comm, coll, collective, (size_t)s->most, (int)s->rounds, c);
    }
    return rc;
}

static int calibrate_agree(struct braid_comm *comm, const struct settings *s)
{
    const struct br_config_option options[] = {{"collectives", br_config_text(s->collectives)},
                                               {"maxbytes", s->most},
                                               {"rounds", s->rounds},
                                               {"no-links", s->no_links},
                                               {0}};

    return br_config_options_agree(comm, options);
}

static int calibrate(struct braid_comm *comm, const struct settings *s)
{
    struct br_calibration_link *links = NULL;
    struct br_calibration *c = calloc(1, sizeof *c);
    int rc = c ? 0 : br_error(ENOMEM, "no memory for the calibration");

    if (!rc && braid_rank(comm) == 0 && (rc = br_output_may_write(s->file)))
        br_error_prefix(rc, "--output: ");
    if (!rc)
        rc = calibrate_agree(comm, s);
    if (!rc)
        rc = br_measure(comm, c);
    if (!rc && !s->no_links)
        rc = br_calibrate_links(comm, (int)s->rounds, &links, &c->n_links);
    if (!rc)
        rc = each_collective(comm, s, c);
    if (!rc && braid_rank(comm) == 0) {
        c->links = links;
        rc = sum_up_links(c);
        if (!rc) {
            br_calibrate_print(c, stdout);
            rc = br_calibration_write(s->file, c);
        }
        if (!rc)
            printf("# saved: BRAID_CALIBRATION=%s makes jobs use it\n", s->file);
    }
    free(links);
    free(c);
    return rc;
}

/* ---- the table ------------------------------------------------------------------------------- */

static void calibrate_print_outliers(const struct br_cost_fit *fit, const double *bytes, FILE *out)
{
    const char *before = "";

    for (uint32_t i = 0; i < BR_COST_FIT_POINTS; i++)
        if (fit->outliers & 1u << i) {
            fprintf(out, "%s%.0f", before, bytes[i]);
            before = ",";
        }
    fputs(*before ? "" : "-", out);
}

/* Half of the 95 % interval; through two points goes one line alone, and there is none. */
static const char *calibrate_interval(const struct br_cost_fit *fit, double value, int digits,
                                      char text[24])
{
    if (fit->n < 3)
        return "-";
    snprintf(text, 24, "%.*f", digits, value);
    return text;
}

static void calibrate_print_links(const struct br_calibration *c, FILE *out)
{
    if (!c->n_links)
        return;
    fprintf(out,
            "# single links, one at a time; +-: 95 %% interval; outliers: sizes in bytes that are "
            "off the line\n"
            "# %4s %4s %5s %9s %8s %10s %9s %9s %11s %7s  %s\n",
            "from", "to", "level", "alpha us", "+-", "beta ns/B", "+-", "Gb/s", "overhead us",
            "R^2", "outliers: latency; bandwidth");
    for (uint32_t i = 0; i < c->n_links; i++) {
        const struct br_calibration_link *l = &c->links[i];
        char alpha[24], beta[24];

        fprintf(out, "  %4u %4u %5u %9.2f %8s %10.4f %9s %9.3f %11.2f %7.4f  ", l->from, l->to,
                l->level, l->trips.start * 1e6,
                calibrate_interval(&l->trips, l->trips.start_error * 1e6, 2, alpha),
                l->streams.slope * 1e9,
                calibrate_interval(&l->streams, l->streams.slope_error * 1e9, 4, beta),
                l->streams.slope > 0 ? 8e-9 / l->streams.slope : 0, l->streams.start * 1e6,
                l->streams.r2);
        calibrate_print_outliers(&l->trips, l->trip_bytes, out);
        fputs("; ", out);
        calibrate_print_outliers(&l->streams, l->stream_bytes, out);
        fputc('\n', out);
    }
}

static void calibrate_print_levels(const struct br_calibration *c, FILE *out)
{
    fprintf(out, "# levels\n# %5s %9s %11s %10s %9s %13s  %s\n", "level", "alpha us", "overhead us",
            "beta ns/B", "Gb/s", "one way ns/B",
            "beta under load, as a multiple of that of a single link");
    for (uint32_t i = 0; i < c->model.n_levels; i++) {
        const struct br_cost_level *l = &c->model.levels[i];
        const struct br_calibration_congestion *g = &c->congestion[i];

        fprintf(out, "  %5u %9.2f %11.2f %10.4f %9.3f %13.4f  ", i, l->alpha * 1e6,
                l->overhead * 1e6, l->beta * 1e9, 8e-9 / l->beta, br_cost_one_way(l) * 1e9);
        if (g->alone > 0)
            fprintf(out, "%.2f, with all levels at once %.2f\n", g->level / g->alone,
                    g->levels / g->alone);
        else
            fputs("-\n", out);
    }
}

static void calibrate_print_machine(const struct br_cost_machine *m, FILE *out)
{
    if (m->beta > 0)
        fprintf(out,
                "# all ranks share few cores: on each link a message takes %.2f us and a byte %.3f "
                "ns of all of "
                "them together, relayed ones %.2f and %.3f\n",
                m->overhead * 1e6, m->beta * 1e9, m->relayed_overhead * 1e6, m->relayed_beta * 1e9);
}

static void print_configs(const struct br_calibration *c, FILE *out)
{
    if (!c->n_measured)
        return;
    fprintf(out, "# %-16s %-24s %10s %8s %10s %9s %7s  %s\n", "collective", "algorithm", "a us",
            "+-", "b ns/B", "+-", "R^2", "outliers");
    for (uint32_t i = 0; i < c->n_measured; i++) {
        const struct br_cost_measured *m = &c->measured[i];
        char name[BR_ALGORITHM_TEXT], a[24], b[24];

        fprintf(out, "  %-16s %-24s %10.2f %8s %10.4f %9s %7.4f  ",
                br_collective_name(m->collective), br_algorithm_config_name(&m->config, name),
                m->fit.start * 1e6, calibrate_interval(&m->fit, m->fit.start_error * 1e6, 2, a),
                m->fit.slope * 1e9, calibrate_interval(&m->fit, m->fit.slope_error * 1e9, 4, b),
                m->fit.r2);
        calibrate_print_outliers(&m->fit, m->bytes, out);
        fputc('\n', out);
    }
}

void br_calibrate_print(const struct br_calibration *c, FILE *out)
{
    fprintf(out, "# braid calibrate: %s over %s, braid %s, %s, %s\n", c->topology, c->devices,
            c->version, c->system, c->date);
    calibrate_print_links(c, out);
    calibrate_print_levels(c, out);
    calibrate_print_machine(&c->model.machine, out);
    fprintf(out, "# gamma, ns/B:");
    for (int t = 0; t < BRAID_TYPES; t++)
        fprintf(out, "%s %s %.3g", t ? "," : "", br_type_name((enum braid_type)t),
                c->types[t] * 1e9);
    fprintf(out, "; copy %.3g\n", c->model.copy * 1e9);
    print_configs(c, out);
}

/* ---- the command ----------------------------------------------------------------------------- */

int br_tool_calibrate(int argc, char **argv)
{
    struct settings s = {.file = "calibration.json",
                         .collectives = "allreduce,reduce_scatter,allgather,broadcast",
                         .most = 4 << 20,
                         .rounds = 3};
    struct braid_comm *comm = NULL;
    int rc = calibrate_parse(&s, argc, argv);

    if (rc == 1)
        return 0;
    if (!rc && !br_job_launched())
        rc = br_error(EINVAL,
                      "it measures a job: braid run -n 4 -- braid calibrate, or any launcher");
    if (!rc)
        rc = each_collective(NULL, &s, NULL);
    if (rc) {
        fprintf(stderr, "braid calibrate: %s\n", br_error_message());
        return 2;
    }
    unsetenv("BRAID_CALIBRATION"); /* the old figures must not decide what is measured */
    rc = braid_init(NULL, &comm);
    if (!rc)
        rc = calibrate(comm, &s);
    if (rc) {
        fprintf(stderr, "braid calibrate: %s\n", br_error_message());
        if (comm)
            braid_comm_abort(comm, "a rank of braid calibrate failed");
    }
    if (comm && braid_finalize(comm) && !rc)
        rc = -EIO;
    return rc == -EINVAL ? 2 : rc != 0; /* what was asked for cannot be */
}
