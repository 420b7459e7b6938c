/* SPDX-License-Identifier: BSD-3-Clause */
/* Every collective in a stream of a fake GPU that works by itself, in real processes: its input is
 * written late by the stream, and what is behind it there sees the result. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <braid/gpu.h>

#include "gpu/driver.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/system/app_gpu.h"
#include "tests/system/ranks.h"

#define RANKS 3
#define MOST  3000
#define I32   BRAID_INT32
#define SUM   BRAID_SUM
#define OLD   (-7)

enum form {
    ALLREDUCE,
    REDUCE_SCATTER,
    ALLGATHER,
    BROADCAST,
    REDUCE,
    ALLTOALL,
    GATHER,
    SCATTER,
    SCAN,
    EXSCAN,
    FORMS
};

static const struct br_cuda *cuda;
static struct CUstream_st *stream;
static _Atomic uint32_t gate;
/* of RANKS blocks each, in the GPU's memory: what is given to a call; what a kernel before it
 * writes there; what a kernel behind it reads */
static int32_t *send, *recv, *written, *seen;

static int32_t *view(const int32_t *memory)
{
    return fake_cuda_bytes((uintptr_t)memory);
}

static void copy(int32_t *to, const int32_t *from, size_t elements)
{
    cuda->copy_async((uintptr_t)to, (uintptr_t)from, elements * sizeof *to, stream);
}

static bool reads_blocks(enum form f)
{
    return f == REDUCE_SCATTER || f == ALLTOALL || f == SCATTER;
}

static bool writes_blocks(enum form f)
{
    return f == ALLGATHER || f == ALLTOALL || f == GATHER;
}

static bool writes(enum form f, int rank, int root)
{
    return f == EXSCAN ? rank > 0 : (f != REDUCE && f != GATHER) || rank == root;
}

static int32_t word(enum form f, int rank, size_t i)
{
    return (int32_t)((size_t)f * 100000 + (size_t)(rank + 1) * 10007 + i * 13);
}

/* Element i of what is written on a rank. */
static int32_t wanted(enum form f, int rank, int root, size_t count, size_t i)
{
    size_t own = (size_t)rank * count;
    int from = (int)(i / count);
    int32_t sum = 0;

    switch (f) {
    case ALLGATHER:
    case GATHER:
        return word(f, from, i % count);
    case BROADCAST:
        return word(f, root, i);
    case ALLTOALL:
        return word(f, from, own + i % count);
    case SCATTER:
        return word(f, root, own + i);
    default:
        for (int r = 0; r < (f == SCAN ? rank + 1 : f == EXSCAN ? rank : RANKS); r++)
            sum += word(f, r, f == REDUCE_SCATTER ? own + i : i);
        return sum;
    }
}

static int call(struct braid_comm *comm, enum form f, const int32_t *in, int32_t *out, size_t count,
                int root)
{
    switch (f) {
    case ALLREDUCE:
        return braid_allreduce_on_stream(comm, in, out, count, I32, SUM, NULL, stream);
    case REDUCE_SCATTER:
        return braid_reduce_scatter_on_stream(comm, in, out, count, I32, SUM, NULL, stream);
    case ALLGATHER:
        return braid_allgather_on_stream(comm, in, out, count, I32, NULL, stream);
    case BROADCAST:
        return braid_broadcast_on_stream(comm, in, out, count, I32, root, NULL, stream);
    case REDUCE:
        return braid_reduce_on_stream(comm, in, out, count, I32, SUM, root, NULL, stream);
    case ALLTOALL:
        return braid_alltoall_on_stream(comm, in, out, count, I32, NULL, stream);
    case GATHER:
        return braid_gather_on_stream(comm, in, out, count, I32, root, NULL, stream);
    case SCATTER:
        return braid_scatter_on_stream(comm, in, out, count, I32, root, NULL, stream);
    case SCAN:
        return braid_scan_on_stream(comm, in, out, count, I32, SUM, NULL, stream);
    default:
        return braid_exscan_on_stream(comm, in, out, count, I32, SUM, NULL, stream);
    }
}

/* In place as braid.h says it, in the memory of recv or of send, whichever is larger. */
static void choose(enum form f, int rank, size_t count, bool in_place, int32_t **in, int32_t **out)
{
    size_t own = (size_t)rank * count;

    *in = send;
    *out = recv;
    if (!in_place)
        return;
    *in = reads_blocks(f) || !writes_blocks(f) ? recv : recv + own;
    if (reads_blocks(f) && !writes_blocks(f))
        *out = recv + own;
}

static int one(struct braid_comm *comm, enum form f, size_t count, bool in_place, uint32_t turn)
{
    int rank = braid_rank(comm), root = (int)turn % RANKS;
    size_t inputs = count * (reads_blocks(f) ? RANKS : 1),
           outputs = count * (writes_blocks(f) ? RANKS : 1);
    int32_t *in, *out;

    choose(f, rank, count, in_place, &in, &out);
    for (size_t i = 0; i < (size_t)RANKS * count; i++) {
        view(written)[i] = word(f, rank, i);
        view(send)[i] = view(recv)[i] = view(seen)[i] = OLD;
    }
    cuda->stream_wait_32(stream, (uintptr_t)&gate, turn, BR_CUDA_WAIT_GEQ);
    copy(in, written, inputs);
    RETURNS(0, call(comm, f, in, out, count, root));
    copy(seen, out, outputs);
    CHECK(view(seen)[0] == OLD, "form %d: the stream did not wait", (int)f);
    atomic_fetch_add(&gate, 1);
    cuda->stream_synchronize(stream);
    for (size_t i = 0; writes(f, rank, root) && i < outputs; i++)
        CHECK(view(seen)[i] == wanted(f, rank, root, count, i),
              "form %d, %zu elements, in place %d: element %zu is %d", (int)f, count, in_place, i,
              (int)view(seen)[i]);
    for (size_t i = 0; !in_place && !writes(f, rank, root) && i < outputs; i++)
        CHECK(view(seen)[i] == OLD, "form %d has written on rank %d", (int)f, rank);
    return braid_comm_error(comm);
}

static int open_stream(void)
{
    fake_cuda()->thread = true;
    cuda = own_gpu();
    send = own_gpu_alloc(4 * RANKS * MOST * sizeof *send);
    recv = send + RANKS * MOST;
    written = recv + RANKS * MOST;
    seen = written + RANKS * MOST;
    atomic_store(&gate, 0);
    return cuda->stream_create(&stream, BR_CUDA_STREAM_NON_BLOCKING, 0) != BR_CUDA_SUCCESS;
}

static int every_form(struct braid_comm *comm, void *context)
{
    static const size_t counts[] = {1, MOST};
    uint32_t turn = 0;

    (void)context;
    RETURNS(0, open_stream());
    for (int f = 0; f < FORMS; f++)
        for (int k = 0; k < 4; k++)
            if (one(comm, (enum form)f, counts[k / 2], k % 2, ++turn))
                return 1;
    return 0;
}

#define GAP 700 /* from a block's start to the next one's */

/* Element i of block `to` that rank `from` gives. */
static int32_t piece(int from, int to, size_t i)
{
    return (from + 1) * 100000 + (to + 1) * 1000 + (int32_t)i;
}

/* counts[r] elements of block r are of rank r, or of ours in rank r's input; what is between is
 * left. */
static int blocks_came(const size_t *counts, int rank, const char *what)
{
    for (int r = 0; r < RANKS; r++)
        for (size_t i = 0; i < GAP; i++) {
            int32_t got = view(seen)[(size_t)r * GAP + i];

            CHECK(got == (i < counts[r] ? piece(r, rank, i) : OLD), "%s: element %zu from %d: %d",
                  what, i, r, (int)got);
        }
    return 0;
}

/* With blocks of different sizes and room between them. */
static int vectors(struct braid_comm *comm, void *context)
{
    size_t to[RANKS], from[RANKS], places[RANKS];
    int rank = braid_rank(comm);

    (void)context;
    RETURNS(0, open_stream());
    for (int r = 0; r < RANKS; r++) {
        to[r] = (size_t)(200 + 100 * rank + 10 * r);
        from[r] = (size_t)(200 + 100 * r + 10 * rank);
        places[r] = (size_t)r * GAP;
        for (size_t i = 0; i < GAP; i++) {
            view(written)[places[r] + i] = piece(rank, r, i);
            view(recv)[places[r] + i] = OLD;
        }
    }
    copy(send, written, RANKS * GAP);
    RETURNS(0, braid_alltoallv_on_stream(comm, send, to, places, recv, from, places, I32, NULL,
                                         stream));
    copy(seen, recv, RANKS * GAP);
    cuda->stream_synchronize(stream);
    if (blocks_came(from, rank, "alltoallv"))
        return 1;
    for (int r = 0; r < RANKS; r++) {
        to[r] = (size_t)(100 + 50 * r); /* on all ranks */
        for (size_t i = 0; i < to[rank]; i++)
            view(written)[i] = piece(rank, 0, i);
        for (size_t i = 0; i < GAP; i++)
            view(recv)[places[r] + i] = OLD;
    }
    copy(send, written, to[rank]);
    RETURNS(0,
            braid_allgatherv_on_stream(comm, send, to[rank], recv, to, places, I32, NULL, stream));
    copy(seen, recv, RANKS * GAP);
    cuda->stream_synchronize(stream);
    if (blocks_came(to, 0, "allgatherv"))
        return 1;
    RETURNS(0, braid_scatterv_on_stream(comm, recv, to, places, send, to[rank], I32, 1, NULL,
                                        stream)); /* back to where they came from, */
    RETURNS(0, braid_gatherv_on_stream(comm, send, to[rank], recv, to, places, I32, 1, NULL,
                                       stream)); /* and again */
    RETURNS(0, braid_reduce_scatterv_on_stream(comm, recv, to, places, send, I32, BRAID_MAX, NULL,
                                               stream)); /* all have the same */
    RETURNS(0,
            braid_allgatherv_on_stream(comm, send, to[rank], recv, to, places, I32, NULL, stream));
    copy(seen, recv, RANKS * GAP);
    cuda->stream_synchronize(stream);
    return blocks_came(to, 0, "there and back") || braid_comm_error(comm);
}

/* One side in host memory, and a rank that takes part without a stream. */
static int mixed(struct braid_comm *comm, void *context)
{
    static int32_t host[RANKS * MOST];
    int rank = braid_rank(comm);

    (void)context;
    RETURNS(0, open_stream());
    for (size_t i = 0; i < MOST; i++) {
        view(written)[i] = word(ALLGATHER, rank, i);
        host[i] = word(ALLGATHER, rank, i);
    }
    copy(send, written, MOST);
    if (rank == 0)
        RETURNS(0, braid_allgather_on_stream(comm, send, host, MOST, I32, NULL, stream));
    else if (rank == 1)
        RETURNS(0, braid_allgather_on_stream(comm, host, recv, MOST, I32, NULL, stream));
    else
        RETURNS(0, braid_allgather(comm, host, recv, MOST, I32, NULL, NULL));
    cuda->stream_synchronize(stream);
    for (size_t i = 0; i < RANKS * MOST; i++)
        CHECK((rank == 0 ? host : view(recv))[i] == wanted(ALLGATHER, rank, 0, MOST, i),
              "element %zu", i);
    return braid_comm_error(comm);
}

/* What is behind a barrier in the stream waits for the last rank. */
static int barrier(struct braid_comm *comm, void *context)
{
    (void)context;
    RETURNS(0, open_stream());
    view(seen)[0] = OLD;
    view(written)[0] = 1;
    if (braid_rank(comm) == RANKS - 1) {
        ranks_await(0, RANKS - 1);
        RETURNS(0, braid_barrier(comm, NULL, NULL));
        return 0;
    }
    RETURNS(0, braid_barrier_on_stream(comm, NULL, stream));
    copy(seen, written, 1);
    CHECK(view(seen)[0] == OLD, "the stream did not wait");
    ranks_tell(0);
    cuda->stream_synchronize(stream);
    CHECK(view(seen)[0] == 1, "the stream is cut off");
    return braid_comm_error(comm);
}

/* Nothing is in the stream after an error. */
static int arguments(struct braid_comm *comm, void *context)
{
    (void)context;
    RETURNS(0, open_stream());
    SAYS(-EINVAL, "braid_broadcast_on_stream|root|7",
         braid_broadcast_on_stream(comm, send, recv, 1, I32, 7, NULL, stream));
    SAYS(-EINVAL, "braid_allgather_on_stream|send",
         braid_allgather_on_stream(comm, NULL, recv, 1, I32, NULL, stream));
    SAYS(-EINVAL, "braid_reduce_on_stream|reduction",
         braid_reduce_on_stream(comm, send, recv, 1, I32, (enum braid_reduction)99, 0, NULL,
                                stream));
    SAYS(-EINVAL, "braid_barrier_on_stream|communicator",
         braid_barrier_on_stream(NULL, NULL, stream));
    cuda->stream_synchronize(stream);
    return braid_barrier(comm, NULL, NULL);
}

static void everywhere(ranks_main *body)
{
    setenv("BRAID_CUDA_LIBRARY", FAKE_CUDA_LIBRARY, 1);
    ranks_run(
        &(struct ranks){
            .size = RANKS, .backend = "tcp", .devices = "127.0.0.1", .timeout_ms = RANKS_PATIENCE},
        body, NULL);
    ranks_run(&(struct ranks){.size = RANKS, .backend = "shm", .timeout_ms = RANKS_PATIENCE}, body,
              NULL);
}

static void stream__every_collective(void **state)
{
    (void)state;
    everywhere(every_form);
}

static void stream__blocks_of_different_sizes(void **state)
{
    (void)state;
    everywhere(vectors);
}

static void stream__sides_in_host_memory(void **state)
{
    (void)state;
    everywhere(mixed);
}

static void stream__barrier(void **state)
{
    (void)state;
    everywhere(barrier);
}

static void stream__arguments(void **state)
{
    (void)state;
    everywhere(arguments);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stream__every_collective),
        cmocka_unit_test(stream__blocks_of_different_sizes),
        cmocka_unit_test(stream__sides_in_host_memory),
        cmocka_unit_test(stream__barrier),
        cmocka_unit_test(stream__arguments),
    };

    if (argc == 2) /* only some */
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
