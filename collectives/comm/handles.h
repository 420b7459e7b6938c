/* SPDX-License-Identifier: BSD-3-Clause */
/* What the program holds of operations and regions: numbers that stay recognisable when the object
 * is gone (handles.c). Any thread may call these functions, and none of them blocks. */
#ifndef BR_COLLECTIVES_COMM_HANDLES_H
#define BR_COLLECTIVES_COMM_HANDLES_H

#include <stdbool.h>
#include <stdint.h>

#define BR_CONTEXT_BITS 8 /* jobs of a process at a time */
#define BR_MAX_CONTEXTS (1u << BR_CONTEXT_BITS)

struct braid_comm;
struct braid_op;
struct braid_options;
struct br_api_point;
struct br_context;
struct br_handle_place;
struct br_operation;

/* Enters the context into the list of the process's jobs and sets its index. Returns 0, or -ENFILE
 * with a message. */
int br_handles_open(struct br_context *context);
void br_handles_close(struct br_context *context);

/* A new number for an object of the program. place: the operation's index in the pool; 0 for a
 * region. */
uint64_t br_handle_new(const struct br_context *context, uint32_t place);

/* The context that a number belongs to; NULL: its job has ended, or the number is no handle. */
struct br_context *br_handle_context(uint64_t handle);

/* Gives the operation a handle, which the program passes to braid_wait() and the like. */
struct braid_op *br_operation_handle(struct br_operation *op);

/* Under the context's lock: a handle of a call of the communicator that has ended well before it
 * became an operation. NULL: its place is taken by one that has not been waited for,
 * BR_HANDLE_PLACES before it or a multiple of that. */
struct braid_op *br_handle_of_ended(struct braid_comm *comm);
/* Then its handle: it becomes an operation that has ended. Takes the lock. NULL: -ENOMEM with a
 * message. */
struct braid_op *br_handle_in_pool(struct braid_comm *comm, const struct br_api_point *point,
                                   const struct braid_options *options);

/* Under the context's lock: the place of the next handle; NULL: it is taken, as above. */
struct br_handle_place *br_handle_next_place(struct br_context *context);
/* A handle in it, of a receive that waits without an operation, before any other handle is made. */
struct braid_op *br_handle_of_posted(struct braid_comm *comm, struct br_handle_place *place);
/* Such a receive has ended, or has become an operation, which has the handle from now on. */
void br_handle_ended(struct br_handle_place *place, const struct braid_comm *comm);
void br_handle_goes_on(struct br_handle_place *place, struct br_operation *op);
/* The operation that had the handle is gone. Any thread. */
void br_handle_place_put(struct br_handle_place *place);

/* Makes the handles of br_handle_of_ended() void that no operation of the pool has: of a
 * communicator whose calls have all returned; NULL: of the context. Returns how many there were. */
int br_handles_void_ended(struct br_context *context, const struct braid_comm *comm);

/* The operation that a handle stands for; NULL: it is void, or of a call without an operation. */
struct br_operation *br_operation_of(struct braid_op *handle);

/* Has the operation ended? Also true of a handle that is void. Does not drive progress. */
bool br_operation_has_ended(struct braid_op *handle);

enum br_handle_state {
    BR_HANDLE_IDLE, /* of a persistent operation between two starts */
    BR_HANDLE_RUNS,
    BR_HANDLE_ENDED,
};

/* For calls with many operations. name: the call, for messages. Looks at one: 0 with its context
 * and state; -EINVAL: the handle is void; -EPERM: it is one of the parent's of this fork. */
int br_handle_look(struct braid_op *handle, const char *name, struct br_context **context,
                   enum br_handle_state *state);
/* Drives until it has ended or is another thread's (true), or `most` ns have passed. Blocks. */
bool br_handle_wait(struct braid_op *handle, struct br_context *context, uint64_t most);
/* Takes the result of one that has ended, as braid_wait() does. *persistent: the handle stays. */
int br_handle_take(struct braid_op *handle, const char *name, bool *persistent);

#endif
