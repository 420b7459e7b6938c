/* SPDX-License-Identifier: BSD-3-Clause */
/* The formulas against a plain reference that rounds to float32 after each operation: the same
 * bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "training/parameters/update.h"

#define N 1037 /* no multiple of a vector's length */

struct arrays {
    float weight[N + 1], velocity[N], gradient[N], pre[N];
};

/* Of many magnitudes, some of them subnormal. */
static float draw(struct br_random *random)
{
    float magnitudes[] = {1, 1e-3f, 1e-20f, 1e-40f, 37, 1e6f};
    uint64_t r = br_random_next(random);

    return ((float)(r >> 40) / 8388608.0f - 1) * magnitudes[r % 6];
}

static void fill(struct arrays *a, uint64_t seed)
{
    struct br_random random;

    br_random_seed(&random, seed);
    a->weight[N] = 7;
    for (int i = 0; i < N; i++) {
        a->weight[i] = draw(&random);
        a->velocity[i] = draw(&random);
        a->gradient[i] = draw(&random);
        a->pre[i] = draw(&random);
    }
}

/* volatile: each product and each sum is a float32 of its own. */
static float times(float x, float y)
{
    volatile float z = x * y;

    return z;
}

static float plus(float x, float y)
{
    volatile float z = x + y;

    return z;
}

static float minus(float x, float y)
{
    volatile float z = x - y;

    return z;
}

static void same(const float *got, const float *wanted, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&got[i], &wanted[i], sizeof *got))
            fail_msg("element %zu: %a, not %a", i, (double)got[i], (double)wanted[i]);
}

static void sgd__bits_of_the_formula(void **state)
{
    static struct arrays got, wanted;
    struct br_update_sgd s = {.rate = 0.05f, .momentum = 0.9f, .decay = 1e-4f};

    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        fill(&got, seed);
        wanted = got;
        br_update_sgd(&s, got.weight, got.velocity, got.gradient, 1.0f / 3, N);
        for (int i = 0; i < N; i++) {
            float d = plus(times(wanted.gradient[i], 1.0f / 3), times(s.decay, wanted.weight[i]));

            wanted.velocity[i] = plus(times(s.momentum, wanted.velocity[i]), d);
            wanted.weight[i] = minus(wanted.weight[i], times(s.rate, wanted.velocity[i]));
        }
        same(got.velocity, wanted.velocity, N);
        same(got.weight, wanted.weight, N + 1);
    }
}

static void glu__bits_of_the_formula(void **state)
{
    static struct arrays got, wanted;
    struct br_update_glu g = {.rate = 0.2f, .own = 2, .sync = 0.5f, .decay = 1e-4f, .factor = 0.3f};

    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        fill(&got, seed);
        wanted = got;
        br_update_glu(&g, got.weight, got.gradient, got.pre, N);
        for (int i = 0; i < N; i++) {
            float own = plus(times(g.own, wanted.gradient[i]), times(g.decay, wanted.weight[i]));
            float grad_sync = times(minus(wanted.pre[i], wanted.weight[i]), g.factor);
            float all = plus(own, times(g.sync, grad_sync));

            wanted.weight[i] = minus(wanted.weight[i], times(g.rate, all));
        }
        same(got.weight, wanted.weight, N + 1);
    }
}

/* What the factor is for: of weights that k steps of momentum SGD with one gradient moved, long
 * since in their stride, grad_sync is that gradient. */
static void glu__moves_by_the_gradient_of_a_steady_descent(void **state)
{
    struct br_update_sgd s = {.rate = 0.01f, .momentum = 0.9f};
    struct br_update_glu g = {.rate = 1, .sync = 1, .factor = (1 - s.momentum) / (s.rate * 4)};
    float weight = 3, velocity = 0, gradient = 0.25f, pre, mine, none = 0;

    (void)state;
    for (int i = 0; i < 500; i++)
        br_update_sgd(&s, &weight, &velocity, &gradient, 1, 1);
    pre = weight;
    for (int i = 0; i < 4; i++)
        br_update_sgd(&s, &weight, &velocity, &gradient, 1, 1);
    mine = weight;
    br_update_glu(&g, &mine, &none, &pre, 1);
    assert_float_equal(weight - mine, gradient, 1e-4f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sgd__bits_of_the_formula),
        cmocka_unit_test(glu__bits_of_the_formula),
        cmocka_unit_test(glu__moves_by_the_gradient_of_a_steady_descent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
