/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/transport/cache_fake.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/error.h"

/* What a device keeps of a region. */
struct pin {
    uintptr_t start;
    size_t pages;
    uint64_t words[]; /* first one of each page */
};

struct cache_fake cache_fakes[2];
struct br_device *cache_devices[2] = {&cache_fakes[0].base, &cache_fakes[1].base};
struct br_cache *cache_tested;
static _Atomic uint64_t next_word = 1;

static int pin(struct br_device *base, struct br_region *region)
{
    struct cache_fake *fake = (struct cache_fake *)base;
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
    struct cache_fake *fake = (struct cache_fake *)base;

    assert_non_null(region->keys[base->index]);
    fake->released++;
    fake->pinned -= region->bytes;
    free(region->keys[base->index]);
    region->keys[base->index] = NULL;
}

bool cache_sees(const struct br_region *region, const uint8_t *memory, size_t bytes)
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

void cache_mark(uint8_t *memory, size_t pages)
{
    for (size_t i = 0; i < pages; i++)
        *(volatile uint64_t *)(memory + i * PAGE) = atomic_fetch_add(&next_word, 1);
}

uint8_t *cache_map_at(void *at, size_t pages)
{
    uint8_t *p = mmap(at, pages * PAGE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);

    assert_ptr_not_equal(p, MAP_FAILED);
    cache_mark(p, pages);
    return p;
}

void cache_take_away(void *at, size_t pages)
{
    assert_ptr_equal(mmap(at, pages * PAGE, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0),
                     at);
}

void cache_open(uint64_t pages)
{
    int rc = br_cache_open(cache_devices, 2, 2 * pages * PAGE, &cache_tested);

    if (rc) {
        print_message("no registration cache here: %s\n", br_error_message());
        cache_tested = NULL;
        skip();
    }
}

int cache_setup(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        cache_fakes[i] = (struct cache_fake){
            .base = {.ops = &cache_fakes[i].ops, .caps.needs_rkey = true, .index = i},
            .ops = {.name = "fake", .region_register = pin, .region_release = unpin},
            .limit = UINT64_MAX,
        };
    }
    cache_tested = NULL;
    return 0;
}

int cache_teardown(void **state)
{
    (void)state;
    br_cache_close(cache_tested);
    for (int i = 0; i < 2; i++)
        if (cache_fakes[i].pinned || cache_fakes[i].registered != cache_fakes[i].released)
            return -1;
    return 0;
}

struct br_region *cache_get(const uint8_t *memory, size_t bytes)
{
    struct br_region *region = br_cache_get(cache_tested, memory, bytes);

    if (region) {
        assert_true(br_cache_owns(cache_tested, region));
        assert_true(cache_sees(region, memory, bytes));
    }
    return region;
}

void cache_use(const uint8_t *memory, size_t bytes)
{
    struct br_region *region = cache_get(memory, bytes);

    assert_non_null(region);
    br_cache_put(cache_tested, region);
}
