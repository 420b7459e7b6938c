/* SPDX-License-Identifier: BSD-3-Clause */
/* What the back end `shm` offers beyond the contract: descriptors of this host's kernel can cross a
 * link. */
#ifndef BR_TRANSPORT_SHM_SHM_H
#define BR_TRANSPORT_SHM_SHM_H

#include <stdint.h>

#include "transport/transport.h"

#define BR_SHM_FDS 32 /* descriptors that may wait to be taken at one end of a link */

/*
 * Sends a duplicate of fd to the peer, out of band; fd stays the caller's. The link is an open one
 * of the back end `shm`. tag: names the descriptor for br_shm_link_take_fd(). Returns 0; -EAGAIN:
 * the socket is full, try later; -ENOTCONN. At most BR_SHM_FDS descriptors may be on the way: one
 * more fails the link. Never blocks. Under the worker's lock, as everything on a link.
 */
int br_shm_link_send_fd(struct br_link *link, uint32_t tag, int fd);

/* Returns the descriptor that the peer sent with `tag`, or -EAGAIN when it has not arrived yet. The
 * caller checks it (br_segment_check()) and closes it. Under the worker's lock. */
int br_shm_link_take_fd(struct br_link *link, uint32_t tag);

#endif
