/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parser of the store's messages under arbitrary bytes: a stream of messages, as a connection
 * reads it. What the parser accepts must lie within the bytes it was given, and what is a request
 * must read the same when it is written again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/bootstrap/store_message.h"

#define BODY_MAX (sizeof(struct br_store_request) + BR_STORE_KEY_MAX + BR_STORE_VALUE_MAX)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_request(const struct br_store_message *message, const uint8_t *bytes)
{
    char key[BR_STORE_KEY_MAX + 1];
    uint8_t *again = malloc(message->bytes);

    memcpy(key, message->key, message->request.key_bytes);
    key[message->request.key_bytes] = 0;
    if (br_store_write_request(again, message->kind, message->request.timeout_ms, key,
                               message->value, message->value_bytes) != message->bytes ||
        memcmp(again, bytes, message->bytes) != 0)
        abort();
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct br_store_message message;

    while (br_store_parse(data, size, BODY_MAX, &message) == 0) {
        if (message.bytes > size)
            abort();
        if (message.value &&
            ((const uint8_t *)message.value < data ||
             (const uint8_t *)message.value + message.value_bytes > data + message.bytes))
            abort();
        if (message.key)
            check_request(&message, data);
        data += message.bytes;
        size -= message.bytes;
    }
    return 0;
}
