/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether this process is one of a job, for commands that do something else where it is not. */
#ifndef BR_TOOLS_COMMON_JOB_H
#define BR_TOOLS_COMMON_JOB_H

#include <stdbool.h>

/* Has a launcher started this process (protocol/bootstrap/launcher.h)? Also where it is one that
 * braid does not know: braid_init() says so. */
bool br_job_launched(void);

/* This process's rank, for words of a command whose braid_init() has not succeeded; -1: there is no
 * launcher, or it does not say. Keeps the thread's error message. May ask the launcher. */
int br_job_rank(void);

#endif
