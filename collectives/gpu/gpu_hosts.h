/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part between hosts of an all-reduce whose hosts each reduce in the memory of their GPUs first
 * (doc/design/gpu_collectives.md, notes 13 to 16): BlueConnect with two factors, the ranks of a
 * host and the hosts.
 *
 * It uses two communicators of braid's own beside that of the job: the ranks of this host, whose
 * shared segment has the rounds, and the ranks with this rank's number on every host. What is done
 * between hosts is an operation of the second one, within one of the program's. They are made at
 * the start where every rank of the job may share memory of GPUs and each host has the same number
 * of ranks, two or more, numbered host by host.
 *
 * One such operation runs at a time. All functions but br_gpu_hosts_create() are called under the
 * context's lock.
 */
#ifndef BR_COLLECTIVES_GPU_GPU_HOSTS_H
#define BR_COLLECTIVES_GPU_GPU_HOSTS_H

#include <stdbool.h>
#include <stddef.h>

struct br_gpu_hosts;
struct br_context;
struct br_operation;

/* Makes both communicators, or nothing where the ranks are not numbered as above. A phase of
 * braid_init() that all ranks call; blocks. Returns 0, or a negative errno with a message. */
int br_gpu_hosts_create(struct br_context *context);
/* Frees what br_gpu_hosts_create() has made; nothing when it has made nothing. */
void br_gpu_hosts_destroy(struct br_context *context);

/* Starts to find out whether all hosts agree. whole: the program's operation that this is a part
 * of. yes: whether this host agrees. br_gpu_hosts_done() says when that is known. */
void br_gpu_hosts_vote(struct br_gpu_hosts *hosts, struct br_operation *whole, bool yes);
/* Returns whether all hosts have agreed, once br_gpu_hosts_vote() is done. */
bool br_gpu_hosts_agreed(const struct br_gpu_hosts *hosts);
/* Starts to reduce `count` elements of the output of `whole`, beginning with number `first`, in
 * place over all hosts. */
void br_gpu_hosts_reduce(struct br_gpu_hosts *hosts, struct br_operation *whole, size_t first,
                         size_t count);

/* Returns 1 when what was started is done, 0 when it is not, or a negative errno with a message
 * when it has failed. */
int br_gpu_hosts_done(const struct br_gpu_hosts *hosts);
/* Called when the worker has failed. Returns whether something is under way that uses the memory of
 * `whole`. If so, `whole` ends when that has ended. */
bool br_gpu_hosts_ends(struct br_gpu_hosts *hosts, struct br_operation *whole);

#endif
