/* SPDX-License-Identifier: BSD-3-Clause */
/* Small messages between ranks of a host that begin and end within their call (message.c). */
#ifndef BR_COLLECTIVES_COMM_MESSAGE_H
#define BR_COLLECTIVES_COMM_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

struct braid_comm;
struct braid_op;
struct braid_options;

/* What of a message the engine still has to do. */
enum br_message_left {
    BR_MESSAGE_ALL,     /* nothing has happened */
    BR_MESSAGE_AWAITED, /* a receive has taken *number, but its message has not come yet */
    BR_MESSAGE_POSTED,  /* nothing: a receive waits, and has its handle */
    BR_MESSAGE_ENDED,   /* nothing: it counts as an operation that has ended */
};

/* Send or receive a message of host memory at once if that is possible. Arguments and options have
 * been checked. peer: a rank of the communicator. handle: where a handle of it is stored when it
 * waits or has ended, or NULL if there is no place for one that has (br_handle_in_pool()). Without
 * `handle` the call blocks, and a receive waits for up to 50 us, under the lock. Any thread. No
 * cancellation point: what may come to one, as a send over a network, disables cancellation
 * (base/process.h, note 5). */
enum br_message_left br_message_send(struct braid_comm *comm, const void *memory, size_t bytes,
                                     int peer, const struct braid_options *options,
                                     struct braid_op **handle);
enum br_message_left br_message_receive(struct braid_comm *comm, void *memory, size_t bytes,
                                        int peer, const struct braid_options *options,
                                        struct braid_op **handle, uint64_t *number);

/* There is no operation for a receive that was BR_MESSAGE_AWAITED, or no handle for a message that
 * has ended: the worker fails, as the other rank counts on it. */
void br_message_lost(struct braid_comm *comm);

#endif
