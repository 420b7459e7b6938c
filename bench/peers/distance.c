/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How far two cores of this machine are from each other, and how fast they are: prints the
 * nanoseconds that a cache line takes from the first core that this process may use to the second
 * and back (0: there is one core), and speed_ns() of the slower one while both compute.
 *
 * The distance is the least of many short series, so that one in which another program had a core
 * does not count. Takes about a millisecond.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "speed.h"

#define SERIES 50
#define TRIPS  50 /* of a series */

/* The number of the next trip's way: even ones are main()'s, odd ones answer()'s. */
static _Alignas(128) atomic_uint line;
static double other_speed; /* of answer()'s core */

static void await(unsigned way)
{
    while (atomic_load_explicit(&line, memory_order_acquire) != way)
        ;
}

static void *answer(void *unused)
{
    for (unsigned way = 1; way < 2 * SERIES * TRIPS; way += 2) {
        await(way);
        atomic_store_explicit(&line, way + 1, memory_order_release);
    }
    other_speed = speed_ns();
    return unused;
}

static double nanoseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Binds `thread` to the first core of `free`, and takes it from there. */
static int bind_first(pthread_t thread, cpu_set_t *free)
{
    cpu_set_t one;
    int core = 0;

    while (core < CPU_SETSIZE && !CPU_ISSET(core, free))
        core++;
    if (core == CPU_SETSIZE)
        return -1;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    CPU_CLR(core, free);
    return pthread_setaffinity_np(thread, sizeof one, &one);
}

/* Nanoseconds of a trip to the other core and back. */
static double distance(void)
{
    double least = 0;

    for (unsigned way = 0; way < 2 * SERIES * TRIPS;) {
        double start = nanoseconds(), each;
        for (int i = 0; i < TRIPS; i++, way += 2) {
            atomic_store_explicit(&line, way + 1, memory_order_release);
            await(way + 2);
        }
        each = (nanoseconds() - start) / TRIPS;
        if (least == 0 || each < least)
            least = each;
    }
    return least;
}

int main(void)
{
    cpu_set_t free;
    pthread_t other;
    double ns, speed;

    if (sched_getaffinity(0, sizeof free, &free) || CPU_COUNT(&free) < 2) {
        printf("0 %.0f\n", speed_ns());
        return 0;
    }
    if (pthread_create(&other, NULL, answer, NULL) || bind_first(pthread_self(), &free) ||
        bind_first(other, &free)) {
        fprintf(stderr, "distance: cannot have two threads on two cores\n");
        return 1;
    }
    ns = distance();
    speed = speed_ns();
    pthread_join(other, NULL);
    printf("%.0f %.0f\n", ns, speed > other_speed ? speed : other_speed);
    return 0;
}
