/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/protocol/vectors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

size_t vector(const char *name, uint8_t *out, size_t most)
{
    const char *source = getenv("BRAID_SOURCE");
    char path[512], line[1024], start[64];
    size_t n = 0;
    FILE *file;

    snprintf(path, sizeof path, "%s/doc/wire.md", source ? source : ".");
    snprintf(start, sizeof start, "    %s:", name);
    file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) && strncmp(line, start, strlen(start)) != 0)
        ;
    assert_non_null(fgets(line, sizeof line, file));
    fclose(file);
    for (const char *c = line; *c && n < most;) {
        unsigned byte;

        if (*c == ' ' || *c == '\n') {
            c++;
            continue;
        }
        assert_int_equal(sscanf(c, "%2x", &byte), 1);
        out[n++] = (uint8_t)byte;
        c += 2;
    }
    return n;
}
