/* SPDX-License-Identifier: BSD-3-Clause */
/* A small simulated network for tests: every host has one device, and a link to every other
 * host. */
#ifndef BR_TESTS_TRANSPORT_SIM_NET_H
#define BR_TESTS_TRANSPORT_SIM_NET_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "transport/sim/sim.h"
#include "transport/backends.h"

#define NET_HOSTS 6

struct net_host {
    struct br_device_config config;
    struct br_slot_table slots;
    struct br_device *device;
    struct br_link *link[NET_HOSTS]; /* to each peer; NULL: none, or failed and closed */
    /* Events since the beginning. */
    int messages, placed, sent, closed;
    int error;                                            /* of the last CLOSED */
    char message[sizeof(((struct br_link *)0)->message)]; /* its message */
    uint64_t last_message;                                /* virtual time */
};

struct net {
    struct br_sim *sim;
    int n;
    struct net_host hosts[NET_HOSTS];
};

/* Opens everything and connects; the topology is one switch unless the caller has made another in
 * `sim`. */
void net_open(struct net *net, const struct br_sim_config *config, int n);
void net_connect(struct net *net, int a, int b);
void net_close(struct net *net);

/* Polls every ready host; failed links are closed. Returns the number of events. */
int net_poll(struct net *net);
/* Runs until virtual time `until`, or until nothing will happen any more. */
void net_run(struct net *net, uint64_t until);

/* One message with `length` bytes of payload from host a to b. 1: taken, 0: full. */
int net_message(struct net *net, int a, int b, const void *payload, uint32_t length);

#endif
