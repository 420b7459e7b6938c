/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TCP sockets as we want them.
 *
 * 1. TCP_NOTSENT_LOWAT keeps the kernel's queue short: what waits there cannot be overtaken by
 *    something
 * urgent.
 * 2. TCP_CONGESTION is cubic on loopback and veth: BBR, the default of some systems, cuts local
 *    throughput to
 * a third (21 against 67 Gb/s). BRAID_TCP_CONGESTION=system leaves it alone, =NAME takes that one.
 * 3. A source address does not choose the NIC, routes do. br_device_config.own_nic_only binds the
 *    sockets to theirs: then a
 * link that is wired to somewhere else does not come up over an alternate route that nobody sees.
 * 4. Buffers are left to the kernel's autotuning.
 */
#ifndef BR_TRANSPORT_TCP_SOCKET_H
#define BR_TRANSPORT_TCP_SOCKET_H

#include "transport/interface.h"
#include "transport/transport.h"

#define BR_TCP_SOCKET_CONGESTION 16 /* bytes of a name, as the kernel's TCP_CA_NAME_MAX */

struct br_tcp_socket_options {
    char congestion[BR_TCP_SOCKET_CONGESTION]; /* "": the system's */
    uint16_t first_port, last_port;            /* to listen on; 0: any */
    int user_timeout_ms;                       /* TCP_USER_TIMEOUT */
    char nic[IF_NAMESIZE];                     /* SO_BINDTODEVICE; "": as the host's routes say */
};

/* From the environment. config: of the device; only patience and any_port count. -EINVAL or -ENOENT
 * with a message. */
int br_tcp_socket_options_read(const struct br_interface *interface,
                               const struct br_device_config *config,
                               struct br_tcp_socket_options *out);

/* Binds the sockets that are made with these options to the interface; without effect on loopback.
 * Returns 0, or -EPERM with a message: this kernel allows it only to root. */
int br_tcp_socket_options_bind(const struct br_interface *interface,
                               struct br_tcp_socket_options *options);
/* Reads the options of a device's sockets on this interface, and binds them to it where the
 * device's configuration says own_nic_only. A kernel that allows this only to root is a downgrade,
 * not an error. Returns 0 or the errors of br_tcp_socket_options_read(). */
int br_tcp_socket_options_of(const struct br_device *device, const struct br_interface *interface,
                             struct br_tcp_socket_options *out);

/* Returns a non-blocking socket that listens at the interface's address, or a negative errno with a
 * message; the caller closes it. *address gets its port. Accepted sockets inherit its options. */
int br_tcp_socket_listen(const struct br_interface *interface,
                         const struct br_tcp_socket_options *options,
                         union br_inet_address *address);
/* Returns a non-blocking socket, bound to the address `from` (its port is ignored), that has begun
 * to connect, or a negative errno with a message; the caller closes it. */
int br_tcp_socket_connect(const union br_inet_address *from,
                          const struct br_tcp_socket_options *options,
                          const union br_inet_address *to);

#endif
