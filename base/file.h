/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files that replace older ones: calibrations, reports, traces, results. What is written goes into
 * a temporary file in the same folder, which takes the target's name when all of it is on the disk.
 * So a full disk, or an end in the middle, leaves the old file as it was, and nobody reads half a
 * new one.
 *
 * 1. What is no regular file (/dev/stdout, /dev/null, a FIFO) is written in place: it has nothing
 *    that could be lost.
 * 2. A symbolic link stays, and the file that it points to is replaced: people link results to
 *    where they keep them. The temporary file itself is never a link that somebody else has laid
 *    (O_EXCL, O_NOFOLLOW).
 * 3. An existing file is written in place where its folder takes no new files, but the file itself
 *    can be written. It keeps its permissions, but not its owner or other hard links.
 */
#ifndef BR_BASE_FILE_H
#define BR_BASE_FILE_H

#include <stdbool.h>
#include <stdio.h>

/* All zero: none. One thread at a time. */
struct br_file {
    FILE *stream;    /* to write to; NULL once it is closed */
    char *target;    /* owned */
    char *temporary; /* owned: the temporary file; NULL: written in place */
    bool made;       /* target did not exist before: it goes when the writing fails */
};

/* Opens for writing. `fresh`: only if there is no such file yet. Negative errno with a message that
 * names `what` (NULL: nothing) and the path: -EEXIST when fresh, -EACCES, -ENOSPC, ...; then *file
 * is all zero. May block on the disk. */
int br_file_open(struct br_file *file, const char *what, const char *path, bool fresh);

/* All that has been written so far is put on the disk and takes the target's name; the stream stays
 * open. Negative errno with a message: the target is as it was. May block on the disk. */
int br_file_publish(struct br_file *file, const char *what);

/* Closes. rc: of the caller's work; if it is negative, the target stays as it was and rc is
 * returned. Otherwise publishes: 0, or a negative errno with a message. Nothing to do for an
 * all-zero file. May block on the disk. */
int br_file_close(struct br_file *file, const char *what, int rc);

#endif
