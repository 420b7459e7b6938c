/* SPDX-License-Identifier: BSD-3-Clause */
/* The address of a device of the back end `shm`: which host, which name space, which socket. */
#ifndef BR_TRANSPORT_SHM_ADDRESS_H
#define BR_TRANSPORT_SHM_ADDRESS_H

#include "transport/shm/socket.h"
#include "transport/transport.h"

/* -EIO with a message when this host cannot be told from others. */
int br_shm_address_make(const char name[BR_SHM_SOCKET_NAME], struct br_address *out);

/* The socket's name when `address` can be reached from here; -EHOSTUNREACH with a message: another
 * host or container; -EINVAL: no address of this back end. */
int br_shm_address_resolve(const struct br_address *address, char name[BR_SHM_SOCKET_NAME]);

#endif
