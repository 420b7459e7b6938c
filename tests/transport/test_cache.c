/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cache on real memory and a device that pins in its own way: it notes what stands in each page when it is registered. A page that
 * has been replaced since stands there with other words, so an entry that outlived its pages shows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/random.h"
#include "transport/cache.h"

#define PAGE  4096ul
#define PAGES 64 /* of the arena */

/* What a device keeps of a region. */
struct pin {
    uintptr_t start;
    size_t pages;
    uint64_t words[]; /* first one of each page */
};

static struct fake {
    struct br_device base;
    struct br_transport_ops ops;
    uint64_t registered, released, pinned;
    uint64_t limit;          /* bytes that may be pinned; more is -ENOMEM */
    void (*meanwhile)(void); /* what another thread does while this registers; once */
} fakes[2];
static struct br_device *devices[] = {&fakes[0].base, &fakes[1].base};
static struct br_cache *cache;
static _Atomic uint64_t next_word = 1;

static int pin(struct br_device *base, struct br_region *region)
{
    struct fake *fake = (struct fake *)base;
    size_t pages = region->bytes / PAGE;
    void (*meanwhile)(void) = fake->meanwhile;
    struct pin *pinned;

    if (fake->pinned + region->bytes > fake->limit)
        return br_error(ENOMEM, "this device pins %zu bytes at most", (size_t)fake->limit);
    pinned = malloc(sizeof *pinned + pages * sizeof pinned->words[0]);
    assert_non_null(pinned);
    pinned->start = (uintptr_t)region->base;
    pinned->pages = pages;
    for (size_t i = 0; i < pages; i++) {
        struct iovec to = {&pinned->words[i], sizeof pinned->words[i]};
        struct iovec from = {(void *)(pinned->start + i * PAGE), sizeof pinned->words[i]};

        /* as the kernel looks at pages: other threads may unmap them meanwhile */
        if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != (ssize_t)sizeof pinned->words[i]) {
            free(pinned);
            return br_error(EFAULT, "page %zu of %zu is gone", i, pages);
        }
    }
    fake->registered++;
    fake->pinned += region->bytes;
    region->keys[base->index] = pinned;
    fake->meanwhile = NULL;
    if (meanwhile)
        meanwhile();
    return 0;
}

static void unpin(struct br_device *base, struct br_region *region)
{
    struct fake *fake = (struct fake *)base;

    assert_non_null(region->keys[base->index]);
    fake->released++;
    fake->pinned -= region->bytes;
    free(region->keys[base->index]);
    region->keys[base->index] = NULL;
}

/* Would the device work on the pages that the process sees? */
static bool sees(const struct br_region *region, const uint8_t *memory, size_t bytes)
{
    for (int d = 0; d < 2; d++) {
        const struct pin *p = region->keys[d];
        uintptr_t at = (uintptr_t)memory & ~(PAGE - 1);

        if (!p || at < p->start || (uintptr_t)memory + bytes > p->start + p->pages * PAGE)
            return false;
        for (; at < (uintptr_t)memory + bytes; at += PAGE)
            if (p->words[(at - p->start) / PAGE] != *(volatile uint64_t *)at)
                return false;
    }
    return true;
}

static void mark(uint8_t *memory, size_t pages)
{
    for (size_t i = 0; i < pages; i++)
        *(volatile uint64_t *)(memory + i * PAGE) = atomic_fetch_add(&next_word, 1);
}

static uint8_t *map_at(void *at, size_t pages)
{
    uint8_t *p = mmap(at, pages * PAGE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);

    assert_ptr_not_equal(p, MAP_FAILED);
    mark(p, pages);
    return p;
}

/*
 * Takes pages away and leaves no hole: while munmap() waits for the monitor, another thread's malloc() may map something into the hole,
 * which the next map_at() there would destroy. A test that calls munmap() or moves pages away never maps there again.
 */
static void take_away(void *at, size_t pages)
{
    assert_ptr_equal(
        mmap(at, pages * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0),
        at);
}

static void open_cache(uint64_t pages)
{
    int rc = br_cache_open(devices, 2, 2 * pages * PAGE, &cache);

    if (rc) {
        print_message("no registration cache here: %s\n", br_error_words());
        cache = NULL;
        skip();
    }
}

static int setup(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        fakes[i] = (struct fake){
            .base = {.ops = &fakes[i].ops, .caps.pins = true, .index = i},
            .ops = {.name = "fake", .region_register = pin, .region_release = unpin},
            .limit = UINT64_MAX,
        };
    }
    cache = NULL;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    br_cache_close(cache);
    for (int i = 0; i < 2; i++)
        if (fakes[i].pinned || fakes[i].registered != fakes[i].released)
            return -1;
    return 0;
}

static struct br_region *get(const uint8_t *memory, size_t bytes)
{
    struct br_region *region = br_cache_get(cache, memory, bytes);

    if (region) {
        assert_true(br_cache_owns(cache, region));
        assert_true(sees(region, memory, bytes));
    }
    return region;
}

static void use(const uint8_t *memory, size_t bytes)
{
    struct br_region *region = get(memory, bytes);

    assert_non_null(region);
    br_cache_put(cache, region);
}

static void get__registers_once(void **state)
{
    struct br_region other;
    uint8_t *p;

    (void)state;
    open_cache(PAGES);
    p = map_at(NULL, PAGES);
    for (int i = 0; i < 1000; i++)
        use(p + 100 + i, 5 * PAGE);
    assert_int_equal(fakes[0].registered, 1);
    assert_int_equal(fakes[1].registered, 1);
    assert_int_equal(br_cache_counters(cache)->hits, 999);
    assert_int_equal(br_cache_counters(cache)->pinned_bytes, 2 * 6 * PAGE);
    assert_false(br_cache_owns(cache, &other));
    assert_null(br_cache_get(cache, p, 0));
    assert_null(br_cache_get(cache, p, SIZE_MAX - 1));
    munmap(p, PAGES * PAGE);
}

static void get__overlaps_become_one(void **state)
{
    struct br_region *first;
    uint8_t *p;

    (void)state;
    open_cache(PAGES);
    p = map_at(NULL, PAGES);
    first = get(p, 4 * PAGE);
    use(p + 3 * PAGE, 4 * PAGE); /* the first is in use: it stays pinned beside */
    assert_int_equal(br_cache_counters(cache)->pinned_bytes, 2 * (4 + 7) * PAGE);
    use(p + 7 * PAGE, PAGE); /* touches */
    assert_int_equal(fakes[0].registered, 3);
    for (int i = 0; i < 10; i++) {
        use(p, 4 * PAGE);
        use(p + 3 * PAGE, 4 * PAGE);
    }
    assert_int_equal(fakes[0].registered, 3);
    br_cache_put(cache, first);
    assert_int_equal(br_cache_counters(cache)->pinned_bytes, 2 * (7 + 1) * PAGE);
    use(p + 6 * PAGE, 2 * PAGE);
    assert_int_equal(br_cache_counters(cache)->pinned_bytes, 2 * 8 * PAGE);
    munmap(p, PAGES * PAGE);
}

static void get__bound_holds(void **state)
{
    struct br_region *held[2];
    uint8_t *p;

    (void)state;
    open_cache(8);
    p = map_at(NULL, PAGES);
    for (size_t i = 0; i < 16; i++)
        use(p + 2 * i * PAGE, 2 * PAGE);
    assert_int_equal(br_cache_counters(cache)->pinned_bytes, 2 * 8 * PAGE);
    assert_int_equal(br_cache_counters(cache)->evicted, 12);
    use(p + 24 * PAGE, PAGE); /* the oldest that is left: now the youngest */
    use(p, 2 * PAGE);
    use(p + 24 * PAGE, PAGE);
    assert_int_equal(fakes[0].registered, 17);
    held[0] = get(p, 4 * PAGE);
    held[1] = get(p + 8 * PAGE, 4 * PAGE);
    assert_null(get(p + 20 * PAGE, PAGE)); /* all is in use */
    assert_null(get(p, 9 * PAGE));         /* never */
    assert_int_equal(br_cache_counters(cache)->refused, 2);
    br_cache_put(cache, held[0]);
    use(p + 20 * PAGE, PAGE);
    br_cache_put(cache, held[1]);
    munmap(p, PAGES * PAGE);
}

/* The union would be too large, the memory alone is not. */
static void get__union_beyond_the_bound(void **state)
{
    uint8_t *p;

    (void)state;
    open_cache(8);
    p = map_at(NULL, PAGES);
    use(p, 6 * PAGE);
    use(p + 5 * PAGE, 6 * PAGE);
    assert_int_equal(br_cache_counters(cache)->pinned_bytes, 2 * 6 * PAGE);
    munmap(p, PAGES * PAGE);
}

static void get__no_memory_empties_the_cache(void **state)
{
    uint8_t *p;

    (void)state;
    open_cache(PAGES);
    p = map_at(NULL, PAGES);
    fakes[1].limit = 8 * PAGE;
    use(p, 3 * PAGE);
    use(p + 4 * PAGE, 3 * PAGE);
    use(p + 10 * PAGE, 6 * PAGE); /* not beside the others */
    assert_int_equal(fakes[1].pinned, 6 * PAGE);
    assert_null(get(p + 20 * PAGE, 9 * PAGE));
    assert_int_equal(fakes[0].pinned, 0); /* undone there, too */
    use(p + 20 * PAGE, 8 * PAGE);
    munmap(p, PAGES * PAGE);
}

/* Until nothing is pinned. A change returns when the monitor's thread has read of it, which is before it has told the cache. */
static void tidy_up(void)
{
    for (int ms = 0; fakes[0].pinned && ms < 10000; ms++) {
        br_cache_tidy(cache);
        usleep(1000);
    }
    assert_int_equal(fakes[0].pinned, 0);
}

static void get__changed_pages_are_registered_anew(void **state)
{
    struct br_region *held;
    uint8_t *p;

    (void)state;
    open_cache(PAGES);
    p = map_at(NULL, PAGES);
    held = get(p, 8 * PAGE);
    assert_int_equal(munmap(p + 4 * PAGE, (PAGES - 4) * PAGE), 0);
    use(p, 4 * PAGE); /* the other half is still there, but not in the old entry */
    assert_int_equal(fakes[0].registered, 2);
    assert_int_equal(fakes[0].released, 0); /* somebody is still at work with it */
    br_cache_put(cache, held);
    assert_int_equal(fakes[0].released, 1);
    map_at(p, 4);
    use(p, 4 * PAGE);
    assert_int_equal(br_cache_counters(cache)->invalidated, 2);
    madvise(p, PAGE, MADV_DONTNEED);
    tidy_up(); /* nobody needs to come back for it */
    munmap(p, 4 * PAGE);
}

static void get__moved_pages_are_registered_anew(void **state)
{
    uint8_t *p, *to;

    (void)state;
    open_cache(PAGES);
    p = map_at(NULL, 8);
    to = map_at(NULL, 8);
    use(p, 8 * PAGE);
    use(to, 8 * PAGE);
    assert_ptr_equal(mremap(p, 8 * PAGE, 8 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to), to);
    tidy_up(); /* what stood here and what stood there are gone */
    use(to, 8 * PAGE);
    assert_int_equal(br_cache_counters(cache)->invalidated, 2);
    munmap(to, 8 * PAGE);
}

static uint8_t *victim;

static void replace_victim(void)
{
    map_at(victim + PAGE, 1);
}

/* Another thread replaces a page after it has been pinned and before the entry is handed out. */
static void get__changed_while_it_registers(void **state)
{
    (void)state;
    open_cache(PAGES);
    victim = map_at(NULL, PAGES);
    fakes[0].meanwhile = replace_victim;
    assert_null(br_cache_get(cache, victim, 4 * PAGE));
    assert_int_equal(fakes[0].pinned, 0);
    use(victim, 4 * PAGE);
    fakes[1].meanwhile = replace_victim;
    assert_null(br_cache_get(cache, victim, 8 * PAGE));
    use(victim, 8 * PAGE);
    munmap(victim, PAGES * PAGE);
}

static void get__what_cannot_be_watched(void **state)
{
    uint8_t *p;

    (void)state;
    open_cache(PAGES);
    p = map_at(NULL, PAGES);
    munmap(p, PAGES * PAGE);
    assert_null(br_cache_get(cache, p, 4 * PAGE)); /* nothing is mapped there */
    assert_int_equal(br_cache_counters(cache)->refused, 1);
    assert_int_equal(fakes[0].registered, 0);
}

static void open__without_userfaultfd(void **state)
{
    struct rlimit before, none;
    struct br_cache *refused = NULL;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_true(br_cache_open(devices, 2, 1 << 20, &refused) < 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_null(refused);
    br_cache_close(NULL);
}

static void default_bytes__shares(void **state)
{
    struct rlimit before, small;
    int status;
    pid_t pid;

    (void)state;
    assert_true(br_cache_default_bytes(1) > 0);
    assert_true(br_cache_default_bytes(4) <= br_cache_default_bytes(1));
    assert_int_equal(br_cache_default_bytes(0), br_cache_default_bytes(1));
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        getrlimit(RLIMIT_MEMLOCK, &before);
        small = before;
        small.rlim_cur = 2 << 20;
        _exit(setrlimit(RLIMIT_MEMLOCK, &small) || (!geteuid() && setuid(65534)) ||
              br_cache_default_bytes(1) != 1 << 20);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* ---- random ----------------------------------------------------------------------------------------------- */

/* The naive model: what is mapped, and for each page the last use that has not been invalidated since. With a bound
 * that is never reached a span that was used as such before, and of which nothing has changed, must be a hit. */
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
        bool same = model.uses[u].first <= first && first + n <= model.uses[u].first + model.uses[u].n;

        /* a union with another span may have been thrown away since, with all that changed in that span */
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
        take_away(at, n);
        break;
    case 1:
        map_at(at, n);
        break;
    case 2:
        for (size_t i = 0; i < n; i++)
            if (!model.mapped[first + i])
                map_at(at + i * PAGE, 1);
        assert_int_equal(madvise(at, n * PAGE, MADV_DONTNEED), 0);
        mark(at, n);
        break;
    default:
        map_at(at, n);
        n = n / 2 + 1 > n ? n : n / 2 + 1;
        assert_ptr_not_equal(mremap(at, n * PAGE, n * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP,
                                    model.base + (2 * PAGES + first) * PAGE),
                             MAP_FAILED);
        map_at(at, n);
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
    uint64_t before = fakes[0].registered;
    bool hit = unbounded && must_hit(first, n);
    struct br_region *region;

    for (size_t i = 0; i < n; i++)
        if (!model.mapped[first + i])
            return;
    region = get(at, n * PAGE - PAGE / 2);
    if (unbounded)
        assert_non_null(region);
    if (!region)
        return;
    if (hit)
        assert_int_equal(fakes[0].registered, before);
    model.uses[model.n_uses % 64].first = first;
    model.uses[model.n_uses % 64].n = n;
    model.uses[model.n_uses++ % 64].step = step;
    if (*held)
        br_cache_put(cache, *held);
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
    map_at(model.base, PAGES);
    memset(model.mapped, true, sizeof model.mapped);
    for (int step = 1; step <= steps; step++) {
        size_t first = br_random_below(&random, PAGES), n = 1 + br_random_below(&random, 12);

        n = first + n > PAGES ? PAGES - first : n;
        if (!br_random_below(&random, 12))
            change(&random, first, n, (uint64_t)step);
        else
            random_use(&random, first, n, (uint64_t)step, &held[br_random_below(&random, 4)], bound > PAGES);
        assert_true(br_cache_counters(cache)->pinned_bytes <= 2 * bound * PAGE);
        assert_int_equal(br_cache_counters(cache)->pinned_bytes, fakes[0].pinned + fakes[1].pinned);
    }
    for (int i = 0; i < 4; i++)
        if (held[i])
            br_cache_put(cache, held[i]);
    munmap(model.base, 4 * PAGES * PAGE);
}

static void get__random_against_a_model(void **state)
{
    (void)state;
    open_cache(100 * PAGES);
    for (uint64_t seed = 1; seed <= 10; seed++)
        run_random(seed, 100 * PAGES, 2000);
}

static void get__random_in_little_room(void **state)
{
    (void)state;
    open_cache(24);
    for (uint64_t seed = 11; seed <= 20; seed++)
        run_random(seed, 24, 2000);
    assert_true(br_cache_counters(cache)->evicted > 100);
    assert_true(br_cache_counters(cache)->hits > 100);
}

/* ---- threads ---------------------------------------------------------------------------------------------- */

static pthread_mutex_t worker = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int wrong, good;

/* Maps, uses, unmaps; the kernel gives the same addresses to one thread after another. What it changes it changes outside of the
 * worker's lock, as any program does. */
static void *use_and_unmap(void *argument)
{
    struct br_random random;

    br_random_seed(&random, (uint64_t)(uintptr_t)argument);
    for (int i = 0; i < 1500; i++) {
        size_t pages = 1 + br_random_below(&random, 8);
        uint8_t *p = map_at(NULL, pages);
        struct br_region *region;

        for (int again = 0; again < 2; again++) {
            pthread_mutex_lock(&worker);
            region = br_cache_get(cache, p, pages * PAGE);
            if (region) {
                if (!sees(region, p, pages * PAGE))
                    atomic_fetch_add(&wrong, 1);
                atomic_fetch_add(&good, 1);
                br_cache_put(cache, region);
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
    open_cache(32);
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
        cmocka_unit_test_setup_teardown(get__registers_once, setup, teardown),
        cmocka_unit_test_setup_teardown(get__overlaps_become_one, setup, teardown),
        cmocka_unit_test_setup_teardown(get__bound_holds, setup, teardown),
        cmocka_unit_test_setup_teardown(get__union_beyond_the_bound, setup, teardown),
        cmocka_unit_test_setup_teardown(get__no_memory_empties_the_cache, setup, teardown),
        cmocka_unit_test_setup_teardown(get__changed_pages_are_registered_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(get__moved_pages_are_registered_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(get__changed_while_it_registers, setup, teardown),
        cmocka_unit_test_setup_teardown(get__what_cannot_be_watched, setup, teardown),
        cmocka_unit_test_setup_teardown(open__without_userfaultfd, setup, teardown),
        cmocka_unit_test_setup_teardown(default_bytes__shares, setup, teardown),
        cmocka_unit_test_setup_teardown(get__random_against_a_model, setup, teardown),
        cmocka_unit_test_setup_teardown(get__random_in_little_room, setup, teardown),
        cmocka_unit_test_setup_teardown(get__threads_and_addresses_used_again, setup, teardown),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
