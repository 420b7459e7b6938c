/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker whose one peer is the test, over the wires of wire.h. */
#ifndef BR_TESTS_PROTOCOL_WIRED_H
#define BR_TESTS_PROTOCOL_WIRED_H

#include "wire.h"

/* A worker of `size` ranks of which the test is one: its peer. It has 16 slots, and loses patience
 * after 1 s. */
struct wired {
    struct br_worker *w;
    int rank, peer, rails;
    struct wire wires[WIRE_RAILS];
    struct wire_link *links[WIRE_RAILS]; /* to the peer; of a rail that is up */
    uint64_t now;
    int done; /* transfers that have ended */
};

/* What SENT proves differs between back ends; everything else is alike. */
struct br_caps wire_caps(bool sent_means_arrived);
/* caps: NULL: those of a byte stream. No link yet. Rank 0 accepts its peer's links, rank 1
 * connects. */
void wired_open(struct wired *x, int rank, int rails, const struct br_caps *caps);
/* The same, and all rails up. */
void wired_create(struct wired *x, int rank, int rails, const struct br_caps *caps);
/* The same as ranks of a BCube(2,2) of which there are no others. */
void wired_create_bcube(struct wired *x, int rank, int rails, const struct br_caps *caps);
void wired_destroy(struct wired *x);
/* `ns` later, then polls and pumps until there is nothing to do. */
void wired_turn(struct wired *x, uint64_t ns);
/* Proves who we are, in the role that we have. true: the rail is up. */
bool wired_connect(struct wired *x, int rail);
/* A message of the peer; its link breaks; its answer to RAIL_DOWN, on another rail. Each with a
 * turn. */
void wired_say(struct wired *x, int rail, const struct br_message *message);
void wired_cut(struct wired *x, int rail);
void wired_fenced(struct wired *x, int rail, int on);
/* What the peer says of itself, for handshakes made by hand. */
struct br_handshake_self wired_self(const struct wired *x);

/* How a test wants its worker. */
struct wired_plan {
    int rank, rails;
    bool up; /* connected already */
    bool sent_means_arrived, needs_rkey;
};

/* A test that has such a worker from the start, `struct wired *x = *state`, and need not destroy
 * it. */
/* clang-format off */
#define WIRED_TEST(f, ...) {#f, f, wired_set_up, wired_tear_down, &(struct wired_plan){__VA_ARGS__}}
/* clang-format on */
int wired_set_up(void **state);
int wired_tear_down(void **state);

#endif
