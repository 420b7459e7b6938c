/* SPDX-License-Identifier: BSD-3-Clause */
/* Two devices of the tcp back end in this process, which TCP on loopback connects. */
#ifndef BR_TESTS_TRANSPORT_TCP_ENDS_H
#define BR_TESTS_TRANSPORT_TCP_ENDS_H

#include "transport/tcp/tcp.h"

#define ENDS_LINKS         8
#define ENDS_MESSAGE_BYTES 512
#define ENDS_PLACE_BYTES   (4u << 20)

/* One end: a device, its slots and what has happened to it. */
struct end {
    struct br_slot_table slots;
    struct br_device_config config;
    struct br_device *device;
    struct br_link *links[ENDS_LINKS]; /* in the order they came up */
    int n_links, n_closed, n_sent, n_messages, n_data_frames, error;
    bool hold;     /* keep message buffers */
    bool trusting; /* takes everybody for a peer */
    struct br_event last_message;
    uint64_t now;
};

extern const struct br_transport_ops *ends_ops;
extern struct end ends_a, ends_b;
extern uint8_t ends_source[ENDS_PLACE_BYTES], ends_place[ENDS_PLACE_BYTES];

/* Of a case: both ends open, on 127.0.0.1. */
int ends_set_up(void **state);
int ends_tear_down(void **state);

int ends_open(struct end *end, const char *name, uint32_t max_links); /* as device_open */
void ends_close(struct end *end);

/* Polls once, for at most max events, and does what they ask for. */
void ends_step(struct end *end, int max);
/* Both ends work until *count reaches `goal`; after a few seconds the case fails. */
void ends_until(const int *count, int goal);

struct br_link *ends_connect(void); /* a to b: a's link; both are up */
int ends_message(struct br_link *link, uint32_t length);
int ends_stranger(void); /* a plain socket that is connected to b */

#endif
