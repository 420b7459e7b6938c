/* SPDX-License-Identifier: BSD-3-Clause */
/* Two devices of the back end `verbs` on fake0 and fake1 (fake.h) with a link between them, and a
 * clock that the test moves. */
#ifndef BR_TESTS_TRANSPORT_VERBS_RIG_H
#define BR_TESTS_TRANSPORT_VERBS_RIG_H

#include "fake.h"
#include "transport/verbs/verbs.h"

#define RIG_EVENTS 1024
#define RIG_PLACE  65536u

struct rig_end {
    struct br_device_config config;
    struct br_slot_table slots;
    struct br_verbs_device *device; /* NULL: closed */
    struct br_link *link;
    struct br_event events[RIG_EVENTS]; /* all that poll() has said and nobody has taken */
    int n_events;
    bool hold; /* messages are not released at once */
};

struct rig {
    struct rig_end a, b; /* a connects */
    uint64_t now;
    uint8_t from[RIG_PLACE], to[RIG_PLACE];
    struct br_region from_region, to_region; /* registered by rig_slot() */
};

extern const struct br_transport_ops *rig_ops;

int rig_setup_unconnected(void **state); /* *state: a struct rig, both devices open */
int rig_setup(void **state);             /* connected, both ends trusted and open */
int rig_teardown(void **state);          /* fails if anything is left */

int rig_open(struct rig_end *end); /* device_open, by end->config */
void rig_close(struct rig_end *end);
void rig_poll(struct rig *rig, struct rig_end *end); /* once, 1 ms later */
void rig_settle(struct rig *rig);                    /* both, until nothing is going on */
/* Starts to connect; the other end's link is not known yet. */
void rig_begin(struct rig *rig);
void rig_connect(struct rig *rig);
struct br_verbs_link *rig_link(const struct rig_end *end);

/* Takes out the first event of this kind; NULL: there is none. Valid until the next call. */
const struct br_event *rig_take(struct rig_end *end, enum br_event_kind kind);
int rig_count(const struct rig_end *end, enum br_event_kind kind);

/* post() of one message of `length` bytes beyond the inline part; its return value. */
int rig_message(struct rig_end *end, uint32_t length, uint64_t cookie);
/* A slot of b's with a token, for RIG_PLACE bytes into rig->to; regions on both ends if
 * `registered`. */
struct br_slot *rig_slot(struct rig *rig, bool registered);
void rig_slot_put(struct rig *rig, struct br_slot *slot);
/* post() of a frame with all its bytes from a to b. */
int rig_placed(struct rig *rig, const struct br_slot *slot, uint64_t cookie);
int rig_placed_urgently(struct rig *rig, const struct br_slot *slot, uint64_t cookie,
                        int32_t priority);

#endif
