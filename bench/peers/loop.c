/* SPDX-License-Identifier: BSD-3-Clause */
#include "loop.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "speed.h"

#define LEAST    7
#define MOST     5000
#define WARM_UPS 8
/* Times that were not measured at full speed are repeated, in all for as many budgets a size. */
#define SPARE 10
#define NOISE 1.1 /* of speed_ns() */

#define MOST_MEMORY (4.0 * (1u << 30)) /* buffers of all ranks together */

enum pace { EACH, BARRIER, STREAM, PACES };

static const char *const pace_names[PACES] = {"each", "barrier", "stream"};
static const char *const collective_names[PEER_COLLECTIVES] = {
    "broadcast", "reduce",  "allreduce", "allgather", "reduce_scatter",
    "alltoall",  "scatter", "gather",    "barrier"};

struct bench {
    const struct peer *peer;
    float *in, *out;
    enum peer_collective collective;
    enum pace pace;
    size_t count; /* elements of a block of the current size */
    double *times;
    double full_speed; /* speed_ns() while nobody else uses these cores; 0: not known */
    double spare_us;   /* how long times may still be repeated, on every rank the same */
};

/* Blocks of the larger one of the two buffers. */
static int blocks(enum peer_collective which, int ranks)
{
    return which == PEER_ALLGATHER || which == PEER_REDUCE_SCATTER || which == PEER_ALLTOALL ||
                   which == PEER_SCATTER || which == PEER_GATHER
               ? ranks
               : 1;
}

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

static int call(const struct bench *bench)
{
    return bench->peer->collective(bench->collective, bench->in, bench->out, bench->count);
}

static int repeat_stream(struct bench *bench, int iterations, double *each)
{
    double unused = 0, start;
    if (bench->peer->maximum(&unused, 1)) /* begin together */
        return 1;
    start = microseconds();
    for (int i = 0; i < iterations; i++)
        if (call(bench))
            return 1;
    if (bench->peer->maximum(&unused, 1)) /* until every rank has ended */
        return 1;
    *each = (microseconds() - start) / iterations;
    return bench->peer->maximum(each, 1);
}

/* Leaves the time of a call in *each, on every rank the same. */
static int repeat(struct bench *bench, int iterations, double *each)
{
    if (bench->pace == STREAM)
        return repeat_stream(bench, iterations, each);
    for (int i = 0; i < iterations; i++) {
        if (bench->pace == BARRIER && bench->peer->collective(PEER_BARRIER, NULL, NULL, 0))
            return 1;
        double start = microseconds();
        if (call(bench))
            return 1;
        bench->times[i] = microseconds() - start;
    }
    if (bench->peer->maximum(bench->times, iterations))
        return 1;
    qsort(bench->times, (size_t)iterations, sizeof *bench->times, ascending);
    *each = bench->times[iterations / 2];
    return 0;
}

static int fitting(double budget_us, double each_us)
{
    double wanted = budget_us / (each_us > 0.01 ? each_us : 0.01);
    return wanted < LEAST ? LEAST : wanted > MOST ? MOST : (int)wanted;
}

/* On a virtual machine the first touch of a page costs tens of microseconds: warm-up lasts as long
 * as it gets faster. *busy: what all cores together work for one call. */
static int measure(struct bench *bench, double budget_us, double *each, double *busy)
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
    failed = repeat(bench, iterations, each);
    *busy = (busy_microseconds() - *busy) / iterations;
    return failed;
}

/* Whether the cores of all ranks are at full speed now. *us, which something took, becomes that of
 * the slowest rank. */
static int at_full_speed(struct bench *bench, double *us, bool *yes)
{
    double slowest[2] = {speed_ns(), *us};
    if (bench->peer->maximum(slowest, 2))
        return 1;
    *us = slowest[1];
    *yes = slowest[0] < NOISE * bench->full_speed;
    return 0;
}

/* As measure(). While there is time to spare it waits for full speed before, and measures again
 * where that is gone afterwards. */
static int measure_at_full_speed(struct bench *bench, double budget_us, double *each, double *busy)
{
    bool full = false;
    double start = microseconds(), took;

    if (bench->full_speed == 0)
        return measure(bench, budget_us, each, busy);
    while (!full && bench->spare_us > 0) {
        took = microseconds() - start;
        start += took;
        if (at_full_speed(bench, &took, &full))
            return 1;
        bench->spare_us -= took;
    }
    do {
        start = microseconds();
        if (measure(bench, budget_us, each, busy))
            return 1;
        took = microseconds() - start;
        if (at_full_speed(bench, &took, &full))
            return 1;
        bench->spare_us -= full ? 0 : took;
    } while (!full && bench->spare_us > 0);
    return 0;
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

/* Sum over the ranks of element i of their inputs. */
static float sum(int n, size_t i)
{
    return (float)(n * (n + 1) / 2) + (float)(n * (int)(i % 7));
}

/* Elements of the result on this rank; none: nothing is written to `out`. */
static size_t result_count(const struct bench *bench)
{
    enum peer_collective which = bench->collective;
    bool root = bench->peer->rank == 0;

    if (which == PEER_BARRIER || (which == PEER_BROADCAST && root) ||
        ((which == PEER_REDUCE || which == PEER_GATHER) && !root))
        return 0;
    if (which == PEER_ALLGATHER || which == PEER_ALLTOALL || which == PEER_GATHER)
        return bench->count * (size_t)bench->peer->size;
    return bench->count;
}

static float expected(const struct bench *bench, size_t i)
{
    size_t mine = (size_t)bench->peer->rank * bench->count, count = bench->count;
    int n = bench->peer->size;

    switch (bench->collective) {
    case PEER_BROADCAST:
        return input(0, i);
    case PEER_ALLGATHER:
    case PEER_GATHER:
        return input((int)(i / count), i % count);
    case PEER_REDUCE_SCATTER:
        return sum(n, mine + i);
    case PEER_ALLTOALL:
        return input((int)(i / count), mine + i % count);
    case PEER_SCATTER:
        return input(0, mine + i);
    default:
        return sum(n, i);
    }
}

static int verify(const struct bench *bench)
{
    size_t count = result_count(bench);

    for (size_t i = 0; i < count; i++)
        if (bench->out[i] != expected(bench, i)) {
            fprintf(stderr,
                    "rank %d: wrong result of %s of %zu elements: [%zu] is %g, must be %g\n",
                    bench->peer->rank, collective_names[bench->collective], bench->count, i,
                    (double)bench->out[i], (double)expected(bench, i));
            return 1;
        }
    return 0;
}

static bool fits_memory(const struct bench *bench, size_t bytes)
{
    int n = bench->peer->size;

    return 2.0 * (double)bytes * blocks(bench->collective, n) * n <= MOST_MEMORY;
}

static int one_size(struct bench *bench, size_t bytes, double budget_us, bool limit)
{
    double each, busy, floor = 0;
    if (!fits_memory(bench, bytes))
        return 0;
    bench->count = bytes / sizeof(float);
    memset(bench->out, 0, result_count(bench) * sizeof(float));
    if (measure_at_full_speed(bench, budget_us, &each, &busy) || verify(bench))
        return 1;
    if (limit && measure_floor(bench, budget_us / 2, &floor))
        return 1;
    if (bench->peer->rank == 0) {
        printf("%s %s %zu %.3f %.3f %.1f\n", collective_names[bench->collective],
               pace_names[bench->pace], bytes, each, floor, busy);
        fflush(stdout);
    }
    return 0;
}

/* NAME,... of `names` -> a bit for each; 0: one of them is unknown, which has been said. */
static unsigned names_in(const char *list, const char *const *names, int count)
{
    unsigned bits = 0;

    while (*list) {
        size_t length = strcspn(list, ",");
        int i = 0;

        while (i < count && (strlen(names[i]) != length || strncmp(list, names[i], length)))
            i++;
        if (i == count) {
            fprintf(stderr, "'%.*s' is not known\n", (int)length, list);
            return 0;
        }
        bits |= 1u << i;
        list += length + (list[length] == ',');
    }
    return bits;
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

struct choice {
    bool limit;
    unsigned collectives, paces; /* bits */
    double budget_us, full_speed;
    char **sizes;
    int size_count;
};

static bool choice_read(struct choice *choice, int argc, char **argv)
{
    size_t largest;
    int i = 1;

    *choice = (struct choice){.collectives = 1u << PEER_ALLREDUCE, .paces = 1u << EACH};
    for (; i < argc && !strncmp(argv[i], "--", 2); i++)
        if (!strcmp(argv[i], "--limit"))
            choice->limit = true;
        else if (!strcmp(argv[i], "--collectives") && i + 1 < argc)
            choice->collectives = names_in(argv[++i], collective_names, PEER_COLLECTIVES);
        else if (!strcmp(argv[i], "--paces") && i + 1 < argc)
            choice->paces = names_in(argv[++i], pace_names, PACES);
        else if (!strcmp(argv[i], "--full-speed") && i + 1 < argc)
            choice->full_speed = atof(argv[++i]);
        else
            break;
    choice->budget_us = i < argc ? atof(argv[i++]) * 1e3 : 0;
    choice->sizes = argv + i;
    choice->size_count = argc - i;
    if (choice->budget_us > 0 && choice->collectives && choice->paces &&
        sizes_valid(choice->sizes, choice->size_count, &largest))
        return true;
    fprintf(stderr,
            "usage: %s [--limit] [--collectives NAME,...] [--paces each,barrier,stream] "
            "[--full-speed NS] MILLISECONDS SIZE...\n",
            argv[0]);
    return false;
}

/* Bytes of the largest buffer that any size of any collective needs. */
static size_t largest_buffer(struct bench *bench, const struct choice *choice)
{
    size_t largest = 0;

    for (int c = 0; c < PEER_COLLECTIVES; c++) {
        bench->collective = (enum peer_collective)c;
        for (int i = 0; i < choice->size_count && choice->collectives >> c & 1; i++) {
            size_t bytes = (size_t)strtoull(choice->sizes[i], NULL, 10);
            size_t buffer = bytes * (size_t)blocks(bench->collective, bench->peer->size);

            if (fits_memory(bench, bytes) && buffer > largest)
                largest = buffer;
        }
    }
    return largest;
}

/* A barrier has one size, none, and no barrier before it. */
static int one_collective(struct bench *bench, const struct choice *choice)
{
    if (bench->collective == PEER_BARRIER)
        return bench->pace == BARRIER ? 0 : one_size(bench, 0, choice->budget_us, false);
    for (int i = 0; i < choice->size_count; i++)
        if (one_size(bench, (size_t)strtoull(choice->sizes[i], NULL, 10), choice->budget_us,
                     choice->limit))
            return 1;
    return 0;
}

int peer_measure(const struct peer *peer, int argc, char **argv)
{
    struct choice choice;
    if (!choice_read(&choice, argc, argv))
        return 2;
    void *(*get)(size_t) = peer->get ? peer->get : malloc;
    struct bench bench = {.peer = peer,
                          .times = (double *)malloc(MOST * sizeof(double)),
                          .full_speed = choice.full_speed,
                          .spare_us = SPARE * choice.budget_us * choice.size_count};
    size_t largest = largest_buffer(&bench, &choice);
    bench.in = (float *)get(largest);
    bench.out = (float *)get(largest);
    if (!bench.in || !bench.out || !bench.times) {
        fprintf(stderr, "rank %d: no memory for two buffers of %zu bytes\n", peer->rank, largest);
        return 1;
    }
    for (size_t i = 0; i < largest / sizeof(float); i++)
        bench.in[i] = input(peer->rank, i);
    int failed = 0;
    for (int c = 0; c < PEER_COLLECTIVES && !failed; c++)
        for (int p = 0; p < PACES && !failed; p++) {
            bench.collective = (enum peer_collective)c;
            bench.pace = (enum pace)p;
            if (choice.collectives >> c & 1 && choice.paces >> p & 1)
                failed = one_collective(&bench, &choice);
        }
    free(bench.times); /* the buffers end with the process: whose they are depends on get() */
    return failed;
}
