/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The two sides of a test as a communicator of two ranks, with a buffer to send from and one to
 * receive in, and what they tell each other beside the data. Rank 0 is the server. Functions return
 * 0 or a negative errno with a message; -EINTR: Ctrl-C at the server, which has aborted the
 * communicator, so that the client ends, too.
 *
 * 1. Memory is braid_alloc()'s, what braid does best, or with --use_cuda a GPU's. All messages of a
 *    test use the same bytes, as in perftest.
 * 2. The end of a stream is a message of its own, with the number of messages sent: so tests end by
 *    count, by time and by Ctrl-C in the same way. Receives that wait then for messages that will
 *    not come are filled with messages that do not count (a receive cannot be taken back).
 */
#ifndef BR_TOOLS_PERF_PAIR_H
#define BR_TOOLS_PERF_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include <braid/braid.h>

#include "tools/perf/buffer.h"
#include "tools/perf/exchange.h"
#include "tools/perf/samples.h"
#include "tools/perf/settings.h"

enum { BR_PAIR_DATA, BR_PAIR_STOP, BR_PAIR_ANSWER, BR_PAIR_ROW, BR_PAIR_KEY }; /* tags */

struct br_pair_stop {
    uint64_t sent; /* messages; or trips */
    uint64_t over; /* 1: Ctrl-C, there is no other size */
};

struct br_pair {
    const struct br_perf_settings *settings;
    struct braid_comm *comm;
    int other; /* its rank */
    bool client;
    struct br_buffer out, in; /* of the largest size */
    /* of the other's `in`, or with reads of its `out` */
    struct braid_key key;
    struct braid_options options[BR_PAIR_KEY + 1]; /* by tag */
    struct braid_op *stop;                         /* receives `heard`; NULL: it has come */
    struct br_pair_stop peer_stop;
    /* in the latest stop of ours: what the other side goes by, whatever has come since */
    bool sent_over;
};

/* Joins; blocks. On failure *pair holds nothing. */
int br_pair_open(struct br_pair *pair, const struct br_perf_settings *settings,
                 const struct br_exchange *where);
/* abort: informs the other side that this one failed. */
int br_pair_close(struct br_pair *pair, bool abort);

/* Both sides stand before the same size with cleared buffers; the other's stop is awaited from now
 * on. */
int br_pair_begin(struct br_pair *pair, size_t bytes);

/* --data_validation, when all messages of a size are here: `in` has what the other side's `out`
 * had. -EIO with a message. */
int br_pair_validate(const struct br_pair *pair, size_t bytes);

/* A message of the test's kind between `out` and `in`. */
int br_pair_post(struct br_pair *pair, size_t bytes, struct braid_op **op);
int br_pair_receive(struct br_pair *pair, size_t bytes, struct braid_op **op);

/* Behind a size, when both have said stop: is there no other? Both sides come to the same. */
bool br_pair_finished(const struct br_pair *pair);

/* Waits and frees *op; *op = NULL. ms: at most so long, then 0 with *op unchanged; < 0: for as long
 * as it takes. */
int br_pair_wait(struct br_pair *pair, struct braid_op **op, int ms);
/* Looks; drives progress. */
int br_pair_test(struct br_pair *pair, struct braid_op **op);

int br_pair_send_stop(struct br_pair *pair, uint64_t sent);

/* One direction: to the other side, or from it. */
int br_pair_send_row(struct br_pair *pair, const struct br_perf_row *row);
int br_pair_receive_row(struct br_pair *pair, struct br_perf_row *row);

#endif
