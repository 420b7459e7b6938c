/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives whose blocks differ in size. Part of braid.h, which has what all operations have in
 * common: errors, threads, options, handles.
 *
 * They follow MPI's MPI_Alltoallv, MPI_Allgatherv, MPI_Reduce_scatter, MPI_Gatherv and MPI_Scatterv
 * (MPI-4.1, sections 6.5 to 6.10), with counts and displacements of size_t. A rank that other ranks
 * send nothing to still takes part.
 *
 * counts, displacements: arrays with an entry for each rank of the communicator, in elements of
 * `type`; a displacement is that of the block's first element from the start of the buffer.
 * Displacements may be NULL: block r stands right behind block r - 1 then. Counts may be 0. The
 * arrays are copied: they may change as soon as the call has returned. Blocks that are written must
 * not overlap (-EINVAL where the displacements ascend; else what they hold is not defined);
 * elements between blocks are left as they are. Displacements may differ from rank to rank.
 *
 * In place: one of the buffers stands in the other one as each function says. Otherwise the span
 * from the first to the last element that a rank reads and the span that it writes must not overlap
 * (-EINVAL).
 *
 * What the ranks must agree on: collective, type, reduction, root; of braid_allgatherv() and
 * braid_reduce_scatterv() all counts as well; of the others, the count of each block at both its
 * ends, the only ranks that know it. -EPROTO names the ranks and what they differ in.
 *
 * Blocks are cut into fragments that travel over all rails at once. Algorithms
 * (options->algorithm): allgatherv, reduce_scatterv: those of the even forms, of which one is
 * chosen by the mean size of a block; a ring where a few are much larger than the others.
 * alltoallv: direct; gatherv, scatterv: flat.
 */
#ifndef BRAID_VECTOR_H
#define BRAID_VECTOR_H

#include <stddef.h>

#include <braid/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct braid_comm;
struct braid_op;
struct braid_options;

/* Block r of send goes to rank r, block r of recv comes from rank r: send_counts[b] of rank a
 * equals recv_counts[a] of rank b. In place: recv == send, with the same counts and displacements
 * for both. */
int braid_alltoallv(struct braid_comm *comm, const void *send, const size_t *send_counts,
                    const size_t *send_displacements, void *recv, const size_t *recv_counts,
                    const size_t *recv_displacements, enum braid_type type,
                    const struct braid_options *options, struct braid_op **op);

/* send: send_count elements; recv: block r from rank r. counts: the same on all ranks;
 * counts[rank] == send_count (-EINVAL). In place: send == recv + displacements[rank]. */
int braid_allgatherv(struct braid_comm *comm, const void *send, size_t send_count, void *recv,
                     const size_t *counts, const size_t *displacements, enum braid_type type,
                     const struct braid_options *options, struct braid_op **op);

/* send: a block for each rank; recv: counts[rank] elements, block `rank` of the reduction. counts:
 * the same on all ranks. In place: recv == send + displacements[rank]. */
int braid_reduce_scatterv(struct braid_comm *comm, const void *send, const size_t *counts,
                          const size_t *displacements, void *recv, enum braid_type type,
                          enum braid_reduction reduction, const struct braid_options *options,
                          struct braid_op **op);

/* send: send_count elements; recv on root: block r from rank r. recv, counts and displacements
 * count on root only and may be NULL elsewhere; counts[r] equals send_count of rank r. In place, on
 * root: send == recv + displacements[root]. */
int braid_gatherv(struct braid_comm *comm, const void *send, size_t send_count, void *recv,
                  const size_t *counts, const size_t *displacements, enum braid_type type, int root,
                  const struct braid_options *options, struct braid_op **op);

/* send on root: block r for rank r; recv: recv_count elements. send, counts and displacements count
 * on root only and may be NULL elsewhere; counts[r] equals recv_count of rank r. In place, on root:
 * recv == send + displacements[root]. */
int braid_scatterv(struct braid_comm *comm, const void *send, const size_t *counts,
                   const size_t *displacements, void *recv, size_t recv_count, enum braid_type type,
                   int root, const struct braid_options *options, struct braid_op **op);

/* Persistent forms, as those of braid.h. The arrays are copied here. */
int braid_alltoallv_init(struct braid_comm *comm, const void *send, const size_t *send_counts,
                         const size_t *send_displacements, void *recv, const size_t *recv_counts,
                         const size_t *recv_displacements, enum braid_type type,
                         const struct braid_options *options, struct braid_op **op);
int braid_allgatherv_init(struct braid_comm *comm, const void *send, size_t send_count, void *recv,
                          const size_t *counts, const size_t *displacements, enum braid_type type,
                          const struct braid_options *options, struct braid_op **op);
int braid_reduce_scatterv_init(struct braid_comm *comm, const void *send, const size_t *counts,
                               const size_t *displacements, void *recv, enum braid_type type,
                               enum braid_reduction reduction, const struct braid_options *options,
                               struct braid_op **op);
int braid_gatherv_init(struct braid_comm *comm, const void *send, size_t send_count, void *recv,
                       const size_t *counts, const size_t *displacements, enum braid_type type,
                       int root, const struct braid_options *options, struct braid_op **op);
int braid_scatterv_init(struct braid_comm *comm, const void *send, const size_t *counts,
                        const size_t *displacements, void *recv, size_t recv_count,
                        enum braid_type type, int root, const struct braid_options *options,
                        struct braid_op **op);

#ifdef __cplusplus
}
#endif

#endif
