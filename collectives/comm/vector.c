/* SPDX-License-Identifier: BSD-3-Clause */
/* The public calls with blocks of different sizes (vector.h, gpu.h). */
#include <braid/gpu.h>

#include <errno.h>
#include <stdint.h>

#include "base/error.h"
#include "base/process.h"
#include "collectives/comm/api.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/completion.h"
#include "collectives/comm/context.h"
#include "collectives/comm/gpu_ops.h"
#include "collectives/comm/operation_memory.h"
#include "collectives/comm/operation_pool.h"
#include "collectives/comm/reductions.h"
#include "collectives/engine/operation.h"
#include "collectives/schedule/type.h"

/* One of the two buffers of a call. */
struct side {
    const char *name;
    const void *memory;
    uint32_t blocks; /* 1, or one for each rank; 0: this rank has no such buffer */
    const size_t *counts, *displacements; /* of each block; displacements may be NULL */
};

struct vector_call {
    const char *name; /* of the public function */
    enum br_collective collective;
    struct side send, recv;
    enum braid_type type;
    enum braid_reduction reduction;
    int root;
};

/* What becomes of a call. */
struct how {
    bool persistent;      /* its operation is prepared only */
    struct braid_op **op; /* NULL: it blocks */
    bool in_stream;       /* op is NULL, and nobody is blocked */
    void *stream;
};

/* What a buffer's blocks cover, in elements: from the first to the last, and the largest block. */
struct extent {
    size_t first, end, most;
};

/* ---- checks ---------------------------------------------------------------------------------- */

/* Writes counts and displacements of a buffer to to[0 .. 2 * blocks) and finds what they cover. */
static int vector_copy(const struct vector_call *c, const struct side *side, size_t *to,
                       struct extent *extent)
{
    const size_t limit = SIZE_MAX / 8 / BR_TYPE_BYTES_MAX;
    size_t *offsets = to + side->blocks, end = 0, last = 0;

    *extent = (struct extent){0, 0, 0};
    for (uint32_t b = 0; b < side->blocks; b++) {
        size_t count = side->counts[b], offset = side->displacements ? side->displacements[b] : end;

        to[b] = count;
        offsets[b] = offset;
        if (count > limit || offset > limit - count)
            return br_error(EINVAL,
                            "%s: block %u of %s, %zu elements from %zu on, is more than memory can "
                            "hold",
                            c->name, b, side->name, count, offset);
        if (!count)
            continue;
        if (side == &c->recv && offset >= last && offset < end)
            return br_error(EINVAL,
                            "%s: block %u of recv, %zu elements from %zu on, overlaps the block "
                            "before it, which ends at %zu",
                            c->name, b, count, offset, end);
        if (!extent->end || offset < extent->first)
            extent->first = offset;
        last = offset;
        end = offset + count;
        extent->end = end > extent->end ? end : extent->end;
        extent->most = count > extent->most ? count : extent->most;
    }
    return extent->end && !side->memory ? br_error(EINVAL, "%s: %s is NULL", c->name, side->name)
                                        : 0;
}

/* Do send and recv stand as vector.h allows it? */
static bool is_in_place(const struct vector_call *c, const struct br_blocks blocks[], int rank)
{
    const uint8_t *send = c->send.memory, *recv = c->recv.memory;
    size_t size = br_type_size(c->type);

    if (c->collective == BR_ALLTOALL)
        return send == recv;
    if (c->collective == BR_ALLGATHER || c->collective == BR_GATHER)
        return send == recv + blocks[BR_OUTPUT].offsets[rank] * size;
    return recv == send + blocks[BR_INPUT].offsets[rank] * size;
}

/* Of an all-to-all, to this rank itself. Nobody sends it, so nobody else compares both ends. */
static int check_own_block(const struct vector_call *c, const struct br_blocks blocks[], int rank)
{
    size_t sent = blocks[BR_INPUT].counts[rank], received = blocks[BR_OUTPUT].counts[rank];

    return sent == received ? 0
                            : br_error(EINVAL,
                                       "%s: block %d, which rank %d sends to itself, has %zu "
                                       "elements in send and %zu in recv",
                                       c->name, rank, rank, sent, received);
}

static int check_overlap(const struct vector_call *c, const struct br_blocks blocks[],
                         const struct extent extents[], int rank)
{
    const struct extent *s = &extents[BR_INPUT], *r = &extents[BR_OUTPUT];
    uintptr_t send = (uintptr_t)c->send.memory, recv = (uintptr_t)c->recv.memory;
    size_t size = br_type_size(c->type);

    if (!s->end || !r->end || send + s->end * size <= recv + r->first * size ||
        recv + r->end * size <= send + s->first * size)
        return 0;
    if (!is_in_place(c, blocks, rank))
        return br_error(EINVAL,
                        "%s: send (elements %zu to %zu from %p on) and recv (%zu to %zu from %p "
                        "on) of rank %d overlap; they may only if it is in place",
                        c->name, s->first, s->end, c->send.memory, r->first, r->end, c->recv.memory,
                        rank);
    for (uint32_t b = 0; c->collective == BR_ALLTOALL && b < c->send.blocks; b++)
        if (blocks[BR_INPUT].counts[b] != blocks[BR_OUTPUT].counts[b] ||
            (blocks[BR_INPUT].counts[b] &&
             blocks[BR_INPUT].offsets[b] != blocks[BR_OUTPUT].offsets[b]))
            return br_error(EINVAL,
                            "%s: in place block %u must have the same count and displacement in "
                            "send and recv",
                            c->name, b);
    return 0;
}

/* ---- from call to operation ------------------------------------------------------------------ */

static void *from_first(const struct side *side, size_t bytes)
{
    uint8_t *memory = (uint8_t *)(uintptr_t)side->memory;

    return bytes ? memory + bytes : memory; /* which may be NULL */
}

/* Fills in buffers and blocks. Displacements count from the first block, so that the operation's
 * memory is what it uses. */
static int vector_fill(const struct vector_call *c, struct br_operation *op)
{
    const struct side *sides[] = {[BR_INPUT] = &c->send, [BR_OUTPUT] = &c->recv};
    size_t size = br_type_size(c->type), *arrays;
    struct extent extents[BR_SCRATCH];
    int rc = br_operation_arrays(op, 2 * ((size_t)c->send.blocks + c->recv.blocks), &arrays);

    for (int i = 0; i < BR_SCRATCH && !rc; arrays += 2 * (size_t)sides[i++]->blocks) {
        rc = vector_copy(c, sides[i], arrays, &extents[i]);
        if (sides[i]->blocks)
            op->blocks[i] = (struct br_blocks){arrays, arrays + sides[i]->blocks};
    }
    if (!rc)
        rc = check_overlap(c, op->blocks, extents, op->comm->rank);
    if (!rc && c->collective == BR_ALLTOALL)
        rc = check_own_block(c, op->blocks, op->comm->rank);
    if (rc)
        return rc;
    for (int i = 0; i < BR_SCRATCH; i++) {
        size_t *offsets = (size_t *)(uintptr_t)op->blocks[i].offsets;

        for (uint32_t b = 0; b < sides[i]->blocks; b++)
            offsets[b] -= op->blocks[i].counts[b] ? extents[i].first : offsets[b];
        op->count = extents[i].most > op->count ? extents[i].most : op->count;
    }
    op->kind = BR_OPERATION_COLLECTIVE;
    op->collective = c->collective;
    op->type = c->type;
    op->reduction = c->reduction;
    if (op->reduction >= BRAID_REDUCTION_USER)
        br_reductions_apply(op->comm, op);
    op->root = c->root;
    op->send = from_first(&c->send, extents[BR_INPUT].first * size);
    op->recv = from_first(&c->recv, extents[BR_OUTPUT].first * size);
    op->send_bytes = (extents[BR_INPUT].end - extents[BR_INPUT].first) * size;
    op->recv_bytes = (extents[BR_OUTPUT].end - extents[BR_OUTPUT].first) * size;
    return br_comm_probe_memory(c->name, op);
}

static int vector_call(struct braid_comm *comm, const struct vector_call *c,
                       const struct braid_options *options, const struct how *how)
{
    BR_DISABLE_CANCELLATION;
    const struct side *sides[] = {&c->send, &c->recv};
    struct braid_options copy;
    struct br_operation *op;
    int rc = br_api_check_options(c->name, &options, &copy);

    if (!rc)
        rc = br_api_check_values(comm, c->name, c->collective, c->type, c->reduction, c->root);
    for (int i = 0; i < 2 && !rc; i++)
        if (sides[i]->blocks && !sides[i]->counts)
            rc = br_error(EINVAL, "%s: the counts of %s are NULL", c->name, sides[i]->name);
    if (!rc && how->persistent && !how->op)
        rc = br_error(EINVAL, "%s: nowhere to store the operation", c->name);
    if (!rc && !how->in_stream && br_api_blocks(options, how->op))
        rc = br_completion_may_block(c->name);
    if (rc)
        return rc;
    op = br_comm_get_operation(comm);
    if (!op)
        return -ENOMEM;
    br_api_apply_options(comm, options, op);
    rc = vector_fill(c, op);
    if (rc) {
        br_comm_put_operation(op);
        return rc;
    }
    if (!how->in_stream)
        return br_api_begin(op, how->persistent, how->op);
    rc = comm->context->gpu->submit(op, how->stream);
    return rc ? br_error_prefix(rc, "%s: ", c->name) : 0;
}

/* ---- the calls ------------------------------------------------------------------------------- */

/* Of every call first: is there a communicator? */
static int vector_begin(const struct braid_comm *comm, const char *name, const struct how *how)
{
    if (how->op)
        *how->op = NULL;
    return br_comm_check(comm, name);
}

static int alltoallv(const char *name, struct braid_comm *comm, const void *send,
                     const size_t *send_counts, const size_t *send_displacements, void *recv,
                     const size_t *recv_counts, const size_t *recv_displacements,
                     enum braid_type type, const struct braid_options *options,
                     const struct how *how)
{
    int rc = vector_begin(comm, name, how);

    if (rc)
        return rc;
    return vector_call(
        comm,
        &(struct vector_call){
            .name = name,
            .collective = BR_ALLTOALL,
            .send = {"send", send, (uint32_t)comm->size, send_counts, send_displacements},
            .recv = {"recv", recv, (uint32_t)comm->size, recv_counts, recv_displacements},
            .type = type},
        options, how);
}

static int allgatherv(const char *name, struct braid_comm *comm, const void *send,
                      size_t send_count, void *recv, const size_t *counts,
                      const size_t *displacements, enum braid_type type,
                      const struct braid_options *options, const struct how *how)
{
    int rc = vector_begin(comm, name, how);

    if (!rc && counts && counts[comm->rank] != send_count)
        rc = br_error(EINVAL, "%s: send_count is %zu, but counts[%d], of this rank, is %zu", name,
                      send_count, comm->rank, counts[comm->rank]);
    if (rc)
        return rc;
    return vector_call(
        comm,
        &(struct vector_call){.name = name,
                              .collective = BR_ALLGATHER,
                              .send = {"send", send, 1, &send_count, NULL},
                              .recv = {"recv", recv, (uint32_t)comm->size, counts, displacements},
                              .type = type},
        options, how);
}

static int reduce_scatterv(const char *name, struct braid_comm *comm, const void *send,
                           const size_t *counts, const size_t *displacements, void *recv,
                           enum braid_type type, enum braid_reduction reduction,
                           const struct braid_options *options, const struct how *how)
{
    int rc = vector_begin(comm, name, how);

    if (rc)
        return rc;
    return vector_call(
        comm,
        &(struct vector_call){.name = name,
                              .collective = BR_REDUCE_SCATTER,
                              .send = {"send", send, (uint32_t)comm->size, counts, displacements},
                              .recv = {"recv", recv, 1, counts ? counts + comm->rank : NULL, NULL},
                              .type = type,
                              .reduction = reduction},
        options, how);
}

static int gatherv(const char *name, struct braid_comm *comm, const void *send, size_t send_count,
                   void *recv, const size_t *counts, const size_t *displacements,
                   enum braid_type type, int root, const struct braid_options *options,
                   const struct how *how)
{
    int rc = vector_begin(comm, name, how);
    bool is_root = !rc && comm->rank == root;

    if (is_root && counts && counts[root] != send_count)
        rc = br_error(EINVAL, "%s: send_count is %zu, but counts[%d], of the root, is %zu", name,
                      send_count, root, counts[root]);
    if (rc)
        return rc;
    return vector_call(
        comm,
        &(struct vector_call){
            .name = name,
            .collective = BR_GATHER,
            .send = {"send", send, 1, &send_count, NULL},
            .recv = {"recv", recv, is_root ? (uint32_t)comm->size : 0, counts, displacements},
            .type = type,
            .root = root},
        options, how);
}

static int scatterv(const char *name, struct braid_comm *comm, const void *send,
                    const size_t *counts, const size_t *displacements, void *recv,
                    size_t recv_count, enum braid_type type, int root,
                    const struct braid_options *options, const struct how *how)
{
    int rc = vector_begin(comm, name, how);
    bool is_root = !rc && comm->rank == root;

    if (is_root && counts && counts[root] != recv_count)
        rc = br_error(EINVAL, "%s: recv_count is %zu, but counts[%d], of the root, is %zu", name,
                      recv_count, root, counts[root]);
    if (rc)
        return rc;
    return vector_call(
        comm,
        &(struct vector_call){
            .name = name,
            .collective = BR_SCATTER,
            .send = {"send", send, is_root ? (uint32_t)comm->size : 0, counts, displacements},
            .recv = {"recv", recv, 1, &recv_count, NULL},
            .type = type,
            .root = root},
        options, how);
}

int braid_alltoallv(struct braid_comm *comm, const void *send, const size_t *send_counts,
                    const size_t *send_displacements, void *recv, const size_t *recv_counts,
                    const size_t *recv_displacements, enum braid_type type,
                    const struct braid_options *options, struct braid_op **op)
{
    return alltoallv("braid_alltoallv", comm, send, send_counts, send_displacements, recv,
                     recv_counts, recv_displacements, type, options, &(struct how){.op = op});
}

int braid_alltoallv_init(struct braid_comm *comm, const void *send, const size_t *send_counts,
                         const size_t *send_displacements, void *recv, const size_t *recv_counts,
                         const size_t *recv_displacements, enum braid_type type,
                         const struct braid_options *options, struct braid_op **op)
{
    return alltoallv("braid_alltoallv_init", comm, send, send_counts, send_displacements, recv,
                     recv_counts, recv_displacements, type, options,
                     &(struct how){.persistent = true, .op = op});
}

int braid_allgatherv(struct braid_comm *comm, const void *send, size_t send_count, void *recv,
                     const size_t *counts, const size_t *displacements, enum braid_type type,
                     const struct braid_options *options, struct braid_op **op)
{
    return allgatherv("braid_allgatherv", comm, send, send_count, recv, counts, displacements, type,
                      options, &(struct how){.op = op});
}

int braid_allgatherv_init(struct braid_comm *comm, const void *send, size_t send_count, void *recv,
                          const size_t *counts, const size_t *displacements, enum braid_type type,
                          const struct braid_options *options, struct braid_op **op)
{
    return allgatherv("braid_allgatherv_init", comm, send, send_count, recv, counts, displacements,
                      type, options, &(struct how){.persistent = true, .op = op});
}

int braid_reduce_scatterv(struct braid_comm *comm, const void *send, const size_t *counts,
                          const size_t *displacements, void *recv, enum braid_type type,
                          enum braid_reduction reduction, const struct braid_options *options,
                          struct braid_op **op)
{
    return reduce_scatterv("braid_reduce_scatterv", comm, send, counts, displacements, recv, type,
                           reduction, options, &(struct how){.op = op});
}

int braid_reduce_scatterv_init(struct braid_comm *comm, const void *send, const size_t *counts,
                               const size_t *displacements, void *recv, enum braid_type type,
                               enum braid_reduction reduction, const struct braid_options *options,
                               struct braid_op **op)
{
    return reduce_scatterv("braid_reduce_scatterv_init", comm, send, counts, displacements, recv,
                           type, reduction, options, &(struct how){.persistent = true, .op = op});
}

int braid_gatherv(struct braid_comm *comm, const void *send, size_t send_count, void *recv,
                  const size_t *counts, const size_t *displacements, enum braid_type type, int root,
                  const struct braid_options *options, struct braid_op **op)
{
    return gatherv("braid_gatherv", comm, send, send_count, recv, counts, displacements, type, root,
                   options, &(struct how){.op = op});
}

int braid_gatherv_init(struct braid_comm *comm, const void *send, size_t send_count, void *recv,
                       const size_t *counts, const size_t *displacements, enum braid_type type,
                       int root, const struct braid_options *options, struct braid_op **op)
{
    return gatherv("braid_gatherv_init", comm, send, send_count, recv, counts, displacements, type,
                   root, options, &(struct how){.persistent = true, .op = op});
}

int braid_scatterv(struct braid_comm *comm, const void *send, const size_t *counts,
                   const size_t *displacements, void *recv, size_t recv_count, enum braid_type type,
                   int root, const struct braid_options *options, struct braid_op **op)
{
    return scatterv("braid_scatterv", comm, send, counts, displacements, recv, recv_count, type,
                    root, options, &(struct how){.op = op});
}

int braid_scatterv_init(struct braid_comm *comm, const void *send, const size_t *counts,
                        const size_t *displacements, void *recv, size_t recv_count,
                        enum braid_type type, int root, const struct braid_options *options,
                        struct braid_op **op)
{
    return scatterv("braid_scatterv_init", comm, send, counts, displacements, recv, recv_count,
                    type, root, options, &(struct how){.persistent = true, .op = op});
}

int braid_alltoallv_on_stream(struct braid_comm *comm, const void *send, const size_t *send_counts,
                              const size_t *send_displacements, void *recv,
                              const size_t *recv_counts, const size_t *recv_displacements,
                              enum braid_type type, const struct braid_options *options,
                              void *stream)
{
    return alltoallv("braid_alltoallv_on_stream", comm, send, send_counts, send_displacements, recv,
                     recv_counts, recv_displacements, type, options,
                     &(struct how){.in_stream = true, .stream = stream});
}

int braid_allgatherv_on_stream(struct braid_comm *comm, const void *send, size_t send_count,
                               void *recv, const size_t *counts, const size_t *displacements,
                               enum braid_type type, const struct braid_options *options,
                               void *stream)
{
    return allgatherv("braid_allgatherv_on_stream", comm, send, send_count, recv, counts,
                      displacements, type, options,
                      &(struct how){.in_stream = true, .stream = stream});
}

int braid_reduce_scatterv_on_stream(struct braid_comm *comm, const void *send, const size_t *counts,
                                    const size_t *displacements, void *recv, enum braid_type type,
                                    enum braid_reduction reduction,
                                    const struct braid_options *options, void *stream)
{
    return reduce_scatterv("braid_reduce_scatterv_on_stream", comm, send, counts, displacements,
                           recv, type, reduction, options,
                           &(struct how){.in_stream = true, .stream = stream});
}

int braid_gatherv_on_stream(struct braid_comm *comm, const void *send, size_t send_count,
                            void *recv, const size_t *counts, const size_t *displacements,
                            enum braid_type type, int root, const struct braid_options *options,
                            void *stream)
{
    return gatherv("braid_gatherv_on_stream", comm, send, send_count, recv, counts, displacements,
                   type, root, options, &(struct how){.in_stream = true, .stream = stream});
}

int braid_scatterv_on_stream(struct braid_comm *comm, const void *send, const size_t *counts,
                             const size_t *displacements, void *recv, size_t recv_count,
                             enum braid_type type, int root, const struct braid_options *options,
                             void *stream)
{
    return scatterv("braid_scatterv_on_stream", comm, send, counts, displacements, recv, recv_count,
                    type, root, options, &(struct how){.in_stream = true, .stream = stream});
}
