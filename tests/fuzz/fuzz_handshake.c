/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The handshake under arbitrary bytes. The first byte chooses the role; then come messages, each
 * with its length in front (a length over what is left is an exact-size read of the rest, so that
 * ASan sees any read behind it). Nobody who does not know the secret gets to READY.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/handshake.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct br_handshake_self self = {.rank = 2,
                                     .size = 9,
                                     .rails = 2,
                                     .limits = {65536, 16384, 8192, 262144},
                                     .key = "unknown to the fuzzer"};
    uint8_t reply[BR_HANDSHAKE_BYTES_MAX];
    struct br_handshake hs;
    size_t reply_bytes = 0;

    if (!size)
        return 0;
    if (*data & 1)
        br_handshake_init_connector(&hs, &self, 5, 1, 1, reply, &reply_bytes);
    else
        br_handshake_init_acceptor(&hs, &self);
    data++, size--;
    while (size) {
        size_t n = data[0] < size - 1 ? data[0] : size - 1;
        uint8_t *message = malloc(n ? n : 1);

        memcpy(message, data + 1, n);
        if (br_handshake_receive(&hs, message, n, reply, &reply_bytes) == 1 ||
            reply_bytes > sizeof reply)
            abort();
        free(message);
        data += 1 + n;
        size -= 1 + n;
    }
    return 0;
}
