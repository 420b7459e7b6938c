/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of an operation between call and engine. One of which only its call will ever hear, as
 * that blocks, lives on the stack of the call. The others come from a pool that has a chunk of them
 * from braid_init() on. A call allocates memory only when all that there are are outstanding:
 * another chunk, once. What is outstanding is bounded by memory and by BR_MAX_OPERATIONS; how much
 * of it is under way, by backlog.h.
 */
#ifndef BR_COLLECTIVES_COMM_OPERATION_POOL_H
#define BR_COLLECTIVES_COMM_OPERATION_POOL_H

#include <stddef.h>
#include <stdint.h>

#define BR_OPERATIONS_CHUNK 1024u /* operations of a chunk of the pool */
#define BR_OPERATION_CHUNKS 4096u /* at most */
#define BR_MAX_OPERATIONS   (BR_OPERATIONS_CHUNK * BR_OPERATION_CHUNKS)
#define BR_SUBMISSIONS      1024u /* room in the submission ring; who finds it full empties it */

struct braid_comm;
struct br_context;
struct br_operation;

/* Creates the pool and the submission ring. 0, or -ENOMEM with a message. */
int br_comm_create_operations(struct br_context *context);

/* Takes a zeroed operation of the communicator from the pool. Any thread. Returns NULL when there
 * is no memory for another: -ENOMEM, with a message. */
struct br_operation *br_comm_get_operation(struct braid_comm *comm);

/* The same in two parts. The first takes one for a call that may come to need it; NULL: there is no
 * memory, without a message. The second makes it the communicator's. */
struct br_operation *br_comm_reserve_operation(struct br_context *context);
void br_comm_use_reserved(struct br_operation *op, struct braid_comm *comm);

/* Room for n numbers in an operation, until it is put back; such room is kept for the next
 * operation in this place, so that memory is allocated for the first few only. Returns 0, or
 * -ENOMEM with a message. */
int br_operation_arrays(struct br_operation *op, size_t n, size_t **arrays);
/* Frees what the operations of a context's pool hold, before the pool is destroyed. */
void br_operation_arrays_free(struct br_context *context);

/* Returns an operation to the pool and makes its handle void. Any thread. */
void br_comm_put_operation(struct br_operation *op);

/* Returns all operations of the communicator, none of which may be under way. */
void br_comm_put_operations(struct braid_comm *comm);

/* The result of an ended operation (br_operation_result()). Returns the operation to the pool
 * unless it is persistent. Any thread, but only one for an operation. */
int br_comm_finish_operation(struct br_operation *op);

/* Allocates what a persistent operation needs, once before its first start. Takes the lock. Errors
 * of br_engine_reserve(). */
int br_comm_prepare_operation(struct br_operation *op);

/* The functions below are called under the context's lock. */

/* Makes the engine an executor, which ends every chain (executor.h). */
void br_engine_executor_init(struct br_context *context);
/* br_engine_start(), for operations that have been handed in. */
void br_engine_executor_start(struct br_context *context, uint64_t now);

/* Gives the operation its place in the order. */
void br_comm_give_order(struct br_operation *op);

/* Gives the operation its place in the order and a deadline. It begins, which gives it a sequence
 * number and submits it to the communicator's executors, or waits in its backlog. */
void br_comm_start_operation(struct br_operation *op, uint64_t now);

/* Begins operations that have waited and may now. Returns how many. Fails the worker when the
 * deadline of one that waits has passed. */
int br_comm_begin_waiting(struct br_context *context, uint64_t now);

/* Called when the executors have ended the operation: gives the references to its memory back and
 * counts it. Then the program learns of the end, and the operation may be gone. */
void br_comm_end_operation(struct br_operation *op);

/* Returns an operation to the pool that has ended and that nobody will wait for. An error of it
 * that its `done` was not told either fails the worker. */
void br_comm_release_operation(struct br_operation *op);

/* The first error of those operations of the communicator (of the context, for its first one) that
 * have ended and that nobody has waited for or was told of, with a message that begins with `name`
 * and says how many there are; 0: there is none. The operations stay as they are, but handles of
 * accesses and messages that have ended within their calls are void afterwards. */
int br_comm_take_results(struct braid_comm *comm, const char *name);

/* The sequence number of the communicator's next collective, which is then taken. */
uint64_t br_comm_next_sequence(struct braid_comm *comm);

#endif
