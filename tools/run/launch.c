/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/run/launch.h"

#include "base/clock.h"
#include "base/error.h"
#include "protocol/bootstrap/environment.h"
#include "tools/run/output.h"
#include "tools/run/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define GRACE        (5 * BR_SEC)
#define PATIENCE     (100 * BR_MS)
#define CODE_TIMEOUT 124 /* as timeout(1) */
#define CODE_SIGNAL  128 /* + the signal, as the shell */

struct rank {
    pid_t pid; /* 0: has ended */
    struct br_run_output out, err;
};

/* Where a process is entered. */
struct place {
    const struct br_launch *launch;
    int i;
};

struct job {
    const struct br_launch *launch;
    struct br_run_watchdog watchdog;
    struct rank *ranks;
    struct pollfd *polls; /* signals, then two for each rank */
    int signals;          /* signalfd */
    int running;
    int suspect; /* the first rank that has ended with a code; -1: none */
    pid_t suspect_pid;
    int suspect_status; /* of waitpid() */
    uint64_t blame_at;  /* ns; UINT64_MAX: nobody */
    bool ending;        /* the job is over, ranks have been asked to end */
    uint64_t kill_at;   /* ns; UINT64_MAX: nothing to kill */
    uint64_t over_at;   /* ns, of the timeout */
    int code;           /* to return */
};

static const int forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

static void __attribute__((format(printf, 2, 3)))
launch_log(const struct job *job, const char *format, ...)
{
    va_list args;

    fprintf(stderr, "%s: ", job->launch->who);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

/* ---- what the processes need ----------------------------------------------------------------- */

int br_launch_secret(const char *file, uint32_t size, char hex[2 * BR_SECRET_KEY_BYTES + 1])
{
    struct br_environment environment = {.size = size};
    unsigned char random[BR_SECRET_KEY_BYTES];
    struct br_secret secret;
    int rc;

    if (sodium_init() < 0)
        return br_error(EIO, "libsodium does not start: the system has no random numbers");
    unsetenv("BRAID_SECRET");
    unsetenv("BRAID_SECRET_FILE");
    unsetenv("BRAID_INSECURE");
    if (file) {
        setenv("BRAID_SECRET_FILE", file, 1);
        rc = br_secret_read(&environment, NULL, &secret);
        br_secret_wipe(&secret);
        return rc;
    }
    randombytes_buf(random, sizeof random);
    sodium_bin2hex(hex, 2 * BR_SECRET_KEY_BYTES + 1, random, sizeof random);
    setenv("BRAID_SECRET", hex, 1);
    return 0;
}

void br_launch_set_number(const char *name, int64_t value)
{
    char text[24];

    snprintf(text, sizeof text, "%lld", (long long)value);
    setenv(name, text, 1);
}

void br_launch_unset_outer(void)
{
    static const char *const outer[] = {
        "BRAID_RANK",        "BRAID_WORLD_SIZE", "BRAID_LOCAL_RANK", "BRAID_LOCAL_WORLD_SIZE",
        "BRAID_MASTER_ADDR", "BRAID_PORT",       "BRAID_LAUNCHER",   "TORCHELASTIC_RUN_ID"};

    for (size_t i = 0; i < sizeof outer / sizeof *outer; i++)
        unsetenv(outer[i]);
}

/* Signals wait in the signalfd from here on. */
static int prepare_signals(struct job *job)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (size_t i = 0; i < sizeof forwarded / sizeof *forwarded; i++)
        sigaddset(&set, forwarded[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_DFL); /* it may have been ignored when we were started */
    job->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return job->signals < 0 ? br_error(errno, "no signalfd: %s", strerror(errno)) : 0;
}

/* Two pipes a rank may be more files than we may open. */
static void raise_file_limit(int count)
{
    struct rlimit limit;
    rlim_t needed = 4 * (rlim_t)count + 64;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < needed) {
        limit.rlim_cur = needed < limit.rlim_max ? needed : limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int launch_prepare(struct job *job)
{
    const struct br_launch *launch = job->launch;
    int rc;

    job->ranks = calloc((size_t)launch->count, sizeof *job->ranks);
    for (int i = 0; job->ranks && i < launch->count; i++)
        job->ranks[i].out.from = job->ranks[i].err.from = -1;
    job->polls = calloc(1 + 2 * (size_t)launch->count, sizeof *job->polls);
    if (!job->ranks || !job->polls)
        return br_error(ENOMEM, "no memory for %d ranks", launch->count);
    rc = launch->prepare(launch->with);
    return rc < 0 ? rc : prepare_signals(job);
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static int open_output(struct job *job, int i, struct br_run_process_options *start)
{
    const struct br_launch *launch = job->launch;
    struct rank *rank = &job->ranks[i];
    char label[BR_LAUNCH_LABEL];
    int rc;

    if (launch->no_prefix)
        return 0;
    launch->label(launch->with, i, label);
    rc = br_run_output_open(&rank->out, label, i, 1, &start->out);
    return rc < 0 ? rc : br_run_output_open(&rank->err, label, i, 2, &start->err);
}

static int launch_enter(const void *where)
{
    const struct place *place = where;

    return place->launch->enter(place->launch->with, place->i);
}

static void launch_shut(int fd)
{
    if (fd >= 0)
        close(fd);
}

static int start_rank(struct job *job, int i)
{
    const struct br_launch *launch = job->launch;
    const struct place place = {launch, i};
    struct br_run_process_options start = {.in = -1, .out = -1, .err = -1, .argv = launch->command};
    cpu_set_t share;
    int rc;

    /* A process group in the background cannot read from the terminal, and one file is for one
     * rank. */
    if (i > 0 || isatty(0))
        start.in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    launch->environment(launch->with, i);
    if (launch->bind_cores && br_run_core_set(i, launch->count, &share))
        start.cpus = &share;
    if (launch->enter) {
        start.enter = launch_enter;
        start.where = &place;
    }
    rc = open_output(job, i, &start);
    if (rc == 0)
        rc = br_run_process_start(&job->watchdog, &start, &job->ranks[i].pid);
    if (rc == 0)
        job->running++;
    else
        job->ranks[i].pid = 0;
    launch_shut(start.in);
    launch_shut(start.out);
    launch_shut(start.err);
    return rc;
}

static void launch_signal_all(const struct job *job, int number)
{
    for (int i = 0; i < job->launch->count; i++)
        if (job->ranks[i].pid)
            kill(-job->ranks[i].pid, number);
}

/* The job is over with this code: whoever is still there shall end. The first reason counts. */
static void end_job(struct job *job, int code, int number)
{
    if (job->ending)
        return;
    job->ending = true;
    job->code = code;
    job->kill_at = br_clock_now() + GRACE;
    launch_signal_all(job, number);
}

static void copy_output(struct job *job, struct br_run_output *output)
{
    int rc = br_run_output_copy(output);

    if (rc == -EPIPE) /* nobody reads us: as a pipe would end us */
        end_job(job, CODE_SIGNAL + SIGPIPE, SIGTERM);
    if (rc >= 0 || job->ending)
        return;
    launch_log(job, "cannot write to standard %s: %s: ending the job",
               output->to == STDOUT_FILENO ? "output" : "error", strerror(-rc));
    end_job(job, 1, SIGTERM);
}

/* Names the rank that failed first and ends the job. */
static void launch_blame(struct job *job, int rank, pid_t pid, int status)
{
    const char *others = job->running ? ", ending the others" : "";
    char name[BR_LAUNCH_NAME];

    job->launch->name(job->launch->with, rank, name);
    if (WIFEXITED(status))
        launch_log(job, "%s (process %d) ended with exit code %d%s", name, (int)pid,
                   WEXITSTATUS(status), others);
    else
        launch_log(job, "%s (process %d) was killed by signal %d (%s)%s%s", name, (int)pid,
                   WTERMSIG(status), strsignal(WTERMSIG(status)),
                   WCOREDUMP(status) ? ", core dumped" : "", others);
    end_job(job, WIFEXITED(status) ? WEXITSTATUS(status) : CODE_SIGNAL + WTERMSIG(status), SIGTERM);
}

static void blame_suspect(struct job *job)
{
    if (job->suspect >= 0 && !job->ending)
        launch_blame(job, job->suspect, job->suspect_pid, job->suspect_status);
    job->blame_at = UINT64_MAX;
}

static void take_end(struct job *job, pid_t pid, int status)
{
    int i = 0;

    while (i < job->launch->count && job->ranks[i].pid != pid)
        i++;
    if (i == job->launch->count)
        return; /* a process that a rank has left behind */
    job->ranks[i].pid = 0;
    job->running--;
    copy_output(job, &job->ranks[i].out); /* its own last words come first */
    copy_output(job, &job->ranks[i].err);
    if (job->ending || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
        return;
    if (WIFSIGNALED(status)) {
        launch_blame(job, i, pid, status);
    } else if (job->suspect < 0) {
        job->suspect = i;
        job->suspect_pid = pid;
        job->suspect_status = status;
        job->blame_at = br_clock_now() + PATIENCE;
    }
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void take_signal(struct job *job, int number)
{
    if (number == SIGUSR1 || number == SIGUSR2) {
        launch_signal_all(job, number);
    } else if (job->ending) {
        launch_signal_all(job, SIGKILL); /* somebody insists */
    } else {
        launch_log(job, "%s: ending the job", strsignal(number));
        end_job(job, CODE_SIGNAL + number, number);
    }
}

static void take_signals(struct job *job)
{
    struct signalfd_siginfo info;
    pid_t pid;
    int status;

    while (read(job->signals, &info, sizeof info) == (ssize_t)sizeof info)
        if (info.ssi_signo != SIGCHLD)
            take_signal(job, (int)info.ssi_signo);
    while ((pid = br_run_process_reap(&job->watchdog, &status)) > 0)
        take_end(job, pid, status);
}

static void take_time(struct job *job)
{
    uint64_t now = br_clock_now();

    if (now >= job->blame_at)
        blame_suspect(job);
    if (now >= job->over_at && !job->ending) {
        launch_log(job, "not done after %lld s, ending all ranks", (long long)job->launch->timeout);
        end_job(job, CODE_TIMEOUT, SIGTERM);
    }
    if (now >= job->kill_at) {
        launch_log(job, "%d rank%s did not end in time, killing", job->running,
                   job->running > 1 ? "s" : "");
        job->kill_at = UINT64_MAX;
        launch_signal_all(job, SIGKILL);
    }
}

static int wait_ms(const struct job *job)
{
    uint64_t at = job->ending ? job->kill_at : job->over_at, now = br_clock_now();

    if (job->blame_at < at)
        at = job->blame_at;
    if (at == UINT64_MAX)
        return -1;
    return at <= now ? 0 : (int)((at - now) / BR_MS + 1);
}

static void launch_run(struct job *job)
{
    while (job->running) {
        job->polls[0] = (struct pollfd){.fd = job->signals, .events = POLLIN};
        for (int i = 0; i < job->launch->count; i++) {
            job->polls[1 + 2 * i] = (struct pollfd){.fd = job->ranks[i].out.from, .events = POLLIN};
            job->polls[2 + 2 * i] = (struct pollfd){.fd = job->ranks[i].err.from, .events = POLLIN};
        }
        if (poll(job->polls, 1 + 2 * (nfds_t)job->launch->count, wait_ms(job)) > 0) {
            for (int i = 0; i < job->launch->count; i++) {
                if (job->polls[1 + 2 * i].revents)
                    copy_output(job, &job->ranks[i].out);
                if (job->polls[2 + 2 * i].revents)
                    copy_output(job, &job->ranks[i].err);
            }
            if (job->polls[0].revents)
                take_signals(job);
        }
        take_time(job);
    }
    blame_suspect(job);
}

static void launch_start_all(struct job *job)
{
    for (int i = 0; i < job->launch->count && !job->ending; i++) {
        int rc = start_rank(job, i);

        if (rc < 0) {
            launch_log(job, "%s", br_error_message());
            end_job(job, rc == -ENOENT ? 127 : 126, SIGKILL);
        }
    }
}

/* In reverse order; the last output comes after everyone who could write it is gone. */
static void launch_finish(struct job *job)
{
    br_run_watchdog_stop(&job->watchdog);
    for (int i = 0; job->ranks && i < job->launch->count; i++) {
        copy_output(job, &job->ranks[i].out);
        copy_output(job, &job->ranks[i].err);
        br_run_output_close(&job->ranks[i].out);
        br_run_output_close(&job->ranks[i].err);
    }
    launch_shut(job->signals);
    free(job->polls);
    free(job->ranks);
}

int br_launch(const struct br_launch *launch)
{
    struct job job = {.launch = launch,
                      .signals = -1,
                      .kill_at = UINT64_MAX,
                      .over_at = UINT64_MAX,
                      .suspect = -1,
                      .blame_at = UINT64_MAX};

    raise_file_limit(launch->count);
    if (br_run_watchdog_start(&job.watchdog) < 0) {
        launch_log(&job, "%s", br_error_message());
        return 1;
    }
    if (launch_prepare(&job) < 0) {
        launch_log(&job, "%s", br_error_message());
        job.code = 1;
    } else {
        if (launch->timeout)
            job.over_at = br_clock_now() + (uint64_t)launch->timeout * BR_SEC;
        launch_start_all(&job);
        launch_run(&job);
    }
    launch_finish(&job);
    if (launch->resources->port_fd >= 0)
        close(launch->resources->port_fd);
    sodium_memzero(launch->resources->secret, sizeof launch->resources->secret);
    return job.code;
}
