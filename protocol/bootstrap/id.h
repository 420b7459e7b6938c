/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What starts a job: one blob of 128 bytes (struct braid_id of braid.h) that says where the store
 * of rank 0 is and which key all ranks share. The process of rank 0 makes it; whatever carries it
 * to the others has to keep it secret, as whoever knows it can join.
 *
 * The bytes (doc/wire.md): 4 "BRID", 1 version, 1 number of addresses (1 to 5), 2 port, 32 key, 80
 * addresses of IPv6 (those of IPv4 as ::ffff:a.b.c.d; unused ones are zero), 4 zero, 4 the lower
 * half of br_digest_bytes() of all before. Numbers are little-endian.
 *
 * The socket of an id listens from its creation on, so that its port is ours; it is kept in a table
 * of the process until rank 0's store takes it. 64 are kept: one that is made beyond ends the
 * oldest. So an id that is never used costs a descriptor until it is closed, until 64 others have
 * followed, or until the process ends.
 */
#ifndef BR_PROTOCOL_BOOTSTRAP_ID_H
#define BR_PROTOCOL_BOOTSTRAP_ID_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "protocol/bootstrap/secret.h"

#define BR_ID_ADDRESSES 5
#define BR_ID_OPEN_MAX  64  /* ids of a process whose socket listens */
#define BR_ID_TEXT      320 /* bytes of the addresses as text */

struct braid_id;

struct br_id {
    uint16_t port;
    uint8_t n_addresses;
    struct in6_addr addresses[BR_ID_ADDRESSES]; /* the likeliest first */
    struct br_secret secret;                    /* random: the job's */
};

/* Reads an id that came from anywhere. Pure. Returns 0; -EINVAL with a message: it is no id, or it
 * was changed on its way; -EPROTONOSUPPORT with a message: of another version. */
int br_id_read(const struct braid_id *id, struct br_id *out);

/* Writes an id. Pure. */
void br_id_write(const struct br_id *id, struct braid_id *out);

/* "10.0.0.1:4711, [fd00::1]:4711" */
void br_id_text(const struct br_id *id, char text[BR_ID_TEXT]);

/*
 * Makes an id: listens on the port (0: a free one), on loopback only with `local` (all ranks are on
 * this host), else on all addresses; finds the addresses of this host (those of NICs with hardware
 * behind them first, then IPv4 before IPv6; loopback where there is no other) and draws a key.
 * Returns 0, or a negative errno with a message (-EADDRINUSE: another program has the port). From
 * any thread.
 */
int br_id_open(bool local, uint16_t port, struct braid_id *out);

/* Takes the listening socket of an id out of the table; *fd is the caller's. Returns 0; -EINVAL
 * with a message: this process has not made the id, or it has been used or closed before; -EPERM
 * with a message: the parent of this process has made it. From any thread. */
int br_id_take(const struct br_id *id, int *fd);

/* Closes the socket of an id that is not wanted any more; nothing where there is none. Returns
 * whether there was one. From any thread. */
bool br_id_close(const struct br_id *id);

#endif
