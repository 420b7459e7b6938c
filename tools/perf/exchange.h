/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the two sides of `braid perf` find each other, before there is a communicator.
 *
 * 1. The client connects to the server's port and sends its parameters. The server takes over those
 *    that it was not given itself (parameters.h), and answers that the two differ, or with the port
 *    of a TCP store and a secret. Then both join a job of two ranks: the server is rank 0. The
 *    connection is closed; all else goes through the communicator.
 * 2. The store has a port of its own, which the kernel chooses (BRAID_PORT_RANGE is for the rails):
 *    the port that users know goes on listening for the next client. The server reserves it at
 *    once, because until the store listens the kernel could give it to any connection of the host.
 * Rejected: the store itself on the known port; it would refuse unauthenticated peers with a
 * message about ranks and secrets, where users need to know that -s differs.
 * 3. The secret is random for each client and goes over the wire in clear: it keeps jobs apart
 *    but does not protect against anyone who can read the network. perftest has no secret at all.
 * Where BRAID_SECRET or BRAID_SECRET_FILE is set at the server, that one counts, is not sent, and
 * the client needs it too.
 * 4. A server named 127.0.0.1 or localhost means the loopback: without -d and BRAID_DEVICES the
 * rails use it, too.
 * 5. An unauthenticated peer on the port (a scanner, ib_write_bw) is refused and does not count as
 * a client; it delays others by at most 5 s.
 */
#ifndef BR_TOOLS_PERF_EXCHANGE_H
#define BR_TOOLS_PERF_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include <braid/braid.h>

#include "tools/perf/settings.h"

#define BR_EXCHANGE_ADDRESS 256
#define BR_EXCHANGE_SECRET  65

/* What braid_init() needs. */
struct br_exchange {
    char address[BR_EXCHANGE_ADDRESS]; /* of the store's host, as this side reaches it */
    uint16_t port;                     /* of the store */
    bool loopback;                     /* the two sides met at an address of this host's loopback */
    int reserved; /* the server: keeps `port` for the store, to be closed by the caller; else -1 */
    char secret[BR_EXCHANGE_SECRET]; /* "": the environment's */
};

/* The configuration for braid_init() with which this side joins the job of two; it points into both
 * arguments. */
struct braid_config br_exchange_config(const struct br_perf_settings *settings,
                                       const struct br_exchange *where);

/* Checks the options and the environment for whatever would keep this side from joining, before the
 * other side waits for it. 0, or a negative errno with a message. */
int br_exchange_check(const struct br_perf_settings *settings);

/* The server: listens at the port; *fd is the caller's. */
int br_exchange_listen(const struct br_perf_settings *settings, int *fd);
/* Waits for a client. *agreed: what was asked here (br_perf_settings_read) with what the client
 * adds, complete. 0; -EINTR: a signal came; 1: a client's parameters differ from what was asked,
 * and the message names them; -EPROTO with a message: an unauthenticated peer. */
int br_exchange_accept(int fd, const struct br_perf_settings *asked,
                       struct br_perf_settings *agreed, struct br_exchange *out);

/* The client. -EINVAL: the parameters differ; -ECONNREFUSED, ...: no server; all with a message. */
int br_exchange_connect(const struct br_perf_settings *settings, struct br_exchange *out);

#endif
