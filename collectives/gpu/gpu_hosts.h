/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The level between hosts of an all-reduce whose hosts each reduce in the memory of their GPUs
 * first (gpu_local.h, notes 13 to 16): BlueConnect with two factors, the ranks of a host and the
 * hosts.
 *
 * Two communicators of braid's own beside that of the job: the ranks of this host, whose shared
 * segment the rounds are on, and the ranks with our number on every host. What is done between
 * hosts is an operation of the second one, the engine's, within one of the program's. Made at the
 * start where every rank of the job may share memory of GPUs and each host has as many ranks as the
 * others, two or more, one host after the other.
 *
 * One of its operations at a time. Under the lock, but for br_gpu_hosts_create().
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
