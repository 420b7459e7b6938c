/* SPDX-License-Identifier: BSD-3-Clause */
/* Two devices of the back end `shm` with a link between them, for the tests of this folder. */
#ifndef BR_TESTS_TRANSPORT_SHM_PAIR_H
#define BR_TESTS_TRANSPORT_SHM_PAIR_H

#include "transport/shm/link.h"

#define END_EVENTS 512

struct end {
    struct br_device *device;
    struct br_slot_table slots;
    struct br_device_config config;
    struct br_link *link;
    struct br_event events[END_EVENTS]; /* all that poll() has said and nobody has taken */
    int n_events;
};

struct pair {
    struct end a, b; /* a connects */
};

int end_open(struct end *end, uint32_t max_links);
void end_close(struct end *end);
void end_poll(struct end *end);
/* Polls both (peer may be NULL) until end has an event of this kind, takes it out; fails the test
 * after 5 s. */
struct br_event await(struct end *end, struct end *peer, enum br_event_kind kind);
int count_events(const struct end *end, enum br_event_kind kind);
/* Polls both for some rounds. */
void settle(struct end *a, struct end *b);

int pair_setup(void **state); /* *state: a struct pair, connected */
int pair_teardown(void **state);

void post_message(struct end *end, const void *inline_, const void *payload, uint32_t length,
                  uint64_t cookie);
void post_placed(struct end *end, const void *payload, uint32_t length, uint32_t slot,
                 uint32_t offset, struct br_region *region, uint64_t cookie);
struct br_shm_link *inside(struct end *end);

#endif
