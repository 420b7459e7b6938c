/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/output.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <cJSON.h>

#include "base/error.h"

FILE *br_output_open(const char *path, bool replace, int *rc)
{
    FILE *out = strcmp(path, "-") == 0 ? stdout : fopen(path, replace ? "we" : "wxe");
    int err = errno;

    *rc = out ? 0
              : br_error(err, "cannot write %s: %s%s", path, strerror(err),
                         err == EEXIST ? "; give another name, or --force to replace it" : "");
    return out;
}

int br_output_may_write(const char *path)
{
    int fd;

    if (!strcmp(path, "-"))
        return 0;
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0)
        unlink(path);
    else if (errno == EEXIST)
        fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno != ENXIO) /* a FIFO that nobody reads yet */
        return br_error(errno, "cannot write %s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return 0;
}

int br_output_close(FILE *out, const char *path, int rc)
{
    bool failed = ferror(out);

    errno = EIO;
    failed |= out == stdout ? fflush(out) : fclose(out);
    return failed && !rc ? br_error(errno, "cannot write %s: %s", path, strerror(errno)) : rc;
}

int br_output_json(FILE *out, const struct cJSON *root)
{
    char *text = cJSON_Print(root);

    if (!text)
        return br_error(ENOMEM, "no memory for the JSON");
    fprintf(out, "%s\n", text);
    cJSON_free(text);
    return 0;
}
