/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The executor for all-reduces of ranks of one host whose memory lies on GPUs: the kernel of each
 * rank reads the others' memory where it is (gpu/ipc.h). Ranks of several hosts reduce within each
 * host first (gpu_hosts.h). An operation goes through these phases, whose rounds are on the shared
 * segment of the communicator, as those of small collectives (shm/executor.h):
 *
 *     tell | answer | combine, done | fetch, done
 *
 * If a rank cannot share its memory, all ranks hand the operation on to the engine. The notes that
 * are named here and in the .c files are those of doc/design/gpu_collectives.md, "All-reduce
 * between the GPUs of a host".
 *
 * All functions are called under the context's lock. One operation at a time runs in a
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
