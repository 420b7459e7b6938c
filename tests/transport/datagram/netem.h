/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A network for datagram links in virtual time: ports with a rate and a buffer, and seeded weather
 * (loss, duplicates, reordering, damage, jitter, blackouts, a smaller path MTU). Single-threaded;
 * the same seed gives the same run.
 */
#ifndef BR_TESTS_TRANSPORT_DATAGRAM_NETEM_H
#define BR_TESTS_TRANSPORT_DATAGRAM_NETEM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"
#include "transport/datagram/link.h"
#include "transport/slot.h"

#define NETEM_ENDS  32
#define NETEM_PORTS 4

/* Shares of packets, 0 to 1; times in ns. */
struct weather {
    double loss, duplicate, damage, reorder;
    uint64_t delay, jitter;
    uint64_t black_from, black_until; /* nothing passes */
    uint32_t mtu;                     /* longer datagrams vanish; 0: none do */
    unsigned dead_path;               /* 1 + a path on which nothing passes; 0: none */
    unsigned lose_asking;             /* so many of the next packets that ask for an ACK vanish */
};

/* An output of a switch. */
struct netem_port {
    uint64_t bits_per_second;
    uint32_t buffer;     /* bytes that may wait */
    uint32_t mark_above; /* bytes waiting from which packets are marked; 0: never */
    uint64_t free_at;
    uint64_t carried, dropped; /* bytes, packets */
};

struct netem_end {
    struct br_dgram_link *link; /* NULL: none (any more) */
    unsigned peer;              /* the other end */
    int port;                   /* that what it sends passes; -1: none */
    bool listens;               /* makes a link of an OPEN with `config` */
    struct br_dgram_config config;
    void (*event)(void *owner, unsigned end, const struct br_event *event);
    void *owner;
    uint64_t last_arrival; /* per direction, so that only `reorder` reorders */
};

struct netem_net {
    uint64_t now;
    struct br_random random;
    struct weather impairments;
    struct netem_port ports[NETEM_PORTS];
    struct netem_end ends[NETEM_ENDS];
    unsigned n_ends;
    struct netem_flight *flights; /* heap by time */
    unsigned n_flights, capacity;
    uint64_t order, damaged_parsed;
};

/* What a test's frames carry: `place` is written through slots, `source` is sent. */
struct netem_memory {
    struct br_slot_table slots;
    uint8_t *place, *source;
};

void netem_memory_init(struct netem_memory *memory, uint32_t slots, size_t bytes);
void netem_memory_destroy(struct netem_memory *memory);

void netem_init(struct netem_net *net, uint64_t seed);
void netem_destroy(struct netem_net *net); /* links, too */
/* Runs until nothing can happen any more before `until`, which is then the time. */
void netem_run(struct netem_net *net, uint64_t until);
/* Two ends and a link from the first to the second; returns the first, the second is the next. */
unsigned netem_pair(struct netem_net *net, const struct br_dgram_config *config, int port);
void netem_connect(struct netem_net *net, unsigned end);
/* Sends what the link has to send, and reports its events. After post() and release(). */
void netem_kick(struct netem_net *net, unsigned end);
void netem_close(struct netem_net *net, unsigned end);

#endif
