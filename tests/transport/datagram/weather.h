/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A network for datagram links in virtual time: ports with a rate and a buffer, and seeded weather
 * (loss, duplicates, reordering, damage, jitter, blackouts, a smaller path MTU). Single-threaded;
 * the same seed gives the same run.
 */
#ifndef BR_TESTS_DATAGRAM_WEATHER_H
#define BR_TESTS_DATAGRAM_WEATHER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"
#include "transport/datagram/link.h"

#define WEATHER_ENDS  32
#define WEATHER_PORTS 4

/* Shares of packets, 0 to 1; times in ns. */
struct weather {
    double loss, duplicate, damage, reorder;
    uint64_t delay, jitter;
    uint64_t black_from, black_until; /* nothing passes */
    uint32_t mtu;                     /* longer datagrams vanish; 0: none do */
    unsigned dead_path;               /* 1 + a path on which nothing passes; 0: none */
};

/* An output of a switch. */
struct weather_port {
    uint64_t bits_per_second;
    uint32_t buffer;     /* bytes that may wait */
    uint32_t mark_above; /* bytes waiting from which packets are marked; 0: never */
    uint64_t free_at;
    uint64_t carried, dropped; /* bytes, packets */
};

struct weather_end {
    struct br_dgram_link *link; /* NULL: none (any more) */
    unsigned peer;              /* the other end */
    int port;                   /* that what it sends passes; -1: none */
    bool listens;               /* makes a link of an OPEN with `config` */
    struct br_dgram_config config;
    void (*event)(void *owner, unsigned end, const struct br_event *event);
    void *owner;
    uint64_t last_arrival; /* per direction, so that only `reorder` reorders */
};

struct weather_net {
    uint64_t now;
    struct br_random random;
    struct weather weather;
    struct weather_port ports[WEATHER_PORTS];
    struct weather_end ends[WEATHER_ENDS];
    unsigned n_ends;
    struct weather_flight *flights; /* heap by time */
    unsigned n_flights, room;
    uint64_t order, damaged_parsed;
};

void weather_init(struct weather_net *net, uint64_t seed);
void weather_destroy(struct weather_net *net); /* links, too */
/* Runs until nothing can happen any more before `until`, which is then the time. */
void weather_run(struct weather_net *net, uint64_t until);
/* Two ends and a link from the first to the second; returns the first, the second is the next. */
unsigned weather_pair(struct weather_net *net, const struct br_dgram_config *config, int port);
void weather_connect(struct weather_net *net, unsigned end);
/* Sends what the link has to send, and reports its events. After post() and release(). */
void weather_kick(struct weather_net *net, unsigned end);
void weather_close(struct weather_net *net, unsigned end);

#endif
