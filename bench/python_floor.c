/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What bench/python.py measures, without Python: all-reduces of float64 in place. For each size
 * in bytes that is named, rank 0 prints the size and the median of 31 batches, in microseconds a
 * call.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <braid/braid.h>

#define BATCHES 31

static double now(void) /* us */
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static int measure(struct braid_comm *comm, size_t bytes)
{
    int calls = bytes <= 4096 ? 500 : bytes <= 1 << 20 ? 20 : 3, rc = 0;
    double *x = braid_alloc(comm, bytes), times[BATCHES];

    for (int batch = -3; batch < BATCHES && x && !rc; batch++) { /* the first three warm up */
        double begin;

        rc = braid_barrier(comm, NULL, NULL);
        begin = now();
        for (int i = 0; i < calls && !rc; i++)
            rc = braid_allreduce(comm, x, x, bytes / 8, BRAID_FLOAT64, BRAID_SUM, NULL, NULL);
        if (batch >= 0)
            times[batch] = (now() - begin) / calls;
    }
    if (!x || rc)
        return -1;
    qsort(times, BATCHES, sizeof *times, compare);
    if (braid_rank(comm) == 0)
        printf("%zu %.3f\n", bytes, times[BATCHES / 2]);
    return braid_free(comm, x);
}

int main(int argc, char **argv)
{
    struct braid_comm *comm;
    int rc = braid_init(NULL, &comm);

    for (int i = 1; i < argc && !rc; i++)
        rc = measure(comm, strtoull(argv[i], NULL, 10));
    if (rc)
        fprintf(stderr, "%s\n", braid_last_error());
    else
        rc = braid_finalize(comm);
    return rc != 0;
}
