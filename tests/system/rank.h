/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank that works until its time is over or something fails, and says what it sees. Tests run
 * themselves as this program: `test rank MILLISECONDS ELEMENTS [PARTS]`. PARTS: the ranks are split
 * by rank % PARTS, and each part works for itself. */
#ifndef BR_TESTS_SYSTEM_RANK_H
#define BR_TESTS_SYSTEM_RANK_H

#include <signal.h>

#define RANK_FAILED 9 /* exit code: an error that braid reported */
#define RANK_LEAKS  8 /* descriptors or threads are left after braid_finalize() */
#define RANK_WRONG  7 /* a wrong result */

/* What a signal makes it do. Once it works SIGTERM is ignored, so that it gets to say how it
 * ends. */
#define RANK_CUT   SIGUSR1 /* shuts one connected socket of the process down */
#define RANK_ABORT SIGUSR2 /* braid_comm_abort() from another thread */
#define RANK_END   SIGHUP  /* its time is over */
#define RANK_LEAVE SIGALRM /* exits without braid_finalize() */

/*
 * All-reduces float32 in a loop, small and large ones, and checks every value. Lines on stdout:
 *
 *     ready PID                   the first ones are through
 *     rails MASK                  rails to the next rank that are up, as a bit mask; again whenever
 * one has come or gone whole again                 rails to any rank were lost; all are up error
 * ERRNO: WORDS          one of the calls has failed carry K                     behind the K-th
 * "rails": rails 0 and 1 have each sent more than 100,000 bytes since then done N unauthenticated
 * peers S tx A B   N loops; refused unauthenticated peers; bytes sent on each rail to the next rank
 * since the last "rails"
 *
 * Returns the exit code.
 */
int rank_main(int argc, char **argv);

#endif
