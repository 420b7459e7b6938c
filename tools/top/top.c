/* SPDX-License-Identifier: BSD-3-Clause */
/* braid top: looks at the running jobs of this host. */
#include "tools/common/tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/http.h"
#include "tools/common/options.h"
#include "tools/common/output.h"
#include "tools/common/interrupt.h"
#include "tools/top/top.h"

struct top {
    bool once, json, prometheus;
    int64_t interval; /* ms */
    const char *job, *folder;
    char place[512], kept[BR_JOB_TEXT];
};

/* The ranks of a job, asked once. */
struct look {
    struct br_snapshot *ranks;
    int n;
};

static void top_forget(struct look *look)
{
    for (int i = 0; i < look->n; i++)
        br_snapshot_free(&look->ranks[i]);
    free(look->ranks);
    *look = (struct look){0};
}

/* ---- which job ------------------------------------------------------------------------------- */

static bool is_job(const struct br_rank_socket *s, const char *job)
{
    return !strncmp(s->job, job, strlen(job)) || !strncmp(s->name, job, strlen(job));
}

/* Whether it takes their names to choose. To ask for them takes up to a second for each job whose
 * first rank hangs, and this at each look. */
static bool names_matter(const struct top *top, const struct br_rank_socket *sockets, int n)
{
    for (int i = 0; i < n && top->job; i++)
        if (!strcmp(sockets[i].job, top->job))
            return false;
    return n && (strcmp(sockets[0].job, sockets[n - 1].job) != 0 ||
                 (top->job && !is_job(&sockets[0], top->job)));
}

static void top_list(const struct br_rank_socket *sockets, int n)
{
    printf("%-10s %6s %9s  %s\n", "job", "ranks", "process", "name");
    for (int i = 0; i < n;) {
        int ranks = 1;

        while (i + ranks < n && !strcmp(sockets[i].job, sockets[i + ranks].job))
            ranks++;
        printf("%-10s %6d %9d%s%s\n", sockets[i].job, ranks, sockets[i].pid,
               sockets[i].name[0] ? "  " : "", sockets[i].name);
        i += ranks;
    }
    printf("braid top JOB shows one of them\n");
}

/* The span of the sockets of the job that is meant. 1: which one is open, and they are listed. */
static int top_choose(const struct top *top, const struct br_rank_socket **sockets, int *n)
{
    const struct br_rank_socket *s = *sockets;
    int first = 0, end, other;

    while (top->job && first < *n && !is_job(&s[first], top->job))
        first++;
    if (!*n)
        return br_error(
            ENOENT,
            "no job runs here: no process of this user has a socket in %s (BRAID_STATS=off?)",
            top->place);
    if (first == *n)
        return br_error(ENOENT, "there is no job %s here; `braid top` lists them", top->job);
    for (end = first; end < *n && !strcmp(s[end].job, s[first].job); end++)
        ;
    for (other = end; other < *n && top->job && !is_job(&s[other], top->job); other++)
        ;
    if (other < *n) {
        top_list(s, *n);
        return 1;
    }
    *sockets = s + first;
    *n = end - first;
    return 0;
}

/* 0; 1: jobs were listed instead; -errno with a message. */
static int top_take(const struct top *top, bool all, struct look *look)
{
    struct br_rank_socket *found;
    const struct br_rank_socket *sockets;
    int gone, n = br_jobs_find(top->place, &found, &gone), rc = 0;

    *look = (struct look){0};
    if (n < 0)
        return n;
    sockets = found;
    if (gone)
        fprintf(stderr, "braid top: removed the sockets of %d processes that are gone\n", gone);
    if (!all && names_matter(top, found, n))
        br_jobs_name(found, n);
    if (!all)
        rc = top_choose(top, &sockets, &n);
    if (!rc) {
        look->ranks = calloc((size_t)n + 1, sizeof *look->ranks);
        if (look->ranks)
            look->n = br_jobs_ask(sockets, n, look->ranks);
        else
            rc = br_error(ENOMEM, "no memory");
    }
    if (!rc && n && !look->n)
        rc = br_error(ETIMEDOUT, "no rank of the job answers");
    if (rc)
        top_forget(look);
    free(found);
    return rc;
}

/* ---- what is shown --------------------------------------------------------------------------- */

static int show_json(const struct top *top)
{
    struct look look;
    int rc = top_take(top, !top->job, &look);

    if (rc)
        return rc;
    putchar('[');
    for (int i = 0; i < look.n; i++) {
        char *text = br_snapshot_json(&look.ranks[i]);

        printf("%s%s", i ? ",\n" : "", text ? text : "null");
        free(text);
    }
    puts("]");
    top_forget(&look);
    return 0;
}

static int show_prometheus(const struct top *top)
{
    struct look look;
    int rc = top_take(top, !top->job, &look);

    if (rc)
        return rc;
    br_snapshot_prometheus(look.ranks, look.n, stdout);
    top_forget(&look);
    return 0;
}

static void pause_ms(int64_t ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&time, NULL); /* Ctrl-C ends it */
}

static int rows_of_terminal(void)
{
    struct winsize size;

    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || size.ws_row < 10 ? 24 : size.ws_row;
}

/* The first look has chosen the job: one that begins meanwhile is not ours. */
static void keep_job(struct top *top, const struct look *look)
{
    snprintf(top->kept, sizeof top->kept, "%s", look->ranks[0].job);
    top->job = top->kept;
}

/* A job that ends between being found and being asked is not there any more at a second look. */
static int top_take_next(const struct top *top, struct look *look)
{
    int rc = top_take(top, false, look);

    return rc == -ETIMEDOUT ? top_take(top, false, look) : rc;
}

static void print_table(const struct look *before, const struct look *now, bool live)
{
    if (live) /* from the top, and lines that are too long end at the margin */
        printf("\033[H\033[J\033[?7l");
    br_top_print(before->ranks, before->n, now->ranks, now->n, live ? rows_of_terminal() : 0,
                 stdout);
    if (live)
        printf("\033[?7h");
    fflush(stdout);
}

static int show_table(struct top *top)
{
    struct look before, now;
    int rc = top_take(top, false, &before);
    bool live = !top->once && isatty(STDOUT_FILENO), shown = false;

    if (!rc)
        keep_job(top, &before);
    br_interrupt_catch();
    while (!rc && (live || !shown)) {
        pause_ms(top->interval);
        if (br_interrupted() || (rc = top_take_next(top, &now)))
            break;
        print_table(&before, &now, live);
        shown = true;
        top_forget(&before);
        before = now;
    }
    top_forget(&before);
    return shown && rc == -ENOENT ? (puts("the job has ended"), 0) : rc;
}

/* ---- the command line ------------------------------------------------------------------------ */

static int top_parse(struct top *top, int argc, char **argv)
{
    const struct br_option options[] = {
        {"once", '1', BR_OPTION_FLAG, &top->once, 0, 0, " one table instead of a live one"},
        {"json", 0, BR_OPTION_FLAG, &top->json, 0, 0,
         " all counters of all ranks, of all jobs unless JOB is given"},
        {"prometheus", 0, BR_OPTION_FLAG, &top->prometheus, 0, 0,
         " the same counters in Prometheus' text format"},
        {"interval", 'i', BR_OPTION_NUMBER, &top->interval, 10, 3600000,
         "MS time between two looks, from which the rates come (default: 1000)"},
        {"folder", 0, BR_OPTION_TEXT, &top->folder, 0, 0,
         "DIR where the sockets are, which must be there (default: BRAID_STATS)"},
        {0},
    };
    struct br_arguments arguments;
    int rc = br_arguments_parse(
        &arguments, options, "braid top [JOB] [options]: running jobs of this host; doc/stats.md",
        argc, argv);

    top->job = arguments.operands[0];
    if (!rc && (arguments.count > 1 || arguments.command))
        rc = br_error(EINVAL, "'%s': there is one operand only, the name of the job",
                      arguments.count > 1 ? arguments.operands[1] : "--");
    if (!rc && top->json && top->prometheus)
        rc = br_error(EINVAL, "--json and --prometheus are two formats; give one of them");
    if (rc < 0)
        fprintf(stderr, "braid top: %s\n", br_error_message());
    return rc;
}

/* Ranks make the folder, and braid top nothing: until the first job it need not be there, unless it
 * was asked for by name. */
static int find_folder(struct top *top)
{
    const char *stats = getenv("BRAID_STATS"), *wanted = top->folder ? top->folder : stats;
    int rc;

    if (wanted && (!wanted[0] || !strcmp(wanted, "off")))
        wanted = NULL;
    rc = br_http_folder_find(wanted, top->place, sizeof top->place);
    return rc == -ENOENT && !top->folder ? 0 : rc;
}

int br_tool_top(int argc, char **argv)
{
    struct top top = {.interval = 1000};
    int rc = top_parse(&top, argc, argv);

    if (rc)
        return rc == 1 ? 0 : 2;
    rc = find_folder(&top);
    if (!rc)
        rc = top.json ? show_json(&top) : top.prometheus ? show_prometheus(&top) : show_table(&top);
    rc = rc < 0 ? rc : br_output_close(stdout, "to standard output", 0);
    if (rc < 0)
        fprintf(stderr, "braid top: %s\n", br_error_message());
    return rc < 0;
}
