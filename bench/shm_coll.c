/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce of floats over the shared segment, bare: one process a rank, pinned round robin; ranks
 * yield when there are more of them than CPUs. "direct": everybody reads everything. "split":
 * everybody reduces its part, publishes that, and collects.
 *
 *   shm_coll [-n RANKS]     default: 2
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/numa.h"
#include "collectives/shm/coll.h"
#include "tools/common/options.h"

#define TIMES 5000

static struct br_shm_coll coll;
static uint64_t epoch_now;
static int yields;

static void await(uint32_t rank)
{
    while (!br_shm_coll_ready(&coll, rank, epoch_now)) {
        if (yields)
            sched_yield();
        else
            __builtin_ia32_pause();
    }
}

typedef float vector
    __attribute__((vector_size(16), aligned(4), may_alias)); /* -O2 vectorises no loop by itself */

/* out[first..last) = the sum of what all ranks have published, in rank order. */
static void sum(float *out, size_t first, size_t last, size_t bytes)
{
    for (uint32_t rank = 1; rank < coll.ranks; rank++) {
        const float *a = rank > 1 ? out : br_shm_coll_data(&coll, 0, epoch_now, bytes);
        const float *b = br_shm_coll_data(&coll, rank, epoch_now, bytes);
        size_t i = first;

        for (; i + 4 <= last; i += 4)
            *(vector *)(out + i) = *(const vector *)(a + i) + *(const vector *)(b + i);
        for (; i < last; i++)
            out[i] = a[i] + b[i];
    }
}

static void direct(const float *in, float *out, size_t count)
{
    br_shm_coll_publish(&coll, ++epoch_now, 0, in, count * sizeof *in);
    for (uint32_t rank = 0; rank < coll.ranks; rank++)
        await(rank);
    sum(out, 0, count, count * sizeof *in);
}

static void split(const float *in, float *out, size_t count)
{
    size_t part = count / coll.ranks, first = part * coll.rank;

    br_shm_coll_publish(&coll, ++epoch_now, 0, in, count * sizeof *in);
    for (uint32_t rank = 0; rank < coll.ranks; rank++)
        await(rank);
    sum(out, first, first + part, count * sizeof *in);
    br_shm_coll_publish(&coll, ++epoch_now, 0, out + first, part * sizeof *in);
    for (uint32_t rank = 0; rank < coll.ranks; rank++) {
        await(rank);
        memcpy(out + part * rank, br_shm_coll_data(&coll, rank, epoch_now, part * sizeof *in),
               part * sizeof *in);
    }
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void measure(const char *name, void (*reduce)(const float *, float *, size_t), size_t bytes)
{
    static float in[BR_SHM_COLL_BYTES / sizeof(float)], out[BR_SHM_COLL_BYTES / sizeof(float)];
    static uint64_t took[TIMES];
    size_t count = bytes / sizeof(float);
    float want = (float)(coll.ranks * (coll.ranks + 1) / 2);

    for (size_t i = 0; i < count; i++)
        in[i] = (float)(coll.rank + 1);
    for (int i = 0; i < TIMES; i++) {
        uint64_t start = br_clock_now();

        reduce(in, out, count);
        took[i] = br_clock_now() - start;
    }
    for (size_t i = 0; i < count / coll.ranks * coll.ranks; i++) {
        if (out[i] < want || out[i] > want) {
            fprintf(stderr, "shm_coll: rank %u has %g, not %g\n", coll.rank, (double)out[i],
                    (double)want);
            exit(1);
        }
    }
    qsort(took, TIMES, sizeof took[0], by_value);
    if (!coll.rank)
        printf("%-7s %6zu bytes: min %7.2f us, median %7.2f us, p99 %7.2f us\n", name, bytes,
               (double)took[0] / 1e3, (double)took[TIMES / 2] / 1e3,
               (double)took[TIMES * 99 / 100] / 1e3);
}

static void run(uint32_t ranks, uint32_t rank, int fd)
{
    static const size_t sizes[] = {8, 56, 64, 256, 1024, 4096, 16384, 32768, 65536, 131072};

    if (br_numa_pin((int)rank % br_numa_cpus()) ||
        br_shm_coll_attach(&coll, ranks, rank, false, fd)) {
        fprintf(stderr, "shm_coll: %s\n", br_error_message());
        exit(1);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && sizes[i] <= BR_SHM_COLL_BYTES; i++) {
        measure("direct", direct, sizes[i]);
        if (sizes[i] >= 1024)
            measure("split", split, sizes[i]);
    }
    br_shm_coll_close(&coll);
}

int main(int argc, char **argv)
{
    int64_t size = 2;
    const struct br_option options[] = {
        {"ranks", 'n', BR_OPTION_NUMBER, &size, 1, BR_SHM_COLL_RANKS, "N default 2"},
        {0},
    };
    int fd, status, rc = br_options_parse(options, "shm_coll [-n N]", argc, argv);
    uint32_t ranks = (uint32_t)size;

    if (rc > 0)
        return 0;
    if (rc || br_shm_coll_create(&coll, ranks, 0, false, &fd)) {
        fprintf(stderr, "shm_coll: %s\n", br_error_message());
        return 2;
    }
    br_shm_coll_close(&coll);
    yields = ranks > (uint32_t)br_numa_cpus();
    for (uint32_t rank = 1; rank < ranks; rank++) {
        if (!fork()) {
            run(ranks, rank, fd);
            return 0;
        }
    }
    run(ranks, 0, fd);
    while (wait(&status) > 0)
        rc |= status;
    return rc != 0;
}
