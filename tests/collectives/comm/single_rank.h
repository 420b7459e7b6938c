/* SPDX-License-Identifier: BSD-3-Clause */
/* A communicator of one rank, and buffers, for tests of the public calls. */
#ifndef TESTS_COLLECTIVES_COMM_SINGLE_RANK_H
#define TESTS_COLLECTIVES_COMM_SINGLE_RANK_H

#include <stdint.h>

#include <braid/braid.h>

extern struct braid_comm *comm;
extern int32_t in[8], out[8]; /* in: 1 to 8 */

/* The set-up and tear-down of a cmocka group; a test that finalizes `comm` itself sets it to
 * NULL. */
int join(void **state);
int leave(void **state);

/* The call returns rc, and the last error names all of `nouns`, which '|' separates. */
void says(int got, int rc, const char *nouns, int line);
#define SAYS(rc, nouns, call) says(call, rc, nouns, __LINE__)

#endif
