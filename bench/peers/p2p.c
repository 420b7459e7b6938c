/* SPDX-License-Identifier: BSD-3-Clause */
#include "p2p.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BLOCKS 15

struct p2p_bench {
    const struct p2p_peer *peer;
    uint8_t *from, *into;
    size_t bytes;
    double budget_us; /* of one figure */
};

/* Does something `times` times on both ranks. */
typedef int p2p_step(struct p2p_bench *bench, long times);

static double microseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* ---- what is measured ------------------------------------------------------------------------ */

static int ping_pong(struct p2p_bench *b, long times)
{
    const struct p2p_peer *p = b->peer;
    for (long i = 0; i < times; i++)
        if (p->rank == 0 ? p->send(b->from, b->bytes) || p->recv(b->into, b->bytes)
                         : p->recv(b->into, b->bytes) || p->send(b->from, b->bytes))
            return 1;
    return 0;
}

static int stream(struct p2p_bench *b, long times)
{
    const struct p2p_peer *p = b->peer;
    for (long i = 0; i < times; i++) {
        for (int k = 0; k < P2P_WINDOW; k++)
            if (p->rank == 0 ? p->start_send(k, b->from, b->bytes)
                             : p->start_recv(k, b->into, b->bytes))
                return 1;
        if (p->wait(P2P_WINDOW) || (p->rank == 0 ? p->recv(b->into, 0) : p->send(b->from, 0)))
            return 1;
    }
    return 0;
}

/* Rank 1 waits in a receive for as long as rank 0 makes `n` accesses a time. */
static int access_memory(struct p2p_bench *b, long times, bool put, int n)
{
    const struct p2p_peer *p = b->peer;
    for (long i = 0; p->rank == 0 && i < times; i++)
        if (put ? p->put(n, b->from, b->bytes) : p->get(n, b->into, b->bytes))
            return 1;
    return p->rank == 0 ? p->send(b->from, 0) : p->recv(b->into, 0);
}

static int put_one(struct p2p_bench *b, long times)
{
    return access_memory(b, times, true, 1);
}

static int put_many(struct p2p_bench *b, long times)
{
    return access_memory(b, times, true, P2P_WINDOW);
}

static int get_one(struct p2p_bench *b, long times)
{
    return access_memory(b, times, false, 1);
}

static int get_many(struct p2p_bench *b, long times)
{
    return access_memory(b, times, false, P2P_WINDOW);
}

/* ---- how ------------------------------------------------------------------------------------- */

/* Rank 0's number, on both. */
static int agree(const struct p2p_bench *b, long *number)
{
    return b->peer->rank == 0 ? b->peer->send(number, sizeof *number)
                              : b->peer->recv(number, sizeof *number);
}

static int timed(struct p2p_bench *b, p2p_step *step, long times, double *each)
{
    double start = microseconds();
    int rc = step(b, times);
    *each = (microseconds() - start) / (double)times;
    return rc;
}

/* *us: the time of one step, in the fastest block. The last one before them is the warm-up. */
static int measure(struct p2p_bench *b, p2p_step *step, double *us)
{
    double each;
    long times = 1, more;
    for (;; times *= 2) {
        if (timed(b, step, times, us))
            return 1;
        more = *us * (double)times < b->budget_us / BLOCKS; /* rank 0's clock decides */
        if (agree(b, &more))
            return 1;
        if (!more)
            break;
    }
    for (int i = 0; i < BLOCKS; i++) {
        if (timed(b, step, times, &each))
            return 1;
        if (each < *us)
            *us = each;
    }
    return 0;
}

static int one_kind(struct p2p_bench *b, const char *kind, p2p_step *one, double parts,
                    p2p_step *many)
{
    double us, all;
    if (measure(b, one, &us) || measure(b, many, &all))
        return 1;
    if (b->peer->rank == 0) {
        printf("%s %zu %.3f %.0f\n", kind, b->bytes, us / parts, P2P_WINDOW / all * 1e6);
        fflush(stdout);
    }
    return 0;
}

static int verify(const struct p2p_bench *b, uint8_t expected)
{
    for (size_t i = 0; b->peer->rank == 0 && i < b->bytes; i++)
        if (b->into[i] != expected) {
            fprintf(stderr, "byte %zu of %zu is %d, must be %d\n", i, b->bytes, b->into[i],
                    expected);
            return 1;
        }
    return 0;
}

/* Rank 1 sends twos; rank 0 puts ones, and gets them back. */
static int one_size(struct p2p_bench *b)
{
    memset(b->from, b->peer->rank + 1, b->bytes);
    return one_kind(b, "message", ping_pong, 2, stream) || verify(b, 2) ||
           one_kind(b, "put", put_one, 1, put_many) || one_kind(b, "get", get_one, 1, get_many) ||
           verify(b, 1);
}

int p2p_measure(const struct p2p_peer *peer, int argc, char **argv)
{
    struct p2p_bench b = {.peer = peer};
    size_t largest = 0;
    for (int i = 1; i < argc; i++) {
        char *end;
        errno = 0;
        unsigned long long number = strtoull(argv[i], &end, 10);
        if (errno || *end || !number || number < largest) {
            fprintf(stderr, "'%s' is no number of milliseconds or, ascending, of bytes\n", argv[i]);
            return 2;
        }
        if (i > 1)
            largest = (size_t)number;
        else
            b.budget_us = 1e3 * (double)number;
    }
    b.from = peer->memory(largest);
    b.into = peer->memory(largest);
    if (!b.from || !b.into || peer->expose(largest))
        return 1;
    for (int i = 2; i < argc; i++) {
        b.bytes = strtoull(argv[i], NULL, 10);
        if (one_size(&b))
            return 1;
    }
    return 0;
}
