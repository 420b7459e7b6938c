/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of operations: registered where a device needs keys, and found on GPUs. All functions
 * here are called under the context's lock unless they say otherwise.
 */
#ifndef BR_COLLECTIVES_COMM_OPERATION_MEMORY_H
#define BR_COLLECTIVES_COMM_OPERATION_MEMORY_H

#include <stddef.h>

#define BR_MEMORY_TEXT 320

struct braid_comm;
struct br_context;
struct br_operation;
struct br_region;

/* Opens the registration cache, once the devices are open. Returns 0 or -ENOMEM; without a cache
 * for other reasons the job goes on with a warning. Neither needs the lock. */
int br_memory_open(struct br_context *context);
void br_memory_close(struct br_context *context);

/* Takes a reference to the region that an operation's memory lies in: the program's, or one of the
 * registration cache. NULL: there is none, and the memory is sent with a copy. unuse() gives the
 * reference back; region NULL: does nothing. */
struct br_region *br_memory_use(struct br_context *context, const void *memory, size_t bytes);
void br_memory_unuse(struct br_context *context, struct br_region *region);

/* Writes a line for the report into text, "" where no device pins memory. Returns text. */
const char *br_memory_text(const struct br_context *context, char text[BR_MEMORY_TEXT]);

/* Of an operation. probe: in the program's thread, not under the lock: which GPUs its memory lies
 * on, and whether they can be reached; blocks at the first use of a GPU. name: the call, for the
 * message. Returns 0, or a negative errno with a message. use, unuse: takes references to the
 * regions that its memory lies in, and gives them back. */
int br_comm_probe_memory(const char *name, struct br_operation *op);
void br_comm_use_memory(struct braid_comm *comm, struct br_operation *op);
void br_comm_unuse_memory(struct braid_comm *comm, struct br_operation *op);

/* Copies now, in the calling thread, between any memory; not under the lock. Returns 0, or a
 * negative errno with a message. */
int br_comm_copy(struct braid_comm *comm, void *to, const void *from, size_t bytes);

#endif
