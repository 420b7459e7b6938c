/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * braid run: starts the ranks of a job on this host.
 *
 * 1. One thread, one poll(): signals come through a signalfd, output through pipes, deadlines through the timeout.
 * 2. The first rank that fails ends the job: SIGTERM to the others, SIGKILL to those that are there GRACE later. What the
 *    others say after that is a consequence, so only the first is named and its code is returned. A rank that is killed may
 *    be seen to end after those who gave up because of it (the kernel closes its connections before it reports its end), so
 *    one that exits with a code is blamed only after PATIENCE, if no other was killed meanwhile.
 * 3. The port is kept by a socket that is bound but does not listen. Rank 0 can bind it too (both reuse addresses),
 *    nobody is given it by chance meanwhile.
 */
#include "tools/run_output.h"
#include "tools/run_process.h"
#include "tools/tool.h"

#include "base/clock.h"
#include "base/error.h"
#include "protocol/bootstrap/environment.h"
#include "protocol/bootstrap/secret.h"
#include "tools/options.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS_MAX    1024
#define RAILS_MAX    8
#define GRACE        (5 * BR_SEC)
#define PATIENCE     (100 * BR_MS)
#define CODE_TIMEOUT 124 /* as timeout(1) */
#define CODE_SIGNAL  128 /* + the signal, as the shell */

struct rank {
    pid_t pid; /* 0: has ended */
    struct br_run_output out, err;
};

struct job {
    int64_t size, rails, timeout;
    const char *backend, *secret_file, *bind;
    bool no_prefix;
    char **command;

    struct br_run_keeper keeper;
    struct rank *ranks;
    struct pollfd *polls; /* signals, then two for each rank */
    int signals;          /* signalfd */
    int port_fd;
    uint16_t port;
    char secret[2 * BR_SECRET_KEY_BYTES + 1];
    int running;
    int suspect; /* the first rank that has ended with a code; -1: none */
    pid_t suspect_pid;
    int suspect_status; /* of waitpid() */
    uint64_t blame_at;  /* ns; UINT64_MAX: nobody */
    bool ending;        /* the job is over, ranks have been asked to end */
    uint64_t kill_at;   /* ns; UINT64_MAX: nothing to kill */
    uint64_t over_at;   /* ns, --timeout */
    int code;           /* to return */
};

static const int forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

static void __attribute__((format(printf, 1, 2))) say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("braid run: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

/* ---- the command line ---- */

/* 0: go on; else the exit code + 1. */
static int parse(struct job *job, int argc, char **argv)
{
    const struct br_option options[] = {
        {"ranks", 'n', BR_OPTION_NUMBER, &job->size, 1, RANKS_MAX, "N processes to start (default: 1)"},
        {"rails", 0, BR_OPTION_NUMBER, &job->rails, 1, RAILS_MAX, "R connections to each peer (BRAID_RAILS)"},
        {"backend", 0, BR_OPTION_TEXT, &job->backend, 0, 0, "NAME auto, shm, uring, ... (BRAID_BACKEND)"},
        {"bind", 0, BR_OPTION_TEXT, &job->bind, 0, 0,
         "share|none: each rank keeps to its share of the cores (default when there is one for each)"},
        {"secret-file", 0, BR_OPTION_TEXT, &job->secret_file, 0, 0,
         "FILE the job's secret; default: a new random one"},
        {"no-prefix", 0, BR_OPTION_FLAG, &job->no_prefix, 0, 0,
         " output as it comes, without the rank in front"},
        {"timeout", 0, BR_OPTION_NUMBER, &job->timeout, 1, 1000000,
         "SECONDS end the job after this time (code 124)"},
        {0},
    };
    const char *usage = "braid run [-n N] [options] -- COMMAND [ARGUMENT...]";
    int own = 1, rc;

    while (own < argc && strcmp(argv[own], "--") != 0)
        own++;
    rc = br_options_parse(options, own, argv);
    if (rc > 0) {
        br_options_help(options, usage, stdout);
        return 1;
    }
    if (rc < 0 && own == argc)
        say("%s; does '--' miss in front of the command?", br_error_words());
    else if (rc < 0)
        say("%s", br_error_words());
    else if (own + 1 >= argc)
        say("no command to run: %s", usage);
    else if (job->bind && strcmp(job->bind, "share") != 0 && strcmp(job->bind, "none") != 0)
        say("--bind is '%s': it must be share or none", job->bind);
    else
        job->command = argv + own + 1;
    return job->command ? 0 : 3;
}

/* ---- what the ranks need ---- */

static int reserve_port(struct job *job)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    int on = 1;

    job->port_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (job->port_fd < 0)
        return br_error(errno, "no socket: %s", strerror(errno));
    setsockopt(job->port_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(job->port_fd, (struct sockaddr *)&address, sizeof address) < 0 ||
        getsockname(job->port_fd, (struct sockaddr *)&address, &bytes) < 0)
        return br_error(errno, "no free port on 127.0.0.1: %s", strerror(errno));
    job->port = ntohs(address.sin_port);
    return 0;
}

/* A new secret, or a look at the file, so that its trouble is told once and not by each rank. */
static int prepare_secret(struct job *job)
{
    struct br_environment environment = {.size = (uint32_t)job->size};
    unsigned char random[BR_SECRET_KEY_BYTES];
    struct br_secret secret;
    int rc;

    if (sodium_init() < 0)
        return br_error(EIO, "libsodium does not start: the system has no random numbers");
    unsetenv("BRAID_SECRET");
    unsetenv("BRAID_SECRET_FILE");
    unsetenv("BRAID_INSECURE");
    if (job->secret_file) {
        setenv("BRAID_SECRET_FILE", job->secret_file, 1);
        rc = br_secret_read(&environment, NULL, &secret);
        br_secret_wipe(&secret);
        return rc;
    }
    randombytes_buf(random, sizeof random);
    sodium_bin2hex(job->secret, sizeof job->secret, random, sizeof random);
    setenv("BRAID_SECRET", job->secret, 1);
    return 0;
}

static void set_number(const char *name, int64_t value)
{
    char text[24];

    snprintf(text, sizeof text, "%lld", (long long)value);
    setenv(name, text, 1);
}

/* What is the same for all ranks. Removes what an outer job may have left: each of it would win over ours. */
static void prepare_environment(const struct job *job)
{
    static const char *const outer[] = {
        "BRAID_RANK",        "BRAID_WORLD_SIZE", "BRAID_LOCAL_RANK",   "BRAID_LOCAL_WORLD_SIZE",
        "BRAID_MASTER_ADDR", "BRAID_PORT",       "TORCHELASTIC_RUN_ID"};

    for (size_t i = 0; i < sizeof outer / sizeof *outer; i++)
        unsetenv(outer[i]);
    set_number("WORLD_SIZE", job->size);
    set_number("LOCAL_WORLD_SIZE", job->size);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    set_number("MASTER_PORT", job->port);
    if (job->rails)
        set_number("BRAID_RAILS", job->rails);
    if (job->backend)
        setenv("BRAID_BACKEND", job->backend, 1);
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
static void raise_file_limit(const struct job *job)
{
    struct rlimit limit;
    rlim_t needed = 4 * (rlim_t)job->size + 64;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < needed) {
        limit.rlim_cur = needed < limit.rlim_max ? needed : limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int prepare(struct job *job)
{
    int rc;

    job->ranks = calloc((size_t)job->size, sizeof *job->ranks);
    for (int i = 0; job->ranks && i < job->size; i++)
        job->ranks[i].out.from = job->ranks[i].err.from = -1;
    job->polls = calloc(1 + 2 * (size_t)job->size, sizeof *job->polls);
    if (!job->ranks || !job->polls)
        return br_error(ENOMEM, "no memory for %d ranks", (int)job->size);
    rc = prepare_secret(job);
    if (rc < 0)
        return rc;
    rc = reserve_port(job);
    if (rc < 0)
        return rc;
    prepare_environment(job);
    return prepare_signals(job);
}

/* ---- ranks ---- */

static int open_output(struct job *job, int i, struct br_run_start *start)
{
    struct rank *rank = &job->ranks[i];
    int rc;

    if (job->no_prefix)
        return 0;
    rc = br_run_output_open(&rank->out, i, (int)job->size, 1, &start->out);
    return rc < 0 ? rc : br_run_output_open(&rank->err, i, (int)job->size, 2, &start->err);
}

static int start_rank(struct job *job, int i)
{
    struct br_run_start start = {.in = -1, .out = -1, .err = -1, .argv = job->command};
    cpu_set_t share;
    int rc;

    /* A process group in the background cannot read from the terminal, and one file is for one rank. */
    if (i > 0 || isatty(0))
        start.in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    set_number("RANK", i);
    set_number("LOCAL_RANK", i);
    if (!(job->bind && !strcmp(job->bind, "none")) && br_run_share_of_cores(i, (int)job->size, &share))
        start.cpus = &share;
    rc = open_output(job, i, &start);
    if (rc == 0)
        rc = br_run_process_start(&job->keeper, &start, &job->ranks[i].pid);
    if (rc == 0)
        job->running++;
    else
        job->ranks[i].pid = 0;
    if (start.in >= 0)
        close(start.in);
    if (start.out >= 0)
        close(start.out);
    if (start.err >= 0)
        close(start.err);
    return rc;
}

static void signal_all(const struct job *job, int number)
{
    for (int i = 0; i < job->size; i++)
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
    signal_all(job, number);
}

static void copy_output(struct job *job, struct br_run_output *output)
{
    if (br_run_output_copy(output) < 0)
        end_job(job, CODE_SIGNAL + SIGPIPE, SIGTERM); /* nobody reads us: as a pipe would end us */
}

/* Names the rank that failed first and ends the job. */
static void blame(struct job *job, int rank, pid_t pid, int status)
{
    const char *others = job->running ? ", ending the others" : "";

    if (WIFEXITED(status))
        say("rank %d (process %d) ended with exit code %d%s", rank, (int)pid, WEXITSTATUS(status), others);
    else
        say("rank %d (process %d) was killed by signal %d (%s)%s%s", rank, (int)pid, WTERMSIG(status),
            strsignal(WTERMSIG(status)), WCOREDUMP(status) ? ", core dumped" : "", others);
    end_job(job, WIFEXITED(status) ? WEXITSTATUS(status) : CODE_SIGNAL + WTERMSIG(status), SIGTERM);
}

static void blame_suspect(struct job *job)
{
    if (job->suspect >= 0 && !job->ending)
        blame(job, job->suspect, job->suspect_pid, job->suspect_status);
    job->blame_at = UINT64_MAX;
}

static void take_end(struct job *job, pid_t pid, int status)
{
    int i = 0;

    while (i < job->size && job->ranks[i].pid != pid)
        i++;
    if (i == job->size)
        return; /* a process that a rank has left behind */
    job->ranks[i].pid = 0;
    job->running--;
    copy_output(job, &job->ranks[i].out); /* its own last words come first */
    copy_output(job, &job->ranks[i].err);
    if (job->ending || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
        return;
    if (WIFSIGNALED(status)) {
        blame(job, i, pid, status);
    } else if (job->suspect < 0) {
        job->suspect = i;
        job->suspect_pid = pid;
        job->suspect_status = status;
        job->blame_at = br_clock_now() + PATIENCE;
    }
}

/* ---- the loop ---- */

static void take_signal(struct job *job, int number)
{
    if (number == SIGUSR1 || number == SIGUSR2) {
        signal_all(job, number);
    } else if (job->ending) {
        signal_all(job, SIGKILL); /* somebody insists */
    } else {
        say("%s: ending the job", strsignal(number));
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
    while ((pid = br_run_process_reap(&job->keeper, &status)) > 0)
        take_end(job, pid, status);
}

static void take_time(struct job *job)
{
    uint64_t now = br_clock_now();

    if (now >= job->blame_at)
        blame_suspect(job);
    if (now >= job->over_at && !job->ending) {
        say("not done after %lld s, ending all ranks", (long long)job->timeout);
        end_job(job, CODE_TIMEOUT, SIGTERM);
    }
    if (now >= job->kill_at) {
        say("%d rank%s did not end in time, killing", job->running, job->running > 1 ? "s" : "");
        job->kill_at = UINT64_MAX;
        signal_all(job, SIGKILL);
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

static void run(struct job *job)
{
    while (job->running) {
        job->polls[0] = (struct pollfd){.fd = job->signals, .events = POLLIN};
        for (int i = 0; i < job->size; i++) {
            job->polls[1 + 2 * i] = (struct pollfd){.fd = job->ranks[i].out.from, .events = POLLIN};
            job->polls[2 + 2 * i] = (struct pollfd){.fd = job->ranks[i].err.from, .events = POLLIN};
        }
        if (poll(job->polls, 1 + 2 * (nfds_t)job->size, wait_ms(job)) > 0) {
            for (int i = 0; i < job->size; i++) {
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

static void start_all(struct job *job)
{
    for (int i = 0; i < job->size && !job->ending; i++) {
        int rc = start_rank(job, i);

        if (rc < 0) {
            say("%s", br_error_words());
            end_job(job, rc == -ENOENT ? 127 : 126, SIGKILL);
        }
    }
}

/* In reverse order; the last output comes after everyone who could write it is gone. */
static void finish(struct job *job)
{
    br_run_keeper_stop(&job->keeper);
    for (int i = 0; job->ranks && i < job->size; i++) {
        copy_output(job, &job->ranks[i].out);
        copy_output(job, &job->ranks[i].err);
        br_run_output_close(&job->ranks[i].out);
        br_run_output_close(&job->ranks[i].err);
    }
    if (job->signals >= 0)
        close(job->signals);
    if (job->port_fd >= 0)
        close(job->port_fd);
    sodium_memzero(job->secret, sizeof job->secret);
    free(job->polls);
    free(job->ranks);
}

int br_tool_run(int argc, char **argv)
{
    struct job job = {.size = 1,
                      .signals = -1,
                      .port_fd = -1,
                      .kill_at = UINT64_MAX,
                      .over_at = UINT64_MAX,
                      .suspect = -1,
                      .blame_at = UINT64_MAX};
    int rc = parse(&job, argc, argv);

    if (rc)
        return rc - 1;
    raise_file_limit(&job);
    if (br_run_keeper_start(&job.keeper) < 0) {
        say("%s", br_error_words());
        return 1;
    }
    if (prepare(&job) < 0) {
        say("%s", br_error_words());
        job.code = 1;
    } else {
        if (job.timeout)
            job.over_at = br_clock_now() + (uint64_t)job.timeout * BR_SEC;
        start_all(&job);
        run(&job);
    }
    finish(&job);
    return job.code;
}
