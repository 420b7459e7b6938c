/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reductions that are functions of the program's own. Part of braid.h, which has what all calls
 * have in common: errors, threads, communicators. They follow MPI_Op_create() and MPI_Op_free()
 * (MPI-4.1, section 6.9.5).
 */
#ifndef BRAID_REDUCTION_H
#define BRAID_REDUCTION_H

#include <stddef.h>

#include <braid/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct braid_comm;

/*
 * Combines two arrays of `count` elements, as the function of MPI_Op_create() does: for each i,
 * inout[i] = in[i] op inout[i]. Where op is not commutative the values of `in` are those of lower
 * ranks.
 *
 * op must be associative, and give the same result whenever it is called with the same values; a
 * collective is combined piece by piece, in any number of calls and on any rank. context: as given
 * to braid_reduction_create(). in, inout: aligned to 64 bytes, and no memory of the caller's
 * buffers. type: of the call; elements of it are never split, so a type that is as long serves for
 * structs: BRAID_COMPLEX64 for pairs of 8 bytes, BRAID_COMPLEX128 for those of 16. In calls with
 * floating-point types of 16 and 8 bits the function rounds as it likes.
 *
 * Threads. It is called by a thread that is in a call of braid, or by braid's own, one at a time
 * for all communicators of a job. It must return soon, since the job stands still meanwhile, and
 * must not call braid: such a call ends with -EDEADLK.
 */
typedef void braid_reduce_function(void *context, const void *in, void *inout, size_t count,
                                   enum braid_type type);

/*
 * Makes a reduction of a function: *out may then be given to the collectives of this communicator
 * wherever they take a reduction, with any type, as an MPI_Op. Values in the memory of GPUs are
 * combined on the CPU.
 *
 * function, context: both must stay valid until the last operation with it has ended.
 * commutative: 0: values are combined in the order of the ranks, as BRAID_ORDER_RANKS has it; else
 *     in any order.
 *
 * All ranks of the communicator must create and free their reductions in the same order, with
 * functions that do the same: calls name a reduction by its number. Ranks whose numbers differ find
 * out by the call (-EPROTO); that functions differ nobody can see. Does not wait for other ranks.
 * Sessions (training.h) and communicators that are split from this one do not know it. It ends with
 * the communicator, or by braid_reduction_free(). Errors: -EINVAL (an argument), -ENOSPC (the
 * communicator has 64), -ENOMEM, -EPERM.
 *
 * The least value and whose it is, as MPI_MINLOC:
 *
 *     struct best { float value; int32_t rank; };
 *
 *     static void least(void *context, const void *in, void *inout, size_t n,
 *                       enum braid_type type)
 *     {
 *         const struct best *a = in;
 *         struct best *b = inout;
 *         for (size_t i = 0; i < n; i++)
 *             if (a[i].value < b[i].value || (a[i].value == b[i].value && a[i].rank < b[i].rank))
 *                 b[i] = a[i];
 *     }
 *     ...
 *     braid_reduction_create(comm, least, NULL, 1, &min_and_rank);
 *     braid_allreduce(comm, mine, result, n, BRAID_COMPLEX64, min_and_rank, NULL, NULL);
 */
int braid_reduction_create(struct braid_comm *comm, braid_reduce_function *function, void *context,
                           int commutative, enum braid_reduction *out);

/* Forgets a reduction. Operations that were submitted with it are not touched. -EINVAL: freed
 * before, or of another communicator. Any thread. */
int braid_reduction_free(struct braid_comm *comm, enum braid_reduction reduction);

#ifdef __cplusplus
}
#endif

#endif
