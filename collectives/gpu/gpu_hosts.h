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

/* A phase of braid_init(), collective: makes both communicators, or nothing where there are no such
 * levels. Errors with a message. */
int br_gpu_hosts_create(struct br_context *context);
void br_gpu_hosts_destroy(struct br_context *context);

/* Do all hosts say yes? Starts to find out, within `whole`. */
void br_gpu_hosts_vote(struct br_gpu_hosts *hosts, struct br_operation *whole, bool yes);
bool br_gpu_hosts_agreed(const struct br_gpu_hosts *hosts); /* when it is done */
/* Starts to reduce `count` elements from the `first` on of the output of `whole`, in place, over
 * all hosts. */
void br_gpu_hosts_reduce(struct br_gpu_hosts *hosts, struct br_operation *whole, size_t first,
                         size_t count);

/* 1: what was started is done; 0: not yet; negative errno with a message: it failed. */
int br_gpu_hosts_done(const struct br_gpu_hosts *hosts);
/* Is something under way that reads and writes what `whole` is about? Then `whole` comes out of
 * br_engine_ended() when that has ended: the worker has failed, so it will. */
bool br_gpu_hosts_ends(struct br_gpu_hosts *hosts, struct br_operation *whole);

#endif
