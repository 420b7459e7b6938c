/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce of memory of GPUs by the ranks of a job, rank r on GPU r modulo their number: results,
 * order in a stream, rate of staging.
 *
 *   braid run -n 2 -- build/release/bench/gpu_allreduce check | direct | stream | streams | rate
 *       [--mib N]
 *
 * check   every type, several sizes, blocking and several at once, against what each element has to
 * be. direct  the larger ones by ring and halving, over NICs that reach the GPU: right, none of it
 * staged, and to the byte what NICs have to read. stream  before the all-reduce stand in the
 * caller's stream a gate that the host opens last, reductions that keep the GPU busy, and a kernel
 * that
 *         writes the input; behind it a kernel that reads the result. Whichever of them is not
 * waited for, the test finds stale bytes; and that the call returned before any of it began, the
 * gate shows; each once staged and once with all_on_gpu. streams times of all-reduces up to --mib
 * in a stream: with all_on_gpu, some in a row and one alone, staged, and by braid_allreduce();
 * after each size the results are compared. rate    all-reduce of 256 MiB, or as --mib says, on the
 * GPU against the slower of its two parts: the same all-reduce in host memory, and the copies of as
 * many bytes there and back at once, on all ranks at once. Medians, the contenders alternating. The
 * goal is 0.9.
 *
 * Exit 1: wrong, or an error; 3: the rate is below the goal; 77: no driver, no GPU, or no kernels;
 * the message says why.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <braid/braid.h>
#include <braid/gpu.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/half.h"
#include "base/median.h"
#include "collectives/schedule/type.h"
#include "gpu/driver.h"
#include "gpu/reduce.h"
#include "tools/common/options.h"

#define CHECKED (1u << 20) /* elements, at most */
/* The types whose values store() knows. */
#define CHECKED_TYPES BRAID_BOOL
#define BUSY          32   /* reductions that keep the GPU busy */
#define SOURCES       4    /* of each */
#define PATIENCE      120u /* s: what has not ended then hangs */
#define ROUNDS        9
#define GOAL          0.9

static const struct br_cuda *cuda;
static struct braid_comm *comm;
static int rank, size, gpu;

static int say(const char *what)
{
    fprintf(stderr, "gpu_allreduce: rank %d: %s: %s\n", rank, what, br_error_message());
    return 1;
}

static int refused(br_cuda_result result, const char *what)
{
    br_cuda_error(cuda, result, "%s", what);
    return say("CUDA");
}

static void *on_gpu(size_t bytes)
{
    br_cuda_pointer at;
    br_cuda_result result = cuda->memory_alloc(&at, bytes);

    if (result != BR_CUDA_SUCCESS)
        exit(refused(result, "memory of the GPU"));
    return (void *)(uintptr_t)at;
}

static void copy(void *to, const void *from, size_t bytes)
{
    br_cuda_result result = cuda->copy((uintptr_t)to, (uintptr_t)from, bytes);

    if (result != BR_CUDA_SUCCESS)
        exit(refused(result, "a copy"));
}

/* ---- results --------------------------------------------------------------------------------- */

/* Small numbers, whose sums every type holds exactly: what rank r gives as element i. */
static int given(size_t i, int r)
{
    return (int)((i + (size_t)r) % 5) + (r == 0);
}

static int expected(size_t i)
{
    int sum = 0;

    for (int r = 0; r < size; r++)
        sum += given(i, r);
    return sum;
}

static void store(enum braid_type type, void *at, int value)
{
    const float f32 = (float)value;
    const double f64 = value;
    const int64_t integer = value;
    const uint16_t half = type == BRAID_FLOAT16 ? br_half_of_float(f32) : br_bfloat_of_float(f32);
    const bool is_half = type == BRAID_FLOAT16 || type == BRAID_BFLOAT16;

    if (type == BRAID_FLOAT32)
        memcpy(at, &f32, sizeof f32);
    else if (type == BRAID_FLOAT64)
        memcpy(at, &f64, sizeof f64);
    else
        memcpy(at, is_half ? (const void *)&half : (const void *)&integer, br_type_size(type));
}

struct arrays {
    char *host, *wanted; /* in host memory: what was given, then what came; what has to come */
    char *gpu;
};

static void fill(const struct arrays *a, enum braid_type type, size_t count)
{
    size_t element = br_type_size(type);

    for (size_t i = 0; i < count; i++) {
        store(type, a->host + i * element, given(i, rank));
        store(type, a->wanted + i * element, expected(i));
    }
    copy(a->gpu, a->host, count * element);
}

static int compare(const struct arrays *a, const void *from, enum braid_type type, size_t count,
                   const char *what)
{
    size_t element = br_type_size(type);

    copy(a->host, from, count * element);
    for (size_t i = 0; i < count; i++)
        if (memcmp(a->host + i * element, a->wanted + i * element, element) != 0) {
            br_error(EIO, "%s of %zu %s: element %zu is wrong", what, count, br_type_name(type), i);
            return say("results");
        }
    return 0;
}

static struct arrays allocate(size_t bytes)
{
    struct arrays a = {malloc(bytes), malloc(bytes), on_gpu(bytes)};

    if (!a.host || !a.wanted) {
        br_error(ENOMEM, "%zu bytes", 2 * bytes);
        exit(say("host memory"));
    }
    return a;
}

static void release(const struct arrays *a)
{
    free(a->host);
    free(a->wanted);
    cuda->memory_free((uintptr_t)a->gpu);
}

static int check_one(enum braid_type type, size_t count, const char *algorithm)
{
    const struct braid_options options = {.algorithm = algorithm};
    struct arrays a[2];
    struct braid_op *op;
    int rc = 0;

    for (int i = 0; i < 2; i++) {
        a[i] = allocate(count * br_type_size(type));
        fill(&a[i], type, count);
    }
    /* The first goes on while the second is waited for. */
    if (braid_allreduce(comm, a[0].gpu, a[0].gpu, count, type, BRAID_SUM, &options, &op) ||
        braid_allreduce(comm, a[1].gpu, a[1].gpu, count, type, BRAID_SUM, &options, NULL) ||
        braid_wait(op, -1))
        rc = say("all-reduce");
    for (int i = 0; i < 2; i++) {
        if (!rc)
            rc = compare(&a[i], a[i].gpu, type, count, "all-reduce");
        release(&a[i]);
    }
    return rc;
}

static int check(void)
{
    static const size_t counts[] = {1, 1000, 300001, CHECKED};
    struct braid_stats stats = {0};

    for (enum braid_type type = 0; type < CHECKED_TYPES; type++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
            if (check_one(type, counts[i], NULL))
                return 1;
    if (braid_stats(comm, &stats))
        return say("counters");
    if (rank == 0)
        printf("results: all-reduce of %d types by %d ranks is right; rank 0 copied %.1f MB from "
               "the GPU and "
               "%.1f MB to it\n",
               CHECKED_TYPES, size, (double)stats.gpu_to_host_bytes * 1e-6,
               (double)stats.host_to_gpu_bytes * 1e-6);
    return 0;
}

/* The two of check_one(): each rank sends 2 (n - 1) / n of the buffer, about; all of them together
 * to the byte. */
static int direct_one(enum braid_type type, size_t count, const char *algorithm)
{
    uint64_t wanted = 4 * ((uint64_t)size - 1) * count * br_type_size(type), moved;
    struct braid_stats before = {0}, after = {0};

    if (braid_stats(comm, &before) || check_one(type, count, algorithm) ||
        braid_stats(comm, &after))
        return 1;
    moved = after.nic_from_gpu_bytes - before.nic_from_gpu_bytes;
    if (braid_allreduce(comm, &moved, &moved, 1, BRAID_UINT64, BRAID_SUM, NULL, NULL))
        return say("all-reduce");
    if (moved == wanted && !after.gpu_to_host_bytes && !after.host_to_gpu_bytes)
        return 0;
    br_error(EIO, "%s of %zu %s: NICs read %llu bytes of GPUs, not %llu, and %llu were staged",
             algorithm, count, br_type_name(type), (unsigned long long)moved,
             (unsigned long long)wanted,
             (unsigned long long)(after.gpu_to_host_bytes + after.host_to_gpu_bytes));
    return say("the way");
}

static int direct(void)
{
    static const char *const algorithms[] = {"ring", "halving"};

    for (int i = 0; i < 2; i++)
        for (enum braid_type type = 0; type < CHECKED_TYPES; type++)
            if (direct_one(type, 300001, algorithms[i]) || direct_one(type, CHECKED, algorithms[i]))
                return 1;
    if (rank == 0)
        printf("direct: all-reduces of %d types by %d ranks are right, and NICs moved every byte\n",
               CHECKED_TYPES, size);
    return 0;
}

/* All ranks call in a stream with memory of a GPU. */
static const struct braid_options on_gpus = {.struct_size = sizeof on_gpus, .all_on_gpu = 1};

static double peer_bytes(void)
{
    struct braid_stats stats = {0};

    return braid_stats(comm, &stats) ? -1 : (double)stats.gpu_peer_bytes;
}

/* ---- order in a stream ----------------------------------------------------------------------- */

/* The caller's. */
struct work {
    struct CUstream_st *stream;
    struct br_reducer *kernels;
    uint32_t *gate; /* pinned; the stream waits until it has the number of the round */
    br_cuda_pointer gate_at;
    /* on the GPU: CHECKED elements each, `busy` SOURCES + 1 times as much */
    char *zero, *busy, *seen;
    struct arrays given;
};

static void launch(const struct work *w, void *to, const void *from, size_t stride, int n_src,
                   size_t bytes)
{
    struct br_gpu_reduction arrays = {.dst = to, .bytes = bytes, .n_src = n_src};

    arrays.src[0] = from;
    arrays.src[1] = w->zero;
    for (int s = 1; s < n_src && stride; s++)
        arrays.src[s] = (const char *)from + (size_t)s * stride;
    if (br_reducer_submit(w->kernels, w->stream, BRAID_INT32, BRAID_SUM, &arrays))
        exit(say("a kernel of the caller's"));
}

/* Everything into the stream, with the gate closed. */
static int put(const struct work *w, uint32_t round, char *data, size_t count,
               const struct braid_options *options)
{
    const size_t bytes = count * sizeof(int32_t), all = CHECKED * sizeof(int32_t);
    br_cuda_result result;

    cuda->set_bytes((uintptr_t)data, 0x7f, bytes, w->stream);
    cuda->set_bytes((uintptr_t)w->seen, 0x7f, bytes, w->stream);
    cuda->stream_synchronize(w->stream);
    result = cuda->stream_wait_32(w->stream, w->gate_at, round, BR_CUDA_WAIT_GEQ);
    if (result != BR_CUDA_SUCCESS)
        return refused(result, "a gate in the stream");
    for (int i = 0; i < BUSY; i++)
        launch(w, w->busy + SOURCES * all, w->busy, all, SOURCES, all);
    launch(w, data, w->given.gpu, 0, 2, bytes);
    if (braid_allreduce_on_stream(comm, data, data, count, BRAID_INT32, BRAID_SUM, options,
                                  w->stream))
        return say("braid_allreduce_on_stream");
    launch(w, w->seen, data, 0, 2, bytes);
    if (cuda->stream_query(w->stream) != BR_CUDA_NOT_READY) {
        br_error(EIO, "the stream went past its gate");
        return say("order");
    }
    return 0;
}

static int one_order(const struct work *w, uint32_t round, size_t count,
                     const struct braid_options *options)
{
    char *data = on_gpu(count * sizeof(int32_t));
    int rc;

    fill(&w->given, BRAID_INT32, count);
    alarm(PATIENCE);
    rc = put(w, round, data, count, options);
    __atomic_store_n(w->gate, round, __ATOMIC_SEQ_CST);
    cuda->stream_synchronize(w->stream);
    alarm(0);
    if (!rc && braid_comm_error(comm))
        rc = say("all-reduce in the stream");
    if (!rc)
        rc = compare(&w->given, w->seen, BRAID_INT32, count,
                     "what the kernel behind saw of an all-reduce");
    cuda->memory_free((uintptr_t)data);
    return rc;
}

static int make_work(struct work *w)
{
    const size_t all = CHECKED * sizeof(int32_t);
    br_cuda_result result = cuda->stream_create(&w->stream, BR_CUDA_STREAM_NON_BLOCKING, 0);
    void *gate = NULL;

    if (result == BR_CUDA_SUCCESS)
        result =
            cuda->host_alloc(&gate, sizeof *w->gate, BR_CUDA_HOST_PORTABLE | BR_CUDA_HOST_MAPPED);
    if (result == BR_CUDA_SUCCESS)
        result = cuda->host_device_pointer(&w->gate_at, gate, 0);
    if (result != BR_CUDA_SUCCESS)
        return refused(result, "a stream with a gate");
    w->gate = gate;
    *w->gate = 0;
    w->zero = on_gpu(all);
    w->busy = on_gpu((SOURCES + 1) * all);
    w->seen = on_gpu(all);
    w->given = allocate(all);
    cuda->set_bytes((uintptr_t)w->zero, 0, all, w->stream);
    cuda->set_bytes((uintptr_t)w->busy, 0, (SOURCES + 1) * all, w->stream);
    return 0;
}

static int order(void)
{
    /* Larger from round to round: the call pins memory while the stream waits. */
    static const size_t counts[] = {1, 1000, 5000, 100000, CHECKED, 1000, 300001};
    const uint32_t n = sizeof counts / sizeof *counts;
    struct work w = {0};
    int rc = br_reducer_create(gpu, &br_gpu_image, &w.kernels);

    if (rc) {
        say("kernels");
        return rc == -EOPNOTSUPP ? 77 : 1;
    }
    rc = make_work(&w);
    /* opens the GPU, which loads kernels and may wait for all of its streams: not beside a closed
     * gate */
    if (!rc)
        rc = braid_allreduce(comm, w.zero, w.zero, 1, BRAID_INT32, BRAID_SUM, NULL, NULL)
                 ? say("all-reduce")
                 : 0;
    for (uint32_t i = 0; i < n && !rc; i++)
        rc = one_order(&w, i + 1, counts[i], NULL);
    /* the first such call may wait for all streams */
    if (!rc && braid_allreduce_on_stream(comm, w.busy, w.busy, CHECKED, BRAID_INT32, BRAID_SUM,
                                         &on_gpus, w.stream))
        rc = say("braid_allreduce_on_stream");
    for (uint32_t i = 0; i < n && !rc; i++)
        rc = one_order(&w, n + i + 1, counts[i], &on_gpus);
    if (!rc && rank == 0)
        printf("order: %u all-reduces of %d ranks in streams waited for the kernels before them, "
               "and kernels behind for them; %.1f MB were read from other ranks\n",
               2 * n, size, peer_bytes() * 1e-6);
    return rc;
}

/* ---- rate ------------------------------------------------------------------------------------ */

struct pipes {
    struct CUstream_st *streams[2]; /* down, up */
    void *pinned[2];
    char *gpu[2];
};

static double seconds_since(uint64_t began)
{
    return (double)(br_clock_now() - began) * 1e-9;
}

/* `bytes` down and as many up, on all ranks at once. */
static double copy_both_ways(const struct pipes *p, size_t bytes)
{
    uint64_t began;

    braid_barrier(comm, NULL, NULL);
    began = br_clock_now();
    cuda->copy_to_host(p->pinned[0], (uintptr_t)p->gpu[0], bytes, p->streams[0]);
    cuda->copy_to_device((uintptr_t)p->gpu[1], p->pinned[1], bytes, p->streams[1]);
    for (int i = 0; i < 2; i++)
        cuda->stream_synchronize(p->streams[i]);
    return seconds_since(began);
}

static double all_reduce(void *data, size_t bytes)
{
    uint64_t began;

    braid_barrier(comm, NULL, NULL);
    began = br_clock_now();
    if (braid_allreduce(comm, data, data, bytes / sizeof(float), BRAID_FLOAT32, BRAID_MAX, NULL,
                        NULL))
        exit(say("all-reduce"));
    return seconds_since(began);
}

static int make_pipes(struct pipes *p, size_t bytes)
{
    br_cuda_result result = BR_CUDA_SUCCESS;

    for (int i = 0; i < 2 && result == BR_CUDA_SUCCESS; i++) {
        p->gpu[i] = on_gpu(bytes);
        result = cuda->stream_create(&p->streams[i], BR_CUDA_STREAM_NON_BLOCKING, 0);
        if (result == BR_CUDA_SUCCESS)
            result = cuda->host_alloc(&p->pinned[i], bytes, BR_CUDA_HOST_PORTABLE);
        if (result != BR_CUDA_SUCCESS)
            return refused(result, "pinned memory and a stream");
        memset(p->pinned[i], 0, bytes);
        copy(p->gpu[i], p->pinned[i], bytes);
    }
    return 0;
}

/* The slowest rank's, of all. */
static double slowest(double seconds)
{
    if (braid_allreduce(comm, &seconds, &seconds, 1, BRAID_FLOAT64, BRAID_MAX, NULL, NULL))
        exit(say("all-reduce"));
    return seconds;
}

static int rate(size_t bytes)
{
    double copies[ROUNDS], hosts[ROUNDS], staged[ROUNDS], pcie, network, took, ratio;
    float *host = braid_alloc(comm, bytes);
    struct pipes p;

    if (!host)
        return say("memory");
    memset(host, 0, bytes);
    if (make_pipes(&p, bytes))
        return 1;
    for (int round = -1; round < ROUNDS; round++) { /* the first one warms up */
        int i = round < 0 ? 0 : round;

        copies[i] = slowest(copy_both_ways(&p, bytes));
        hosts[i] = slowest(all_reduce(host, bytes));
        staged[i] = slowest(all_reduce(p.gpu[0], bytes));
    }
    pcie = br_median(copies, ROUNDS);
    network = br_median(hosts, ROUNDS);
    took = br_median(staged, ROUNDS);
    ratio = (pcie > network ? pcie : network) / took;
    if (rank == 0)
        printf("ranks     MiB  copies GB/s  host GB/s  GPU GB/s   ratio\n%5d %7zu %12.2f %10.2f "
               "%9.2f %7.2f%s\n",
               size, bytes >> 20, (double)bytes / pcie * 1e-9, (double)bytes / network * 1e-9,
               (double)bytes / took * 1e-9, ratio, ratio < GOAL ? "  below 0.9" : "");
    return ratio < GOAL ? 3 : 0;
}

/* ---- rate in a stream ------------------------------------------------------------------------ */

/* The slowest rank's seconds of a call, of `calls` in a row in the stream, or each waited for; NULL
 * for options: staged. */
static double in_stream(struct CUstream_st *stream, void *data, size_t bytes, int calls,
                        const struct braid_options *options)
{
    uint64_t began;

    braid_barrier(comm, NULL, NULL);
    began = br_clock_now();
    for (int i = 0; i < calls; i++)
        if (braid_allreduce_on_stream(comm, data, data, bytes / sizeof(float), BRAID_FLOAT32,
                                      BRAID_MAX, options, stream))
            exit(say("all-reduce in the stream"));
    cuda->stream_synchronize(stream);
    if (braid_comm_error(comm))
        exit(say("all-reduce in the stream"));
    return slowest(seconds_since(began) / calls);
}

#define STREAM_ROUNDS 7

static int one_stream_rate(struct CUstream_st *stream, size_t bytes)
{
    double times[4][STREAM_ROUNDS], median[4], before = peer_bytes();
    size_t count = bytes / sizeof(int32_t);
    struct arrays a = allocate(bytes);
    int calls = bytes > (16u << 20) ? 5 : 20, rc;

    for (int round = -1; round < STREAM_ROUNDS; round++) { /* the first one warms up */
        int i = round < 0 ? 0 : round;

        times[0][i] = in_stream(stream, a.gpu, bytes, calls, &on_gpus);
        times[1][i] = in_stream(stream, a.gpu, bytes, 1, &on_gpus);
        times[2][i] = in_stream(stream, a.gpu, bytes, 1, NULL);
        times[3][i] = slowest(all_reduce(a.gpu, bytes));
    }
    for (int i = 0; i < 4; i++)
        median[i] = br_median(times[i], STREAM_ROUNDS) * 1e6;
    fill(&a, BRAID_INT32, count);
    if (braid_allreduce_on_stream(comm, a.gpu, a.gpu, count, BRAID_INT32, BRAID_SUM, &on_gpus,
                                  stream))
        exit(say("all-reduce in the stream"));
    cuda->stream_synchronize(stream);
    rc = compare(&a, a.gpu, BRAID_INT32, count, "all-reduce in the stream");
    if (rank == 0)
        printf("%9zu %12.0f %12.0f %12.0f %12.0f  %.0f\n", bytes >> 10, median[0], median[1],
               median[2], median[3], (peer_bytes() - before) / (double)bytes);
    fflush(stdout);
    release(&a);
    return rc;
}

static int stream_rates(size_t most)
{
    struct CUstream_st *stream;
    br_cuda_result result = cuda->stream_create(&stream, BR_CUDA_STREAM_NON_BLOCKING, 0);
    int rc = 0;

    if (result != BR_CUDA_SUCCESS)
        return refused(result, "a stream");
    alarm(PATIENCE);
    if (rank == 0)
        printf("us: in a stream, all_on_gpu in a row and alone; staged; braid_allreduce(); %d "
               "ranks\n      KiB        a row        alone       staged        plain  read\n",
               size);
    for (size_t bytes = 4096; bytes <= most && !rc; bytes *= 4)
        rc = one_stream_rate(stream, bytes);
    return rc;
}

/* ---- main ------------------------------------------------------------------------------------ */

/* The caller's own CUDA: the context stays current for the life of the process. */
static int start_cuda(void)
{
    const char *number = getenv("BRAID_LOCAL_RANK");
    struct CUctx_st *context;
    int n = 0, rc = br_cuda_driver(&cuda);

    if (rc)
        return rc;
    cuda->device_count(&n);
    gpu = number && n > 0 ? atoi(number) % n : 0;
    rc = br_cuda_context(gpu, &context);
    return rc ? rc : br_cuda_enter(cuda, context);
}

static int run(const char *what, size_t bytes)
{
    int rc = start_cuda();

    if (rc) {
        say("no GPU");
        return rc == -ENOENT || rc == -ENOSYS || rc == -ENODEV ? 77 : 1;
    }
    if (braid_init(NULL, &comm))
        return say("braid_init");
    rank = braid_rank(comm);
    size = braid_size(comm);
    rc = strcmp(what, "check") == 0     ? check()
         : strcmp(what, "direct") == 0  ? direct()
         : strcmp(what, "stream") == 0  ? order()
         : strcmp(what, "streams") == 0 ? stream_rates(bytes)
                                        : rate(bytes);
    braid_finalize(comm);
    return rc;
}

int main(int argc, char **argv)
{
    const char *usage = "gpu_allreduce [options] check|direct|stream|streams|rate, in a job", *what;
    int64_t mib = 256;
    const struct br_option options[] = {
        {"mib", 0, BR_OPTION_NUMBER, &mib, 1, 65536,
         "N rate, streams: MiB of the buffer; default 256"},
        {0},
    };
    struct br_arguments arguments;
    int rc = br_arguments_parse(&arguments, options, usage, argc, argv);

    what = arguments.count == 1 && !arguments.command ? arguments.operands[0] : "";
    if (!rc && strcmp(what, "check") != 0 && strcmp(what, "direct") != 0 &&
        strcmp(what, "stream") != 0 && strcmp(what, "streams") != 0 && strcmp(what, "rate") != 0)
        rc = br_error(EINVAL, "write it as: %s", usage);
    if (rc < 0)
        fprintf(stderr, "gpu_allreduce: %s\n", br_error_message());
    if (rc)
        return rc < 0 ? 2 : 0;
    return run(what, (size_t)mib << 20);
}
