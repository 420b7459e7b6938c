/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file of a timeline (trace.h): events become lines of JSON in a buffer, which goes to the disk
 * when it is full and when somebody asks for it. The caller sees to it that one thread at a time
 * uses a file.
 */
#ifndef BR_BASE_TRACE_FILE_H
#define BR_BASE_TRACE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file.h"
#include "base/trace.h"

#define BR_TRACE_PIECE 48u
#define BR_TRACE_FORMS 4u /* kinds that are in pieces at once */

/* Text of known length: BR_TRACE_PIECE bytes are copied, whatever it is, as that takes an
 * instruction or two. */
struct br_trace_piece {
    char text[BR_TRACE_PIECE];
    uint8_t length;
};

/* What the lines of a kind have in common. */
struct br_trace_form {
    const struct br_trace_kind *kind;
    /* up to the name, to each number, to the label */
    struct br_trace_piece head, args[BR_TRACE_ARGS], label;
    int n_args;
};

struct br_trace_file {
    struct br_file file;
    int fd, rank;         /* fd: of `file` */
    bool in_virtual_time; /* written to the stream of `file`, which nobody reads before */
    uint32_t n_forms;     /* of `forms` */
    uint64_t shift;       /* ns: from br_clock_now() to the time in the file */
    uint64_t midnight;    /* s since 1970, UTC: 0 in the file; not in virtual time */
    uint64_t at, limit;   /* where the next line goes; limit */
    uint64_t logged_lost; /* events that the file says are missing */
    uint64_t beyond;      /* events that the file has no room for */
    uint64_t named[BR_TRACE_GROUPS]; /* rows that have a name in the file */
    bool broken;                     /* a write has failed */
    int reason;                      /* in virtual time: the errno of that */
    char *buffer;                    /* its own */
    size_t filled;
    struct br_trace_piece begin; /* of an event's line, up to its row */
    struct br_trace_form forms[BR_TRACE_FORMS];
};

/* Creates the file beside `path`, and writes its first lines into the buffer. most: bytes that it
 * may have. in_virtual_time: times are the caller's, otherwise those of br_clock_now(). Returns 0,
 * or a negative errno of the file, or -ENOMEM, with a message; then nothing is to be closed. */
int br_trace_file_open(struct br_trace_file *file, const char *path, int rank, uint64_t most,
                       bool in_virtual_time);
/* Not in virtual time: writes what is there, and puts the file in its place; from here on it can be
 * read at any time, also when the job does not end well. Warns if that fails. */
void br_trace_file_publish(struct br_trace_file *file);
/* Ends a file that is published: what is not flushed is lost. */
void br_trace_file_close(struct br_trace_file *file);
/* Ends one in virtual time and puts it in its place, unless rc, of the caller's work, is negative:
 * then an older file stays, and rc is returned. Otherwise 0, or a negative errno with a message. */
int br_trace_file_close_virtual(struct br_trace_file *file, int rc);

/* Writes an event, or counts it in `beyond` where the file has no room for it. */
void br_trace_file_add(struct br_trace_file *file, const struct br_trace_event *event);
/* Names a row. */
void br_trace_file_name(struct br_trace_file *file, uint32_t row, const char *text);
/* An instant that says how many events are missing up to here: `lost`, which counts from the
 * beginning, and those in `beyond`. */
void br_trace_file_lost(struct br_trace_file *file, uint64_t lost, uint64_t now);
/* Gives the disk what the buffer has. */
void br_trace_file_flush(struct br_trace_file *file);

#endif
