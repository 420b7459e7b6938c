/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of GPUs at the calls, in the program's threads. */
#ifndef BR_COLLECTIVES_GPU_GPU_H
#define BR_COLLECTIVES_GPU_GPU_H

#include <stdbool.h>
#include <stddef.h>

struct braid_comm;
struct br_context;
struct br_operation;

/* Looks for a driver, and logs what is missing. Returns 0. */
int br_gpus_probe(struct br_context *context);

/* Could this rank share memory of GPUs with others of its host? */
bool br_gpus_may_share(const struct br_context *context);

/* Creates copier, offload and what shares memory of GPUs, with no GPU opened yet. Returns 0, or
 * -ENOMEM with a message. */
int br_gpus_create(struct br_context *context);
void br_gpus_destroy(struct br_context *context);

/* Opens a GPU at the first operation on it, and may block then. gpu: as br_gpu_of() says; 0: host
 * memory, for which there is nothing to do. Any thread. Returns 0, or a negative errno with a
 * message. */
int br_gpus_open(struct br_context *context, int gpu);

/* Finds which GPUs the operation's memory lies on, and opens them. name: the call, for messages.
 * Returns 0, or a negative errno with a message. */
int br_comm_probe_memory(const char *name, struct br_operation *op);

/* Copies now, in the calling thread, between any memory. Returns 0, or a negative errno with a
 * message. */
int br_comm_copy(struct braid_comm *comm, void *to, const void *from, size_t bytes);

#endif
