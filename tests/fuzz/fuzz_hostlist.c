/* SPDX-License-Identifier: BSD-3-Clause */
/* Slurm's lists of hosts and of numbers under arbitrary text; the first byte is the node. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/bootstrap/hostlist.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), first[32];
    uint32_t count;

    if (size) {
        memcpy(text, data + 1, size - 1);
        text[size - 1] = 0;
        /* a name is never longer than its list, nor empty, and holds nothing of the short form */
        if (br_hostlist_first(text, first, sizeof first) == 0 &&
            (!first[0] || strlen(first) > strlen(text) || strpbrk(first, "[], \n")))
            abort();
        if (br_hostlist_count_at(text, data[0], &count) == 0 && !strpbrk(text, "0123456789"))
            abort();
    }
    free(text);
    return 0;
}
