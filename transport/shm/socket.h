/* SPDX-License-Identifier: BSD-3-Clause */
/* The socket of a link: abstract AF_UNIX SOCK_SEQPACKET, always non-blocking, one fixed packet a
 * message. */
#ifndef BR_TRANSPORT_SHM_SOCKET_H
#define BR_TRANSPORT_SHM_SOCKET_H

#include <assert.h>
#include <stdint.h>
#include <sys/types.h>

#define BR_PACKET_VERSION 9u
/* Bytes of a name in the abstract name space, its leading zero left out. */
#define BR_SHM_SOCKET_NAME 64

enum br_packet_kind {
    BR_PACKET_HELLO = 1, /* both ways, with the sender's inbox */
    BR_PACKET_CONFIRM,   /* from who connected: the link is open */
    BR_PACKET_WAKE,      /* look into your inbox */
    BR_PACKET_SEGMENT,   /* with the memfd of segment `id`, from now on number `number` */
    BR_PACKET_UNMAP,     /* segment `number` is released */
    BR_PACKET_FD,        /* with a descriptor for br_shm_link_take_fd(tag) */
};

struct br_packet {
    uint32_t version;
    uint32_t kind;
    union {
        struct {
            uint32_t message_bytes, message_buffers; /* the sender's inbox */
        } hello;
        struct {
            uint32_t number, id;
        } segment;
        uint32_t tag;
    };
};
static_assert(sizeof(struct br_packet) == 16, "packets have no holes");

/* The listening socket of a new abstract name "braid-<pid>-<random>", stored in name. Returns its
 * fd or -errno. */
int br_shm_socket_listen(char name[BR_SHM_SOCKET_NAME]);
/* A connected socket, -EAGAIN: its listener's queue is full, or another -errno with a message. */
int br_shm_socket_connect(const char *name);
/* The next connection, -EAGAIN: none, or another -errno. */
int br_shm_socket_accept(int listener);
/* The process behind the socket: its pid, or -EPERM with a message when it does not run under our
 * uid. */
int br_shm_socket_peer(int fd, pid_t *pid);

/* passed: a descriptor to go along, or -1. 0, -EAGAIN: full, or -errno (with a message). Copies
 * nothing but the packet. */
int br_shm_packet_send(int fd, struct br_packet *packet, int passed);
/* 1: *packet and, where its kind has one, *passed (the caller's, else -1); 0: none there;
 * -ECONNRESET: the peer has gone; -EPROTO with a message. */
int br_shm_packet_receive(int fd, struct br_packet *packet, int *passed);

#endif
