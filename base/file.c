/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

#define ATTEMPTS 100 /* at a name for the temporary file */

static int file_failed(const char *what, const char *path, int err)
{
    return br_error(err, "%s%scannot write %s: %s", what ? what : "", what ? ": " : "", path,
                    strerror(err));
}

static void file_release(struct br_file *file)
{
    free(file->target);
    free(file->temporary);
    *file = (struct br_file){0};
}

/* A new file beside the target; its descriptor or a negative errno without a message. */
static int create_temporary(struct br_file *file)
{
    size_t room = strlen(file->target) + 32;
    int fd = -1;

    file->temporary = malloc(room);
    if (!file->temporary)
        return -ENOMEM;
    for (int i = 0; i < ATTEMPTS && fd < 0; i++) {
        snprintf(file->temporary, room, "%s.%d-%d.new", file->target, (int)getpid(), i);
        fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    if (fd >= 0)
        return fd;
    fd = -errno;
    free(file->temporary);
    file->temporary = NULL;
    return fd;
}

/* The descriptor to write to, or a negative errno without a message. */
static int open_target(struct br_file *file, const char *path, bool fresh)
{
    struct stat st;
    bool exists = stat(path, &st) == 0;
    int fd;

    if (fresh ||
        /* the latter: a link to a file that does not exist yet */
        (!exists && lstat(path, &st) == 0)) {
        file->target = strdup(path);
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | (fresh ? O_EXCL : 0), 0644);
        file->made = fd >= 0 && fresh;
        return fd < 0 ? -errno : fd;
    }
    file->target = exists ? realpath(path, NULL) : strdup(path);
    if (!file->target && exists) /* /proc/self/fd of a pipe has no path */
        file->target = strdup(path);
    if (!file->target)
        return -ENOMEM;
    if (exists && S_ISREG(st.st_mode) && access(path, W_OK) != 0)
        return -errno; /* a rename would replace it all the same */
    if (!exists || S_ISREG(st.st_mode)) {
        fd = create_temporary(file);
        if (fd >= 0 && exists && fchmod(fd, st.st_mode & 0777) != 0) {
            int err = errno;

            close(fd);
            unlink(file->temporary);
            return -err;
        }
        if (fd >= 0 || !exists || (fd != -EACCES && fd != -EPERM && fd != -EROFS))
            return fd;
    }
    fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOCTTY);
    return fd < 0 ? -errno : fd;
}

int br_file_open(struct br_file *file, const char *what, const char *path, bool fresh)
{
    int fd, rc;

    *file = (struct br_file){0};
    fd = open_target(file, path, fresh);
    if (fd >= 0)
        file->stream = fdopen(fd, "w");
    if (file->stream && file->target)
        return 0;
    rc = file_failed(what, path, fd < 0 ? -fd : ENOMEM);
    if (file->stream)
        fclose(file->stream);
    else if (fd >= 0)
        close(fd);
    if (fd >= 0 && file->temporary)
        unlink(file->temporary);
    file_release(file);
    return rc;
}

/* Why an earlier write failed: stdio has not kept the reason. The temporary file is lost anyway, so
 * asking again does no harm. */
static int file_reason(const struct br_file *file)
{
    static const char page[4096];

    errno = EIO;
    return file->temporary && write(fileno(file->stream), page, sizeof page) < 0 ? errno : EIO;
}

int br_file_publish(struct br_file *file, const char *what)
{
    int err = ferror(file->stream) ? file_reason(file) : 0;

    if (fflush(file->stream) != 0)
        err = errno;
    /* Devices and pipes know no fsync(). */
    if (!err && fsync(fileno(file->stream)) != 0 && errno != EINVAL && errno != EROFS &&
        errno != ENOTSUP)
        err = errno;
    if (!err && file->temporary && rename(file->temporary, file->target) != 0)
        err = errno;
    if (err)
        return file_failed(what, file->target, err);
    free(file->temporary);
    file->temporary = NULL;
    file->made = false;
    return 0;
}

int br_file_close(struct br_file *file, const char *what, int rc)
{
    if (!file->stream)
        return rc;
    if (rc >= 0) {
        int published = br_file_publish(file, what);

        rc = published < 0 ? published : rc;
    }
    if (fclose(file->stream) != 0 && rc >= 0)
        rc = file_failed(what, file->target, errno);
    if (file->temporary)
        unlink(file->temporary);
    else if (file->made)
        unlink(file->target);
    file_release(file);
    return rc;
}
