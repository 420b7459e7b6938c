/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/plan/settings.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tools/common/job.h"
#include "tools/common/options.h"

#define MOST_BYTES ((int64_t)1 << 40)

bool br_plan_in_job(void)
{
    return br_job_launched();
}

static int plan_settings_parse(struct br_plan_settings *s, int argc, char **argv)
{
    const struct br_option options[] = {
        {"ranks", 'n', BR_OPTION_NUMBER, &s->ranks, 1, 65536, "N ranks of a flat network"},
        {"topology", 0, BR_OPTION_TEXT, &s->topology, 0, 0,
         "TEXT bcube:3,2 or hosts:2x4 or flat:9"},
        {"hosts", 0, BR_OPTION_TEXT, &s->hosts, 0, 0, "HxR H hosts of R ranks each"},
        {"minbytes", 'b', BR_OPTION_BYTES, &s->min_bytes, 0, MOST_BYTES,
         "SIZE smallest size; default 1K"},
        {"maxbytes", 'e', BR_OPTION_BYTES, &s->max_bytes, 0, MOST_BYTES,
         "SIZE largest size; default 256M"},
        {"stepfactor", 'f', BR_OPTION_NUMBER, &s->factor, 2, 1 << 20,
         "N from one size to the next; default 16"},
        {"collective", 0, BR_OPTION_TEXT, &s->collective, 0, 0, "NAME default allreduce"},
        {"algorithm", 0, BR_OPTION_TEXT, &s->algorithm, 0, 0,
         "NAME only this one (doc/collectives.md); in a simulation the one that runs"},
        {"calibration", 0, BR_OPTION_TEXT, &s->calibration, 0, 0,
         "FILE figures of the model; default: built in"},
        {"exact", 0, BR_OPTION_FLAG, &s->exact, 0, 0, "time the schedules of all ranks, too"},
        {"dot", 0, BR_OPTION_TEXT, &s->dot, 0, 0,
         "FILE the chosen schedule of the largest size as Graphviz"},
        {"json", 0, BR_OPTION_TEXT, &s->json, 0, 0, "FILE write the rows there too"},
        {"run", 0, BR_OPTION_FLAG, &s->run, 0, 0, "in a job: measure every candidate"},
        {"limit", 0, BR_OPTION_NUMBER, &s->limit, 1, 3600,
         "SECONDS --run leaves out what should take longer; default 5"},
        {"measure", 0, BR_OPTION_TEXT, &s->measure, 0, 0,
         "FILE in a job: measure the figures, write them there, use them"},
        {"model", 0, BR_OPTION_TEXT, &s->model, 0, 0,
         "FILE gradients of this layer table (doc/training.md); the options below need it"},
        {"batch", 0, BR_OPTION_NUMBER, &s->batch, 1, 1 << 20,
         "N samples a rank computes; default 32"},
        {"speed", 0, BR_OPTION_TEXT, &s->speed, 0, 0,
         "G multiply-adds a device does in a second, in 10^9; default 1000"},
        {"times", 0, BR_OPTION_TEXT, &s->times, 0, 0,
         "FILE instead: layer,forward_us,backward_us, a line a layer"},
        {"cost", 0, BR_OPTION_TEXT, &s->cost, 0, 0,
         "A,B an all-reduce takes A us + B ns per byte; default: by the cost model"},
        {"links", 0, BR_OPTION_TEXT, &s->links, 0, 0,
         "LAW:ALPHA,BETA,GAMMA the same by a formula, in us, ns, ns: ring, halving, binary_tree, "
         "doubling"},
        {"overtake", 0, BR_OPTION_TEXT, &s->overtake, 0, 0,
         "US that an urgent all-reduce takes longer amid others; default: by the windows of the "
         "NICs"},
        {"policy", 0, BR_OPTION_TEXT, &s->policy, 0, 0, "NAME only this one; default: all"},
        {"slice", 0, BR_OPTION_BYTES, &s->slice, 0, MOST_BYTES, "BYTES of a slice; default 200000"},
        {"bucket", 0, BR_OPTION_BYTES, &s->bucket, 0, MOST_BYTES, "BYTES of a bucket; default 25M"},
        {"layers", 0, BR_OPTION_FLAG, &s->layers, 0, 0, "each layer's times, of the best policy"},
        {"svg", 0, BR_OPTION_TEXT, &s->svg, 0, 0, "FILE draw the time lines"},
        {"trace", 0, BR_OPTION_TEXT, &s->trace, 0, 0, "FILE the time lines for chrome://tracing"},
        {"simulate", 0, BR_OPTION_FLAG, &s->simulate, 0, 0,
         "with --model: run the all-reduces of some iterations in virtual time"},
        {"gbit", 0, BR_OPTION_TEXT, &s->gbit, 0, 0, "RATE of a simulated NIC, Gb/s; default 10"},
        {"latency", 0, BR_OPTION_TEXT, &s->latency, 0, 0,
         "US from NIC to NIC, simulated; default 20"},
        {"rails", 0, BR_OPTION_NUMBER, &s->rails, 1, 8,
         "N NICs of each rank; default 1, a BCube has its own"},
        {"iterations", 0, BR_OPTION_NUMBER, &s->iterations, 2, 1000,
         "N simulated; the first one does not count; default 3"},
        {"seed", 0, BR_OPTION_NUMBER, &s->seed, 0, INT64_MAX, "N of the simulation; default 1"},
        {0},
    };
    int rc = br_options_parse(options,
                              s->simulate ? "braid sim --model FILE [options]"
                                          : "[braid run -n N --] braid plan [options]",
                              argc, argv);

    if (rc == 1)
        puts("With BRAID_TRACE=FILE in the environment a simulation writes the best policy's "
             "timeline of "
             "operations,\n"
             "steps and frames, a file a rank (doc/trace.md).");
    return rc;
}

static int plan_settings_check(const struct br_plan_settings *s)
{
    if (s->min_bytes > s->max_bytes)
        return br_error(EINVAL, "--minbytes %" PRId64 " is more than --maxbytes %" PRId64,
                        s->min_bytes, s->max_bytes);
    if ((s->run || s->measure) && !br_plan_in_job())
        return br_error(EINVAL, "--run and --measure need a job: braid run -n 4 -- braid plan ...");
    if ((s->run || s->measure) && (s->ranks || s->topology || s->hosts))
        return br_error(
            EINVAL, "the job says what the network is; leave --ranks, --topology and --hosts out");
    return 0;
}

static int check_simulation(const struct br_plan_settings *s)
{
    if (!s->simulate)
        return s->gbit || s->latency || s->iterations || s->seed
                   ? br_error(EINVAL, "--gbit, --latency, --iterations and --seed are about a "
                                      "simulation: say --simulate, or `braid sim`")
                   : 0;
    if (!s->model)
        return br_error(EINVAL, "a simulation needs the layers of a network: give --model FILE");
    if (s->hosts || s->calibration || s->measure)
        return br_error(EINVAL, "the simulated network is --ranks with --rails, or --topology "
                                "bcube:N,K, with --gbit and "
                                "--latency; leave --hosts, --calibration and --measure out");
    return 0;
}

static int check_model(const struct br_plan_settings *s)
{
    if (!s->model)
        return s->times || s->speed || s->cost || s->links || s->overtake || s->rails ||
                       s->policy || s->svg || s->trace || s->layers
                   ? br_error(EINVAL, "--times, --speed, --cost, --links, --overtake, --rails, "
                                      "--policy, --layers, --svg and --trace are about the layers "
                                      "of a network: give --model FILE")
                   : 0;
    if (s->run || s->exact || s->dot)
        return br_error(
            EINVAL, "--run, --exact and --dot are about one collective; leave them or --model out");
    if (s->times && s->speed)
        return br_error(EINVAL, "give --times or --speed, not both");
    /* A simulation runs the named algorithm, and the planner may still be given a and b. */
    if (!!s->cost + !!s->links + (s->calibration || s->measure || (s->algorithm && !s->simulate)) >
        1)
        return br_error(
            EINVAL,
            "what an all-reduce takes comes from one of --cost, --links, or the cost model with "
            "--calibration, --measure and --algorithm");
    return 0;
}

int br_plan_settings_read(struct br_plan_settings *s, int argc, char **argv)
{
    int rc;

    *s = (struct br_plan_settings){.min_bytes = 1 << 10,
                                   .max_bytes = 256 << 20,
                                   .factor = 16,
                                   .limit = 5,
                                   .collective = "allreduce",
                                   .batch = 32,
                                   .slice = 200000,
                                   .bucket = 25 << 20};
    s->simulate = !strcmp(argv[0], "sim");
    rc = plan_settings_parse(s, argc, argv);
    if (!rc)
        rc = plan_settings_check(s);
    if (!rc)
        rc = check_simulation(s);
    return rc ? rc : check_model(s);
}
