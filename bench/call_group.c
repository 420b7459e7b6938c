/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What braid_group_start() and braid_group_end() gain: many small calls one after the other, all
 * with handles, or in a group. By all ranks of a job:
 *
 *   braid run -n 4 --backend tcp -- call_group [options]      --help shows the options
 *
 * Rank 0 prints the median of the rounds, microseconds a call, for all-reduces and for messages to
 * and from every other rank.
 */
#include <stdio.h>
#include <stdlib.h>

#include <braid/braid.h>

#include "base/clock.h"
#include "base/median.h"
#include "tools/common/options.h"

enum way { BLOCKING, HANDLES, GROUP, WAYS };

static int64_t calls = 64, count = 2, rounds = 200;
static float *in, *out;
static struct braid_op **ops;

/* One of the calls; op: as the public functions take it. */
typedef int make_call(struct braid_comm *comm, int64_t i, struct braid_op **op);

static int allreduce(struct braid_comm *comm, int64_t i, struct braid_op **op)
{
    return braid_allreduce(comm, in + i * count, out + i * count, (size_t)count, BRAID_FLOAT32,
                           BRAID_SUM, NULL, op);
}

/* Sends and receives in turn, with each of the other ranks. */
static int message(struct braid_comm *comm, int64_t i, struct braid_op **op)
{
    int size = braid_size(comm), other = 1 + (int)(i / 2 % (size - 1)), rank = braid_rank(comm);
    size_t bytes = (size_t)count * sizeof *in;

    return i % 2 ? braid_recv(comm, out + i * count, bytes, (rank + size - other) % size, NULL, op)
                 : braid_send(comm, in + i * count, bytes, (rank + other) % size, NULL, op);
}

static int once(struct braid_comm *comm, make_call *call, enum way way)
{
    int rc = way == GROUP ? braid_group_start() : 0;

    for (int64_t i = 0; i < calls && !rc; i++)
        rc = call(comm, i, way == HANDLES ? &ops[i] : NULL);
    for (int64_t i = 0; i < calls && !rc && way == HANDLES; i++)
        rc = braid_wait(ops[i], -1);
    if (way == GROUP && !rc)
        rc = braid_group_end();
    return rc;
}

static int measure(struct braid_comm *comm, const char *name, make_call *call)
{
    static const char *const ways[] = {"blocking", "handles", "group"};
    double *times = malloc((size_t)rounds * sizeof *times);
    int rc = times ? 0 : -1;

    for (int way = 0; way < WAYS && !rc; way++) {
        for (int64_t round = -10; round < rounds && !rc; round++) {
            uint64_t began;

            rc = braid_barrier(comm, NULL, NULL);
            began = br_clock_now();
            if (!rc)
                rc = once(comm, call, (enum way)way);
            if (round >= 0)
                times[round] = (double)(br_clock_now() - began) / 1e3 / (double)calls;
        }
        if (!rc && braid_rank(comm) == 0)
            printf("%-10s %-9s %8.2f us a call\n", name, ways[way],
                   br_median(times, (size_t)rounds));
    }
    free(times);
    return rc;
}

int main(int argc, char **argv)
{
    const struct br_option options[] = {
        {"calls", 'c', BR_OPTION_NUMBER, &calls, 2, 1000000, "N calls of a round [64]"},
        {"count", 'e', BR_OPTION_NUMBER, &count, 1, 1 << 20, "N floats of a call [2]"},
        {"rounds", 'r', BR_OPTION_NUMBER, &rounds, 1, 1000000, "N rounds [200]"},
        {0},
    };
    struct braid_comm *comm;
    int rc = br_options_parse(options, "call_group [options]", argc, argv);

    if (rc)
        return rc < 0 ? 2 : 0;
    in = calloc((size_t)(calls * count), sizeof *in);
    out = calloc((size_t)(calls * count), sizeof *out);
    ops = calloc((size_t)calls, sizeof *ops);
    rc = in && out && ops ? braid_init(NULL, &comm) : -1;
    if (!rc) {
        rc = measure(comm, "allreduce", allreduce);
        if (!rc && braid_size(comm) > 1)
            rc = measure(comm, "message", message);
        if (!rc)
            rc = braid_finalize(comm);
    }
    if (rc)
        fprintf(stderr, "call_group: %s\n", braid_last_error());
    return rc ? 1 : 0;
}
