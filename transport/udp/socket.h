/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UDP sockets for packets of links. The functions do not block; one thread at a time uses a socket.
 *
 * 1. Packets are never fragmented (DF): how large they may be is found out when a link is set up.
 *    The kernel's own idea of the path MTU is ignored (IP_PMTUDISC_PROBE), because anybody can
 *    forge the ICMP messages that it believes.
 * 2. An ICMP message comes with the beginning of the packet that it is about (IP_RECVERR). Only a
 *    host that has seen that packet can make it, as the number of its link is random: so "port
 *    unreachable" can be believed, and a dead peer is noticed at once.
 * 3. Packets carry the mark of a transport that obeys congestion marks (ECN), and the kernel is
 *    asked for the marks of those that arrive.
 */
#ifndef BR_TRANSPORT_UDP_SOCKET_H
#define BR_TRANSPORT_UDP_SOCKET_H

#include "transport/interface.h"
#include "transport/tcp_socket.h"

/* Bytes that are kept of the packet that an ICMP message is about: its header and the next field.
 */
#define BR_UDP_QUOTE_BYTES 32

/* Returns a non-blocking socket at `address`, or a negative errno with a message; the caller closes
 * it. receives: it takes trains, too (train.h), and gets the first free port of the options' range;
 * otherwise it gets any port. *address gets the port. */
int br_udp_socket_open(const struct br_tcp_socket_options *options, bool receives,
                       union br_inet_address *address);

/* Returns the bytes behind the UDP header of the largest packet that the interface's MTU allows. */
uint32_t br_udp_socket_packet_bytes(const struct br_interface *interface);
/* Returns how many bytes may wait in the socket to be received. The kernel allows fewer than were
 * asked for where rmem_max is small. */
uint32_t br_udp_socket_room(int fd);

/* What went wrong with a packet that was sent. */
struct br_udp_diagnosis {
    int error; /* A positive errno. */
    uint32_t quote_bytes;
    uint64_t quote[BR_UDP_QUOTE_BYTES / 8]; /* The first quote_bytes bytes of the packet. */
};
/* Reads the next error that the kernel reports for a packet. Returns false when there is none. */
bool br_udp_socket_diagnosis(int fd, struct br_udp_diagnosis *out);

#endif
