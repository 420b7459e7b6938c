/* SPDX-License-Identifier: BSD-3-Clause */
/* The code of the GPU's reduction kernels, run on the CPU, against br_reduce(): the same bits. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/half.h"
#include "base/random.h"
#include "collectives/engine/reduce.h"
#include "collectives/schedule/type.h"
#include "gpu/halves.h"
#include "gpu/words.h"
#include "tests/fake_cuda/kernels_on_host.h"

#define SOURCES 17
#define ROOM    8192
#define GUARD   0xa5

static _Alignas(16) char memory[SOURCES][ROOM];
static struct br_random numbers;

static bool is_nan(enum braid_type type, const void *element)
{
    float f32;
    double f64;
    uint16_t half;

    switch (type) {
    case BRAID_FLOAT32:
        memcpy(&f32, element, sizeof f32);
        return isnan(f32);
    case BRAID_FLOAT64:
        memcpy(&f64, element, sizeof f64);
        return isnan(f64);
    case BRAID_FLOAT16:
    case BRAID_BFLOAT16:
        memcpy(&half, element, sizeof half);
        return isnan(type == BRAID_FLOAT16 ? br_float_of_half(half) : br_float_of_bfloat(half));
    default:
        return false;
    }
}

/* Random bits are NaNs and subnormals now and then; narrow ones often. */
static void fill(struct br_gpu_reduction *r, unsigned odd)
{
    for (int s = 0; s < r->n_src; s++) {
        char *p = memory[s] + br_random_below(&numbers, odd);

        for (size_t i = 0; i < r->bytes; i++)
            p[i] = (char)br_random_next(&numbers);
        r->src[s] = p;
    }
}

static void launch(const struct br_host_kernel_entry *kernel, const struct br_gpu_reduction *r,
                   uint64_t threads)
{
    for (uint64_t thread = 0; thread < threads; thread++)
        kernel->run(r, thread, threads);
}

/* Where floats are added or multiplied, one NaN is as good as another. */
static void assert_same(const struct br_host_kernel_entry *kernel, const char *result,
                        const char *expected, size_t bytes)
{
    size_t size = br_type_size(kernel->type);
    bool any_nan = kernel->reduction != BRAID_MIN && kernel->reduction != BRAID_MAX;

    for (size_t at = 0; at < bytes; at += size)
        if (memcmp(result + at, expected + at, size) != 0 &&
            !(any_nan && is_nan(kernel->type, result + at) && is_nan(kernel->type, expected + at)))
            fail_msg("%s: element %zu of %zu differs", kernel->name, at / size, bytes / size);
}

static void compare(const struct br_host_kernel_entry *kernel, struct br_gpu_reduction *r,
                    uint64_t threads)
{
    static char expected[ROOM];
    static unsigned char room[ROOM];
    size_t count = r->bytes / br_type_size(kernel->type);
    unsigned char *dst = room + br_random_below(&numbers, 40);

    r->dst = (char *)dst;
    memset(room, GUARD, sizeof room);
    launch(kernel, r, threads);
    assert_int_equal(br_reduce(kernel->type, kernel->reduction, expected,
                               (const void *const *)r->src, r->n_src, count, r->divisor),
                     0);
    assert_same(kernel, r->dst, expected, r->bytes);
    for (size_t i = 0; i < ROOM; i++)
        if ((room + i < dst || room + i >= dst + r->bytes) && room[i] != GUARD)
            fail_msg("%s: byte %td before or after %zu was written", kernel->name, room + i - dst,
                     (size_t)r->bytes);
}

/* odd: offsets of the sources are below it; 1: all aligned. */
static void compare_all(unsigned odd)
{
    static const size_t counts[] = {0, 1, 2, 3, 7, 15, 16, 17, 31, 33, 65, 257, 999};
    static const uint64_t threads[] = {1, 3, 64};
    static const int n_src[] = {2, 3, SOURCES};

    for (int k = 0; k < BR_HOST_KERNELS; k++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            for (int i = 0; i < 3; i++) {
                struct br_gpu_reduction r = {.bytes =
                                                 counts[c] * br_type_size(br_host_kernels[k].type),
                                             .n_src = n_src[i],
                                             .divisor = 1 + (int)br_random_below(&numbers, 20)};

                fill(&r, odd);
                for (int t = 0; t < 3; t++)
                    compare(&br_host_kernels[k], &r, threads[t]);
            }
}

static void kernels__give_the_bits_of_the_cpu(void **state)
{
    (void)state;
    compare_all(1);
}

static void kernels__at_any_address(void **state)
{
    (void)state;
    compare_all(40);
}

/* With one source too, which the average divides. */
static void kernels__average_of_one(void **state)
{
    (void)state;
    for (int k = 0; k < BR_HOST_KERNELS; k++) {
        struct br_gpu_reduction r = {.bytes = 504, .n_src = 1, .divisor = 3};

        if (br_host_kernels[k].reduction != BRAID_AVG)
            continue;
        fill(&r, 40);
        compare(&br_host_kernels[k], &r, 3);
    }
}

static void kernels__destination_is_a_source(void **state)
{
    static char expected[ROOM];

    (void)state;
    for (int k = 0; k < BR_HOST_KERNELS; k++) {
        const struct br_host_kernel_entry *kernel = &br_host_kernels[k];
        struct br_gpu_reduction r = {.bytes = 1000, .n_src = 3, .divisor = 3};

        fill(&r, 40);
        r.dst = (char *)(uintptr_t)r.src[1];
        br_reduce(kernel->type, kernel->reduction, expected, (const void *const *)r.src, 3,
                  1000 / br_type_size(kernel->type), 3);
        launch(kernel, &r, 5);
        assert_same(kernel, r.dst, expected, r.bytes);
    }
}

/* Every float16 and bfloat16, and sums of several, by numbers of ranks. */
static void averages__are_rounded_correctly(void **state)
{
    (void)state;
    for (int divisor = 1; divisor <= BR_GPU_DIVISOR; divisor += divisor < 64 ? 1 : 5003)
        for (uint32_t bits = 0; bits < 65536; bits++) {
            uint16_t other = (uint16_t)br_random_next(&numbers);
            float half = br_float_of_half((uint16_t)bits),
                  bfloat = br_float_of_bfloat((uint16_t)bits);
            const float sums[] = {half, half + br_float_of_half(other), bfloat,
                                  bfloat + br_float_of_bfloat(other)};

            for (int i = 0; i < 4; i++) {
                float expected = sums[i] / (float)divisor;
                float average = br_gpu_average(sums[i], divisor);

                if (memcmp(&average, &expected, sizeof expected) != 0 &&
                    !(isnan(average) && isnan(expected)))
                    fail_msg("%a / %d: %a instead of %a", (double)sums[i], divisor, (double)average,
                             (double)expected);
            }
        }
}

/* Every float16 with those where something changes, and with others. */
static void pairs__are_compared_like_elements(void **state)
{
    static const uint16_t others[] = {0,      0x8000, 1,      0x8001, 0x3ff,  0x400,  0x7bff,
                                      0xfbff, 0x7c00, 0xfc00, 0x7c01, 0xfc01, 0x7e00, 0xffff};
    const size_t count = sizeof others / sizeof *others;

    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++)
        for (size_t i = 0; i < 2 * count; i++) {
            uint16_t other = i < count ? others[i] : (uint16_t)br_random_next(&numbers);
            const uint16_t low[] = {(uint16_t)bits, other}, high[] = {other, (uint16_t)bits};
            const void *const src[] = {low, high};

            for (int larger = 0; larger < 2; larger++) {
                uint32_t pair = br_gpu_quiet_pair(br_gpu_extreme_pair(
                    larger, low[0] | (uint32_t)low[1] << 16, high[0] | (uint32_t)high[1] << 16));
                uint16_t expected[2];

                assert_int_equal(br_reduce(BRAID_FLOAT16, larger ? BRAID_MAX : BRAID_MIN, expected,
                                           src, 2, 2, 0),
                                 0);
                if (pair != (expected[0] | (uint32_t)expected[1] << 16))
                    fail_msg("%s of %#x and %#x: %#x", larger ? "maximum" : "minimum", low[0],
                             high[0], pair);
            }
        }
}

/* A page with none before and none behind it. */
static char *lone_page(size_t page)
{
    char *map = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(map, MAP_FAILED);
    assert_int_equal(mprotect(map + page, page, PROT_READ | PROT_WRITE), 0);
    return map + page;
}

/* Arrays that end where the mapped memory ends and start where it starts, in every alignment to
 * each other. */
static void kernels__touch_nothing_outside(void **state)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *a = lone_page(page), *b = lone_page(page);

    (void)state;
    for (int k = 0; k < BR_HOST_KERNELS; k++)
        for (size_t bytes = 8; bytes < 200; bytes += 8)
            for (size_t skip = 0; skip < 16; skip++) {
                struct br_gpu_reduction at_end = {
                    b + page - bytes - skip, bytes, 2, 2, {a + page - bytes, a}};
                struct br_gpu_reduction at_start = {b + skip, bytes, 2, 2, {a, a + page - bytes}};

                launch(&br_host_kernels[k], &at_end, 2);
                launch(&br_host_kernels[k], &at_start, 2);
            }
    munmap(a - page, 3 * page);
    munmap(b - page, 3 * page);
}

/* Most of an array goes by 16 bytes at a time wherever dst is aligned to its elements; otherwise
 * none. */
static void br_gpu_middle__leaves_only_edges(void **state)
{
    struct br_gpu_reduction r = {(char *)0x1008, 4096, 2, 0, {(char *)0x2000, (char *)0x3001}};
    struct br_gpu_middle middle = br_gpu_middle(&r, 4);

    (void)state;
    assert_int_equal(middle.first, 8);
    assert_int_equal(middle.n, (4096 - 8 - 4) / 16);
    r.dst = (char *)0x1000; /* the odd source needs an edge */
    middle = br_gpu_middle(&r, 4);
    assert_int_equal(middle.first, 16);
    r.src[1] = (char *)0x3004;
    middle = br_gpu_middle(&r, 4);
    assert_int_equal(middle.first, 0);
    assert_int_equal(middle.n, 256);
    r.dst = (char *)0x1002;
    assert_int_equal(br_gpu_middle(&r, 4).n, 0);
}

/* The aligned 32-bit words around the middle of any source lie within it; nobody else's bytes are
 * read. */
static void br_gpu_middle__reads_within_the_sources(void **state)
{
    (void)state;
    for (int round = 0; round < 100000; round++) {
        struct br_gpu_reduction r = {.dst = memory[0] + br_random_below(&numbers, 32) * 2,
                                     .bytes = 2 * br_random_below(&numbers, 60),
                                     .n_src = 2};
        struct br_gpu_middle middle;

        for (int s = 0; s < 2; s++)
            r.src[s] = memory[1 + s] + br_random_below(&numbers, 32);
        middle = br_gpu_middle(&r, 2);
        for (int s = 0; s < 2 && middle.n; s++) {
            uintptr_t at = (uintptr_t)r.src[s], from = at + middle.first, to = from + 16 * middle.n;

            assert_true((from & ~(uintptr_t)3) >= at);
            assert_true(((to + 3) & ~(uintptr_t)3) <= at + r.bytes);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels__give_the_bits_of_the_cpu),
        cmocka_unit_test(kernels__at_any_address),
        cmocka_unit_test(kernels__average_of_one),
        cmocka_unit_test(kernels__destination_is_a_source),
        cmocka_unit_test(averages__are_rounded_correctly),
        cmocka_unit_test(pairs__are_compared_like_elements),
        cmocka_unit_test(kernels__touch_nothing_outside),
        cmocka_unit_test(br_gpu_middle__leaves_only_edges),
        cmocka_unit_test(br_gpu_middle__reads_within_the_sources),
    };

    br_random_seed(&numbers, 8);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
