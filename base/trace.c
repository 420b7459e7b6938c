/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
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
#include "base/file.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/titles.h"

#define EVENTS  (1u << 16) /* of the ring: 100 ms of 600,000 a second */
#define PERIOD  (100 * BR_MS)
#define SHARES  10 /* of the details of a second */
#define NICE    10 /* of the thread: a bar in the file is less urgent than what it tells of */
#define BUFFER  (256u << 10)
#define LONGEST 1024u /* bytes of a line */
#define PIECE   48u
#define FORMS   4u /* kinds that are in pieces at once */
#define DAY     86400u

/* Text of known length: PIECE bytes are copied, whatever it is, as that takes an instruction or
 * two. */
struct piece {
    char text[PIECE];
    uint8_t length;
};

/* What the lines of a kind have in common. */
struct form {
    const struct br_trace_kind *kind;
    /* up to the name, to each number, to the label */
    struct piece head, args[BR_TRACE_ARGS], label;
    int n_args;
};

struct br_trace {
    struct br_trace_event *ring; /* [EVENTS] */
    struct piece begin;          /* of an event's line, up to its row */
    void (*take)(void *with,
                 /* of a sink, which has none of the rest; else NULL */
                 const struct br_trace_event *event);
    void *arg;
    struct br_titles *titles; /* NULL: none are kept */
    /* who adds events writes them, to the stream of `file`: no ring, thread or lock */
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
    struct br_file file;
    int fd, rank;                    /* fd: of `file` */
    uint32_t n_forms;                /* of `forms` */
    uint64_t shift;                  /* ns: from br_clock_now() to the time in the file */
    uint64_t midnight;               /* s since 1970, UTC: 0 in the file; not in virtual time */
    uint64_t at, limit;              /* where the next line goes; limit */
    uint64_t logged_lost;            /* of `lost`, and beyond the limit */
    uint64_t beyond;                 /* events that the file has no room for */
    uint64_t named[BR_TRACE_GROUPS]; /* rows that have a name in the file */
    bool broken;                     /* a write has failed */
    int reason;                      /* in virtual time: the errno of that */
    char *buffer;                    /* [BUFFER] */
    size_t filled;
    struct form forms[FORMS];
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

/* ---- the file -------------------------------------------------------------------------------- */

/* In virtual time the bracket comes at the end: nobody reads the file before. */
static void write_through(struct br_trace *t)
{
    errno = EIO;
    if (fwrite(t->buffer, 1, t->filled, t->file.stream) < t->filled) {
        t->broken = true;
        t->reason = errno;
    }
    t->at += t->filled;
    t->filled = 0;
}

/* The buffer and the bracket, in one write over the last bracket. */
static void base_trace_flush(struct br_trace *t)
{
    size_t bytes = t->filled + 3, done = 0;

    if (t->broken)
        t->filled = 0;
    if (!t->filled)
        return;
    if (t->in_virtual_time) {
        write_through(t);
        return;
    }
    memcpy(t->buffer + t->filled, "\n]\n", 3);
    while (done < bytes) {
        ssize_t n = pwrite(t->fd, t->buffer + done, bytes - done, (off_t)(t->at + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            br_log_warn("BRAID_TRACE: cannot write any more: %s", strerror(n ? errno : ENOSPC));
            t->broken = true;
            break;
        }
        done += (size_t)n;
    }
    t->at += t->filled;
    t->filled = 0;
}

static char *put_piece(char *to, const struct piece *piece)
{
    memcpy(to, piece->text, PIECE);
    return to + piece->length;
}

static char *put_number(char *to, uint64_t n)
{
    static const char pairs[] = "000102030405060708091011121314151617181920212223242526272829303132"
                                "3334353637383940414243444546474849"
                                "505152535455565758596061626364656667686970717273747576777879808182"
                                "838485868788899091929394959697989"
                                "9";
    char *end = to + 1;

    for (uint64_t rest = n; rest >= 10; rest /= 10)
        end++;
    for (to = end; n >= 100; n /= 100)
        memcpy(to -= 2, pairs + n % 100 * 2, 2);
    if (n >= 10)
        memcpy(to - 2, pairs + n * 2, 2);
    else
        to[-1] = (char)('0' + n);
    return end;
}

static char *put_signed(char *to, int64_t n)
{
    if (n < 0)
        *to++ = '-';
    return put_number(to, n < 0 ? 0 - (uint64_t)n : (uint64_t)n);
}

/* ns as us. */
static char *put_time(char *to, uint64_t ns)
{
    to = put_number(to, ns / 1000);
    *to++ = '.';
    *to++ = (char)('0' + ns % 1000 / 100);
    *to++ = (char)('0' + ns % 100 / 10);
    *to++ = (char)('0' + ns % 10);
    return to;
}

/* Where the next line goes; the buffer has room for it. */
static char *next_line(struct br_trace *t)
{
    if (t->filled > BUFFER - 2 * LONGEST)
        base_trace_flush(t);
    return t->buffer + t->filled;
}

static char *base_trace_line(struct br_trace *t, const char *phase, uint32_t row)
{
    char *to = next_line(t);

    to = stpcpy(to, t->at || t->filled ? ",\n{\"ph\":\"" : "[\n{\"ph\":\"");
    to = stpcpy(to, phase);
    to = stpcpy(to, "\",\"pid\":");
    to = put_number(to, (uint64_t)t->rank);
    to = stpcpy(to, ",\"tid\":");
    return put_number(to, row);
}

static void end_line(struct br_trace *t, char *to)
{
    *to++ = '}';
    t->filled = (size_t)(to - t->buffer);
}

/* what: thread_name, process_name. Words that JSON would not like are mended. */
static void name_line(struct br_trace *t, uint32_t row, const char *what, const char *text)
{
    char *to = base_trace_line(t, "M", row);

    to = stpcpy(to, ",\"name\":\"");
    to = stpcpy(to, what);
    to = stpcpy(to, "\",\"args\":{\"name\":\"");
    for (size_t i = 0; text[i] && i < LONGEST / 2; i++)
        *to++ = text[i] == '"' || text[i] == '\\' || (unsigned char)text[i] < ' ' ? '?' : text[i];
    to = stpcpy(to, "\"}");
    end_line(t, to);
}

static void name_own_row(struct br_trace *t, uint32_t row)
{
    static const char *const names[] = {"operations", "steps"};
    uint32_t group = (row - 1) / BR_TRACE_ROWS, n = (row - 1) % BR_TRACE_ROWS;
    char text[32];

    if (!row || row >= BR_TRACE_OWN_ROWS || t->named[group] >> n & 1)
        return;
    t->named[group] |= 1ull << n;
    snprintf(text, sizeof text, "%s %u", names[group], n);
    name_line(t, row, "thread_name", text);
}

__attribute__((format(printf, 2, 3))) static void make_piece(struct piece *piece,
                                                             const char *format, ...)
{
    va_list list;
    int n;

    va_start(list, format);
    n = vsnprintf(piece->text, PIECE, format, list);
    va_end(list);
    piece->length = (uint8_t)(n < (int)PIECE ? n : (int)PIECE - 1);
}

static const struct form *form_of(struct br_trace *t, const struct br_trace_kind *kind)
{
    struct form *form;

    for (uint32_t i = 0; i < t->n_forms; i++)
        if (t->forms[i].kind == kind)
            return &t->forms[i];
    if (t->n_forms < FORMS)
        t->n_forms++;
    form = &t->forms[t->n_forms - 1];
    *form = (struct form){.kind = kind};
    make_piece(&form->head, ",\"cat\":\"%.*s\",\"name\":\"", BR_TRACE_WORD, kind->category);
    while (form->n_args < BR_TRACE_ARGS && kind->args[form->n_args]) {
        make_piece(&form->args[form->n_args], "%s\"%.*s\":", form->n_args ? "," : "", BR_TRACE_WORD,
                   kind->args[form->n_args]);
        form->n_args++;
    }
    if (kind->label)
        make_piece(&form->label, "%s\"%.*s\":\"", form->n_args ? "," : "", BR_TRACE_WORD,
                   kind->label);
    return form;
}

/* The first line of a file is no event's. */
static void event_line(struct br_trace *t, const struct br_trace_event *e)
{
    const struct form *form = form_of(t, e->kind);
    char *to;

    name_own_row(t, e->row);
    to = put_piece(next_line(t), &t->begin);
    to = put_number(to, e->row);
    to = put_piece(to, &form->head);
    to = stpcpy(to, e->name);
    to = stpcpy(to, "\",\"ts\":");
    to = put_time(to, e->begin + t->shift);
    to = stpcpy(to, ",\"dur\":");
    to = put_time(to, e->end > e->begin ? e->end - e->begin : 0);
    to = stpcpy(to, ",\"args\":{");
    for (int i = 0; i < form->n_args; i++) {
        to = put_piece(to, &form->args[i]);
        to = put_signed(to, e->args[i]);
    }
    if (form->label.length && e->label) {
        to = put_piece(to, &form->label);
        to = stpcpy(to, e->label);
        *to++ = '"';
    }
    end_line(t, stpcpy(to, "}"));
}

/* An instant that says how many events are missing up to here. */
static void log_lost(struct br_trace *t, uint64_t now)
{
    uint64_t lost = atomic_load_explicit(&t->lost, memory_order_relaxed) + t->beyond;
    char *to;

    if (lost == t->logged_lost)
        return;
    to = base_trace_line(t, "i", 0);
    to = stpcpy(to, ",\"name\":\"events lost\",\"s\":\"p\",\"ts\":");
    to = put_time(to, now + t->shift);
    to = stpcpy(to, ",\"args\":{\"events\":");
    to = put_number(to, lost - t->logged_lost);
    t->logged_lost = lost;
    end_line(t, stpcpy(to, "}"));
}

static void write_event(struct br_trace *t, const struct br_trace_event *event)
{
    if (t->at + t->filled + LONGEST > t->limit)
        t->beyond++;
    else
        event_line(t, event);
}

static void base_trace_drain(struct br_trace *t)
{
    uint64_t head = atomic_load_explicit(&t->head, memory_order_relaxed);
    uint64_t tail = atomic_load_explicit(&t->tail, memory_order_acquire);

    for (; head < tail; head++) {
        write_event(t, &t->ring[head % EVENTS]);
        atomic_store_explicit(&t->head, head + 1, memory_order_release);
    }
    if (!t->beyond)
        log_lost(t, br_clock_now());
    base_trace_flush(t);
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
    log_lost(t, br_clock_now());
    base_trace_flush(t);
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
    br_file_close(&t->file, "BRAID_TRACE", -ECANCELED); /* what is written is published already */
    br_titles_close(t->titles);
    free(t->buffer);
    free(t->ring);
    free(t);
}

static uint64_t shift_of_day(uint64_t *midnight)
{
    struct timespec wall;

    clock_gettime(CLOCK_REALTIME, &wall);
    *midnight = (uint64_t)(wall.tv_sec - wall.tv_sec % (time_t)DAY);
    return (uint64_t)wall.tv_sec % DAY * BR_SEC + (uint64_t)wall.tv_nsec - br_clock_now();
}

static void first_line(struct br_trace *t)
{
    char text[40];

    make_piece(&t->begin, ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":", t->rank);
    snprintf(text, sizeof text, "rank %d", t->rank);
    name_line(t, 0, "process_name", text);
    if (t->in_virtual_time)
        return;
    snprintf(text, sizeof text, "%llu", (unsigned long long)t->midnight);
    name_line(t, 0, "midnight", text);
}

int br_trace_open(const char *path, int rank, uint64_t most, uint64_t details,
                  struct br_trace **out)
{
    struct br_trace *t = aligned_alloc(_Alignof(struct br_trace), sizeof *t);
    int rc;

    if (!t)
        return br_error(ENOMEM, "BRAID_TRACE: no memory");
    *t = (struct br_trace){
        .fd = -1, .rank = rank, .limit = most, .quota = (details + SHARES - 1) / SHARES};
    t->shift = shift_of_day(&t->midnight);
    t->ring = calloc(EVENTS, sizeof *t->ring);
    t->buffer = malloc(BUFFER);
    if (!t->ring || !t->buffer || br_titles_open(&t->titles)) {
        base_trace_release(t);
        return br_error(ENOMEM, "BRAID_TRACE: no memory");
    }
    memset(t->ring, 0, EVENTS * sizeof *t->ring); /* its pages are there before the job begins */
    rc = br_file_open(&t->file, "BRAID_TRACE", path, false);
    if (rc) {
        base_trace_release(t);
        return rc;
    }
    t->fd = fileno(t->file.stream);
    first_line(t);
    base_trace_flush(t);
    /* From here on the file can be read, also when the job does not end well. An older one goes
     * only now that the disk has taken the first lines. A full disk costs the trace, not the
     * job. */
    if (!t->broken && br_file_publish(&t->file, "BRAID_TRACE")) {
        br_log_warn("%s", br_error_message());
        t->broken = true;
    }
    rc = base_trace_start(t);
    if (rc) {
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
    *t = (struct br_trace){.fd = -1, .take = take, .arg = with};
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
    *t = (struct br_trace){.fd = -1,
                           .rank = rank,
                           .limit = most,
                           .quota = share,
                           .left = share,
                           .in_virtual_time = true};
    t->buffer = malloc(BUFFER);
    rc = t->buffer ? br_file_open(&t->file, "BRAID_TRACE", path, false)
                   : br_error(ENOMEM, "BRAID_TRACE: no memory");
    if (rc) {
        base_trace_release(t);
        return rc;
    }
    first_line(t);
    *out = t;
    return 0;
}

int br_trace_close_virtual(struct br_trace *t, int rc)
{
    if (!t)
        return rc;
    log_lost(t, t->latest);
    t->filled = (size_t)(stpcpy(next_line(t), "\n]\n") - t->buffer);
    base_trace_flush(t);
    if (rc >= 0 && t->broken)
        rc = br_error(t->reason, "BRAID_TRACE: cannot write %s: %s", t->file.target,
                      strerror(t->reason));
    rc = br_file_close(&t->file, "BRAID_TRACE", rc);
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
        name_line(t, row, "thread_name", text);
        return;
    }
    pthread_mutex_lock(&t->lock);
    name_line(t, row, "thread_name", text);
    pthread_mutex_unlock(&t->lock);
}

/* ---- records --------------------------------------------------------------------------------- */

static bool is_paused(const struct br_trace *t)
{
    return atomic_load_explicit(&t->paused, memory_order_relaxed);
}

bool br_trace_in_detail(struct br_trace *t, uint64_t now)
{
    uint64_t tenth = (now + t->shift) / (BR_SEC / SHARES);

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
        write_event(t, event);
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
