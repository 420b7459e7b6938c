/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Interfaces as NCCL's users name them (NCCL_SOCKET_IFNAME), in BRAID_DEVICES:
 *
 *   eth0,eth1     these; a word that is the beginning of names means all of them: eth
 *   =eth0,eth1    these and no others that begin like them
 *   ^docker,lo    all interfaces whose names do not begin like that
 *   ^=docker0     all but this one
 *
 * Addresses and the names of RDMA devices stay as they are.
 */
#ifndef BR_COLLECTIVES_COMM_DEVICE_NAMES_H
#define BR_COLLECTIVES_COMM_DEVICE_NAMES_H

#include <stdbool.h>
#include <stddef.h>

struct br_interface;

/*
 * Puts names in the place of such words. list[0..n): the interfaces of this host, of which those
 * that are up with an address stand for words, loopback only where there is no other. names: a
 * comma list of at most `bytes` bytes, the final zero included, which is replaced. *expanded: it
 * has become another one, so its order is not the user's. Pure. Returns 0; -ENODEV with a message:
 * `^` leaves nothing; -EINVAL with a message: they are too many, or a list without a word.
 */
int br_device_names_expand(const struct br_interface *list, int n, char *names, size_t bytes,
                           bool *expanded);

#endif
