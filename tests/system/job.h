/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs of real processes, alone in a world of their own, so that whatever they leave behind is
 * seen. */
#ifndef BR_TESTS_SYSTEM_JOB_H
#define BR_TESTS_SYSTEM_JOB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <sys/types.h>

struct job {        /* zeros, then job_start() */
    pid_t launcher; /* 0: has ended */
    int from;       /* its output and that of the ranks */
    char text[1 << 16];
    size_t bytes;
};

/*
 * To be called first in main(). Returns in a process that has namespaces of its own: of processes,
 * network (with loopback up), mounts (/dev/shm and /run are empty) and abstract sockets. Does not
 * return where it cannot make them: says why and exits with 77 (skipped). `$run` and `$self` in
 * command lines are then `braid run` and this program.
 */
void job_isolate(void);

/* Starts a shell command line. */
void job_start(struct job *job, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Waits until the output contains the words, that often; fails the test when it hangs (a minute,
 * longer in slow builds). */
void job_says(struct job *job, const char *text, int times);
/* Waits until all ranks work (rank.h). */
void job_ready(struct job *job, int ranks);
pid_t job_pid(const struct job *job, int rank); /* after job_ready() */
void job_signal(const struct job *job, int rank, int number);
/* Waits for the end and returns the exit code; fails the test when it hangs, or anything is left: a
 * process, a socket that listens, an abstract socket, a file in /dev/shm. */
int job_end(struct job *job);
/* What follows `words` in the line of the rank's output that begins with them, and 0; fails the
 * test if there is none. */
const char *job_line(const struct job *job, int rank, const char *text, char *line, size_t bytes);
bool job_has_line(const struct job *job, int rank, const char *text);
bool job_has(const struct job *job, const char *text);
/* One line of the output names all of `nouns` (tests/says.h); fails the test otherwise. */
void job_must_have(const struct job *job, const char *nouns);

/* The TCP ports on which somebody listens in this network namespace; returns how many. */
int job_ports(uint16_t *ports, int max);
/* Waits until all connections to them have been accepted. */
void job_accepted(void);

#endif
