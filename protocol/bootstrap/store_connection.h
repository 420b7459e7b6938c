/* SPDX-License-Identifier: BSD-3-Clause */
/* One connection at the store's server: buffers, and what the rank behind it waits for. Used by the
 * server's thread only. */
#ifndef BR_PROTOCOL_BOOTSTRAP_STORE_CONNECTION_H
#define BR_PROTOCOL_BOOTSTRAP_STORE_CONNECTION_H

#include "base/list.h"
#include "protocol/bootstrap/store_message.h"
#include "protocol/bootstrap/store_socket.h"

enum br_store_phase {
    BR_STORE_UNAUTHENTICATED, /* has said nothing yet */
    BR_STORE_CHALLENGED,      /* has our challenge */
    BR_STORE_MEMBER,          /* has proved the secret */
    BR_STORE_LEAVING,         /* gets what is left in `out`, then is closed */
    BR_STORE_DEAD,            /* closed at the end of the pass */
};

struct br_store_buffer {
    uint8_t *bytes;
    size_t used, size;
};

struct br_store_connection {
    struct br_list node;
    int fd;
    enum br_store_phase phase;
    uint64_t until; /* ns, when UNAUTHENTICATED, CHALLENGED and LEAVING end */
    char name[BR_SOCKET_NAME];
    struct br_store_hello hello;
    struct br_store_challenge challenge;
    struct br_store_buffer in, out;
    size_t sent; /* bytes of `out` that are gone */

    /* A member's request that is not answered yet. */
    enum br_store_kind waiting; /* GET, GATHER or 0 */
    uint64_t waiting_until;     /* ns */
    char key[BR_STORE_KEY_MAX + 1];
};

/* Takes over fd. NULL: no memory, fd is closed. */
struct br_store_connection *br_store_connection_create(int fd, const char *name, uint64_t until);
void br_store_connection_destroy(struct br_store_connection *c);

/* Reads what there is. 0, or a negative errno: -ECONNRESET also when the other end closed. At most
 * what one message with body_max bytes needs is kept. */
int br_store_connection_read(struct br_store_connection *c, size_t body_max);
/* Drops the first n bytes of what was read. */
void br_store_connection_consume(struct br_store_connection *c, size_t n);

/* Queues a message and sends what goes; when that is impossible the connection is DEAD. An answer
 * ends the wait. */
void br_store_connection_answer(struct br_store_connection *c, enum br_store_kind kind,
                                const void *body, size_t n);
void br_store_connection_answer_error(struct br_store_connection *c, int err, const char *text);
/* Sends what goes. */
void br_store_connection_flush(struct br_store_connection *c);

#endif
