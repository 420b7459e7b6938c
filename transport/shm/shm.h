/* SPDX-License-Identifier: BSD-3-Clause */
/* What the back end `shm` offers beyond the contract: descriptors of this host's kernel can cross a
 * link. */
#ifndef BR_TRANSPORT_SHM_SHM_H
#define BR_TRANSPORT_SHM_SHM_H

#include <stdint.h>

#include "transport/transport.h"

#define BR_SHM_FDS 32 /* descriptors that may wait to be taken at one end of a link */

/*
 * Hands a duplicate of fd to the peer, out of band; fd stays the caller's. The link is one of the
 * back end `shm`, open. 0; -EAGAIN: the socket is full, try later; -ENOTCONN. At most BR_SHM_FDS
 * may be on the way untaken: one more fails the link. Never blocks. Under the worker's lock, as
 * everything on a link.
 */
int br_shm_link_send_fd(struct br_link *link, uint32_t tag, int fd);

/* The descriptor that the peer sent with `tag`, now the caller's to check (br_segment_check) and to
 * close; -EAGAIN: not there yet. */
int br_shm_link_take_fd(struct br_link *link, uint32_t tag);

#endif
