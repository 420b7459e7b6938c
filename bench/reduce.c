/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How fast sources are reduced, against memcpy on the same machine: GB/s read and written, medians,
 * the contenders alternating so that a disturbance hits all of them. BRAID_SIMD chooses the
 * kernels.
 *
 *   build/release/bench/reduce [--datatype TYPE] [--op OP]     default: float32, sum
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/median.h"
#include "collectives/engine/reduce.h"
#include "collectives/schedule/type.h"
#include "tools/common/options.h"

#define SOURCES 8
#define ROUNDS  31
#define BYTES   (256ull << 20) /* moved in one round by each contender, about */

struct contender {
    const char *name;
    int n_src;     /* 0: memcpy */
    bool in_place; /* into the first source */
    double seconds[ROUNDS];
};

static char *memory[SOURCES + 1]; /* the sources, then the destination */
static enum braid_type type;
static enum braid_reduction reduction;

static struct contender contenders[] = {
    {.name = "memcpy"},
    {.name = "2", .n_src = 2},
    {.name = "2 in place", .n_src = 2, .in_place = true},
    {.name = "4", .n_src = 4},
    {.name = "4 in place", .n_src = 4, .in_place = true},
    {.name = "8", .n_src = 8},
};

#define CONTENDERS (sizeof contenders / sizeof contenders[0])

static int streams(const struct contender *contender)
{
    return (contender->n_src ? contender->n_src : 1) + 1;
}

static int once(const struct contender *contender, size_t bytes)
{
    if (contender->n_src)
        return br_reduce(type, reduction, memory[contender->in_place ? 0 : SOURCES],
                         (const void *const *)memory, contender->n_src, bytes / br_type_size(type),
                         reduction == BRAID_AVG ? contender->n_src : 0);
    memcpy(memory[SOURCES], memory[0], bytes);
    __asm__ volatile("" ::: "memory"); /* the copy is made although nobody looks at it */
    return 0;
}

static int measure(size_t bytes)
{
    for (int round = -1; round < ROUNDS; round++)
        for (size_t i = 0; i < CONTENDERS; i++) {
            struct contender *contender = &contenders[i];
            size_t times = (size_t)(BYTES / 8 / bytes / (unsigned)streams(contender)) + 1;
            uint64_t start;

            memset(memory[0], 0, bytes); /* in place, values would grow out of range */
            start = br_clock_now();
            for (size_t t = 0; t < times; t++)
                if (once(contender, bytes))
                    return -1;
            if (round >= 0) /* the first one warms up */
                contender->seconds[round] = (double)(br_clock_now() - start) / 1e9 / (double)times;
        }
    return 0;
}

static void print(size_t bytes)
{
    double memcpy_rate = 0;

    printf("%8zu KiB", bytes >> 10);
    for (size_t i = 0; i < CONTENDERS; i++) {
        struct contender *contender = &contenders[i];
        double rate;

        rate = (double)bytes * streams(contender) / br_median(contender->seconds, ROUNDS) / 1e9;
        if (i == 0) {
            memcpy_rate = rate;
            printf("  %10.1f", rate);
        } else {
            printf("  %7.1f %4.2fx", rate, rate / memcpy_rate);
        }
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {64 << 10, 1 << 20, 64 << 20};
    const char *type_name = "float32", *reduction_name = "sum";
    const struct br_option options[] = {
        {"datatype", 'd', BR_OPTION_TEXT, &type_name, 0, 0, "TYPE default float32"},
        {"op", 'o', BR_OPTION_TEXT, &reduction_name, 0, 0, "OP default sum"},
        {0},
    };
    int rc = br_options_parse(options, "reduce [options]", argc, argv);

    if (rc > 0)
        return 0;
    if (rc || br_type_parse(type_name, &type) || br_reduction_parse(reduction_name, &reduction) ||
        br_reduce_select(NULL)) {
        fprintf(stderr, "reduce: %s\n", br_error_message());
        return 2;
    }
    for (int i = 0; i <= SOURCES; i++) {
        memory[i] = aligned_alloc(2 << 20, 64 << 20);
        if (!memory[i]) {
            fprintf(stderr, "reduce: no memory for %d buffers of 64 MiB\n", SOURCES + 1);
            return 1;
        }
        memset(memory[i], 0, 64 << 20);
    }
    printf("%s %s with %s kernels, GB/s read and written, and relative to memcpy\n",
           br_type_name(type), br_reduction_name(reduction), br_reduce_description());
    printf("%12s  %10s", "", contenders[0].name);
    for (size_t i = 1; i < CONTENDERS; i++)
        printf("  %13s", contenders[i].name);
    printf("\n");
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (measure(sizes[i])) {
            fprintf(stderr, "reduce: %s\n", br_error_message());
            return 1;
        }
        print(sizes[i]);
    }
    for (int i = 0; i <= SOURCES; i++)
        free(memory[i]);
    return 0;
}
