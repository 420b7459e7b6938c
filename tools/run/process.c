/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/run/process.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define GROUPS_MAX  4096 /* ranks of a launcher */
#define SWEEPS      100  /* looks for what is left of our children, 10 ms apart */
#define SWEEP_PAUSE 10000

/* ---- the keeper ------------------------------------------------------------------------------ */

/* Reads groups: n > 0 has started, n < 0 has ended. At the end of the pipe, or of the launcher,
 * kills those that are there. */
static void __attribute__((noreturn)) run_watchdog_main(int from)
{
    static pid_t groups[GROUPS_MAX];
    int n = 0;
    pid_t group;
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setsid(); /* out of reach of the terminal's signals */
    while (read(from, &group, sizeof group) == (ssize_t)sizeof group) {
        if (group > 0 && n < GROUPS_MAX)
            groups[n++] = group;
        for (int i = 0; i < n && group < 0; i++)
            if (groups[i] == -group)
                groups[i] = groups[--n];
    }
    for (int i = 0; i < n; i++)
        kill(-groups[i], SIGKILL);
    _exit(0);
}

static void run_watchdog_notify(const struct br_run_watchdog *watchdog, pid_t group)
{
    while (watchdog && write(watchdog->pipe, &group, sizeof group) < 0 && errno == EINTR)
        ;
}

int br_run_watchdog_start(struct br_run_watchdog *watchdog)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return br_error(errno, "no pipe: %s", strerror(errno));
    watchdog->pid = fork();
    if (watchdog->pid < 0) {
        int err = errno;

        close(ends[0]);
        close(ends[1]);
        return br_error(err, "cannot start a process: %s", strerror(err));
    }
    if (watchdog->pid == 0) {
        close(ends[1]);
        for (int fd = 0; fd <= 2; fd++)
            close(fd); /* who reads our output must see its end when we have ended */
        run_watchdog_main(ends[0]);
    }
    close(ends[0]);
    watchdog->pipe = ends[1];
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    return 0;
}

/* Kills every child but the keeper. Returns how many there were. */
static int kill_children(const struct br_run_watchdog *watchdog)
{
    char path[64];
    FILE *file;
    int n = 0, pid;

    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    file = fopen(path, "re");
    if (!file)
        return 0;
    while (fscanf(file, "%d", &pid) == 1) {
        if (pid != watchdog->pid) {
            kill(pid, SIGKILL);
            n++;
        }
    }
    fclose(file);
    return n;
}

void br_run_watchdog_stop(struct br_run_watchdog *watchdog)
{
    int status;

    for (int i = 0; i < SWEEPS && kill_children(watchdog); i++) {
        usleep(SWEEP_PAUSE);
        while (br_run_process_reap(watchdog, &status) > 0)
            ;
    }
    close(watchdog->pipe);
    while (waitpid(watchdog->pid, &status, 0) < 0 && errno == EINTR)
        ;
}

/* ---- processes ------------------------------------------------------------------------------- */

/* Why a process could not become its command; crosses a pipe. */
struct refusal {
    int rc; /* negative errno */
    char message[BR_ERROR_BYTES];
};

static void run_process_find(int fd, int number)
{
    if (fd >= 0)
        dup2(fd, number); /* the copy is not closed by exec */
}

/* In the child. Does not return; on failure `report` says why. */
static void __attribute__((noreturn))
run_process_become(const struct br_run_process_options *start, pid_t launcher, int report)
{
    struct refusal refusal = {0};
    sigset_t none;

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher)
        _exit(1); /* it was gone before we asked */
    run_process_find(start->in, 0);
    run_process_find(start->out, 1);
    run_process_find(start->err, 2);
    if (start->cpus)
        sched_setaffinity(0, sizeof *start->cpus,
                          start->cpus); /* a wish: without it the rank is only slower */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    refusal.rc = start->enter ? start->enter(start->where) : 0;
    if (refusal.rc == 0) {
        execvp(start->argv[0], start->argv);
        refusal.rc = br_error(errno, "cannot run '%s': %s", start->argv[0], strerror(errno));
    }
    snprintf(refusal.message, sizeof refusal.message, "%s", br_error_message());
    while (write(report, &refusal, sizeof refusal) < 0 && errno == EINTR)
        ;
    _exit(127);
}

/* Waits for exec, which closes the pipe, or for why there was none. */
static int wait_for_exec(int report)
{
    struct refusal refusal;
    ssize_t n;

    do
        n = read(report, &refusal, sizeof refusal);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof refusal ? br_error(-refusal.rc, "%s", refusal.message) : 0;
}

bool br_run_core_set(int i, int n, cpu_set_t *share)
{
    int cores, low, high;
    cpu_set_t all;

    if (sched_getaffinity(0, sizeof all, &all) || (cores = CPU_COUNT(&all)) < n)
        return false;
    low = cores * i / n;
    high = cores * (i + 1) / n;
    CPU_ZERO(share);
    for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE && seen < high; cpu++)
        if (CPU_ISSET((size_t)cpu, &all) && seen++ >= low)
            CPU_SET((size_t)cpu, share);
    return true;
}

int br_run_process_start(struct br_run_watchdog *watchdog,
                         const struct br_run_process_options *start, pid_t *pid)
{
    pid_t launcher = getpid();
    int report[2], err, rc;

    if (pipe2(report, O_CLOEXEC) < 0)
        return br_error(errno, "no pipe: %s", strerror(errno));
    *pid = fork();
    if (*pid == 0)
        run_process_become(start, launcher, report[1]);
    err = errno;
    close(report[1]);
    if (*pid < 0) {
        close(report[0]);
        return br_error(err, "cannot start a process: %s", strerror(err));
    }
    setpgid(*pid, *pid); /* whoever is first */
    run_watchdog_notify(watchdog, *pid);
    rc = wait_for_exec(report[0]);
    close(report[0]);
    if (rc < 0) {
        run_watchdog_notify(watchdog, -*pid);
        waitpid(*pid, NULL, 0);
    }
    return rc;
}

pid_t br_run_process_reap(struct br_run_watchdog *watchdog, int *status)
{
    for (;;) {
        siginfo_t info = {0};

        /* Looks first: until it is reaped its number is its group's and nobody else's. */
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || !info.si_pid)
            return 0;
        if (info.si_pid != watchdog->pid && kill(-info.si_pid, SIGKILL) == 0)
            run_watchdog_notify(watchdog, -info.si_pid);
        waitpid(info.si_pid, status, 0);
        if (info.si_pid != watchdog->pid)
            return info.si_pid;
    }
}
