/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One process adds up what all ranks give, in plain loops, in the order that an all-reduce of
 * theirs has: what its bits are held against.
 *
 * The order is that of the schedules: those of all ranks are gone through step by step, message by
 * message, with nothing of the engine, the protocol or the vectorised kernels. Small blocks of
 * ranks that share a shared segment are added in the order of the ranks.
 */
#ifndef BR_TESTS_SYSTEM_REFERENCE_H
#define BR_TESTS_SYSTEM_REFERENCE_H

#include <stddef.h>

#include <braid/braid.h>

/* float32, sum, in place. memory: [size of comm][count]; what each rank gives, then what each has.
 * algorithm: NULL: as comm chooses. 0, or a negative errno with a message. */
int reference_allreduce(struct braid_comm *comm, const char *algorithm, float *const *memory,
                        size_t count);

#endif
