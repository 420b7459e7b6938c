/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce of memory of cuMemCreate() between real processes of one host, as PyTorch's expandable
 * segments are (gpu/extent.h), on the fake driver: its descriptors cross to the other ranks, which
 * map them.
 */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <braid/gpu.h>

#include "gpu/extent.h"
#include "gpu/reduce.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/system/app_gpu.h"
#include "tests/system/ranks.h"

/* The fake driver has the kernels, whatever is loaded; a build under a sanitizer has no image, and
 * takes this one. */
const struct br_gpu_image br_gpu_image = {"image", NULL, "sm_none"};

#define RANKS 3
#define GRAIN FAKE_CUDA_GRAIN
#define COUNT (GRAIN / sizeof(int32_t)) /* elements of a grain */

static void run(ranks_main *body, void *context)
{
    setenv("BRAID_CUDA_LIBRARY", FAKE_CUDA_LIBRARY, 1);
    setenv("BRAID_GPU_REDUCE", "auto", 1);
    ranks_run(&(struct ranks){.size = RANKS, .backend = "shm", .timeout_ms = RANKS_PATIENCE}, body,
              context);
}

/* `n` allocations of a grain, side by side. */
static int32_t *allocate(size_t n)
{
    char *at = own_gpu_reserve(n * GRAIN);

    for (size_t i = 0; i < n; i++)
        own_gpu_map(at + i * GRAIN, GRAIN, true);
    return (int32_t *)(void *)at;
}

static void release(int32_t *memory, size_t n)
{
    for (size_t i = 0; i < n; i++)
        own_gpu_unmap((char *)memory + i * GRAIN, GRAIN);
    own_gpu_unreserve(memory, n * GRAIN);
}

static int32_t *view(const int32_t *memory)
{
    return own_gpu_view(memory);
}

/* Of a few elements only: the others stay as they are. */
#define STEP 997

static void fill(int32_t *data, size_t count, int rank, int turn)
{
    for (size_t i = 0; i < count; i += STEP)
        view(data)[i] = (int32_t)(i % 1000) + 7 * rank + turn;
}

static int check(const int32_t *data, size_t count, int turn)
{
    for (size_t i = 0; i < count; i += STEP)
        CHECK(view(data)[i] == 3 * ((int32_t)(i % 1000) + 7 + turn), "element %zu of %zu: %d", i,
              count, view(data)[i]);
    return 0;
}

static int sum_and_check(struct braid_comm *comm, int32_t *in, int32_t *out, size_t count, int turn)
{
    fill(in, count, braid_rank(comm), turn);
    RETURNS(0, braid_allreduce(comm, in, out, count, BRAID_INT32, BRAID_SUM, NULL, NULL));
    return check(out, count, turn);
}

struct seen {
    uint64_t shared, staged, refused;
};

static struct seen look(struct braid_comm *comm)
{
    struct braid_stats stats = {0};

    braid_stats(comm, &stats);
    return (struct seen){stats.gpu_peer_bytes, stats.gpu_to_host_bytes + stats.host_to_gpu_bytes,
                         stats.downgrade_gpu_sharing};
}

/* All-reduces in place, of 10 elements, until `left` objects of the driver are left, as others tell
 * what they have let go in their notes. */
static int until_left(struct braid_comm *comm, int32_t *data, unsigned left)
{
    for (int turn = 0; turn < 1000 && fake_cuda_left() != left; turn++) {
        RETURNS(0, braid_barrier(comm, NULL, NULL));
        if (sum_and_check(comm, data, data, 2000, turn))
            return 1;
    }
    CHECK(fake_cuda_left() == left, "%u left, not %u", fake_cuda_left(), left);
    return 0;
}

static int open_files(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int n = 0;

    while (folder && readdir(folder))
        n++;
    if (folder)
        closedir(folder);
    return n;
}

/* ---- results --------------------------------------------------------------------------------- */

/* Over several allocations, anywhere in them, in place or not: nothing is staged, and no descriptor
 * is left open on the way. */
static int results(struct braid_comm *comm, void *context)
{
    const size_t most = 3 * COUNT;
    int32_t *in = allocate(4), *out = allocate(20), *other = own_gpu_alloc(2000 * sizeof *other);
    struct seen before, after;
    int files;

    (void)context;
    if (sum_and_check(comm, other, other, 2000, 0)) /* opens the GPU */
        return 1;
    files = open_files();
    before = look(comm);
    for (int turn = 0; turn < 6; turn++) {
        size_t shift = (size_t)turn * 1000, count = turn % 3 ? most - shift : 5000;
        int32_t *to = turn % 2 ? out + 7 * COUNT + shift : in + shift;

        if (sum_and_check(comm, in + shift, to, count, turn))
            return 1;
        after = look(comm);
        CHECK(after.shared - before.shared >= 2 * (RANKS - 1) * (count / RANKS) * sizeof *in,
              "%llu bytes", (unsigned long long)(after.shared - before.shared));
        before = after;
    }
    CHECK(!before.staged && !before.refused, "something was staged");
    /* the fake driver has one for each allocation that it has imported, three of each buffer */
    CHECK(open_files() == files + (RANKS - 1) * 6, "%d descriptors are open", open_files() - files);
    own_gpu_free(other);
    release(in, 4);
    release(out, 20);
    return 0;
}

static void created__results(void **state)
{
    (void)state;
    run(results, NULL);
}

/* More than are handed over at once, and those of several communicators at the same time. */
static int many(struct braid_comm *comm, void *context)
{
    enum { COMMS = 4, EACH = 40 };
    struct braid_comm *comms[COMMS];
    struct braid_op *ops[COMMS];
    int32_t *data[COMMS];

    (void)context;
    for (int i = 0; i < COMMS; i++) {
        data[i] = allocate(EACH);
        RETURNS(0, braid_comm_split(comm, 0, braid_rank(comm), &comms[i]));
        fill(data[i], EACH * COUNT, braid_rank(comm), i);
    }
    for (int i = 0; i < COMMS; i++)
        RETURNS(0, braid_allreduce(comms[i], data[i], data[i], EACH * COUNT, BRAID_INT32, BRAID_SUM,
                                   NULL, &ops[i]));
    for (int i = 0; i < COMMS; i++) {
        RETURNS(0, braid_wait(ops[i], -1));
        if (check(data[i], EACH * COUNT, i))
            return 1;
    }
    CHECK(!look(comm).staged && !look(comm).refused, "something was staged");
    for (int i = 0; i < COMMS; i++) {
        RETURNS(0, braid_finalize(comms[i]));
        release(data[i], EACH);
    }
    return 0;
}

static void created__many(void **state)
{
    (void)state;
    run(many, NULL);
}

/* Mapped anew at the same addresses: what others have mapped is stale. What is not mapped again
 * they let go while it goes on. */
static int freed(struct braid_comm *comm, void *context)
{
    int32_t *kept = allocate(1), *data = allocate(3);
    unsigned left;

    (void)context;
    if (sum_and_check(comm, kept, kept, 2000, 0))
        return 1;
    left = fake_cuda_left();
    for (int turn = 0; turn < 4; turn++) {
        if (sum_and_check(comm, data, data, 3 * COUNT, turn))
            return 1;
        own_gpu_unmap((char *)data + GRAIN, GRAIN);
        own_gpu_map((char *)data + GRAIN, GRAIN, true);
    }
    CHECK(!look(comm).staged && !look(comm).refused, "something was staged");
    release(data, 3);
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    if (until_left(comm, kept, left - 4)) /* three allocations, and their addresses */
        return 1;
    ranks_tell(0); /* nobody needs us any more for that */
    ranks_await(0, RANKS);
    release(kept, 1);
    return 0;
}

static void created__freed(void **state)
{
    (void)state;
    run(freed, NULL);
}

/* Mapping may wait for all streams: not while an operation of another communicator stands in
 * one. */
static int beside_a_stream(struct braid_comm *comm, void *context)
{
    static _Atomic uint32_t gate;
    struct CUstream_st *stream;
    struct braid_comm *other;
    int32_t *data = allocate(1), *streamed = own_gpu_alloc(5000 * sizeof *streamed);

    (void)context;
    fake_cuda()->thread = true;
    RETURNS(0, braid_comm_split(comm, 0, braid_rank(comm), &other));
    CHECK(!own_gpu()->stream_create(&stream, BR_CUDA_STREAM_NON_BLOCKING, 0), "no stream");
    if (sum_and_check(comm, streamed, streamed, 10, 0)) /* opens the GPU */
        return 1;
    own_gpu()->stream_wait_32(stream, (uintptr_t)&gate, 1, BR_CUDA_WAIT_GEQ);
    fill(streamed, 5000, braid_rank(comm), 9);
    RETURNS(0, braid_allreduce_on_stream(other, streamed, streamed, 5000, BRAID_INT32, BRAID_SUM,
                                         NULL, stream));
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    if (sum_and_check(comm, data, data, COUNT, 0))
        return 1;
    CHECK(!look(comm).shared && !look(comm).refused, "it was mapped");
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    gate = 1;
    own_gpu()->stream_synchronize(stream);
    if (check(streamed, 5000, 9))
        return 1;
    for (int turn = 0; turn < 1000 && !look(comm).shared; turn++) /* the copy back has to be seen */
        if (sum_and_check(comm, data, data, COUNT, turn))
            return 1;
    CHECK(look(comm).shared, "it is never mapped");
    RETURNS(0, braid_finalize(other));
    own_gpu()->stream_destroy(stream);
    own_gpu_free(streamed);
    release(data, 1);
    return 0;
}

static void created__beside_a_stream(void **state)
{
    (void)state;
    run(beside_a_stream, NULL);
}

/* New memory of two communicators at once, which rank 1 comes to in another order: who hands
 * nothing over leaves the links to the other. */
static int crossed(struct braid_comm *comm, void *context)
{
    struct braid_comm *comms[2];
    struct braid_op *ops[2];
    int32_t *data[2];

    (void)context;
    for (int i = 0; i < 2; i++)
        RETURNS(0, braid_comm_split(comm, 0, braid_rank(comm), &comms[i]));
    for (int turn = 0; turn < 40; turn++) {
        for (int i = 0; i < 2; i++) {
            data[i] = allocate(2);
            fill(data[i], 2 * COUNT, braid_rank(comm), i);
        }
        RETURNS(0, braid_barrier(comm, NULL, NULL));
        for (int k = 0; k < 2; k++) {
            int i = braid_rank(comm) == 1 ? 1 - k : k;

            RETURNS(0, braid_allreduce(comms[i], data[i], data[i], 2 * COUNT, BRAID_INT32,
                                       BRAID_SUM, NULL, &ops[i]));
        }
        for (int i = 0; i < 2; i++) {
            RETURNS(0, braid_wait(ops[i], -1));
            if (check(data[i], 2 * COUNT, i))
                return 1;
            release(data[i], 2);
        }
    }
    CHECK(!look(comm).staged && !look(comm).refused, "something was staged");
    return 0;
}

static void created__crossed(void **state)
{
    (void)state;
    run(crossed, NULL);
}

/* What is unmapped is not what an all-reduce under way reads, though they were mapped together:
 * that mapping stays as long. */
static int unmapped(struct braid_comm *comm, void *context)
{
    int32_t *data = allocate(3), *kept = allocate(1), host[2000] = {0};
    struct braid_op *slow, *last;
    struct braid_comm *other;
    int rank = braid_rank(comm);

    (void)context;
    RETURNS(0, braid_comm_split(comm, 0, rank, &other));
    if (sum_and_check(comm, data, data, 3 * COUNT, 0) || sum_and_check(comm, kept, kept, 2000, 0))
        return 1;
    fill(data, COUNT, rank, 5);
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    if (rank == 2)
        fake_cuda_hold(true); /* its kernel: the others wait for it, and read then */
    RETURNS(0, braid_allreduce(comm, data, data, COUNT, BRAID_INT32, BRAID_SUM, NULL, &slow));
    ranks_sleep_ms(20);
    own_gpu_unmap((char *)data + 2 * GRAIN, GRAIN);
    for (int turn = 0; turn < 20; turn++) /* the others are told */
        RETURNS(0, braid_allreduce(other, rank == 2 ? host : kept, rank == 2 ? host : kept, 2000,
                                   BRAID_INT32, BRAID_SUM, NULL, NULL));
    fake_cuda_hold(false);
    RETURNS(0, braid_allreduce(other, kept, kept, 2000, BRAID_INT32, BRAID_SUM, NULL, &last));
    RETURNS(0, braid_wait(slow, -1));
    RETURNS(0, braid_wait(last, -1));
    own_gpu_unmap(data, GRAIN);
    own_gpu_unmap((char *)data + GRAIN, GRAIN);
    own_gpu_unreserve(data, 3 * GRAIN);
    release(kept, 1);
    return 0;
}

static void created__unmapped_beside(void **state)
{
    (void)state;
    run(unmapped, NULL);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static int staged(struct braid_comm *comm, int32_t *data, size_t count, bool said)
{
    for (int turn = 0; turn < 2; turn++)
        if (sum_and_check(comm, data, data, count, turn))
            return 1;
    CHECK(!look(comm).shared && look(comm).staged == 4 * count * sizeof *data, "%llu bytes staged",
          (unsigned long long)look(comm).staged);
    CHECK(look(comm).refused == said, "%llu downgrades", (unsigned long long)look(comm).refused);
    return 0;
}

/* By the driver of rank 1: all go through host memory, said and counted there once. */
static int refusing(struct braid_comm *comm, void *context)
{
    bool one = braid_rank(comm) == 1;
    int32_t *data = allocate(2);

    if (one) {
        strcpy(fake_cuda()->fail, context);
        fake_cuda()->fail_result = BR_CUDA_NOT_SUPPORTED;
    }
    if (staged(comm, data, COUNT + 1, one))
        return 1;
    fake_cuda()->fail[0] = 0;
    release(data, 2);
    return 0;
}

static void created__refused(void **state)
{
    static const char *const symbols[] = {"cuMemRetainAllocationHandle",
                                          "cuMemExportToShareableHandle",
                                          "cuMemImportFromShareableHandle",
                                          "cuMemGetAddressRange_v2",
                                          "cuMemAddressReserve",
                                          "cuMemMap",
                                          "cuMemSetAccess",
                                          "cuMemGetAllocationGranularity"};

    (void)state;
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        run(refusing, (void *)(uintptr_t)symbols[i]);
}

/* Rank 1 cannot import what two communicators hand over, more than the links hold: all of it is
 * taken, and goes through host memory. */
static int no_imports(struct braid_comm *comm, void *context)
{
    int32_t *data = allocate(60);
    struct braid_comm *other;

    (void)context;
    RETURNS(0, braid_comm_split(comm, 0, braid_rank(comm), &other));
    if (braid_rank(comm) == 1) {
        strcpy(fake_cuda()->fail, "cuMemImportFromShareableHandle");
        fake_cuda()->fail_result = BR_CUDA_NOT_SUPPORTED;
    }
    if (sum_and_check(comm, data, data, 60 * COUNT, 0) ||
        sum_and_check(other, data, data, 60 * COUNT, 1))
        return 1;
    CHECK(!look(comm).shared &&
              look(comm).refused == (braid_rank(comm) == 1 ? 2 : 0), /* each communicator, once */
          "%llu refused", (unsigned long long)look(comm).refused);
    fake_cuda()->fail[0] = 0;
    release(data, 60);
    return 0;
}

static void created__no_imports(void **state)
{
    (void)state;
    run(no_imports, NULL);
}

/* Rank 0 exports for rank 1 and then not for rank 2: what rank 1 was sent must not pass for what
 * comes later in its place. */
static int exported_in_part(struct braid_comm *comm, void *context)
{
    int32_t *kept = allocate(1), *data = allocate(2), *later[2];

    (void)context;
    if (sum_and_check(comm, kept, kept, 2000, 0))
        return 1;
    if (braid_rank(comm) == 0) {
        strcpy(fake_cuda()->fail, "cuMemExportToShareableHandle");
        fake_cuda()->fail_result = BR_CUDA_NOT_SUPPORTED;
        fake_cuda()->fail_after = 4;
    }
    if (sum_and_check(comm, data, data, 2 * COUNT, 0))
        return 1;
    CHECK(look(comm).refused == (braid_rank(comm) == 0), "%llu refused",
          (unsigned long long)look(comm).refused);
    fake_cuda()->fail[0] = 0;
    release(data, 2);
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    for (int turn = 0; turn < 50; turn++) /* the others are told that it is gone */
        if (sum_and_check(comm, kept, kept, 2000, turn))
            return 1;
    for (int i = 0; i < 2; i++) {
        later[i] = allocate(4);
        if (sum_and_check(comm, later[i], later[i], 4 * COUNT, 3 + i))
            return 1;
    }
    release(kept, 1);
    for (int i = 0; i < 2; i++)
        release(later[i], 4);
    return 0;
}

static void created__exported_in_part(void **state)
{
    (void)state;
    run(exported_in_part, NULL);
}

/* One of the allocations cannot be exported; the buffer lies in too many. */
static int not_shareable(struct braid_comm *comm, void *context)
{
    size_t n = context ? BR_EXTENTS + 1 : 2;
    int32_t *data = allocate(n);

    if (!context) {
        own_gpu_unmap((char *)data + GRAIN, GRAIN);
        own_gpu_map((char *)data + GRAIN, GRAIN, false);
    }
    if (staged(comm, data, (n - 1) * COUNT + 1, true))
        return 1;
    if (sum_and_check(comm, data, data, 5000, 0)) /* the first one can be */
        return 1;
    CHECK(look(comm).shared, "nothing was shared");
    release(data, n);
    return 0;
}

static void created__not_shareable(void **state)
{
    (void)state;
    run(not_shareable, NULL);
    run(not_shareable, "too many");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(created__results),          cmocka_unit_test(created__many),
        cmocka_unit_test(created__crossed),          cmocka_unit_test(created__freed),
        cmocka_unit_test(created__unmapped_beside),  cmocka_unit_test(created__beside_a_stream),
        cmocka_unit_test(created__refused),          cmocka_unit_test(created__no_imports),
        cmocka_unit_test(created__exported_in_part), cmocka_unit_test(created__not_shareable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
