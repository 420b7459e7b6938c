/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/trace_file.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

#define BUFFER  (256u << 10)
#define LONGEST 1024u /* bytes of a line */
#define DAY     86400u

/* In virtual time the bracket comes at the end: nobody reads the file before. */
static void write_through(struct br_trace_file *f)
{
    errno = EIO;
    if (fwrite(f->buffer, 1, f->filled, f->file.stream) < f->filled) {
        f->broken = true;
        f->reason = errno;
    }
    f->at += f->filled;
    f->filled = 0;
}

/* The buffer and the bracket, in one write over the last bracket. */
void br_trace_file_flush(struct br_trace_file *f)
{
    size_t bytes = f->filled + 3, done = 0;

    if (f->broken)
        f->filled = 0;
    if (!f->filled)
        return;
    if (f->in_virtual_time) {
        write_through(f);
        return;
    }
    memcpy(f->buffer + f->filled, "\n]\n", 3);
    while (done < bytes) {
        ssize_t n = pwrite(f->fd, f->buffer + done, bytes - done, (off_t)(f->at + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            br_log_warn("BRAID_TRACE: cannot write any more: %s", strerror(n ? errno : ENOSPC));
            f->broken = true;
            break;
        }
        done += (size_t)n;
    }
    f->at += f->filled;
    f->filled = 0;
}

static char *put_piece(char *to, const struct br_trace_piece *piece)
{
    memcpy(to, piece->text, BR_TRACE_PIECE);
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
static char *next_line(struct br_trace_file *f)
{
    if (f->filled > BUFFER - 2 * LONGEST)
        br_trace_file_flush(f);
    return f->buffer + f->filled;
}

static char *begin_line(struct br_trace_file *f, const char *phase, uint32_t row)
{
    char *to = next_line(f);

    to = stpcpy(to, f->at || f->filled ? ",\n{\"ph\":\"" : "[\n{\"ph\":\"");
    to = stpcpy(to, phase);
    to = stpcpy(to, "\",\"pid\":");
    to = put_number(to, (uint64_t)f->rank);
    to = stpcpy(to, ",\"tid\":");
    return put_number(to, row);
}

static void end_line(struct br_trace_file *f, char *to)
{
    *to++ = '}';
    f->filled = (size_t)(to - f->buffer);
}

/* what: thread_name, process_name. Words that JSON would not like are mended. */
static void name_line(struct br_trace_file *f, uint32_t row, const char *what, const char *text)
{
    char *to = begin_line(f, "M", row);

    to = stpcpy(to, ",\"name\":\"");
    to = stpcpy(to, what);
    to = stpcpy(to, "\",\"args\":{\"name\":\"");
    for (size_t i = 0; text[i] && i < LONGEST / 2; i++)
        *to++ = text[i] == '"' || text[i] == '\\' || (unsigned char)text[i] < ' ' ? '?' : text[i];
    to = stpcpy(to, "\"}");
    end_line(f, to);
}

static void name_own_row(struct br_trace_file *f, uint32_t row)
{
    static const char *const names[] = {"operations", "steps"};
    uint32_t group = (row - 1) / BR_TRACE_ROWS, n = (row - 1) % BR_TRACE_ROWS;
    char text[32];

    if (!row || row >= BR_TRACE_OWN_ROWS || f->named[group] >> n & 1)
        return;
    f->named[group] |= 1ull << n;
    snprintf(text, sizeof text, "%s %u", names[group], n);
    name_line(f, row, "thread_name", text);
}

__attribute__((format(printf, 2, 3))) static void make_piece(struct br_trace_piece *piece,
                                                             const char *format, ...)
{
    va_list list;
    int n;

    va_start(list, format);
    n = vsnprintf(piece->text, BR_TRACE_PIECE, format, list);
    va_end(list);
    piece->length = (uint8_t)(n < (int)BR_TRACE_PIECE ? n : (int)BR_TRACE_PIECE - 1);
}

static const struct br_trace_form *form_of(struct br_trace_file *f,
                                           const struct br_trace_kind *kind)
{
    struct br_trace_form *form;

    for (uint32_t i = 0; i < f->n_forms; i++)
        if (f->forms[i].kind == kind)
            return &f->forms[i];
    if (f->n_forms < BR_TRACE_FORMS)
        f->n_forms++;
    form = &f->forms[f->n_forms - 1];
    *form = (struct br_trace_form){.kind = kind};
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
static void event_line(struct br_trace_file *f, const struct br_trace_event *e)
{
    const struct br_trace_form *form = form_of(f, e->kind);
    char *to;

    name_own_row(f, e->row);
    to = put_piece(next_line(f), &f->begin);
    to = put_number(to, e->row);
    to = put_piece(to, &form->head);
    to = stpcpy(to, e->name);
    to = stpcpy(to, "\",\"ts\":");
    to = put_time(to, e->begin + f->shift);
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
    end_line(f, stpcpy(to, "}"));
}

void br_trace_file_lost(struct br_trace_file *f, uint64_t lost, uint64_t now)
{
    char *to;

    lost += f->beyond;
    if (lost == f->logged_lost)
        return;
    to = begin_line(f, "i", 0);
    to = stpcpy(to, ",\"name\":\"events lost\",\"s\":\"p\",\"ts\":");
    to = put_time(to, now + f->shift);
    to = stpcpy(to, ",\"args\":{\"events\":");
    to = put_number(to, lost - f->logged_lost);
    f->logged_lost = lost;
    end_line(f, stpcpy(to, "}"));
}

void br_trace_file_add(struct br_trace_file *f, const struct br_trace_event *event)
{
    if (f->at + f->filled + LONGEST > f->limit)
        f->beyond++;
    else
        event_line(f, event);
}

/* ---- open and close -------------------------------------------------------------------------- */

static uint64_t shift_of_day(uint64_t *midnight)
{
    struct timespec wall;

    clock_gettime(CLOCK_REALTIME, &wall);
    *midnight = (uint64_t)(wall.tv_sec - wall.tv_sec % (time_t)DAY);
    return (uint64_t)wall.tv_sec % DAY * BR_SEC + (uint64_t)wall.tv_nsec - br_clock_now();
}

static void first_line(struct br_trace_file *f)
{
    char text[40];

    make_piece(&f->begin, ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":", f->rank);
    snprintf(text, sizeof text, "rank %d", f->rank);
    name_line(f, 0, "process_name", text);
    if (f->in_virtual_time)
        return;
    snprintf(text, sizeof text, "%llu", (unsigned long long)f->midnight);
    name_line(f, 0, "midnight", text);
}

int br_trace_file_open(struct br_trace_file *f, const char *path, int rank, uint64_t most,
                       bool in_virtual_time)
{
    int rc;

    *f = (struct br_trace_file){
        .fd = -1, .rank = rank, .limit = most, .in_virtual_time = in_virtual_time};
    if (!in_virtual_time)
        f->shift = shift_of_day(&f->midnight);
    f->buffer = malloc(BUFFER);
    rc = f->buffer ? br_file_open(&f->file, "BRAID_TRACE", path, false)
                   : br_error(ENOMEM, "BRAID_TRACE: no memory");
    if (rc) {
        free(f->buffer);
        return rc;
    }
    f->fd = fileno(f->file.stream);
    first_line(f);
    return 0;
}

void br_trace_file_publish(struct br_trace_file *f)
{
    br_trace_file_flush(f);
    /* An older file goes only now that the disk has taken the first lines. A full disk costs the
     * trace, not the job. */
    if (!f->broken && br_file_publish(&f->file, "BRAID_TRACE")) {
        br_log_warn("%s", br_error_message());
        f->broken = true;
    }
}

void br_trace_file_name(struct br_trace_file *f, uint32_t row, const char *text)
{
    name_line(f, row, "thread_name", text);
}

void br_trace_file_close(struct br_trace_file *f)
{
    br_file_close(&f->file, "BRAID_TRACE", -ECANCELED); /* what is written is published already */
    free(f->buffer);
}

int br_trace_file_close_virtual(struct br_trace_file *f, int rc)
{
    f->filled = (size_t)(stpcpy(next_line(f), "\n]\n") - f->buffer);
    br_trace_file_flush(f);
    if (rc >= 0 && f->broken)
        rc = br_error(f->reason, "BRAID_TRACE: cannot write %s: %s", f->file.target,
                      strerror(f->reason));
    rc = br_file_close(&f->file, "BRAID_TRACE", rc);
    free(f->buffer);
    return rc;
}
