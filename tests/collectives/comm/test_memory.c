/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/comm/memory.h"
#include "collectives/comm/progress_lock.h"
#include "tests/collectives/comm/single_rank.h"

static void alloc__pages_of_zeros(void **state)
{
    uint8_t *memory = braid_alloc(comm, 10001);

    (void)state;
    assert_non_null(memory);
    assert_int_equal((uintptr_t)memory % 4096, 0);
    for (int i = 0; i < 10001; i++)
        assert_int_equal(memory[i], 0);
    memset(memory, 1, 10001);
    assert_int_equal(braid_free(comm, memory), 0);
    assert_int_equal(comm->context->n_regions, 0);
}

static void alloc__arguments(void **state)
{
    uint8_t *memory = braid_alloc(comm, 1);
    int on_stack;

    (void)state;
    assert_null(braid_alloc(NULL, 1));
    assert_null(braid_alloc(comm, 0));
    assert_null(braid_alloc(comm, SIZE_MAX));
    assert_null(braid_alloc(comm, SIZE_MAX / 2));
    assert_true(braid_last_error()[0]);
    assert_int_equal(braid_free(NULL, memory), -EINVAL);
    assert_int_equal(braid_free(comm, &on_stack), -EINVAL);
    assert_int_equal(braid_free(comm, memory + 1), -EINVAL);
    assert_int_equal(braid_free(comm, NULL), 0);
    assert_int_equal(braid_free(comm, memory), 0);
    assert_int_equal(braid_free(comm, memory), -EINVAL);
}

static void register__arguments(void **state)
{
    uint8_t *memory = braid_alloc(comm, 4096);
    struct braid_region *region;
    char span[10];

    (void)state;
    assert_int_equal(braid_register(NULL, span, 10, &region), -EINVAL);
    assert_int_equal(braid_register(comm, NULL, 10, &region), -EINVAL);
    assert_int_equal(braid_register(comm, span, 0, &region), -EINVAL);
    assert_int_equal(braid_register(comm, span, 10, NULL), -EINVAL);
    assert_int_equal(braid_register(comm, span, SIZE_MAX, &region), -EINVAL);
    assert_int_equal(braid_register(comm, memory + 10, 10, &region), -EEXIST);
    assert_int_equal(braid_deregister(NULL), -EINVAL);
}

/* The program's handle of the region that contains a span. */
static struct braid_region *handle_at(struct br_context *context, const void *memory, size_t bytes)
{
    const struct braid_region *region = br_region_containing(context, memory, bytes);

    return region ? (struct braid_region *)(uintptr_t)region->handle : NULL;
}

static void register__overlaps(void **state)
{
    static char space[100];
    struct braid_region *a, *b, *c;

    (void)state;
    assert_int_equal(braid_register(comm, space + 40, 20, &a), 0);
    assert_int_equal(braid_register(comm, space + 40, 20, &b), -EEXIST);
    assert_int_equal(braid_register(comm, space + 39, 2, &b), -EEXIST);
    assert_int_equal(braid_register(comm, space + 59, 2, &b), -EEXIST);
    assert_int_equal(braid_register(comm, space, 100, &b), -EEXIST);
    assert_int_equal(braid_register(comm, space + 45, 1, &b), -EEXIST);
    assert_int_equal(braid_register(comm, space + 60, 40, &b), 0);
    assert_int_equal(braid_register(comm, space, 40, &c), 0);
    assert_int_equal(braid_deregister(a), 0);
    assert_int_equal(braid_register(comm, space + 40, 20, &a), 0);
    assert_ptr_equal(handle_at(comm->context, space + 40, 20), a);
    assert_ptr_equal(handle_at(comm->context, space + 39, 1), c);
    assert_null(br_region_containing(comm->context, space + 39, 2));
    assert_ptr_equal(handle_at(comm->context, space + 99, 1), b);
    assert_null(br_region_containing(comm->context, space + 99, 2));
    assert_int_equal(braid_deregister(b), 0);
    assert_int_equal(braid_deregister(c), 0);
    assert_int_equal(braid_deregister(a), 0);
}

/* Against a list that is searched from one end to the other. */
static void region_containing__any_order(void **state)
{
    static char space[64 * 100];
    struct braid_region *regions[64] = {0};
    struct br_random random;

    (void)state;
    br_random_seed(&random, 11);
    for (int step = 0; step < 3000; step++) {
        size_t k = br_random_below(&random, 64), at = br_random_below(&random, sizeof space);
        struct braid_region *found;

        if (regions[k]) {
            assert_int_equal(braid_deregister(regions[k]), 0);
            regions[k] = NULL;
        } else {
            assert_int_equal(braid_register(comm, space + k * 100 + 10, 80, &regions[k]), 0);
        }
        found = handle_at(comm->context, space + at, 1);
        assert_ptr_equal(found, at % 100 >= 10 && at % 100 < 90 ? regions[at / 100] : NULL);
    }
    for (int k = 0; k < 64; k++)
        if (regions[k])
            assert_int_equal(braid_deregister(regions[k]), 0);
}

static void region_find__counts_uses(void **state)
{
    uint8_t *memory = braid_alloc(comm, 1000);
    struct br_region *region;
    struct braid_key key;
    void *at;

    (void)state;
    assert_int_equal(braid_key(comm, memory + 999, &key), 0);
    assert_int_equal(key.bytes, 1000);
    assert_int_equal(br_region_find(comm->context, key.id, 990, 11, &at, &region), -EACCES);
    assert_int_equal(br_region_find(comm->context, key.id, UINT64_MAX, 2, &at, &region), -EACCES);
    assert_int_equal(br_region_find(comm->context, key.id + 1, 0, 1, &at, &region), -EACCES);
    assert_int_equal(br_region_find(comm->context, key.id, 990, 10, &at, &region), 0);
    assert_ptr_equal(at, memory + 990);
    assert_int_equal(braid_free(comm, memory), -EBUSY);
    br_region_done(comm->context, region);
    assert_int_equal(braid_free(comm, memory), 0);
    assert_int_equal(br_region_find(comm->context, key.id, 0, 1, &at, &region), -EACCES);
    assert_int_equal(braid_key(comm, memory, &key), -EINVAL);
    assert_int_equal(braid_key(comm, memory, NULL), -EINVAL);
}

/* Peers find each by its number. */
static void regions__as_many_as_memory_holds(void **state)
{
    enum { MANY = 6000 };
    static char space[MANY];
    static struct braid_region *regions[MANY];
    static struct braid_key keys[MANY];
    struct br_region *found;
    void *at;

    (void)state;
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(braid_register(comm, &space[i], 1, &regions[i]), 0);
        assert_int_equal(braid_key(comm, &space[i], &keys[i]), 0);
    }
    for (int i = 0; i < MANY; i += 2)
        assert_int_equal(braid_deregister(regions[i]), 0); /* the others go with the communicator */
    for (int i = 0; i < MANY; i++) {
        int rc = br_region_find(comm->context, keys[i].id, 0, 1, &at, &found);

        assert_int_equal(rc, i % 2 ? 0 : -EACCES);
        if (rc)
            continue;
        assert_ptr_equal(at, &space[i]);
        br_region_done(comm->context, found);
    }
}

/* ---- memory in no region --------------------------------------------------------------------- */

/* The numbers begin anew while a region lives. */
static void register__numbers_that_come_round(void **state)
{
    static char space[4];
    struct braid_region *first, *others[2];

    (void)state;
    assert_int_equal(braid_register(comm, &space[0], 1, &first), 0);
    comm->context->next_region = comm->context->regions[0]->region.id - 2;
    for (int i = 0; i < 2; i++)
        assert_int_equal(braid_register(comm, &space[2 + i], 1, &others[i]), 0);
    for (int i = 0; i < comm->context->n_regions; i++)
        for (int k = 0; k < i; k++)
            assert_int_not_equal(comm->context->regions[i]->region.id,
                                 comm->context->regions[k]->region.id);
    for (int i = 0; i < 2; i++)
        assert_int_equal(braid_deregister(others[i]), 0);
    assert_int_equal(braid_deregister(first), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(alloc__pages_of_zeros, join, leave),
        cmocka_unit_test_setup_teardown(alloc__arguments, join, leave),
        cmocka_unit_test_setup_teardown(register__arguments, join, leave),
        cmocka_unit_test_setup_teardown(register__overlaps, join, leave),
        cmocka_unit_test_setup_teardown(region_containing__any_order, join, leave),
        cmocka_unit_test_setup_teardown(region_find__counts_uses, join, leave),
        cmocka_unit_test_setup_teardown(regions__as_many_as_memory_holds, join, leave),
        cmocka_unit_test_setup_teardown(register__numbers_that_come_round, join, leave),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
