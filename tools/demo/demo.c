/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `braid demo`: the headline of the BML paper on one machine. BML and a ring on an emulated BCube
 * of hosts with several NICs, parameter servers on one switch with one NIC a host, the same
 * gradients, the time beside the formula.
 *
 * 1. Each network is emulated with `braid bcube emulate`, the ranks are started with `braid bcube
 *    run`, and it is removed with `braid bcube down`, as a person would: this program starts
 *    itself. One switch is BCube(N,1).
 * 2. Without root there are no shaped links: the hosts are addresses of 127/8, the times say what
 *    this machine's memory and cores can do, and no formula stands beside them.
 * 3. A model that would take too long or too much memory is scaled down, and the table says so.
 */
#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "bcube/address.h"
#include "base/text.h"
#include "tools/testbed/testbed.h"
#include "tools/demo/demo.h"
#include "tools/demo/values.h"
#include "tools/common/host.h"
#include "tools/common/model.h"
#include "tools/common/options.h"
#include "tools/common/tool.h"

#define DIRECTORY     "/tmp/braid-demo-"
#define MOST_RESULTS  64
#define MOST_WORDS    32
#define MOST_TESTBEDS 256

struct settings {
    const char *models, *rate, *shape;
    int64_t seconds, percent, rounds, warmup; /* percent 0: as much as time and memory allow */
    bool loopback;
};

struct demo {
    struct settings settings;
    struct br_bcube cube;
    bool shaped;
    char self[512], directory[64], results[96], name[32];
};

/* ---- commands -------------------------------------------------------------------------------- */

/* Starts this program with these arguments and waits. quiet: what it prints goes nowhere. Returns
 * the exit code. */
static int demo_command(const struct demo *demo, bool quiet, const char *const *text)
{
    const char *argv[MOST_WORDS] = {demo->self};
    int n = 1, status;
    pid_t pid;

    while (*text && n < MOST_WORDS - 1)
        argv[n++] = *text++;
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        if (quiet && !freopen("/dev/null", "w", stdout))
            _exit(127);
        execv(demo->self, (char *const *)argv);
        _exit(127);
    }
    if (pid < 0)
        return br_error(errno, "cannot start %s: %s", demo->self, strerror(errno));
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return br_error(errno, "waitpid: %s", strerror(errno));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void demo_down(const struct demo *demo, const char *name)
{
    demo_command(demo, true, (const char *const[]){"bcube", "down", name, NULL});
}

/* NAME is what a demo made that has ended: `prefix`, its pid, then `end`. */
static bool is_of_dead(const char *name, const char *prefix, char end)
{
    size_t length = strlen(prefix);
    char *behind;
    long pid = strncmp(name, prefix, length) == 0 ? strtol(name + length, &behind, 10) : 0;

    return pid > 0 && *behind == end && kill((pid_t)pid, 0) < 0 && errno == ESRCH;
}

/* Removes what demos have left that were killed before they could. */
static void demo_sweep(const struct demo *demo)
{
    char names[MOST_TESTBEDS][BR_TESTBED_NAME], file[sizeof demo->results];
    glob_t folders;

    for (int i = 0, n = br_testbed_list(names, MOST_TESTBEDS); i < n; i++)
        if (is_of_dead(names[i], "demo", 0))
            demo_down(demo, names[i]);
    if (glob(DIRECTORY "*", 0, NULL, &folders) == 0)
        for (size_t i = 0; i < folders.gl_pathc; i++)
            if (is_of_dead(folders.gl_pathv[i], DIRECTORY, '-')) {
                snprintf(file, sizeof file, "%s/results", folders.gl_pathv[i]);
                unlink(file);
                rmdir(folders.gl_pathv[i]);
            }
    globfree(&folders);
}

/* One network: emulate, run the algorithms on all hosts, remove. 0, or the exit code of what
 * failed. */
static int demo_part(const struct demo *demo, uint32_t n, uint32_t k, const char *algorithms)
{
    char ports[16], levels[16], rounds[16], warmup[16], percent[16], network[48];
    const char *run[MOST_WORDS] = {"bcube", "run",      "--name", demo->name, "--no-prefix",
                                   "--",    demo->self, "demo",   "--rank"};
    int words = 9, rc;

    snprintf(ports, sizeof ports, "%" PRIu32, n);
    snprintf(levels, sizeof levels, "%" PRIu32, k);
    snprintf(rounds, sizeof rounds, "%" PRId64, demo->settings.rounds);
    snprintf(warmup, sizeof warmup, "%" PRId64, demo->settings.warmup);
    snprintf(percent, sizeof percent, "%" PRId64, demo->settings.percent);
    if (k == 1)
        snprintf(network, sizeof network, "one switch, 1 NIC");
    else
        snprintf(network, sizeof network, "BCube(%" PRIu32 ",%" PRIu32 "), %" PRIu32 " NICs", n, k,
                 k);
    if (!isatty(STDOUT_FILENO))
        printf("  %s: setting up %" PRIu32 " hosts\n", network, demo->cube.hosts);
    rc = demo_command(demo, true,
                      demo->shaped
                          ? (const char *const[]){"bcube", "emulate", ports, levels, "--name",
                                                  demo->name, "--rate", demo->settings.rate, NULL}
                          : (const char *const[]){"bcube", "emulate", ports, levels, "--name",
                                                  demo->name, "--loopback", NULL});
    if (rc)
        return rc;
    for (const char *const *more =
             (const char *const[]){"--models", demo->settings.models, "--algorithms", algorithms,
                                   "--network", network, "--levels", levels, "--rounds", rounds,
                                   "--warmup", warmup, "--percent", percent, "--results",
                                   demo->results, isatty(STDOUT_FILENO) ? "--live" : NULL, NULL};
         *more; more++)
        run[words++] = *more;
    rc = demo_command(demo, false, run);
    demo_down(demo, demo->name);
    return rc;
}

/* ---- how much -------------------------------------------------------------------------------- */

/* Bytes of the largest model, and of all together. */
static int demo_sizes(const struct settings *s, double *largest, double *all)
{
    char *models = strdup(s->models), *save = NULL, name[64], path[768];
    int rc = models ? 0 : br_error(ENOMEM, "no memory");

    *largest = *all = 0;
    for (char *m = rc ? NULL : strtok_r(models, ",", &save); m && !rc;
         m = strtok_r(NULL, ",", &save)) {
        struct br_model model;
        double bytes;

        snprintf(name, sizeof name, "models/%s.csv", m);
        rc = strchr(m, '/') ? 0 : br_host_data_file(name, path, sizeof path);
        if (!rc)
            rc = br_model_load(strchr(m, '/') ? m : path, &model);
        if (rc)
            break;
        bytes = (double)model.parameters * sizeof(float);
        *largest = bytes > *largest ? bytes : *largest;
        *all += bytes;
        br_model_free(&model);
    }
    free(models);
    return rc;
}

/* The percentage of each layer that fits into the time and into half of the memory. */
static int choose_percent(struct demo *demo)
{
    struct settings *s = &demo->settings;
    double largest, all, share = 1, n = demo->cube.hosts;
    uint64_t memory = br_host_memory_available(), rate = 0;
    int rc = demo_sizes(s, &largest, &all);

    if (rc || s->percent)
        return rc;
    if (memory && largest * n * 1.2 > (double)memory / 2)
        share = (double)memory / 2 / (largest * n * 1.2);
    if (demo->shaped && !(rc = br_rate_parse(s->rate, &rate)) &&
        rate) { /* formulas, a tenth more for headers */
        double seconds = all * 8 / (double)rate * 1.1 * 2 * (n - 1) / n * (2 + 1.0 / demo->cube.k) *
                         (double)(s->rounds + s->warmup);

        if (seconds * share > (double)s->seconds)
            share = (double)s->seconds / seconds;
    }
    s->percent = share >= 1 ? 100 : share < 0.01 ? 1 : (int64_t)(share * 100);
    return rc;
}

/* ---- the command ----------------------------------------------------------------------------- */

static int demo_report(const struct demo *demo)
{
    struct br_demo_result results[MOST_RESULTS];
    FILE *file = fopen(demo->results, "r");
    int n = 0, rc = 1;

    if (!file)
        return br_error(errno, "no results: %s", strerror(errno));
    while (n < MOST_RESULTS && (rc = br_demo_result_read(file, &results[n])) == 1)
        n++;
    fclose(file);
    if (rc >= 0)
        br_demo_print(results, n, demo->shaped);
    return rc < 0 ? rc : 0;
}

static void demo_opening(const struct demo *demo)
{
    uint32_t n = demo->cube.n, k = demo->cube.k;

    printf("\nGradients all-reduced by %" PRIu32
           " hosts, emulated on this machine: BML and a ring on BCube(%" PRIu32 ",%" PRIu32
           "), parameter\nservers on one switch with one NIC a host. ",
           demo->cube.hosts, n, k);
    if (demo->shaped)
        printf("Every NIC: %s.\n", demo->settings.rate);
    else
        printf("Links without a rate%s: memory and cores are the limit.\n",
               demo->settings.loopback ? "" : ", because shaping needs root");
    fflush(stdout);
}

static int demo_run(struct demo *demo)
{
    int rc = demo_part(demo, demo->cube.n, demo->cube.k, "bml,ring");

    if (!rc)
        rc = demo_part(demo, demo->cube.hosts, 1, "server");
    return rc ? rc : demo_report(demo);
}

/* The directory of the results; the testbed's name carries our pid, so that several demos do not
 * meet, and demo_sweep() knows whose it is. */
static int demo_prepare(struct demo *demo)
{
    ssize_t length = readlink("/proc/self/exe", demo->self, sizeof demo->self - 1);

    if (length <= 0)
        return br_error(ENOENT, "cannot find itself: /proc is not mounted");
    demo->self[length] = 0;
    snprintf(demo->name, sizeof demo->name, "demo%d", (int)getpid());
    snprintf(demo->directory, sizeof demo->directory, DIRECTORY "%d-XXXXXX", (int)getpid());
    if (!mkdtemp(demo->directory))
        return br_error(errno, "cannot make a directory in /tmp: %s", strerror(errno));
    snprintf(demo->results, sizeof demo->results, "%s/results", demo->directory);
    return 0;
}

static void demo_stay(int signal_number)
{
    (void)signal_number;
}

static int demo_start(struct demo *demo)
{
    int rc = demo_prepare(demo);

    if (rc)
        return rc;
    /* what we started ends by it, and we clean up; ignoring would be inherited */
    signal(SIGINT, demo_stay);
    signal(SIGTERM, demo_stay);
    demo_sweep(demo);
    demo_opening(demo);
    rc = demo_run(demo);
    unlink(demo->results);
    rmdir(demo->directory);
    return rc;
}

static int demo_check(struct demo *demo)
{
    uint64_t rate;
    int rc = br_bcube_parse(&demo->cube, demo->settings.shape);

    if (!rc && demo->cube.hosts > BR_DEMO_RANKS)
        rc = br_error(EINVAL, "--shape %s has %" PRIu32 " hosts; the demo takes up to %d",
                      demo->settings.shape, demo->cube.hosts, BR_DEMO_RANKS);
    if (!rc)
        rc = br_rate_parse(demo->settings.rate, &rate);
    demo->shaped = geteuid() == 0 && !demo->settings.loopback;
    return rc ? rc : choose_percent(demo);
}

int br_tool_demo(int argc, char **argv)
{
    struct demo demo = {.settings = {.models = "lenet5,vgg19",
                                     .rate = "500mbit",
                                     .shape = "3,2",
                                     .seconds = 60,
                                     .rounds = 1}};
    struct settings *s = &demo.settings;
    const struct br_option options[] = {
        {"models", 'm', BR_OPTION_TEXT, &s->models, 0, 0,
         "LIST names in data/models/, or paths; default lenet5,vgg19"},
        {"shape", 0, BR_OPTION_TEXT, &s->shape, 0, 0, "N,K of the BCube; default 3,2"},
        {"rate", 0, BR_OPTION_TEXT, &s->rate, 0, 0, "RATE of every NIC; default 500mbit"},
        {"rounds", 'i', BR_OPTION_NUMBER, &s->rounds, 1, 1000, "N of each; default 1"},
        {"warmup", 'w', BR_OPTION_NUMBER, &s->warmup, 0, 1000,
         "N of each before, not timed; default 0: with the first use of all memory, as in a job's "
         "first "
         "iteration"},
        {"seconds", 's', BR_OPTION_NUMBER, &s->seconds, 1, 86400,
         "N scale models down to take no longer; default 60"},
        {"percent", 0, BR_OPTION_NUMBER, &s->percent, 1, 100,
         "P of each layer, whatever time it takes"},
        {"loopback", 0, BR_OPTION_FLAG, &s->loopback, 0, 0, " no shaped links, as without root"},
        {0},
    };
    int rc;

    if (argc > 1 && strcmp(argv[1], "--rank") == 0)
        return br_demo_rank(argc - 1, argv + 1);
    rc = br_options_parse(options, "braid demo [options]", argc, argv);
    if (rc == 1)
        return 0;
    if (!rc)
        rc = demo_check(&demo);
    if (rc) {
        fprintf(stderr, "braid demo: %s\n", br_error_message());
        return 2;
    }
    rc = demo_start(&demo);
    if (rc < 0)
        fprintf(stderr, "braid demo: %s\n", br_error_message());
    return rc != 0;
}
