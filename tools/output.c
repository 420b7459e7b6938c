/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/output.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"

FILE *br_output_open(const char *path, int *rc)
{
    FILE *out = strcmp(path, "-") == 0 ? stdout : fopen(path, "we");

    *rc = out ? 0 : br_error(errno, "cannot write %s: %s", path, strerror(errno));
    return out;
}

int br_output_close(FILE *out, const char *path, int rc)
{
    int failed = out == stdout ? fflush(out) : fclose(out);

    return failed && !rc ? br_error(errno, "cannot write %s: %s", path, strerror(errno)) : rc;
}
