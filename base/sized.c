/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/sized.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"

/* No struct will be as long, but the garbage of one that was never set to zero may well say so. */
#define MOST 4096

int br_sized_room(const char *who, const char *what, const void *out, size_t first, size_t *bytes)
{
    *bytes = br_sized_bytes(out, first);
    if (*bytes < sizeof(size_t) || *bytes > MOST)
        return br_error(EINVAL,
                        "%s: struct_size of %s is %zu; set the struct to zero before the call, or "
                        "struct_size to its sizeof",
                        who, what, *bytes);
    return 0;
}

int br_sized_read(const char *who, const char *what, const void *given, size_t first, size_t known,
                  void *copy)
{
    const uint8_t *from = given;
    size_t bytes;
    int rc;

    memset(copy, 0, known);
    if (!given)
        return 0;
    rc = br_sized_room(who, what, given, first, &bytes);
    if (rc)
        return rc;
    for (size_t i = known; i < bytes; i++)
        if (from[i])
            return br_error(EINVAL,
                            "%s: the program's %s has %zu bytes, this library knows %zu, and byte "
                            "%zu is set: the program uses what only a newer libbraid has",
                            who, what, bytes, known, i);
    memcpy(copy, from, bytes < known ? bytes : known);
    return 0;
}

void br_sized_write(void *out, size_t bytes, const void *full, size_t known)
{
    size_t head = sizeof(size_t);

    memcpy((uint8_t *)out + head, (const uint8_t *)full + head,
           (bytes < known ? bytes : known) - head);
}
