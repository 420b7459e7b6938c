/* SPDX-License-Identifier: BSD-3-Clause */
/* A job whose ranks are threads, each with the store, and sockets that speak the store's protocol
 * by hand: unauthenticated peers and broken ranks. */
#ifndef BR_TESTS_STORE_JOB_H
#define BR_TESTS_STORE_JOB_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "protocol/bootstrap/environment.h"
#include "protocol/bootstrap/secret.h"
#include "protocol/bootstrap/store.h"
#include "protocol/bootstrap/store_message.h"

#define STORE_RANKS 8
#define STORE_LONG  (120 * BR_SEC) /* for what ends well, however busy the machine is */
/* ends in a timeout; time enough for ranks that come, and an eighth of it, for which a rank waits
 * for what the store says, also where one stands still for a moment */
#define STORE_SHORT (6 * BR_SEC)

struct store_rank {
    pthread_t thread;
    struct br_environment environment;
    struct br_secret secret;
    uint64_t late;             /* ns to sleep before the start */
    _Atomic uint64_t deadline; /* ns: of br_store_open(), once the thread runs */
    int (*body)(struct br_store *store, struct store_rank *self);
    int rc;
    char message[BR_ERROR_BYTES];
    struct br_store_counters counters;
};

extern struct store_rank store_ranks[STORE_RANKS];
extern uint16_t store_port;

void store_make(uint32_t n); /* a job of n ranks that all work */
void store_start(uint32_t from, uint32_t to);
void store_finish(uint32_t from, uint32_t to); /* when they have ended */
void store_all_fine(uint32_t n);
void store_says(const struct store_rank *rank, int err, const char *text);
uint64_t store_soon(uint64_t ns); /* a deadline */
/* A body: puts, gets, gathers and meets the others, many times. */
int store_exchange(struct br_store *store, struct store_rank *self);

/* By hand. */
int store_dial(void);
void store_say(int fd, const void *bytes, size_t n);
struct br_store_message store_hear(int fd, uint8_t bytes[512]); /* the next message, in `bytes` */
void store_until_closed(int fd);
/* a member that takes its member and then does what the test wants */
int store_join_by_hand(uint32_t rank);

#endif
