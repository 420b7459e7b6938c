/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/collectives/comm/single_rank.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/says.h"

struct braid_comm *comm;
int32_t in[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out[8];

int join(void **state)
{
    (void)state;
    return braid_init(&(struct braid_config){.size = 1}, &comm);
}

int leave(void **state)
{
    (void)state;
    return comm ? braid_finalize(comm) : 0;
}

void says(int got, int rc, const char *nouns, int line)
{
    if (got != rc || !says_all(braid_last_error(), nouns))
        fail_msg("line %d: got %d, not %d with \"%s\": %s", line, got, rc, nouns,
                 braid_last_error());
}
