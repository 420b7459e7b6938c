/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The processes of `braid run` and `braid bcube run`.
 *
 * 1. Each rank leads a process group of its own, so that what it has started (the rank may be a
 *    shell script) can be ended with it.
 * 2. Nothing outlives the launcher. Every rank gets SIGKILL from the kernel when the launcher dies.
 *    That reaches only direct children, so a keeper, a process that does nothing but wait for the
 *    end of the launcher, then kills the groups. What has left its group (setsid) becomes the
 *    launcher's child when its parent ends, and is killed at the end.
 * 3. Rejected: a PID namespace, which ends everything by itself but needs privileges.
 */
#ifndef BR_TOOLS_RUN_PROCESS_H
#define BR_TOOLS_RUN_PROCESS_H

#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

struct br_run_watchdog {
    pid_t pid;
    int pipe; /* the keeper reads the groups from the other end, which ends when we do */
};

/* Starts the keeper and makes this process the parent of unacknowledged messages. Before any other
 * file is open that the keeper should not hold. Negative errno with a message. */
int br_run_watchdog_start(struct br_run_watchdog *watchdog);
/* Good end: kills what is left of our children and ends the keeper. */
void br_run_watchdog_stop(struct br_run_watchdog *watchdog);

/* What a process gets; -1 for a descriptor: ours. */
struct br_run_process_options {
    int in, out, err;
    char *const *argv;
    const cpu_set_t *cpus; /* that the process may use; NULL: as the launcher */
    int (*enter)(
        /* NULL, or called in the process before exec; negative errno with a message */
        const void *where);
    const void *where;
};

/* The i-th of n shares of the cores that we may use ourselves; false: there are fewer cores than
 * shares. Ranks that the scheduler puts on one core, because a third process happens to be on the
 * other, wait a time slice for each message. */
bool br_run_core_set(int i, int n, cpu_set_t *share);

/* Starts the command, with our environment, in a group of its own. keeper NULL: nobody kills its
 * group when we die, only itself. -ENOENT, -EACCES and others of execvp(), or those of `enter`,
 * with a message. */
int br_run_process_start(struct br_run_watchdog *watchdog,
                         const struct br_run_process_options *start, pid_t *pid);

/* The next of our children that has ended: its pid and status, its group is killed; 0: none. The
 * keeper is not counted. */
pid_t br_run_process_reap(struct br_run_watchdog *watchdog, int *status);

#endif
