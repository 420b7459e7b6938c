/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/testbed/remote.h"

#include "base/clock.h"
#include "base/error.h"
#include "tools/testbed/namespace.h"
#include "tools/run/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SSH_LOST   255 /* ssh's code for its own trouble */
#define SAID_MAX   (64UL << 20)
#define READ_BYTES 65536
#define STEP_MS    5 /* between looks for the end of a process */
#define GRACE_MS   200

/* ---- one command ----------------------------------------------------------------------------- */

char *br_remote_quote(const char *argument)
{
    size_t quotes = 0;
    char *text, *to;

    for (const char *c = argument; *c; c++)
        quotes += *c == '\'';
    text = malloc(strlen(argument) + 3 * quotes + 3);
    if (!text)
        return NULL;
    to = text;
    *to++ = '\'';
    for (const char *c = argument; *c; c++) {
        if (*c == '\'')
            to = stpcpy(to, "'\\'");
        *to++ = *c;
    }
    *to++ = '\'';
    *to = 0;
    return text;
}

static int remote_enter(const void *where)
{
    const struct br_remote_host *host = where;

    return br_namespace_enter(host->where, host->name);
}

/* ssh's own arguments, then the command as one quoted line. NULL: no memory. free() the result; the
 * texts stay valid as long as *line, to be freed too. */
static char **ssh_argv(const struct br_remote_host *host, char *const argv[], char **line)
{
    static const char *const options[] = {"ssh",
                                          "-oBatchMode=yes",
                                          "-oConnectTimeout=10",
                                          "-oServerAliveInterval=5",
                                          "-oServerAliveCountMax=3",
                                          "-T",
                                          "--"};
    const size_t n = sizeof options / sizeof *options;
    char **all = calloc(n + 3, sizeof *all);
    size_t bytes = 0;
    FILE *stream = open_memstream(line, &bytes);

    for (size_t i = 0; all && i < n; i++)
        all[i] = (char *)(uintptr_t)options[i];
    for (size_t i = 0; stream && argv[i]; i++) {
        char *quoted = br_remote_quote(argv[i]);

        fprintf(stream, "%s%s", i ? " " : "", quoted ? quoted : "");
        free(quoted);
    }
    if (!all || !stream || fclose(stream) != 0) {
        free(all);
        return NULL;
    }
    all[n] = (char *)(uintptr_t)host->where;
    all[n + 1] = *line;
    return all;
}

/* Pipes for 0, 1, 2: ours are left in *reach, the command's in *start. */
static int open_pipes(struct br_remote *remote, struct br_run_process_options *start)
{
    int *ours[3] = {&remote->in, &remote->out, &remote->err},
        *theirs[3] = {&start->in, &start->out, &start->err};

    for (int i = 0; i < 3; i++) {
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0)
            return br_error(errno, "no pipe: %s", strerror(errno));
        *ours[i] = ends[i == 0];
        *theirs[i] = ends[i != 0];
        fcntl(*ours[i], F_SETFL, O_NONBLOCK);
    }
    return 0;
}

static void remote_shut(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void shut_all(struct br_remote *remote)
{
    remote_shut(&remote->in);
    remote_shut(&remote->out);
    remote_shut(&remote->err);
}

int br_remote_start(struct br_remote *remote, const struct br_remote_host *host, char *const argv[])
{
    struct br_run_process_options start = {.in = -1, .out = -1, .err = -1, .argv = argv};
    char *line = NULL, **ssh = NULL;
    int rc;

    *remote = (struct br_remote){.host = host, .in = -1, .out = -1, .err = -1};
    if (host->kind == BR_REMOTE_NAMESPACE) {
        start.enter = remote_enter;
        start.where = host;
    } else if (host->kind == BR_REMOTE_SSH) {
        start.argv = ssh = ssh_argv(host, argv, &line);
    }
    rc = start.argv ? open_pipes(remote, &start) : br_error(ENOMEM, "no memory for a command");
    if (rc == 0)
        rc = br_run_process_start(NULL, &start, &remote->pid);
    if (rc < 0) {
        remote->pid = 0;
        shut_all(remote);
        br_error_prefix(rc, "host %s: ", host->name);
    }
    remote_shut(&start.in);
    remote_shut(&start.out);
    remote_shut(&start.err);
    free(ssh);
    free(line);
    return rc;
}

/* Takes the end of the process, if it has come: the group goes with it. */
static bool remote_ended(struct br_remote *remote, int *status)
{
    siginfo_t info = {0};

    /* Looks first: until it is reaped its number is its group's and nobody else's. */
    if (waitid(P_PID, (id_t)remote->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && !info.si_pid)
        return false;
    kill(-remote->pid, SIGKILL);
    if (waitpid(remote->pid, status, 0) < 0)
        *status = 127 << 8; /* somebody else has reaped it */
    remote->pid = 0;
    return true;
}

static int remote_code_of(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int br_remote_end(struct br_remote *remote, int grace_ms)
{
    uint64_t kill_at = br_clock_now() + (uint64_t)grace_ms * BR_MS;
    int status = 0;

    shut_all(remote);
    while (!remote_ended(remote, &status)) {
        if (br_clock_now() >= kill_at)
            kill(-remote->pid, SIGKILL);
        usleep(STEP_MS * 1000);
    }
    if (remote->host->kind == BR_REMOTE_SSH && remote_code_of(status) == SSH_LOST)
        return br_error(EHOSTUNREACH, "host %s: ssh %s failed", remote->host->name,
                        remote->host->where);
    return remote_code_of(status);
}

/* ---- many commands --------------------------------------------------------------------------- */

/* A task under way. */
struct run {
    struct br_remote_task *task; /* NULL: free */
    struct br_remote reach;
    size_t written;
    uint64_t over_at; /* ns; UINT64_MAX: no limit */
    uint64_t drop_at; /* it has ended: when to give up on pipes that others hold */
};

static void __attribute__((format(printf, 3, 4)))
remote_refuse(struct br_remote_task *task, int rc, const char *format, ...)
{
    va_list args;

    if (task->rc)
        return;
    task->rc = rc;
    va_start(args, format);
    vsnprintf(task->message, sizeof task->message, format, args);
    va_end(args);
}

static void remote_feed(struct run *run)
{
    struct br_remote_task *task = run->task;

    while (run->written < task->input_bytes) {
        ssize_t n =
            write(run->reach.in, task->input + run->written, task->input_bytes - run->written);

        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0 && errno != EINTR)
            break; /* it does not read: its own affair */
        if (n > 0)
            run->written += (size_t)n;
    }
    remote_shut(&run->reach.in);
}

/* Appends what there is to *text. */
static void remote_drain(struct br_remote_task *task, int *fd, char **text, size_t *bytes)
{
    while (*fd >= 0) {
        char *larger = *bytes < SAID_MAX ? realloc(*text, *bytes + READ_BYTES + 1) : NULL;
        ssize_t n;

        if (!larger) {
            remote_refuse(task, -E2BIG, "host %s: it says more than %lu MiB", task->host->name,
                          SAID_MAX >> 20);
            remote_shut(fd);
            return;
        }
        *text = larger;
        n = read(*fd, larger + *bytes, READ_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0)
            remote_shut(fd);
        else
            *bytes += (size_t)n;
    }
}

static void start_run(struct run *run, struct br_remote_task *task, int timeout_ms)
{
    int rc;

    *run = (struct run){.task = task, .over_at = UINT64_MAX, .drop_at = UINT64_MAX};
    rc = br_remote_start(&run->reach, task->host, task->argv);
    if (rc < 0) {
        remote_refuse(task, rc, "%s", br_error_message());
        run->task = NULL;
        return;
    }
    if (timeout_ms)
        run->over_at = br_clock_now() + (uint64_t)timeout_ms * BR_MS;
    remote_feed(run);
}

/* The last line that ssh said is why. */
static void refuse_lost(struct br_remote_task *task)
{
    size_t n = task->err_bytes, from;

    while (n && strchr("\r\n", task->err[n - 1]))
        n--;
    for (from = n; from && task->err[from - 1] != '\n'; from--)
        ;
    remote_refuse(task, -EHOSTUNREACH, "host %s: ssh %s: %.*s; it must log in without a password",
                  task->host->name, task->host->where, (int)(n - from),
                  task->err ? task->err + from : "");
}

/* Both ended and drained: the task is done. */
static void finish_run(struct run *run)
{
    struct br_remote_task *task = run->task;

    shut_all(&run->reach);
    if (task->host->kind == BR_REMOTE_SSH && task->code == SSH_LOST)
        refuse_lost(task);
    run->task = NULL;
}

static void step_run(struct run *run)
{
    struct br_remote_task *task = run->task;
    uint64_t now = br_clock_now();
    int status;

    if (run->reach.in >= 0)
        remote_feed(run);
    remote_drain(task, &run->reach.out, &task->out, &task->out_bytes);
    remote_drain(task, &run->reach.err, &task->err, &task->err_bytes);
    if (run->reach.pid && (now >= run->over_at || task->rc)) {
        remote_refuse(task, -ETIMEDOUT, "host %s: '%s' did not end in time", task->host->name,
                      task->argv[0]);
        kill(-run->reach.pid, SIGKILL);
    }
    if (run->reach.pid && remote_ended(&run->reach, &status)) {
        task->code = remote_code_of(status);
        run->drop_at = now + GRACE_MS * BR_MS;
    }
    if (!run->reach.pid && ((run->reach.out < 0 && run->reach.err < 0) || now >= run->drop_at))
        finish_run(run);
}

/* Sleeps until a command says something or might have ended. */
static void wait_for_any(const struct run *runs, struct pollfd *polls, int n)
{
    nfds_t count = 0;

    for (int i = 0; i < n; i++) {
        const struct br_remote *remote = &runs[i].reach;

        if (!runs[i].task)
            continue;
        polls[count++] = (struct pollfd){.fd = remote->in, .events = POLLOUT};
        polls[count++] = (struct pollfd){.fd = remote->out, .events = POLLIN};
        polls[count++] = (struct pollfd){.fd = remote->err, .events = POLLIN};
    }
    poll(polls, count, STEP_MS);
}

static bool end_texts(struct br_remote_task *tasks, int count)
{
    bool good = true;

    for (int i = 0; i < count; i++) {
        if (!tasks[i].out)
            tasks[i].out = calloc(1, 1);
        if (!tasks[i].err)
            tasks[i].err = calloc(1, 1);
        if (tasks[i].out)
            tasks[i].out[tasks[i].out_bytes] = 0;
        if (tasks[i].err)
            tasks[i].err[tasks[i].err_bytes] = 0;
        good = good && tasks[i].out && tasks[i].err;
    }
    return good;
}

/* Keeps `at_once` of them going until all are done. */
static void run_tasks(struct run *runs, struct pollfd *polls, struct br_remote_task *tasks,
                      int count, int at_once, int timeout_ms)
{
    int next = 0, busy;

    do {
        busy = 0;
        for (int i = 0; i < at_once; i++) {
            if (!runs[i].task && next < count)
                start_run(&runs[i], &tasks[next++], timeout_ms);
            if (runs[i].task)
                step_run(&runs[i]);
            busy += runs[i].task != NULL;
        }
        if (busy)
            wait_for_any(runs, polls, at_once);
    } while (busy || next < count);
}

int br_remote_all(struct br_remote_task *tasks, int count, int at_once, int timeout_ms)
{
    struct pollfd *polls;
    struct run *runs;
    int failed = 0;

    if (at_once <= 0 || at_once > count)
        at_once = count;
    for (int i = 0; i < count; i++) {
        struct br_remote_task *task = &tasks[i];

        *task = (struct br_remote_task){.host = task->host,
                                        .argv = task->argv,
                                        .input = task->input,
                                        .input_bytes = task->input_bytes};
    }
    runs = calloc((size_t)at_once + 1, sizeof *runs);
    polls = calloc(3 * (size_t)at_once + 1, sizeof *polls);
    if (runs && polls) {
        signal(SIGPIPE, SIG_IGN);
        run_tasks(runs, polls, tasks, count, at_once, timeout_ms);
    }
    if (!runs || !polls || !end_texts(tasks, count))
        failed = br_error(ENOMEM, "no memory for the commands of %d hosts", count);
    free(polls);
    free(runs);
    for (int i = 0; i < count && failed >= 0; i++)
        failed += tasks[i].rc != 0;
    return failed;
}

void br_remote_free(struct br_remote_task *tasks, int count)
{
    for (int i = 0; i < count; i++) {
        free(tasks[i].out);
        free(tasks[i].err);
        tasks[i].out = tasks[i].err = NULL;
        tasks[i].out_bytes = tasks[i].err_bytes = 0;
    }
}
