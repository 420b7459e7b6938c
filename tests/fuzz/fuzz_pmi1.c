/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A launcher that answers arbitrary bytes on PMI's wire and then closes it: the whole conversation,
 * as rank 0 or another (the first byte says which), must come to an end and keep within its bounds.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "protocol/bootstrap/pmi1.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t deadline = br_clock_now() + 10 * BR_SEC;
    unsigned char id[128] = {0};
    uint32_t rank, ranks;
    struct br_pmi1 pmi;
    int fds[2], rc = 0;

    if (size < 1 || size > 60000 || socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
        return 0;
    if (send(fds[1], data + 1, size - 1, MSG_NOSIGNAL) != (ssize_t)size - 1)
        abort();
    shutdown(fds[1], SHUT_WR);
    br_pmi1_make(&pmi, fds[0]);
    if (data[0] & 2)
        rc = br_pmi1_introduce(&pmi, 1, &rank, &ranks, deadline);
    if (!rc)
        rc = br_pmi1_begin(&pmi, deadline);
    if (!rc)
        rc = br_pmi1_share(&pmi, data[0] & 1, "braid.id.0", id, sizeof id, deadline);
    if (!rc)
        rc = br_pmi1_end(&pmi, deadline);
    if (rc == -ETIMEDOUT) /* the other end is closed: there is nothing to wait for */
        abort();
    close(fds[0]);
    close(fds[1]);
    return 0;
}
