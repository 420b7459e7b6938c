/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduces in streams of a fake GPU that works by itself (fake_cuda.h, note 2), in real
 * processes. A gate is a word that a stream waits for: the kernel before that takes its time. What
 * the stream does behind an all-reduce sees old data if it does not wait.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <braid/gpu.h>

#include "gpu/driver.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/system/app_gpu.h"
#include "tests/system/ranks.h"

#define MOST 100000 /* elements */

/* The application's own use of CUDA. */
static const struct br_cuda *cuda;
static struct CUstream_st *stream;
static int32_t *data, *seen; /* in the GPU's memory */
static _Atomic uint32_t gate;

static int open_stream(void)
{
    fake_cuda()->thread = true;
    cuda = own_gpu();
    data = own_gpu_alloc(2 * MOST * sizeof *data);
    seen = data + MOST;
    atomic_store(&gate, 0);
    return cuda->stream_create(&stream, BR_CUDA_STREAM_NON_BLOCKING, 0) != BR_CUDA_SUCCESS;
}

/* What follows in the stream waits until open_gate() was called so often. */
static void stop_at(struct CUstream_st *in, uint32_t turn)
{
    cuda->stream_wait_32(in, (uintptr_t)&gate, turn, BR_CUDA_WAIT_GEQ);
}

static void open_gate(void)
{
    atomic_fetch_add(&gate, 1);
}

static void fill(struct CUstream_st *in, int value, size_t count)
{
    cuda->set_bytes((uintptr_t)data, (unsigned char)value, count * sizeof *data, in);
}

/* The kernel behind: takes what it finds in data. */
static void look(struct CUstream_st *in, size_t count)
{
    cuda->copy_async((uintptr_t)seen, (uintptr_t)data, count * sizeof *data, in);
}

static int32_t element(const int32_t *memory, size_t i)
{
    return ((const int32_t *)own_gpu_view(memory))[i];
}

static int sum(struct braid_comm *comm, size_t count, const struct braid_options *options)
{
    return braid_allreduce_on_stream(comm, data, data, count, BRAID_INT32, BRAID_SUM, options,
                                     stream);
}

static void once(int size, ranks_main *body)
{
    setenv("BRAID_CUDA_LIBRARY", FAKE_CUDA_LIBRARY, 1);
    ranks_run(
        &(struct ranks){
            .size = size, .backend = "tcp", .devices = "127.0.0.1", .timeout_ms = RANKS_PATIENCE},
        body, NULL);
}

/* And over the host's shared segment. */
static void twice(int size, ranks_main *body)
{
    once(size, body);
    ranks_run(&(struct ranks){.size = size, .backend = "shm", .timeout_ms = RANKS_PATIENCE}, body,
              NULL);
}

/* ---- order ----------------------------------------------------------------------------------- */

#define ONES 0x01010101

/* Before: the input is written late. Behind: it sees the sum. Nothing of either has happened when
 * the calls return. */
static int order(struct braid_comm *comm, void *context)
{
    static const size_t counts[] = {0, 1, 16, 5000, MOST};
    int size = braid_size(comm), total = size * (size + 1) / 2;

    (void)context;
    RETURNS(0, open_stream());
    for (uint32_t i = 0; i < 5; i++) {
        memset(fake_cuda_bytes((uintptr_t)data), 0x7f, 2 * MOST * sizeof *data);
        stop_at(stream, i + 1);
        fill(stream, braid_rank(comm) + 1, counts[i]);
        RETURNS(0, sum(comm, counts[i], NULL));
        look(stream, counts[i]);
        CHECK(element(seen, 0) == 0x7f7f7f7f, "the stream did not wait");
        open_gate();
        cuda->stream_synchronize(stream);
        for (size_t e = 0; e < counts[i]; e++)
            CHECK(element(seen, e) == total * ONES, "element %zu of %zu: %x", e, counts[i],
                  (unsigned)element(seen, e));
        RETURNS(0, braid_comm_error(comm));
    }
    return 0;
}

static void stream__order_on_both_sides(void **state)
{
    (void)state;
    twice(3, order);
}

static atomic_bool naps_last; /* a long nap of the progress thread lasts until it is ended */

int __real_sem_clockwait(sem_t *sem, clockid_t clock, const struct timespec *until);
int __wrap_sem_clockwait(sem_t *sem, clockid_t clock, const struct timespec *until);

/* This file's (--wrap, tests/CMakeLists.txt). */
int __wrap_sem_clockwait(sem_t *sem, clockid_t clock, const struct timespec *until)
{
    double end = (double)until->tv_sec * 1e3 + (double)until->tv_nsec / 1e6;

    return atomic_load(&naps_last) && end > ranks_now_ms() + 1
               ? sem_wait(sem)
               : __real_sem_clockwait(sem, clock, until);
}

/* A barrier lets the progress thread nap. An operation in a stream ends all the same: before the
 * call, and when the thread was about to nap. */
static int beside_naps(struct braid_comm *comm, void *context)
{
    int size = braid_size(comm), total = size * (size + 1) / 2;

    (void)context;
    atomic_store(&naps_last, true);
    RETURNS(0, open_stream());
    for (uint32_t i = 1; i <= 50; i++) {
        RETURNS(0, braid_barrier(comm, NULL, NULL));
        if (i % 2)
            ranks_sleep_ms(1);
        stop_at(stream, i);
        fill(stream, braid_rank(comm) + 1, 100);
        RETURNS(0, sum(comm, 100, NULL));
        look(stream, 100);
        open_gate();
        cuda->stream_synchronize(stream);
        CHECK(element(seen, 99) == total * ONES, "%x", (unsigned)element(seen, 99));
    }
    return 0;
}

static void stream__beside_naps(void **state)
{
    (void)state;
    twice(2, beside_naps);
}

static void increment(const struct fake_cuda_launch *launch)
{
    int32_t *all = fake_cuda_bytes(*(br_cuda_pointer *)launch->arguments[0]);

    for (int i = 0; i < 1000; i++)
        all[i]++;
}

/* Behind each all-reduce a kernel that adds 1 to what it finds. All the elements at once, or the
 * first one and the others. */
static int put_chain(struct braid_comm *comm, struct CUfunc_st *kernel, uint32_t *expected)
{
    struct braid_options urgent = {.priority = 1};
    br_cuda_pointer at = (uintptr_t)data;
    void *arguments[] = {&at};

    for (int turn = 0; turn < 15; turn++) {
        RETURNS(0, sum(comm, turn % 2 ? 1000 : 1, turn % 3 ? &urgent : NULL));
        if (turn % 2 == 0)
            RETURNS(0, braid_allreduce_on_stream(comm, data + 1, data + 1, 999, BRAID_INT32,
                                                 BRAID_SUM, NULL, stream));
        cuda->launch(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL);
        *expected = *expected * 2 + 1;
    }
    return 0;
}

/* Two long chains, all of each put into the stream before any of it is done. The second takes no
 * more host memory than there is. */
static int chain(struct braid_comm *comm, void *context)
{
    const size_t pointer = sizeof(br_cuda_pointer);
    uint64_t allocations[2];
    struct CUmod_st *module;
    struct CUfunc_st *kernel;
    uint32_t expected = 0;

    (void)context;
    RETURNS(0, open_stream());
    fake_cuda_kernel("increment", increment, &pointer, 1);
    CHECK(!cuda->module_load(&module, "image") &&
              !cuda->module_function(&kernel, module, "increment"),
          "no kernel");
    fill(stream, 0, 1000);
    for (uint32_t i = 0; i < 2; i++) {
        stop_at(stream, i + 1);
        if (put_chain(comm, kernel, &expected))
            return 1;
        open_gate();
        cuda->stream_synchronize(stream);
        for (size_t e = 0; e < 1000; e++)
            CHECK((uint32_t)element(data, e) == expected, "element %zu: %d", e, element(data, e));
        allocations[i] = fake_cuda_counters().host_allocations;
    }
    CHECK(allocations[0] == allocations[1], "memory is not kept");
    cuda->module_unload(module);
    return 0;
}

static void stream__a_chain(void **state)
{
    (void)state;
    twice(2, chain);
}

/* Each side of the call in host or GPU memory; the last rank takes part without a stream. */
static int mixed(struct braid_comm *comm, void *context)
{
    static int32_t in[3000], out[3000];
    int rank = braid_rank(comm), size = braid_size(comm);
    struct braid_stats stats = {0};

    (void)context;
    RETURNS(0, open_stream());
    for (int form = 0; form < 4; form++) {
        const int32_t *send = form & 1 ? in : data;
        int32_t *recv = form & 2 ? out : seen;

        for (int i = 0; i < 3000; i++)
            in[i] = (rank + 1) * ONES;
        fill(stream, rank + 1, 3000);
        if (rank == size - 1)
            RETURNS(0, braid_allreduce(comm, in, recv, 3000, BRAID_INT32, BRAID_SUM, NULL, NULL));
        else
            RETURNS(0, braid_allreduce_on_stream(comm, send, recv, 3000, BRAID_INT32, BRAID_SUM,
                                                 NULL, stream));
        cuda->stream_synchronize(stream);
        for (size_t i = 0; i < 3000; i++)
            CHECK((form & 2 ? out[i] : element(seen, i)) == size * (size + 1) / 2 * ONES,
                  "form %d element %zu", form, i);
    }
    RETURNS(0, braid_stats(comm, &stats));
    CHECK(rank == size - 1 || stats.gpu_to_host_bytes == 2 * sizeof in, "%llu bytes to the host",
          (unsigned long long)stats.gpu_to_host_bytes);
    CHECK(stats.host_to_gpu_bytes == 2 * sizeof out, "%llu bytes to the GPU",
          (unsigned long long)stats.host_to_gpu_bytes);
    return 0;
}

static void stream__host_memory_on_a_side(void **state)
{
    (void)state;
    twice(3, mixed);
}

/* What comes behind on the communicator waits; another communicator does not. */
static int behind(struct braid_comm *comm, void *context)
{
    int32_t one = 1, two = 1;
    struct braid_comm *other;
    struct braid_op *op;
    int done = 0;

    (void)context;
    RETURNS(0, open_stream());
    RETURNS(0, braid_comm_split(comm, 0, 0, &other));
    stop_at(stream, 1);
    fill(stream, 1, 10);
    RETURNS(0, sum(comm, 10, NULL));
    RETURNS(0, braid_allreduce(comm, &one, &one, 1, BRAID_INT32, BRAID_SUM, NULL, &op));
    RETURNS(0,
            /* all have come so far, and closed gates hold nobody here */
            braid_barrier(other, NULL, NULL));
    RETURNS(0, braid_test(op, &done));
    CHECK(!done, "it has overtaken");
    open_gate();
    RETURNS(0, braid_wait(op, -1));
    RETURNS(0, braid_allreduce(comm, &two, &two, 1, BRAID_INT32, BRAID_SUM, NULL, NULL));
    cuda->stream_synchronize(stream);
    CHECK(one == 2 && two == 2 && element(data, 9) == 2 * ONES, "%d, %d, %x", one, two,
          (unsigned)element(data, 9));
    return braid_finalize(other);
}

static void stream__others_behind_it(void **state)
{
    (void)state;
    twice(2, behind);
}

static int default_streams(struct braid_comm *comm, void *context)
{
    (void)context;
    RETURNS(0, open_stream());
    for (uintptr_t handle = 0; handle < 3; handle++) {
        fill((void *)handle, 1, 100);
        RETURNS(0, braid_allreduce_on_stream(comm, data, data, 100, BRAID_INT32, BRAID_SUM, NULL,
                                             (void *)handle));
        look((void *)handle, 100);
        cuda->stream_synchronize((void *)handle);
        CHECK(element(seen, 99) == 2 * ONES, "handle %lu", (unsigned long)handle);
    }
    return 0;
}

static void stream__default_streams(void **state)
{
    (void)state;
    once(2, default_streams);
}

static void *open_gpu(void *comm)
{
    int rc = braid_allreduce(comm, seen, seen, 10, BRAID_INT32, BRAID_SUM, NULL, NULL);

    return (void *)(uintptr_t)(rc != 0);
}

/* One thread opens the GPU, which loads kernels; another puts an operation into a stream, which
 * waits for the other rank. The fake driver ends a process that loads kernels then: the real one
 * may wait for the stream. */
static int beside_opening(struct braid_comm *comm, void *context)
{
    struct braid_stats stats = {0};
    struct braid_comm *other;
    pthread_t thread;
    void *failed;

    (void)context;
    fake_cuda()->load_ms = 100;
    RETURNS(0, open_stream());
    RETURNS(0, braid_comm_split(comm, 0, 0, &other));
    fill(stream, 1, MOST);
    if (braid_rank(comm))
        ranks_await(0, 1);
    CHECK(!pthread_create(&thread, NULL, open_gpu, other), "no thread");
    while (!stats.downgrade_gpu_staging) /* it is under way */
        RETURNS(0, braid_stats(comm, &stats));
    RETURNS(0, sum(comm, 10, NULL));
    ranks_tell(0);
    pthread_join(thread, &failed);
    cuda->stream_synchronize(stream);
    CHECK(!failed && element(data, 9) == 2 * ONES, "%x", (unsigned)element(data, 9));
    return braid_finalize(other);
}

static void stream__beside_a_gpu_that_is_opened(void **state)
{
    (void)state;
    setenv("BRAID_GPU_REDUCE", "gpu", 1);
    once(2, beside_opening);
    setenv("BRAID_GPU_REDUCE", "cpu", 1);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static int wait_for_error(struct braid_comm *comm)
{
    double until = ranks_now_ms() + 10000;
    int rc;

    while (!(rc = braid_comm_error(comm)) && ranks_now_ms() < until)
        ranks_sleep_ms(1);
    return rc;
}

/* Rank 0 goes on when rank 1 has come here: a message waits for no stream. */
static int after_the_other(struct braid_comm *comm)
{
    char word = 0;

    return braid_rank(comm) ? braid_send(comm, &word, 1, 0, NULL, NULL)
                            : braid_recv(comm, &word, 1, 1, NULL, NULL);
}

static int refused(struct braid_comm *comm, void *context)
{
    (void)context;
    RETURNS(0, open_stream());
    SAYS(-EINVAL, "braid_allreduce_on_stream|recv|NULL",
         braid_allreduce_on_stream(comm, data, NULL, 1, BRAID_INT32, BRAID_SUM, NULL, stream));
    fake_cuda_capture(stream, BR_CUDA_CAPTURE_ACTIVE);
    SAYS(-EOPNOTSUPP, "braid_allreduce_on_stream|captured", sum(comm, 1, NULL));
    fake_cuda_capture(stream, BR_CUDA_CAPTURE_NONE);
    strcpy(fake_cuda()->fail, "cuMemHostRegister_v2");
    fake_cuda()->fail_result = BR_CUDA_OUT_OF_MEMORY;
    SAYS(-ENOMEM, "ulimit -l", sum(comm, 1, NULL));
    fake_cuda()->fail[0] = 0;
    fill(stream, 1, 1); /* nothing of that has left: the next one is well */
    RETURNS(0, sum(comm, 1, NULL));
    cuda->stream_synchronize(stream);
    CHECK(element(data, 0) == 2 * ONES, "%x", (unsigned)element(data, 0));
    return 0;
}

static void stream__what_is_refused(void **state)
{
    (void)state;
    once(2, refused);
}

/* braid_init() has seen no driver, so nobody can tell what lies on a GPU. */
static int unseen(struct braid_comm *comm, void *context)
{
    (void)context;
    SAYS(-ENOENT, "BRAID_CUDA_LIBRARY|none",
         braid_allreduce_on_stream(comm, &gate, &gate, 1, BRAID_INT32, BRAID_SUM, NULL, stream));
    br_cuda_forget();
    setenv("BRAID_CUDA_LIBRARY", FAKE_CUDA_LIBRARY, 1);
    RETURNS(0, open_stream());
    SAYS(-ENODEV, "braid_init()|GPU", sum(comm, 1, NULL));
    return 0;
}

static void stream__of_a_driver_that_came_late(void **state)
{
    (void)state;
    setenv("BRAID_CUDA_LIBRARY", "none", 1);
    ranks_run(&(struct ranks){.size = 1, .backend = "tcp", .devices = "127.0.0.1"}, unseen, NULL);
}

/* Rank 0's stream never gets there, in time: all are told, and all streams go on. */
static int hangs(struct braid_comm *comm, void *context)
{
    struct braid_options hasty = {.timeout_ms = 200};

    (void)context;
    RETURNS(0, open_stream());
    if (braid_rank(comm) == 0) {
        stop_at(stream, 1);
        RETURNS(0, after_the_other(comm));
    }
    RETURNS(0, sum(comm, 100, braid_rank(comm) ? NULL : &hasty));
    if (braid_rank(comm)) {
        RETURNS(0, sum(comm, 100, NULL));
        RETURNS(0, after_the_other(comm));
    }
    SAYS(-ETIMEDOUT, "deadline|200 ms|work", wait_for_error(comm));
    SAYS(-ECANCELED, "before", sum(comm, 100, NULL));
    open_gate();
    CHECK(cuda->stream_synchronize(stream) == BR_CUDA_SUCCESS, "synchronize");
    return 0;
}

static void stream__work_before_that_hangs(void **state)
{
    (void)state;
    once(2, hangs);
}

/* The kernel ends after all: copies that stood behind it write to the memory that they were
 * given. */
static void go_on(void)
{
    open_gate();
    cuda->stream_synchronize(stream);
}

/* It still hangs at the end, and what stands behind it is not done. Memory of earlier operations,
 * in streams and not, is pinned. */
static int hangs_for_ever(struct braid_comm *comm, void *context)
{
    struct braid_options hasty = {.timeout_ms = 100};

    (void)context;
    RETURNS(0, open_stream());
    fill(stream, 1, MOST);
    for (int i = 0; i < 2; i++)
        RETURNS(0, sum(comm, MOST, NULL)); /* two passages */
    cuda->stream_synchronize(stream);
    RETURNS(0, braid_allreduce(comm, data, data, MOST, BRAID_INT32, BRAID_SUM, NULL, NULL));
    if (braid_rank(comm))
        return after_the_other(comm);
    stop_at(stream, 1);
    RETURNS(0, after_the_other(comm));
    CHECK(atexit(go_on) == 0, "atexit");
    return sum(comm, MOST, &hasty);
}

static void stream__finalize_beside_a_stream_that_hangs(void **state)
{
    (void)state;
    once(2, hangs_for_ever);
}

/* braid_finalize() waits for it, and for the copy behind it. */
static int leaves(struct braid_comm *comm, void *context)
{
    (void)context;
    RETURNS(0, open_stream());
    fill(stream, 1, MOST);
    return sum(comm, MOST, NULL);
}

static void stream__finalize_with_one_under_way(void **state)
{
    (void)state;
    twice(2, leaves);
}

static int aborted(struct braid_comm *comm, void *context)
{
    (void)context;
    RETURNS(0, open_stream());
    stop_at(stream, 1);
    RETURNS(0, sum(comm, 100, NULL));
    RETURNS(0, after_the_other(comm));
    if (braid_rank(comm) == 0)
        RETURNS(0, braid_comm_abort(comm, "enough"));
    CHECK(wait_for_error(comm) < 0 && strstr(braid_last_error(), "enough"), "no reason");
    open_gate();
    CHECK(cuda->stream_synchronize(stream) == BR_CUDA_SUCCESS, "synchronize");
    return 0;
}

static void stream__abort(void **state)
{
    (void)state;
    once(2, aborted);
}

/* What only shows when it begins. */
static int no_such_algorithm(struct braid_comm *comm, void *context)
{
    struct braid_options options = {.algorithm = "nonsense"};

    (void)context;
    RETURNS(0, open_stream());
    if (braid_rank(comm) == 0)
        RETURNS(0, sum(comm, 100, &options));
    CHECK(wait_for_error(comm) < 0 && strstr(braid_last_error(), "nonsense"), "no reason");
    CHECK(cuda->stream_synchronize(stream) == BR_CUDA_SUCCESS, "synchronize");
    return 0;
}

static void count_end(void *ends, int result)
{
    atomic_fetch_add((atomic_int *)ends, result ? 1000 : 1);
}

/* braid_options.done, of operations that the program has no handles of anyhow. */
static int told(struct braid_comm *comm, void *context)
{
    static atomic_int ends;
    const struct braid_options options = {.done = count_end, .context = &ends};
    double until = ranks_now_ms() + RANKS_PATIENCE;

    (void)context;
    RETURNS(0, open_stream());
    stop_at(stream, 1);
    for (int i = 0; i < 5; i++)
        RETURNS(0, sum(comm, 1000, &options));
    CHECK(!ends, "%d have ended before the stream has come to them", (int)ends);
    open_gate();
    while (ends < 5 && ranks_now_ms() < until)
        sched_yield();
    CHECK(ends == 5, "%d have ended, or more have failed", (int)ends);
    RETURNS(0, (int)cuda->stream_synchronize(stream));
    return 0;
}

static void stream__done_is_called(void **state)
{
    (void)state;
    once(2, told);
}

static void stream__an_error_of_its_own(void **state)
{
    (void)state;
    once(2, no_such_algorithm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stream__order_on_both_sides),
        cmocka_unit_test(stream__beside_naps),
        cmocka_unit_test(stream__a_chain),
        cmocka_unit_test(stream__host_memory_on_a_side),
        cmocka_unit_test(stream__others_behind_it),
        cmocka_unit_test(stream__default_streams),
        cmocka_unit_test(stream__beside_a_gpu_that_is_opened),
        cmocka_unit_test(stream__what_is_refused),
        cmocka_unit_test(stream__of_a_driver_that_came_late),
        cmocka_unit_test(stream__work_before_that_hangs),
        cmocka_unit_test(stream__finalize_beside_a_stream_that_hangs),
        cmocka_unit_test(stream__finalize_with_one_under_way),
        cmocka_unit_test(stream__abort),
        cmocka_unit_test(stream__done_is_called),
        cmocka_unit_test(stream__an_error_of_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
