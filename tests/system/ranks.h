/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks as real processes: each is a child that joins the job through braid_init() with a
 * configuration, not through the environment, and runs one function. A child that hangs is killed
 * after RANKS_LIMIT seconds, and the test fails.
 */
#ifndef BR_TESTS_SYSTEM_RANKS_H
#define BR_TESTS_SYSTEM_RANKS_H

#include <stdbool.h>
#include <stdio.h>

#include <braid/braid.h>

#include "tests/says.h"

#define RANKS_LIMIT 240
/* Ms of a call whose deadline is not what is tested: one that hangs says so before its rank is
 * killed. */
#define RANKS_PATIENCE 180000
/* Ms in which happens what must not wait for that: any process may stand still for seconds. */
#define RANKS_SOON    60000
#define RANKS_MOST    16
#define RANKS_KIND(j) (j)->backend, (j)->devices ? (j)->devices : "-"

/* A job; zeros are defaults. */
struct ranks {
    int size;
    /* that believe to be on one host, and the others on others (needs root); 0: all */
    int per_host;
    const char *backend; /* "tcp", "shm", "auto" */
    const char *devices; /* '#': the rank, which is below 10 then */
    const char *topology;
    uint32_t slice_bytes, eager_bytes;
    int timeout_ms, init_timeout_ms, peer_timeout_ms;
};

/* What a rank does between braid_init() and braid_finalize(); 0: all is well. What it prints to
 * stderr explains the rest. */
typedef int ranks_main(struct braid_comm *comm, void *context);

/* Runs `body` on every rank; the cmocka test fails unless all of them return 0. */
void ranks_run(const struct ranks *job, ranks_main *body, void *context);

/* Five ways to connect ranks of this host. */
extern const struct ranks ranks_kinds[];
#define RANKS_KINDS   5
#define RANKS_STREAMS 4 /* the first ones, without udp */

/* Is this one of them tried? Under ThreadSanitizer one rail and auto are not: their threads are
 * those of two rails and of shm. */
bool ranks_tried(int kind);

/* ranks_run() over the first `kinds` of them that are tried; calls have RANKS_PATIENCE. */
void ranks_everywhere(int kinds, int size, ranks_main *body);

void ranks_sleep_ms(int ms);
double ranks_now_ms(void);

/* Order between ranks of a job without braid: waits until `n` ranks have told `event`, 0 to
 * RANKS_EVENTS - 1. Each job begins anew. */
#define RANKS_EVENTS 4
void ranks_tell(int event);
bool ranks_told(int event, int n); /* have that many already? */
void ranks_await(int event, int n);

/* In a rank: takes the results of n operations in one of four ways, 0 to 3: by braid_wait(), by
 * braid_test(), by braid_wait_any() or by braid_wait_all(). Not 0: one has failed, or its handle is
 * still there behind it. */
int ranks_take_all(struct braid_op **ops, int n, int way);

/* In a rank: says what went wrong and where, and returns 1 from the function around. */
#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                        \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fprintf(stderr, " (not: %s; last error: %s)\n", #condition, braid_last_error());       \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

/* In a rank: a call that must return `rc`. */
#define RETURNS(rc, call)                                                                          \
    do {                                                                                           \
        int got_ = (call);                                                                         \
                                                                                                   \
        CHECK(got_ == (rc), "got %d, not %d", got_, (rc));                                         \
    } while (0)

/* The same, and the words must name all of `nouns` (tests/says.h). */
#define SAYS(rc, nouns, call)                                                                      \
    do {                                                                                           \
        RETURNS(rc, call);                                                                         \
        CHECK(says_all(braid_last_error(), nouns), "the words do not name all of \"%s\"", nouns);  \
    } while (0)

#endif
