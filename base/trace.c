/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/trace.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "base/titles.h"
#include "base/trace_file.h"

#define EVENTS (1u << 16) /* of the ring: 100 ms of 600,000 a second */
#define PERIOD (100 * BR_MS)
#define SHARES 10 /* of the details of a second */
#define NICE   10 /* of the thread: a bar in the file is less urgent than what it tells of */

struct br_trace {
    struct br_trace_event *ring; /* [EVENTS] */
    void (*take)(void *with,
                 /* of a sink, which has none of the rest; else NULL */
                 const struct br_trace_event *event);
    void *arg;
    struct br_titles *titles; /* NULL: none are kept */
    /* who adds events writes them, into the file: no ring, thread or lock */
    bool in_virtual_time;
    uint64_t latest;                    /* in virtual time: ns, the last end of an event */
    _Alignas(64) _Atomic uint64_t tail; /* next to write, the producer's */
    uint64_t busy[BR_TRACE_GROUPS];     /* rows that have a span, the producer's */
    /* details of a tenth of a second, and what this one has left; the producer's */
    uint64_t quota, left;
    uint64_t tenth;                     /* which it is; the producer's */
    _Atomic bool paused;                /* the producer's; br_trace_title() looks at it */
    _Atomic uint64_t lost;              /* the ring was full, or all rows were taken */
    _Alignas(64) _Atomic uint64_t head; /* next to read, the thread's */

    pthread_mutex_t lock; /* all below */
    pthread_cond_t stopping;
    bool stop;
    pthread_t thread;
    struct br_trace_file file;
};

/* ---- names ----------------------------------------------------------------------------------- */

int br_trace_path(const char *pattern, int rank, int size, char path[BR_TRACE_PATH])
{
    const char *slash = strrchr(pattern, '/'), *dot = strrchr(pattern, '.'),
               *mark = strstr(pattern, "%r");
    size_t before = strlen(pattern);
    struct stat found;
    int n;

    if ((before && pattern[before - 1] == '/') ||
        (!stat(pattern, &found) && S_ISDIR(found.st_mode)))
        return br_error(EISDIR, "%.300s is a folder; name a file in it: %.300s%sjob.json", pattern,
                        pattern, slash && !slash[1] ? "" : "/");
    if (mark)
        n = snprintf(path, BR_TRACE_PATH, "%.*s%d%s", (int)(mark - pattern), pattern, rank,
                     mark + 2);
    else if (size == 1)
        n = snprintf(path, BR_TRACE_PATH, "%s", pattern);
    else {
        if (dot && dot > (slash ? slash + 1 : pattern))
            before = (size_t)(dot - pattern);
        n = snprintf(path, BR_TRACE_PATH, "%.*s.%d%s", (int)before, pattern, rank,
                     pattern + before);
    }
    return n < BR_TRACE_PATH
               ? 0
               : br_error(ENAMETOOLONG, "%.60s...: the name of the file is too long", pattern);
}

static void base_trace_log_lost(struct br_trace *t, uint64_t now)
{
    br_trace_file_lost(&t->file, atomic_load_explicit(&t->lost, memory_order_relaxed), now);
}

static void base_trace_drain(struct br_trace *t)
{
    uint64_t head = atomic_load_explicit(&t->head, memory_order_relaxed);
    uint64_t tail = atomic_load_explicit(&t->tail, memory_order_acquire);

    for (; head < tail; head++) {
        br_trace_file_add(&t->file, &t->ring[head % EVENTS]);
        atomic_store_explicit(&t->head, head + 1, memory_order_release);
    }
    if (!t->file.beyond)
        base_trace_log_lost(t, br_clock_now());
    br_trace_file_flush(&t->file);
}

static void *base_trace_serve(void *argument)
{
    struct br_trace *t = argument;
    struct timespec until;
    uint64_t next;

    setpriority(PRIO_PROCESS, (id_t)gettid(), NICE); /* where it is refused, no harm is done */
    pthread_mutex_lock(&t->lock);
    while (!t->stop) {
        base_trace_drain(t);
        next = br_clock_now() + PERIOD;
        until = (struct timespec){(time_t)(next / BR_SEC), (long)(next % BR_SEC)};
        pthread_cond_timedwait(&t->stopping, &t->lock, &until);
    }
    base_trace_drain(t);
    base_trace_log_lost(t, br_clock_now());
    br_trace_file_flush(&t->file);
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

/* ---- open and close -------------------------------------------------------------------------- */

static int base_trace_start(struct br_trace *t)
{
    pthread_condattr_t clock;
    int rc;

    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->stopping, &clock);
    pthread_condattr_destroy(&clock);
    rc = br_thread_start(&t->thread, base_trace_serve, t);
    if (rc) {
        pthread_cond_destroy(&t->stopping);
        pthread_mutex_destroy(&t->lock);
        return br_error(rc, "BRAID_TRACE: no thread: %s", strerror(rc));
    }
    return 0;
}

static void base_trace_release(struct br_trace *t)
{
    br_titles_close(t->titles);
    free(t->ring);
    free(t);
}

int br_trace_open(const char *path, int rank, uint64_t most, uint64_t details,
                  struct br_trace **out)
{
    struct br_trace *t = aligned_alloc(_Alignof(struct br_trace), sizeof *t);
    int rc;

    if (!t)
        return br_error(ENOMEM, "BRAID_TRACE: no memory");
    *t = (struct br_trace){.quota = (details + SHARES - 1) / SHARES};
    t->ring = calloc(EVENTS, sizeof *t->ring);
    if (!t->ring || br_titles_open(&t->titles)) {
        base_trace_release(t);
        return br_error(ENOMEM, "BRAID_TRACE: no memory");
    }
    memset(t->ring, 0, EVENTS * sizeof *t->ring); /* its pages are there before the job begins */
    rc = br_trace_file_open(&t->file, path, rank, most, false);
    if (rc) {
        base_trace_release(t);
        return rc;
    }
    br_trace_file_publish(&t->file);
    rc = base_trace_start(t);
    if (rc) {
        br_trace_file_close(&t->file);
        base_trace_release(t);
        return rc;
    }
    *out = t;
    return 0;
}

int br_trace_open_sink(void (*take)(void *with, const struct br_trace_event *event), void *with,
                       struct br_trace **out)
{
    struct br_trace *t = aligned_alloc(_Alignof(struct br_trace), sizeof *t);

    if (!t)
        return br_error(ENOMEM, "no memory for a timeline");
    *t = (struct br_trace){.take = take, .arg = with};
    *out = t;
    return 0;
}

int br_trace_open_virtual(const char *path, int rank, uint64_t most, uint64_t details,
                          struct br_trace **out)
{
    struct br_trace *t = aligned_alloc(_Alignof(struct br_trace), sizeof *t);
    uint64_t share = (details + SHARES - 1) / SHARES;
    int rc;

    if (!t)
        return br_error(ENOMEM, "BRAID_TRACE: no memory");
    /* The first tenth begins at 0. */
    *t = (struct br_trace){.quota = share, .left = share, .in_virtual_time = true};
    rc = br_trace_file_open(&t->file, path, rank, most, true);
    if (rc) {
        base_trace_release(t);
        return rc;
    }
    *out = t;
    return 0;
}

int br_trace_close_virtual(struct br_trace *t, int rc)
{
    if (!t)
        return rc;
    base_trace_log_lost(t, t->latest);
    rc = br_trace_file_close_virtual(&t->file, rc);
    base_trace_release(t);
    return rc;
}

void br_trace_close(struct br_trace *t)
{
    if (!t)
        return;
    if (t->take) {
        free(t);
        return;
    }
    pthread_mutex_lock(&t->lock);
    t->stop = true;
    pthread_cond_signal(&t->stopping);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    pthread_cond_destroy(&t->stopping);
    pthread_mutex_destroy(&t->lock);
    br_trace_file_close(&t->file);
    base_trace_release(t);
}

void br_trace_pause(struct br_trace *t, bool paused)
{
    atomic_store_explicit(&t->paused, paused, memory_order_relaxed);
}

void br_trace_flush(struct br_trace *t)
{
    pthread_mutex_lock(&t->lock);
    base_trace_drain(t);
    pthread_mutex_unlock(&t->lock);
}

void br_trace_name(struct br_trace *t, uint32_t row, const char *text)
{
    if (t->take)
        return;
    if (t->in_virtual_time) {
        br_trace_file_name(&t->file, row, text);
        return;
    }
    pthread_mutex_lock(&t->lock);
    br_trace_file_name(&t->file, row, text);
    pthread_mutex_unlock(&t->lock);
}

/* ---- records --------------------------------------------------------------------------------- */

static bool is_paused(const struct br_trace *t)
{
    return atomic_load_explicit(&t->paused, memory_order_relaxed);
}

bool br_trace_in_detail(struct br_trace *t, uint64_t now)
{
    uint64_t tenth = (now + t->file.shift) / (BR_SEC / SHARES);

    if (t->take)
        return true;
    if (is_paused(t))
        return false;

    if (tenth != t->tenth) {
        t->tenth = tenth;
        t->left = t->quota;
    }
    return t->left > 0;
}

static void base_trace_lose(struct br_trace *t)
{
    atomic_fetch_add_explicit(&t->lost, 1, memory_order_relaxed);
}

void br_trace_add(struct br_trace *t, const struct br_trace_event *event)
{
    uint64_t tail = atomic_load_explicit(&t->tail, memory_order_relaxed);

    if (t->take) {
        t->take(t->arg, event);
        return;
    }
    t->left -= event->kind->detail && t->left;
    if (t->in_virtual_time) {
        t->latest = event->end > t->latest ? event->end : t->latest;
        br_trace_file_add(&t->file, event);
        return;
    }
    if (tail - atomic_load_explicit(&t->head, memory_order_acquire) == EVENTS) {
        base_trace_lose(t);
        return;
    }
    t->ring[tail % EVENTS] = *event;
    atomic_store_explicit(&t->tail, tail + 1, memory_order_release);
}

const char *br_trace_title(struct br_trace *t, const char *text)
{
    return t->titles && !is_paused(t) ? br_titles_keep(t->titles, text) : NULL;
}

/* Bars of a row must not overlap: viewers would draw nonsense. */
void br_trace_begin(struct br_trace *t, enum br_trace_group group, uint64_t now,
                    struct br_trace_span *span)
{
    uint64_t idle = ~t->busy[group];
    uint32_t row;

    *span = (struct br_trace_span){.begin = now};
    if (is_paused(t))
        return;
    if (!idle) {
        base_trace_lose(t);
        return;
    }
    row = (uint32_t)__builtin_ctzll(idle);
    t->busy[group] |= 1ull << row;
    span->row = 1 + (uint32_t)group * BR_TRACE_ROWS + row;
}

void br_trace_end(struct br_trace *t, struct br_trace_span *span, uint64_t now,
                  struct br_trace_event *event)
{
    uint32_t row = span->row - 1;

    if (!span->row)
        return;
    event->row = span->row;
    event->begin = span->begin;
    event->end = now;
    t->busy[row / BR_TRACE_ROWS] &= ~(1ull << row % BR_TRACE_ROWS);
    span->row = 0;
    br_trace_add(t, event);
}
