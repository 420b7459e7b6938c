/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starts the processes of a job, shows what they say, and ends them all together: what `braid run`
 * and `braid bcube run` share.
 *
 * 1. One thread, one poll(): signals come through a signalfd, output through pipes, deadlines
 *    through the timeout.
 * 2. The first process that fails ends the job: SIGTERM to the others, SIGKILL to those that are
 *    there some seconds later. What the others say after that is a consequence, so only the first
 *    is named and its code is returned. A process that is killed may be seen to end after those who
 *    gave up because of it (the kernel closes its connections before it reports its end), so one
 *    that exits with a code is blamed only after a moment, if no other was killed meanwhile.
 * 3. SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on and end the job, SIGUSR1 and SIGUSR2 are
 *    passed on.
 */
#ifndef BR_TOOLS_RUN_LAUNCH_H
#define BR_TOOLS_RUN_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/bootstrap/secret.h"

#define BR_LAUNCH_NAME  64 /* bytes of the name of a process */
#define BR_LAUNCH_LABEL 32 /* and of what stands in front of its lines */

/* What a launcher holds for its job; { .port_fd = -1 } at first, filled in by `prepare`. */
struct br_launch_resources {
    int port_fd;                              /* of br_socket_reserve() */
    char secret[2 * BR_SECRET_KEY_BYTES + 1]; /* of br_launch_secret() */
};

struct br_launch {
    const char *who;      /* in front of our own messages: "braid run" */
    int count;            /* of processes */
    char *const *command; /* NULL-terminated */
    bool no_prefix;       /* output as it comes, without a label in front */
    /* each process keeps to its share of the cores, when there is one for each */
    bool bind_cores;
    int64_t timeout;                       /* s; 0: none. The job is ended with code 124 then. */
    struct br_launch_resources *resources; /* closed and wiped at the end */

    /* for the functions below, all called in the launcher but `enter` */
    void *with;
    int (*prepare)(void *with);             /* once, first. Negative errno with a message */
    void (*environment)(void *with, int i); /* setenv() what differs; before i is started */
    void (*name)(void *with, int i, char out[BR_LAUNCH_NAME]);   /* "rank 3" */
    void (*label)(void *with, int i, char out[BR_LAUNCH_LABEL]); /* "3" */
    /* NULL, or called in process i before its command is executed, as a child of the launcher.
     * Negative errno with a message. */
    int (*enter)(void *with, int i);
};

/* Blocks until all have ended. Returns the exit code of the whole: 0; that of the first that
 * failed, 128 + a signal; 124; 126 and 127 as the shell; 1 when nothing could be started. Messages
 * go to stderr. */
int br_launch(const struct br_launch *launch);

/*
 * Puts the job's secret into the environment and removes what an outer job left there. The secret
 * is random, or is read from a file, which is checked here so that an error is reported once. 0, or
 * a negative errno with a message. The caller wipes `hex` at the end.
 */
int br_launch_secret(const char *file, uint32_t size, char hex[2 * BR_SECRET_KEY_BYTES + 1]);

/* Takes variables out of the environment that would win over those that launchers set. */
void br_launch_unset_outer(void);

void br_launch_set_number(const char *name, int64_t value); /* setenv() */

#endif
