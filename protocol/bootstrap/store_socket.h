/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sockets of the store: IPv4 and IPv6, non-blocking underneath, with deadlines (ns of
 * br_clock_now()). All functions are thread-safe and return 0 or a negative errno with a message;
 * *fd is -1 or as it was then.
 */
#ifndef BR_PROTOCOL_BOOTSTRAP_STORE_SOCKET_H
#define BR_PROTOCOL_BOOTSTRAP_STORE_SOCKET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define BR_SOCKET_NAME 64 /* bytes of an address and port as text */

/* Listens on the port, *fd is the caller's. With `local` (all ranks are on this host) and a
 * loopback address only there, else on all addresses of the host: MASTER_ADDR may be one that only
 * others know it by (NAT, containers). -EADDRINUSE, -EACCES. */
int br_socket_listen(const char *address, uint16_t port, bool local, int *fd);

/* Listens on *port (0: a free one of the kernel's choice, which *port is then), at the address of
 * loopback (IPv4 as ::ffff:a.b.c.d) or, with NULL, on all of the host; *fd is the caller's.
 * -EADDRINUSE. */
int br_socket_listen_anywhere(const struct in6_addr *loopback, uint16_t *port, int *fd);

/*
 * A port that nobody else is given by chance until *fd, the caller's, is closed: a socket that is
 * bound, but does not listen. br_socket_listen() of that port works beside it, as both reuse
 * addresses. On one IPv4 address, or, with NULL, on all of the host.
 */
int br_socket_reserve(const char *address, uint16_t *port, int *fd);

/* One attempt at each address of the host; *fd is the caller's. Resolving a name may block for the
 * resolver's own timeout. -ENXIO: the name is unknown; else what the last attempt said. */
int br_socket_connect(const char *address, uint16_t port, uint64_t deadline, int *fd);

/* One attempt at one address, for `limit` ns at most; *fd is the caller's. */
int br_socket_connect_address(const struct in6_addr *address, uint16_t port, uint64_t limit,
                              uint64_t deadline, int *fd);

/* All n bytes. -ETIMEDOUT, -ECONNRESET (also when the other end closed in order). */
int br_socket_send(int fd, const void *bytes, size_t n, uint64_t deadline);
int br_socket_receive(int fd, void *bytes, size_t n, uint64_t deadline);

/* Options of every connection: no delay, keepalive that notices a dead host within half a
 * minute. */
void br_socket_tune(int fd);

/* "10.0.0.1:29500", "[::1]:29500" */
void br_socket_name(const struct sockaddr *address, socklen_t bytes, char name[BR_SOCKET_NAME]);

#endif
