/* SPDX-License-Identifier: BSD-3-Clause */
/* The server of the store: a thread at rank 0 that accepts connections, checks who they are and
 * carries messages. */
#ifndef BR_PROTOCOL_BOOTSTRAP_STORE_SERVER_H
#define BR_PROTOCOL_BOOTSTRAP_STORE_SERVER_H

#include "protocol/bootstrap/store.h"

/* Connections that have not proved the secret, beside one for each rank. */
#define BR_STORE_UNAUTHENTICATED_MAX  64
#define BR_STORE_UNAUTHENTICATED_TIME (5 * BR_SEC)

struct br_store_server;

/* Listens at the environment's port and starts the thread. Errors as br_socket_listen(), -ENOMEM,
 * -EAGAIN. */
int br_store_server_start(const struct br_environment *environment, const struct br_secret *secret,
                          struct br_store_server **out);

/* Takes no more connections, waits until the members have left, at most `linger` ns, ends the
 * thread and frees the server. When the job has failed, ranks that have not come yet may still come
 * within this time to hear why. NULL is allowed. */
void br_store_server_stop(struct br_store_server *server, uint64_t linger);

/* From any thread. */
void br_store_server_counters(const struct br_store_server *server, struct br_store_counters *out);

#endif
