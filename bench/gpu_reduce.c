/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The GPU's reduction kernels: every type and reduction against br_reduce() on the CPU, then how
 * fast they are, against a copy within the same memory: bytes read and written a second, medians,
 * the contenders alternating.
 *
 *   build/release/bench/gpu_reduce [--check] [--device N]     --check: results alone
 *
 * Exit 1: a result differs, or 64 MiB and more go at less than 85 % of the copy. Exit 77: no
 * driver, no GPU, or no kernels; the message says why.
 */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/half.h"
#include "base/median.h"
#include "base/random.h"
#include "collectives/engine/reduce.h"
#include "collectives/schedule/type.h"
#include "gpu/driver.h"
#include "gpu/reduce.h"
#include "tools/common/options.h"

#define SOURCES 8
#define CHECKED (1u << 20) /* bytes of an array, at most */
#define TIMED   (256u << 20)
#define ROUNDS  11
#define REPEATS 16 /* reductions in a row */
#define GOAL    0.85

static const struct br_cuda *cuda;
static struct br_reducer *reducer;
static struct CUstream_st *stream;
static char *arrays[SOURCES + 1]; /* in the GPU's memory: the sources, then the destination */
static struct br_random numbers;

static int say(void)
{
    fprintf(stderr, "gpu_reduce: %s\n", br_error_message());
    return 1;
}

/* Nothing to measure, and nothing wrong. */
static bool is_missing(int rc)
{
    return rc == -ENOENT || rc == -ENOSYS || rc == -ENODEV || rc == -EOPNOTSUPP;
}

static int submit(enum braid_type type, enum braid_reduction op, void *dst, const void *const *src,
                  int n_src, size_t bytes, int divisor)
{
    struct br_gpu_reduction all = {.dst = dst, .bytes = bytes, .n_src = n_src, .divisor = divisor};

    for (int s = 0; s < n_src; s++)
        all.src[s] = src[s];
    return br_reducer_submit(reducer, stream, type, op, &all);
}

static int wait_for_all(void)
{
    br_cuda_result result = cuda->stream_synchronize(stream);

    return result == BR_CUDA_SUCCESS ? 0 : br_cuda_error(cuda, result, "a reduction on the GPU");
}

/* ---- results --------------------------------------------------------------------------------- */

static bool is_nan(enum braid_type type, const char *p)
{
    float f32 = 0;
    double f64 = 0;
    uint16_t half = 0;

    switch (type) {
    case BRAID_FLOAT32:
        memcpy(&f32, p, 4);
        return isnan(f32);
    case BRAID_FLOAT64:
        memcpy(&f64, p, 8);
        return isnan(f64);
    case BRAID_FLOAT16:
    case BRAID_BFLOAT16:
        memcpy(&half, p, 2);
        return isnan(type == BRAID_FLOAT16 ? br_float_of_half(half) : br_float_of_bfloat(half));
    default:
        return false;
    }
}

/* Where floats are added or multiplied, one NaN is as good as another. */
static size_t wrong(enum braid_type type, enum braid_reduction op, const char *a, const char *b,
                    size_t bytes)
{
    bool any_nan = op != BRAID_MIN && op != BRAID_MAX;
    size_t size = br_type_size(type), n = 0;

    for (size_t at = 0; at < bytes; at += size)
        n += memcmp(a + at, b + at, size) != 0 &&
             !(any_nan && is_nan(type, a + at) && is_nan(type, b + at));
    return n;
}

/* Random bits; but each fourth element is, of a float, a zero, infinite, or a NaN with a payload.
 */
static void fill(enum braid_type type, char *array, size_t bytes)
{
    static const uint16_t special[] = {0,      0x8000, 0x7c00, 0xfc00, 0x7c01, 0xfd55,
                                       0x7f80, 0xff80, 0x7f81, 0xffaa, 0x7ff0, 0xfff1};
    size_t size = br_type_size(type);

    for (size_t i = 0; i < bytes; i++)
        array[i] = (char)br_random_next(&numbers);
    for (size_t i = 0; i < bytes && size > 1; i += size)
        if (br_random_below(&numbers, 4) == 0) {
            uint64_t kind = br_random_below(&numbers, sizeof special / sizeof *special);

            memset(array + i, 0, size);
            memcpy(array + i + size - 2, &special[kind], 2);
        }
}

/* `n_src` arrays that begin `odd` bytes apart from a multiple of 16, the destination `dst_odd`. */
static int check_one(enum braid_type type, enum braid_reduction op, int n_src, size_t count,
                     unsigned odd, unsigned dst_odd)
{
    static char host[SOURCES][CHECKED], expected[CHECKED], got[CHECKED];
    size_t bytes = count * br_type_size(type);
    const void *on_host[SOURCES], *on_gpu[SOURCES];
    char *dst = arrays[SOURCES] + dst_odd;
    int divisor = 1 + (int)br_random_below(&numbers, 100), rc;

    for (int s = 0; s < n_src; s++) {
        fill(type, host[s], bytes);
        on_host[s] = host[s];
        on_gpu[s] = arrays[s] + (size_t)s * odd;
        if (cuda->copy((uintptr_t)on_gpu[s], (uintptr_t)host[s], bytes) != BR_CUDA_SUCCESS)
            return br_error(EIO, "cannot copy to the GPU");
    }
    rc = br_reduce(type, op, expected, on_host, n_src, count, divisor);
    if (!rc)
        rc = submit(type, op, dst, on_gpu, n_src, bytes, divisor);
    if (!rc)
        rc = wait_for_all();
    if (!rc && cuda->copy((uintptr_t)got, (uintptr_t)dst, bytes) != BR_CUDA_SUCCESS)
        rc = br_error(EIO, "cannot copy from the GPU");
    if (!rc && wrong(type, op, got, expected, bytes))
        rc = br_error(
            EIO, "%s %s of %d arrays of %zu elements, by %d: %zu are wrong (offsets %u and %u)",
            br_type_name(type), br_reduction_name(op), n_src, count, divisor,
            wrong(type, op, got, expected, bytes), odd, dst_odd);
    return rc;
}

static int check_all(void)
{
    static const size_t counts[] = {1, 33, 1001, 65537};
    int n = 0;

    for (enum braid_type type = 0; type < BRAID_TYPES; type++)
        for (enum braid_reduction op = 0; op < BRAID_REDUCTIONS; op++)
            for (int n_src = br_gpu_has_kernel(type, op) ? 2 : SOURCES + 1; n_src <= SOURCES;
                 n_src += 3)
                for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
                    for (unsigned odd = 0; odd < 4; odd++, n++)
                        if (check_one(type, op, n_src, counts[c], odd & 1 ? 3 : 0, odd & 2 ? 8 : 0))
                            return say();
    printf("results: %d reductions of all kernels give the bits of the CPU\n", n);
    return 0;
}

/* ---- speed ----------------------------------------------------------------------------------- */

/* Seconds of one of REPEATS in a row. With one source it is a copy. */
static double once(enum braid_type type, enum braid_reduction op, int n_src, size_t bytes)
{
    uint64_t began = br_clock_now();
    int rc = 0;

    for (int i = 0; i < REPEATS && !rc; i++)
        rc = submit(type, op, arrays[SOURCES], (const void *const *)arrays, n_src, bytes,
                    op == BRAID_AVG ? n_src : 0);
    if (rc || wait_for_all())
        exit(say());
    return (double)(br_clock_now() - began) * 1e-9 / REPEATS;
}

/* false: slower than the goal. */
static bool measure(enum braid_type type, enum braid_reduction op, int n_src, size_t bytes)
{
    double copy[ROUNDS], reduce[ROUNDS], rate, limit, ratio;

    once(BRAID_FLOAT32, BRAID_SUM, 1, bytes);
    once(type, op, n_src, bytes);
    for (int round = 0; round < ROUNDS; round++) {
        copy[round] = once(BRAID_FLOAT32, BRAID_SUM, 1, bytes);
        reduce[round] = once(type, op, n_src, bytes);
    }
    limit = 2 * (double)bytes / br_median(copy, ROUNDS);
    rate = (n_src + 1) * (double)bytes / br_median(reduce, ROUNDS);
    ratio = rate / limit;
    printf("%-11s %-4s %7d %7zu %10.1f %10.1f %7.2f%s\n", br_type_name(type), br_reduction_name(op),
           n_src, bytes >> 20, rate * 1e-9, limit * 1e-9, ratio,
           ratio < GOAL ? "  below 0.85" : "");
    return ratio >= GOAL;
}

static int measure_all(void)
{
    bool good = true;

    printf("type        op   sources     MiB       GB/s  copy GB/s   ratio\n");
    for (size_t bytes = 64u << 20; bytes <= TIMED; bytes *= 4)
        for (enum braid_type type = 0; type < BRAID_TYPES; type++)
            for (int n_src = 2; n_src <= SOURCES && br_gpu_has_kernel(type, BRAID_SUM);
                 n_src *= 4) {
                good &= measure(type, BRAID_SUM, n_src, bytes);
                good &= measure(type, BRAID_MAX, n_src, bytes);
                good &= measure(type, BRAID_AVG, n_src, bytes);
            }
    return good ? 0 : 1;
}

/* ---- main ------------------------------------------------------------------------------------ */

static int allocate(int device, size_t bytes)
{
    struct CUctx_st *context;
    br_cuda_pointer at;
    int rc = br_cuda_driver(&cuda);

    if (!rc)
        rc = br_cuda_context(device, &context);
    if (!rc)
        rc = br_cuda_enter(cuda, context); /* for the life of the process */
    if (!rc)
        rc = br_reducer_create(device, &br_gpu_image, &reducer);
    for (int i = 0; i <= SOURCES && !rc; i++) {
        br_cuda_result result = cuda->memory_alloc(&at, bytes);

        if (result != BR_CUDA_SUCCESS)
            rc = br_cuda_error(cuda, result, "%zu bytes of GPU memory", bytes);
        arrays[i] = (char *)(uintptr_t)at;
    }
    if (!rc && cuda->stream_create(&stream, BR_CUDA_STREAM_NON_BLOCKING, 0) != BR_CUDA_SUCCESS)
        rc = br_error(EIO, "cannot make a stream on GPU %d", device);
    return rc;
}

int main(int argc, char **argv)
{
    bool check_only = false;
    int64_t device = 0;
    const struct br_option options[] = {
        {"check", 0, BR_OPTION_FLAG, &check_only, 0, 0, " results alone"},
        {"device", 'd', BR_OPTION_NUMBER, &device, 0, 63, "N GPU; default 0"},
        {0},
    };
    int rc = br_options_parse(options, "gpu_reduce [options]", argc, argv);

    if (rc < 0)
        say();
    if (rc)
        return rc < 0 ? 2 : 0;
    br_random_seed(&numbers, 8);
    rc = allocate((int)device, check_only ? CHECKED : TIMED);
    if (rc) {
        say();
        return is_missing(rc) ? 77 : 1;
    }
    rc = check_all();
    if (!rc && !check_only)
        rc = measure_all();
    for (int i = 0; i <= SOURCES; i++)
        cuda->memory_free((uintptr_t)arrays[i]);
    cuda->stream_destroy(stream);
    br_reducer_destroy(reducer);
    return rc;
}
