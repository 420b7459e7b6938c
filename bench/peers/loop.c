/* SPDX-License-Identifier: BSD-3-Clause */
#include "loop.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LEAST    7
#define MOST     5000
#define WARM_UPS 8

struct bench {
    const struct peer *peer;
    float *in, *out;
    size_t count; /* elements of the current size */
    double *times;
};

static double microseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* What all cores of the machine have worked since it started, interrupts and all, to a tick of 10
 * ms; 0: nobody says. */
static double busy_microseconds(void)
{
    unsigned long long user, nice, system, idle, wait, irq, softirq;
    FILE *stat = fopen("/proc/stat", "r");
    int got = stat ? fscanf(stat, "cpu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system,
                            &idle, &wait, &irq, &softirq)
                   : 0;
    if (stat)
        fclose(stat);
    return got == 7
               ? 1e6 * (double)(user + nice + system + irq + softirq) / (double)sysconf(_SC_CLK_TCK)
               : 0;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Leaves the median of the per-iteration maxima over ranks in *median. */
static int repeat(struct bench *bench, int iterations, double *median)
{
    for (int i = 0; i < iterations; i++) {
        double start = microseconds();
        if (bench->peer->allreduce(bench->in, bench->out, bench->count))
            return 1;
        bench->times[i] = microseconds() - start;
    }
    if (bench->peer->maximum(bench->times, iterations))
        return 1;
    qsort(bench->times, (size_t)iterations, sizeof *bench->times, ascending);
    *median = bench->times[iterations / 2];
    return 0;
}

static int fitting(double budget_us, double each_us)
{
    double wanted = budget_us / (each_us > 0.01 ? each_us : 0.01);
    return wanted < LEAST ? LEAST : wanted > MOST ? MOST : (int)wanted;
}

/* On a virtual machine the first touch of a page costs tens of microseconds: warm-up lasts as long
 * as it gets faster. *busy: what all cores together work for one call. */
static int measure(struct bench *bench, double budget_us, double *median, double *busy)
{
    double estimate, previous;
    int iterations, failed;
    if (repeat(bench, 3, &estimate) || repeat(bench, 5, &estimate))
        return 1;
    for (int i = 0; i < WARM_UPS; i++) {
        previous = estimate;
        if (repeat(bench, fitting(budget_us / 4, estimate), &estimate))
            return 1;
        if (estimate > 0.9 * previous)
            break;
    }
    iterations = fitting(budget_us, estimate);
    *busy = busy_microseconds();
    failed = repeat(bench, iterations, median);
    *busy = (busy_microseconds() - *busy) / iterations;
    return failed;
}

/*
 * The floor of every out-of-place collective: each rank reads its input and writes its output once,
 * all at the same time. Timed as a whole, so that waiting for a core counts when there are fewer
 * cores than ranks.
 */
static int measure_floor(struct bench *bench, double budget_us, double *floor)
{
    int copies = 0;
    double unused = 0, start;
    if (bench->peer->maximum(&unused, 1)) /* begin together */
        return 1;
    for (start = microseconds(); copies < LEAST || microseconds() - start < budget_us; copies++) {
        memcpy(bench->out, bench->in, bench->count * sizeof(float));
        __asm__ volatile("" : : "r"(bench->out) : "memory");
    }
    *floor = (microseconds() - start) / copies;
    return bench->peer->maximum(floor, 1);
}

static float input(int rank, size_t i)
{
    return (float)(rank + 1) + (float)(i % 7);
}

static int verify(const struct bench *bench)
{
    int n = bench->peer->size;
    for (size_t i = 0; i < bench->count; i++) {
        float expected = (float)(n * (n + 1) / 2) + (float)(n * (int)(i % 7));
        if (bench->out[i] != expected) {
            fprintf(stderr, "rank %d: wrong result for %zu elements: [%zu] is %g, must be %g\n",
                    bench->peer->rank, bench->count, i, (double)bench->out[i], (double)expected);
            return 1;
        }
    }
    return 0;
}

static int one_size(struct bench *bench, size_t bytes, double budget_us, bool limit)
{
    double median, busy, floor = 0;
    bench->count = bytes / sizeof(float);
    if (measure(bench, budget_us, &median, &busy) || verify(bench))
        return 1;
    if (limit && measure_floor(bench, budget_us / 2, &floor))
        return 1;
    if (bench->peer->rank == 0) {
        printf("%zu %.3f %.3f %.1f\n", bytes, median, floor, busy);
        fflush(stdout);
    }
    return 0;
}

static bool sizes_valid(char **argv, int argc, size_t *largest)
{
    size_t previous = 0;
    for (int i = 0; i < argc; i++) {
        char *end;
        errno = 0;
        unsigned long long bytes = strtoull(argv[i], &end, 10);
        if (errno || *end || bytes <= previous || bytes % sizeof(float)) {
            fprintf(stderr,
                    "size '%s': must be a multiple of 4 bytes, larger than the one before\n",
                    argv[i]);
            return false;
        }
        *largest = previous = (size_t)bytes;
    }
    return argc > 0;
}

int peer_measure(const struct peer *peer, int argc, char **argv)
{
    size_t largest;
    bool limit = argc > 1 && !strcmp(argv[1], "--limit");
    int first = limit ? 2 : 1;
    double budget_us = first < argc ? atof(argv[first]) * 1e3 : 0;
    if (!(budget_us > 0) || !sizes_valid(argv + first + 1, argc - first - 1, &largest)) {
        fprintf(stderr, "usage: %s [--limit] MILLISECONDS SIZE...\n", argv[0]);
        return 2;
    }
    void *(*get)(size_t) = peer->get ? peer->get : malloc;
    double *times = (double *)malloc(MOST * sizeof *times);
    struct bench bench = {
        .peer = peer, .in = (float *)get(largest), .out = (float *)get(largest), .times = times};
    if (!bench.in || !bench.out || !bench.times) {
        fprintf(stderr, "rank %d: no memory for two buffers of %zu bytes\n", peer->rank, largest);
        return 1;
    }
    for (size_t i = 0; i < largest / sizeof(float); i++)
        bench.in[i] = input(peer->rank, i);
    int failed = 0;
    for (int i = first + 1; i < argc && !failed; i++)
        failed = one_size(&bench, (size_t)strtoull(argv[i], NULL, 10), budget_us, limit);
    free(times); /* the buffers end with the process: whose they are depends on get() */
    return failed;
}
