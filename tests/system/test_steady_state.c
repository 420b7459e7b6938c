/* SPDX-License-Identifier: BSD-3-Clause */
/* In the steady state nothing is allocated and nothing copied: by braid's counters, and by counting
 * malloc() itself. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/system/ranks.h"

#define WARM  20
#define TIMES 15
#define COUNT 400000

/* ---- malloc() of this program ---------------------------------------------------------------- */

static _Atomic long allocations;

#if defined __GLIBC__ && !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
#define COUNTS_MALLOC 1

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t n, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

void *malloc(size_t bytes)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_calloc(n, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_realloc(memory, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_memalign(alignment, bytes);
}
#endif

/* ---- the data path --------------------------------------------------------------------------- */

struct path {
    size_t count; /* of float32 */
    int allocated, blocking, p2p;
    int staged;  /* memory that is not from braid_alloc() is copied once more on its way (shm) */
    int segment; /* all-reduces go through the shared segment, which counts no bytes */
};

struct memory {
    float *send, *recv;
};

static int once(struct braid_comm *comm, const struct path *p, struct memory m)
{
    int other = (braid_rank(comm) + 1) % braid_size(comm),
        from = (braid_rank(comm) + braid_size(comm) - 1) % braid_size(comm);
    struct braid_op *op, *second;

    if (p->p2p) {
        RETURNS(0, braid_send(comm, m.send, p->count * 4, other, NULL, &op));
        RETURNS(0, braid_recv(comm, m.recv, p->count * 4, from, NULL, &second));
        RETURNS(0, braid_wait(op, -1));
        return braid_wait(second, -1);
    }
    if (p->blocking)
        return braid_allreduce(comm, m.send, m.recv, p->count, BRAID_FLOAT32, BRAID_SUM, NULL,
                               NULL);
    RETURNS(0,
            braid_allreduce(comm, m.send, m.recv, p->count, BRAID_FLOAT32, BRAID_SUM, NULL, &op));
    return braid_wait(op, -1);
}

/* After the warm-up: no allocation; and, for large data, every byte placed or mapped. Of shared
 * memory from braid_alloc() none is copied besides. Of TCP few are: it reads ahead behind a small
 * frame, up to 8 KiB, which may be the beginning of a large one; where ranks wait for a processor
 * that happens to nearly every slice. */
static int steady(struct braid_comm *comm, void *context)
{
    const struct path *p = context;
    size_t bytes = COUNT * sizeof(float);
    struct memory m = {p->allocated ? braid_alloc(comm, bytes) : malloc(bytes),
                       p->allocated ? braid_alloc(comm, bytes) : malloc(bytes)};
    struct braid_stats before = {0}, after = {0};
    uint64_t moved, copied, total = (uint64_t)bytes * TIMES, most = total / 4;
    long allocated;

    memset(m.send, 0, bytes);
    for (int i = 0; i < WARM; i++)
        RETURNS(0, once(comm, p, m));
    RETURNS(0, braid_stats(comm, &before));
    allocated = atomic_load(&allocations);
    for (int i = 0; i < TIMES; i++)
        RETURNS(0, once(comm, p, m));
    allocated = atomic_load(&allocations) - allocated;
    RETURNS(0, braid_stats(comm, &after));
    CHECK(allocated == 0, "%ld allocations (%zu elements, braid_alloc %d, blocking %d, p2p %d)",
          allocated, p->count, p->allocated, p->blocking, p->p2p);
    CHECK(after.late_allocations == before.late_allocations, "pools have grown");
    moved = after.direct_bytes - before.direct_bytes + after.mapped_bytes - before.mapped_bytes;
    if (p->count == COUNT && (p->p2p || !p->segment)) {
        copied = after.copied_bytes - before.copied_bytes;
        if (p->staged)
            most = p->allocated ? 0 : total;
        CHECK(copied <= most, "%llu bytes copied (braid_alloc %d, p2p %d)",
              (unsigned long long)copied, p->allocated, p->p2p);
        CHECK(moved >= total / 2, "only %llu bytes have arrived", (unsigned long long)moved);
    }
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    if (!p->allocated) {
        free(m.send);
        free(m.recv);
    }
    return 0;
}

static void all_paths(int kind, int staged, int segment)
{
    static const size_t counts[] = {2, 3000, COUNT};

    for (size_t c = 0; c < 3; c++)
        for (int bits = 0; bits < 6; bits++) {
            struct path p = {counts[c], bits & 1, bits < 2, bits >= 4, staged, segment};
            struct ranks job = ranks_kinds[kind];

            job.size = 2;
            job.timeout_ms = RANKS_PATIENCE;
            ranks_run(&job, steady, &p);
        }
}

static void steady__uring(void **state)
{
    (void)state;
    all_paths(0, 0, 0);
}

static void steady__uring_two_rails(void **state)
{
    (void)state;
    all_paths(1, 0, 0);
}

static void steady__shm(void **state)
{
    (void)state;
    setenv("BRAID_SHM_COLLECTIVE_BYTES", "4K", 1);
    all_paths(2, 1, 0);
    unsetenv("BRAID_SHM_COLLECTIVE_BYTES");
    all_paths(2, 1, 1);
}

#ifdef COUNTS_MALLOC
static void malloc__is_counted(void **state)
{
    long before = atomic_load(&allocations);
    void *volatile memory;

    (void)state;
    memory = malloc(10);
    free(memory);
    assert_int_equal(atomic_load(&allocations) - before, 1);
}
#endif

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
#ifdef COUNTS_MALLOC
        cmocka_unit_test(malloc__is_counted),
#endif
        cmocka_unit_test(steady__uring),
        cmocka_unit_test(steady__uring_two_rails),
        cmocka_unit_test(steady__shm),
    };

    if (argc == 2)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
