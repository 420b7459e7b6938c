/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The contract suite: what transport.h promises, checked on every back end.
 *
 * A new back end adds one row to contract_backends[] in backends.c, and hooks for what differs. A
 * case gets a fresh `struct contract` with up to CONTRACT_SIDES devices in one process, which stand
 * for as many processes. The cases never wait by themselves: contract_until() steps all devices
 * until something has happened, and lets time pass through the back end's idle() hook.
 *
 * BRAID_CONTRACT=name runs one row only.
 */
#ifndef BR_TESTS_CONTRACT_H
#define BR_TESTS_CONTRACT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "transport/transport.h"

#define CONTRACT_SIDES 3

struct contract;

/* Hooks may be NULL where the comment names a default. */
struct contract_backend {
    const char *name;      /* in the output and for BRAID_CONTRACT */
    const char *transport; /* for br_transport_get() */
    /* Prepares the surroundings of one case. -errno with a message: this machine has not
     * what it takes, the back end is skipped. Default: nothing. */
    int (*setup)(struct contract *contract);
    void (*teardown)(struct contract *contract);
    /* Fills name and simulation of a side's device. Default: name "lo". */
    void (*configure)(struct contract *contract, int side, struct br_device_config *config);
    /* Default: the monotonic clock. */
    uint64_t (*now)(struct contract *contract);
    /* Nothing has happened in this round: lets time pass. false: nothing will ever happen. Default:
     * yields the processor, and gives up 5 s (contract_until) or 30 ms (contract_settle) after the
     * last event. */
    bool (*idle)(struct contract *contract);
    /* Memory that the back end can hand over as a mapping. Default: malloc(), which none can. */
    int (*alloc)(struct br_region *region, size_t bytes);
    void (*free)(struct br_region *region);
    /* The device knows memory of alloc() now: no CPU may touch it any more but through view().
     * Default: it may. */
    void (*known)(const struct br_region *region);
    /* Where the CPU sees what stands at an address, of whatever memory. Default: there. */
    void *(*view)(const void *memory);
    /* A connected byte stream to the device at `address`, as an unauthenticated peer makes it; -1:
     * failed. NULL: it has none. */
    int (*unauthenticated)(struct contract *contract, const struct br_address *address);
    /* Makes a datagram of set-up that a side has sent look like one of the version after its own.
     * NULL: links of this back end are not made by datagrams. */
    void (*other_version)(uint8_t *datagram, size_t bytes);
    bool copies;    /* posting copies the payload of a frame that lies in a region */
    bool processes; /* a forked process can open a device and connect to ours */
    bool threaded;  /* the devices have threads of their own (transport/threaded) */
    bool on_demand; /* runs only when BRAID_CONTRACT names it: much of it is another one's, too */
};

extern const struct contract_backend contract_backends[];
extern const int contract_n_backends;

/* An event that poll() reported, with copies of what it pointed at. */
struct contract_record {
    struct br_event event;
    uint8_t inline_[BR_FRAME_INLINE];
    uint8_t *payload;
};

struct contract_side {
    struct br_device_config config; /* a case may change it before contract_open() */
    struct br_device *device;
    struct br_slot_table slots;
    struct contract_record *log;
    int n_log, log_capacity;
    bool hold; /* messages are not released at once; the case does it */
};

struct contract {
    const struct contract_backend *backend;
    const struct br_transport_ops *ops;
    struct contract_side sides[CONTRACT_SIDES];
    struct br_random random;
    int poll_max;                  /* [16] */
    uint64_t idle_for, last_round; /* ns: of the default idle() */
    void *inventory;               /* of the back end's hooks */
};

/* For main(): runs the cases on every back end. */
int contract_main(const struct CMUnitTest *cases, size_t n);
int contract_setup(void **state);
int contract_teardown(void **state);
#define CONTRACT_CASE(name) cmocka_unit_test_setup_teardown(name, contract_setup, contract_teardown)

/* Opens the device of a side; fails the case if that is not possible. */
void contract_open(struct contract *contract, int side);
void contract_open_two(struct contract *contract);
void contract_close(struct contract *contract, int side);
/* A link from side a to side b, usable on both ends. */
void contract_connect(struct contract *contract, int a, int b, struct br_link **link_a,
                      struct br_link **link_b);

/* Polls every device once; returns the number of events. */
int contract_step(struct contract *contract);
int contract_step_side(struct contract *contract, int side);
/* Steps until at least n events of this kind (of this link, unless NULL) are in the side's log,
 * counted from its beginning. false: they never came. */
bool contract_until(struct contract *contract, int side, enum br_event_kind kind,
                    const struct br_link *link, int n);
/* Lets time pass by itself; fails the case when there is none left. */
void contract_pass(struct contract *contract);
/* Steps until nothing happens any more. */
void contract_settle(struct contract *contract);
int contract_count(const struct contract *contract, int side, enum br_event_kind kind,
                   const struct br_link *link);
/* The n-th (from 0) event of this kind of this link (or any); NULL: there are fewer. */
const struct contract_record *contract_event(const struct contract *contract, int side,
                                             enum br_event_kind kind, const struct br_link *link,
                                             int n);
void contract_forget(struct contract *contract, int side); /* empties the log */

/* What a reducer adds up to: `to` begins as zeros, so what is combined twice shows.
 * contract_add_up() takes one as context, and fails the test when it is given anything but whole
 * granules. */
struct contract_sum {
    const struct br_slot *slot;
    uint8_t *to;
};
void contract_add_up(void *context, uint32_t offset, const uint8_t *bytes, uint32_t length);

/* Posts all n frames, stepping while the link is full; fails the case if the link fails. */
void contract_post(struct contract *contract, struct br_link *link, const struct br_frame *frames,
                   int n);
/* One message with `length` bytes of payload beyond the inline part, both filled from seed, and the
 * cookie seed + 1. payload must stay. */
void contract_message(struct contract *contract, struct br_link *link, uint8_t *payload,
                      uint32_t length, uint64_t seed);
/* A slot of a side whose device is open, with its remote key where the back end needs one (note 8
 * of transport.h). */
struct br_slot *contract_slot(struct contract *contract, int side, void *base, uint32_t length,
                              uint32_t slice_bytes);
void contract_slot_put(struct contract *contract, int side, struct br_slot *slot);
void contract_place(struct contract *contract, int side,
                    struct br_slot *slot); /* its token, if it needs one */
void contract_unplace(struct contract *contract, int side, struct br_slot *slot);
/* The frame for [offset, +length) of a transfer from `base` into the slot of this number at `side`,
 * with the cookie number + 1. */
struct br_frame contract_placed(struct contract *contract, int side, uint32_t slot,
                                const uint8_t *base, uint32_t offset, uint32_t length,
                                uint64_t number);

void contract_fill(uint8_t *bytes, size_t n, uint64_t seed);
bool contract_is_filled(const uint8_t *bytes, size_t n, uint64_t seed);
bool contract_is_message(const struct contract_record *record, uint32_t length, uint64_t seed);
/* Memory registered with the device of a side. */
void contract_region(struct contract *contract, int side, struct br_region *region, size_t bytes);
void contract_region_free(struct contract *contract, int side, struct br_region *region);
/* What a case fills and looks at where memory may be a region's: its bytes, which may stand
 * elsewhere than the device finds them. */
uint8_t *contract_view(const struct contract *contract, const void *memory);
bool contract_has_words(const struct br_link *link);

#endif
