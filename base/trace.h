/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A timeline in the Chrome trace format, as Perfetto and chrome://tracing read it (doc/trace.md). A
 * record goes into a ring that was allocated at the start; a thread of the trace's own writes the
 * file ten times a second. One thread at a time writes records (in a job: the one that holds the
 * progress lock).
 *
 * The numbered notes are in doc/design/trace.md.
 */
#ifndef BR_BASE_TRACE_H
#define BR_BASE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BR_TRACE_ARGS 5
#define BR_TRACE_ROWS 64u /* of a group; what finds all of them taken is left out */
#define BR_TRACE_PATH 512
#define BR_TRACE_WORD 24 /* letters of a kind's words */

struct br_trace;

/* Rows. 0 is none. */
enum br_trace_group { BR_TRACE_OPERATIONS, BR_TRACE_STEPS, BR_TRACE_GROUPS };
/* The first row that callers number. */
#define BR_TRACE_OWN_ROWS (1u + BR_TRACE_GROUPS * BR_TRACE_ROWS)

/* What the events of one kind have in common; static. Words of at most BR_TRACE_WORD letters; like
 * all texts they go into the file as they are: no quotes, no backslashes. */
struct br_trace_kind {
    const char *category;
    bool detail;                     /* counts as one (note 6) */
    const char *label;               /* what br_trace_event.label is; NULL: there is none */
    const char *args[BR_TRACE_ARGS]; /* what the numbers are; NULL behind the last */
};

struct br_trace_event {
    const struct br_trace_kind *kind;
    /* static, or of br_trace_title(); label may be NULL */
    const char *name, *label;
    uint64_t begin, end; /* ns, as br_clock_now() */
    uint32_t row;
    int64_t args[BR_TRACE_ARGS];
};

/* Something under way. row 0: nothing is, or it has no row and is left out. */
struct br_trace_span {
    uint64_t begin;
    uint32_t row;
};

/* The file of one rank: %r in the pattern is the rank; without it, in a job of several, the rank
 * goes before the ending (job.json: job.3.json). -ENAMETOOLONG, -EISDIR with a message that begins
 * with the pattern. */
int br_trace_path(const char *pattern, int rank, int size, char path[BR_TRACE_PATH]);

/* Creates the file and starts the thread. most: bytes that the file may have. details: a second,
 * note 6. Errors of the file and -ENOMEM, with a message. */
int br_trace_open(const char *path, int rank, uint64_t most, uint64_t details,
                  struct br_trace **trace);
/* A trace without a file and without a thread: `take` is called with each event, within
 * br_trace_add(), in detail throughout. -ENOMEM with a message. */
int br_trace_open_sink(void (*take)(void *with, const struct br_trace_event *event), void *with,
                       struct br_trace **trace);
/* The file of a simulated rank: as br_trace_open(), but time stamps are the virtual times that the
 * caller gives, and the same events make the same file. Whoever adds an event writes it: there is
 * no ring that could be full, and no thread. An older file stays until br_trace_close_virtual(). */
int br_trace_open_virtual(const char *path, int rank, uint64_t most, uint64_t details,
                          struct br_trace **trace);
/* Ends that file. rc: of the caller's work; if it is negative, an older file stays as it was and rc
 * is returned. Otherwise 0, or a negative errno with a message: the file could not be written, and
 * an older one is as it was. NULL allowed. Blocks on the disk. */
int br_trace_close_virtual(struct br_trace *trace, int rc);
/* Ends what br_trace_open() and br_trace_open_sink() have opened: writes what is left. Nobody
 * writes records any more. NULL allowed. */
void br_trace_close(struct br_trace *trace);

/* paused: nothing new is recorded; what has begun still is. Under the rules of br_trace_add(). */
void br_trace_pause(struct br_trace *trace, bool paused);
/* Returns when the file has all that was recorded. Any thread; blocks on the disk. */
void br_trace_flush(struct br_trace *trace);

/* Names a row of the caller's own. Not on the data path. */
void br_trace_name(struct br_trace *trace, uint32_t row, const char *text);

/* Is what begins now to be told of in detail? Then all of it is. Under the rules of
 * br_trace_add(). */
bool br_trace_in_detail(struct br_trace *trace, uint64_t now);

void br_trace_add(struct br_trace *trace, const struct br_trace_event *event);

/* A text of a caller as the name of events: it is copied (titles.h). NULL: there are too many, or
 * this timeline, a sink, a paused one or one in virtual time, keeps none. From any thread. */
const char *br_trace_title(struct br_trace *trace, const char *text);

/* A span takes its row at its begin and gives it back at its end, where `event` (row, begin and end
 * are filled in) is added. Without a free row it is counted as lost, and its end adds nothing. */
void br_trace_begin(struct br_trace *trace, enum br_trace_group group, uint64_t now,
                    struct br_trace_span *span);
void br_trace_end(struct br_trace *trace, struct br_trace_span *span, uint64_t now,
                  struct br_trace_event *event);

#endif
