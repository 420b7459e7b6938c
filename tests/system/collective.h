/* SPDX-License-Identifier: BSD-3-Clause */
/* The adapter of tests/collectives/case.h for ranks that are real processes (ranks.h): a case by
 * the public calls, over whatever back end the job has, from and to memory of any kind. */
#ifndef BR_TESTS_SYSTEM_COLLECTIVE_H
#define BR_TESTS_SYSTEM_COLLECTIVE_H

#include <braid/braid.h>

#include "tests/collectives/case.h"

/* How the call is made and waited for. */
enum collective_way { WAY_BLOCK, WAY_WAIT, WAY_TEST, WAY_SHORT_WAITS, WAY_PERSISTENT, WAYS };

extern const char *const collective_ways[];

struct collective_call {
    struct collective_case of;
    struct braid_options options;
    enum collective_way form;
};

/* The buffers of this rank with memory at send and recv (case_place()). seen: where the CPU finds
 * them, which is elsewhere when they are on a GPU. */
struct case_buffers collective_buffers(struct braid_comm *comm, const struct collective_call *call,
                                       uint8_t *send, uint8_t *recv);
struct case_buffers collective_seen(const struct case_buffers *buffers);

/* Only makes the call, whose result is returned. */
int collective_run(struct braid_comm *comm, const struct collective_call *call,
                   const struct case_buffers *buffers);

/* Fills the buffers at send and recv, makes the call and checks them; right: as for case_check().
 * 0, or 1 and stderr says what was wrong. */
int collective_check(struct braid_comm *comm, const struct collective_call *call, uint8_t *send,
                     uint8_t *recv, const void *right);

#endif
