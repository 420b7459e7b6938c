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

/* All-reduces over several hosts with fewer bytes go to the engine (note 16). */
#define BR_GPU_HOSTS_MIN_BYTES (256u << 10)

struct br_executor;
struct br_gpu_hosts;
struct br_shm_executor;
struct br_operation;

/* Makes the executor and adds it to a shared segment, all of whose ranks may share memory of GPUs:
 * as its guest, and as the next executor in its chain. Returns 0, or -ENOMEM with a message. */
int br_gpu_local_create(struct br_shm_executor *shm);
/* Frees the executor. NULL is allowed. */
void br_gpu_local_destroy(struct br_executor *guest);
/* Makes the all-reduces of the guest's shared segment the part within a host of those over all
 * hosts (note 13). hosts: kept by the caller. */
void br_gpu_local_set_hosts(struct br_executor *guest, struct br_gpu_hosts *hosts);

/* Called when the operation between hosts has ended (br_operation.completed). part: that
 * operation. */
void br_gpu_local_hosts_ended(struct br_operation *part);

#endif
