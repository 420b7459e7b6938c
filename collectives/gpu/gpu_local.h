/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce of ranks of one host whose memory lies on GPUs, without the host's: each rank's kernel
 * reads the others' memory where it is (gpu/ipc.h).
 *
 *     tell | answer | combine, done | fetch, done
 *
 * 1. Steps in which ranks wait for each other are rounds on the communicator's shared segment
 *    (transport/shm/coll.h), between those of small collectives, in the order of submission. An
 *    operation has them at the head of the shared segment's queue; what is behind it there waits.
 * 2. tell: each rank publishes where its input and output lie (struct br_ipc_note), or that it has
 *    nothing to share: host memory, an operation in a stream, another context's memory, no handle,
 *    a mapping refused before. If one has nothing, all ranks know, and the operation goes to the
 *    engine as it would have at once.
 * 3. answer: each rank maps the others' memory and says whether it could. If one could not, all go
 *    to the engine; nothing has been written so far. The round costs 0.2 us, and lets a rank fail
 *    to map when it finds out, not before. Rejected: to answer in the round `done` of note 4: in
 *    place, inputs are overwritten by then.
 * 4. combine: of n pieces, rank r's kernel combines piece r of all inputs, in the order of ranks,
 *    into its own output: one pass, n sources. The bits do not depend on who computes them, so all
 *    ranks have the same. In place it writes what nobody else reads, piece r of its own.
 * 5. fetch: when all have combined, each copies the other pieces out of the others' outputs, and is
 *    done when all have: until then its own is read. Each rank reads (n-1)/n of the buffer twice
 *    from others, the least there is without more memory. Rejected: to write the results into the
 *    others' memory: reads of one GPU by another need no flush, and a rank that has failed writes
 *    nowhere but in its own memory.
 * 6. Host flags, not events that cross processes: the worker sees the end of its kernel by an event
 *    of its own, at its next turn, and a round tells the others. A rank's kernel is not launched
 *    while the one of before runs, which IPC events would allow; they would need as many rounds to
 *    be exchanged.
 * 7. In jobs where each rank has a driver and kernels and none has BRAID_GPU_REDUCE=cpu (the ranks
 *    tell each other at the start), every all-reduce above the shared segment's size takes note 2's
 *    round, in host memory too: nobody knows what the others give.
 * 8. A named algorithm is taken at its word: the engine's. Other collectives are the engine's, too.
 * 9. Mapping waits for all streams of the GPU (ipc.h, note 5): while an operation stands in one, a
 *    rank that would have to map answers no, this time.
 * 10. A mapping or a handle that is refused is said once and counted (downgrade_gpu_sharing); a
 *     mapping is not tried again in this communicator. A launch or copy
 *    that is refused after note 3 ends the job, as copies of staging do.
 * 11. When the worker has failed, the operation ends when its own kernel and copies have. Others
 *     may read its memory until they fail, too.
 * 12. The engine gets its collectives in the same order on all ranks, so those that come behind one
 *     which may be the engine's stand in the queue, too, and
 *    pass when they are at its head.
 * 13. Ranks on several hosts, as gpu_hosts.h has them: the rounds are on the shared segment of each
 *     host, and what it is about is agreed on over all hosts. Behind
 *    `combine` each rank has piece r of its host's values; the ranks with its number on the other
 * hosts have theirs, and an all-reduce of the engine among them makes the piece everybody's. Then
 * the round `done` and `fetch` as above. Each byte leaves a host once for n ranks, not n times.
 * 14. Before `combine` one element is reduced over the hosts: does each of them say yes? If not,
 *     all go to the engine, whole. Each rank asks those with its
 *    number, who answer for their hosts, so all hear the same without a further round. Rejected:
 * hosts that decide for themselves, and reduce in host memory if they must: a reduce-scatter and an
 * all-gather of uneven pieces, in a row, where the engine's schedules overlap such steps.
 * 15. The bits are the same on all ranks: one rank a host computes a piece, and the engine gives
 *     all of them one result. An average is divided twice, by the
 *    ranks of a host and by the hosts; integers would be rounded twice, so theirs are the engine's.
 * 16. Below BR_GPU_HOSTS_MIN_BYTES bytes the question would cost host memory too much
 *     (doc/measured_allreduce.md): the engine's.
 * 17. Memory of cuMemCreate() is mapped by descriptors (gpu/extent.h). Where the notes of `tell`
 *     say that a rank lacks one, there is another round of
 *    `tell`, and more, before which some are handed over (fd_passing.h), until nobody lacks any: at
 * the first use of memory alone. Rejected: to hand them over before the first `tell`: where one of
 * the ranks has nothing to share, the others would have opened and mapped for nothing.
 *
 * Under the lock, as executor.h, whose shared segment it uses. One operation at a time a
 * communicator.
 */
#ifndef BR_COLLECTIVES_GPU_GPU_LOCAL_H
#define BR_COLLECTIVES_GPU_GPU_LOCAL_H

#include <stdbool.h>

#define BR_GPU_HOSTS_MIN_BYTES (256u << 10) /* note 16 */

struct br_executor;
struct br_gpu_hosts;
struct br_shm_executor;
struct br_operation;

/* Becomes the guest of a shared segment whose ranks all may share, and the next in its chain.
 * -ENOMEM with a message. */
int br_gpu_local_create(struct br_shm_executor *shm);
void br_gpu_local_destroy(struct br_executor *guest); /* NULL allowed */
/* From now on what the ranks of the guest's shared segment share is a part of what all hosts do
 * (note 13). */
void br_gpu_local_set_hosts(struct br_executor *guest, struct br_gpu_hosts *hosts);

/* What an operation does between hosts has ended (br_operation.completed). */
void br_gpu_local_hosts_ended(struct br_operation *part);

#endif
