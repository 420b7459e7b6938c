/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cache on real memory and devices that pin in their own way: they note what stands in each
 * page when it is registered. A page that has been replaced since stands there with other words, so
 * an entry that outlived its pages shows.
 */
#ifndef BR_TESTS_CACHE_FAKE_H
#define BR_TESTS_CACHE_FAKE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "transport/cache.h"

#define PAGE  4096ul
#define PAGES 64 /* of the arena */

struct cache_fake {
    struct br_device base;
    struct br_transport_ops ops;
    uint64_t registered, released, pinned;
    uint64_t limit;          /* bytes that may be pinned; more is -ENOMEM */
    void (*meanwhile)(void); /* what another thread does while this registers; once */
};
extern struct cache_fake cache_fakes[2];
extern struct br_device *cache_devices[2]; /* the same */
extern struct br_cache *cache_tested;

int cache_setup(void **state);
int cache_teardown(void **state); /* -1: something is still pinned */
void cache_open(uint64_t pages);  /* skips the test where there is no such cache */
struct br_region *cache_get(const uint8_t *memory, size_t bytes);
void cache_use(const uint8_t *memory, size_t bytes);
/* Would the device work on the pages that the process sees? */
bool cache_sees(const struct br_region *region, const uint8_t *memory, size_t bytes);
void cache_mark(uint8_t *memory, size_t pages); /* gives each page a word of its own */
uint8_t *cache_map_at(void *at, size_t pages);  /* NULL: anywhere; marked */
/*
 * Takes pages away and leaves no hole: while munmap() waits for the monitor, another thread's
 * malloc() may map something into the hole, which the next cache_map_at() there would destroy. A
 * test that calls munmap() or moves pages away never maps there again.
 */
void cache_take_away(void *at, size_t pages);

#endif
