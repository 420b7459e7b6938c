/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the fake devices share: fake.c (devices, events, faults), fake_queues.c
 * (memory, completion queues, shared receive queues), fake_pairs.c (queue pairs and what is posted
 * on them). */
#ifndef BR_TESTS_TRANSPORT_VERBS_FAKE_INSIDE_H
#define BR_TESTS_TRANSPORT_VERBS_FAKE_INSIDE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

#define FAKE_EVENTS 64

struct fake_context {
    struct ibv_context base;
    int device;
    struct ibv_async_event events[FAKE_EVENTS];
    uint32_t head, tail, unacknowledged;
    int children;
};

struct fake_pd {
    struct ibv_pd base;
    int children;
};

struct fake_channel {
    struct ibv_comp_channel base;
    struct fake_cq *cq;
};

struct fake_cq {
    struct ibv_cq base;
    uint32_t head, tail, unacknowledged;
    bool armed;
    int children;
    struct ibv_wc ring[];
};

struct fake_srq {
    struct ibv_srq base;
    uint32_t head, tail, room, limit;
    int children;
    struct fake_receive {
        struct ibv_sge sge;
        uint64_t id;
    } ring[];
};

extern struct fake_live fake_alive;

/* A positive errno, as the calls that return one do; -1: a fault without errno. 0: it works. */
int fake_fails(const char *call);
/* The same for calls that return a pointer or -1, and leave errno. */
bool fake_fails_by_errno(const char *call);
/* An object that fake_abandon() forgets; the counter is one of fake_alive. */
void *fake_make(size_t bytes, int *counter);
void fake_drop(void *object, int *counter);
const struct fake_device *fake_device_of(const struct ibv_context *context);
struct ibv_device *fake_ibv_device(int device);
void fake_raise(struct fake_context *context, struct ibv_async_event event);

/* fake_queues.c */
void fake_queues_fill(struct br_verbs_library *library);
void fake_queues_operations(struct ibv_context_ops *ops);
/* May a work request of this protection domain touch [address, +bytes) with this key? */
bool fake_is_allowed(const struct ibv_pd *pd, uint32_t key, bool remote, uint64_t address,
                     uint64_t bytes);
/* Where the bytes of an address in a work request are (fake_memory). */
void *fake_bytes(uint64_t address);
void fake_complete(struct ibv_cq *cq, struct ibv_wc wc);
/* Takes the buffer in front; the queue says so when few are left. */
struct fake_receive fake_take_buffer(struct fake_srq *srq);

/* fake_cm.c */
void fake_cm_fill(struct br_verbs_library *library);

/* fake_pairs.c */
void fake_pairs_fill(struct br_verbs_library *library);
void fake_pairs_operations(struct ibv_context_ops *ops);
void fake_pairs_abandon(void);
/* Does what is posted and can be done now. */
void fake_run(void);

#endif
