/* SPDX-License-Identifier: BSD-3-Clause */
/* The cache in random trouble, against a naive model, and with threads. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "base/random.h"
#include "tests/transport/cache_fake.h"

/* ---- random ---------------------------------------------------------------------------------- */

/* The naive model: what is mapped, and for each page the last use that has not been invalidated
 * since. With a bound that is never reached a span that was used as such before, and of which
 * nothing has changed, must be a hit. */
static struct {
    uint8_t *base;
    bool mapped[PAGES];
    uint64_t changed[PAGES]; /* step of the last change */
    struct {
        size_t first, n;
        uint64_t step;
    } uses[64];
    uint32_t n_uses;
} model;

static bool must_hit(size_t first, size_t n)
{
    for (uint32_t u = 0; u < 64 && u < model.n_uses; u++) {
        bool same =
            model.uses[u].first <= first && first + n <= model.uses[u].first + model.uses[u].n;

        /* a union with another span may have been thrown away since, with all that changed in that
         * span */
        for (size_t i = 0; i < PAGES && same; i++)
            same = model.changed[i] < model.uses[u].step;
        if (same)
            return true;
    }
    return false;
}

static void change(struct br_random *random, size_t first, size_t n, uint64_t step)
{
    uint8_t *at = model.base + first * PAGE;
    uint64_t how = br_random_below(random, 4);

    switch (how) {
    case 0:
        cache_take_away(at, n);
        break;
    case 1:
        cache_map_at(at, n);
        break;
    case 2:
        for (size_t i = 0; i < n; i++)
            if (!model.mapped[first + i])
                cache_map_at(at + i * PAGE, 1);
        assert_int_equal(madvise(at, n * PAGE, MADV_DONTNEED), 0);
        cache_mark(at, n);
        break;
    default:
        cache_map_at(at, n);
        n = n / 2 + 1 > n ? n : n / 2 + 1;
        assert_ptr_not_equal(mremap(at, n * PAGE, n * PAGE,
                                    MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP,
                                    model.base + (2 * PAGES + first) * PAGE),
                             MAP_FAILED);
        cache_map_at(at, n);
        break;
    }
    for (size_t i = 0; i < n; i++) {
        model.mapped[first + i] = how != 0;
        model.changed[first + i] = step;
    }
}

static void random_use(struct br_random *random, size_t first, size_t n, uint64_t step,
                       struct br_region **held, bool unbounded)
{
    const uint8_t *at = model.base + first * PAGE + br_random_below(random, PAGE / 2);
    uint64_t before = cache_fakes[0].registered;
    bool hit = unbounded && must_hit(first, n);
    struct br_region *region;

    for (size_t i = 0; i < n; i++)
        if (!model.mapped[first + i])
            return;
    region = cache_get(at, n * PAGE - PAGE / 2);
    if (unbounded)
        assert_non_null(region);
    if (!region)
        return;
    if (hit)
        assert_int_equal(cache_fakes[0].registered, before);
    model.uses[model.n_uses % 64].first = first;
    model.uses[model.n_uses % 64].n = n;
    model.uses[model.n_uses++ % 64].step = step;
    if (*held)
        br_cache_put(cache_tested, *held);
    *held = region;
}

static void run_random(uint64_t seed, uint64_t bound, int steps)
{
    struct br_region *held[4] = {0};
    struct br_random random;

    memset(&model, 0, sizeof model);
    br_random_seed(&random, seed);
    model.base = mmap(NULL, 4 * PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(model.base, MAP_FAILED);
    cache_map_at(model.base, PAGES);
    memset(model.mapped, true, sizeof model.mapped);
    for (int step = 1; step <= steps; step++) {
        size_t first = br_random_below(&random, PAGES), n = 1 + br_random_below(&random, 12);

        n = first + n > PAGES ? PAGES - first : n;
        if (!br_random_below(&random, 12))
            change(&random, first, n, (uint64_t)step);
        else
            random_use(&random, first, n, (uint64_t)step, &held[br_random_below(&random, 4)],
                       bound > PAGES);
        assert_true(br_cache_counters(cache_tested)->pinned_bytes <= 2 * bound * PAGE);
        assert_int_equal(br_cache_counters(cache_tested)->pinned_bytes,
                         cache_fakes[0].pinned + cache_fakes[1].pinned);
    }
    for (int i = 0; i < 4; i++)
        if (held[i])
            br_cache_put(cache_tested, held[i]);
    munmap(model.base, 4 * PAGES * PAGE);
}

static void get__random_against_a_model(void **state)
{
    (void)state;
    cache_open(100 * PAGES);
    for (uint64_t seed = 1; seed <= 10; seed++)
        run_random(seed, 100 * PAGES, 2000);
}

static void get__random_in_little_room(void **state)
{
    (void)state;
    cache_open(24);
    for (uint64_t seed = 11; seed <= 20; seed++)
        run_random(seed, 24, 2000);
    assert_true(br_cache_counters(cache_tested)->evicted > 100);
    assert_true(br_cache_counters(cache_tested)->hits > 100);
}

/* ---- threads --------------------------------------------------------------------------------- */

static pthread_mutex_t worker = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int wrong, good;

/* Maps, uses, unmaps; the kernel gives the same addresses to one thread after another. What it
 * changes it changes outside of the worker's lock, as any program does. */
static void *use_and_unmap(void *argument)
{
    struct br_random random;

    br_random_seed(&random, (uint64_t)(uintptr_t)argument);
    for (int i = 0; i < 1500; i++) {
        size_t pages = 1 + br_random_below(&random, 8);
        uint8_t *p = cache_map_at(NULL, pages);
        struct br_region *region;

        for (int again = 0; again < 2; again++) {
            pthread_mutex_lock(&worker);
            region = br_cache_get(cache_tested, p, pages * PAGE);
            if (region) {
                if (!cache_sees(region, p, pages * PAGE))
                    atomic_fetch_add(&wrong, 1);
                atomic_fetch_add(&good, 1);
                br_cache_put(cache_tested, region);
            }
            pthread_mutex_unlock(&worker);
        }
        munmap(p, pages * PAGE);
    }
    return NULL;
}

static void get__threads_and_addresses_used_again(void **state)
{
    pthread_t threads[4];

    (void)state;
    cache_open(32);
    atomic_store(&wrong, 0);
    atomic_store(&good, 0);
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use_and_unmap, (void *)(i + 1)), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(wrong, 0);
    assert_true(good > 100);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(get__random_against_a_model, cache_setup, cache_teardown),
        cmocka_unit_test_setup_teardown(get__random_in_little_room, cache_setup, cache_teardown),
        cmocka_unit_test_setup_teardown(get__threads_and_addresses_used_again, cache_setup,
                                        cache_teardown),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
