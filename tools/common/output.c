/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/common/output.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <cJSON.h>

#include "base/error.h"
#include "base/file.h"

#define OPEN_FILES 8

/* Those that are open. A tool has few, and opens and closes them in one thread. */
static struct br_file files[OPEN_FILES];

FILE *br_output_open(const char *path, bool replace, int *rc)
{
    struct br_file *file = files;

    *rc = 0;
    if (!strcmp(path, "-"))
        return stdout;
    while (file < files + OPEN_FILES && file->stream)
        file++;
    if (file == files + OPEN_FILES)
        *rc = br_error(EMFILE, "cannot write %s: %d results are open", path, OPEN_FILES);
    else
        *rc = br_file_open(file, NULL, path, !replace);
    if (*rc == -EEXIST)
        br_error(EEXIST, "cannot write %s: %s; give another name, or --force to replace it", path,
                 strerror(EEXIST));
    return *rc ? NULL : file->stream;
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

    for (struct br_file *file = files; file < files + OPEN_FILES; file++)
        if (file->stream == out)
            return br_file_close(file, NULL, rc);
    errno = EIO;
    failed |= fflush(out); /* standard output */
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
