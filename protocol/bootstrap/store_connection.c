/* SPDX-License-Identifier: BSD-3-Clause */
#include "protocol/bootstrap/store_connection.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct br_store_connection *br_store_connection_create(int fd, const char *name, uint64_t until)
{
    struct br_store_connection *c = calloc(1, sizeof *c);

    if (!c) {
        close(fd);
        return NULL;
    }
    br_list_init(&c->node);
    c->fd = fd;
    c->until = until;
    snprintf(c->name, sizeof c->name, "%s", name);
    return c;
}

void br_store_connection_destroy(struct br_store_connection *c)
{
    br_list_remove(&c->node);
    close(c->fd);
    free(c->in.bytes);
    free(c->out.bytes);
    free(c);
}

static int store_connection_reserve(struct br_store_buffer *buffer, size_t bytes)
{
    uint8_t *larger;

    if (buffer->size >= bytes)
        return 0;
    larger = realloc(buffer->bytes, bytes);
    if (!larger)
        return -ENOMEM;
    buffer->bytes = larger;
    buffer->size = bytes;
    return 0;
}

/* Bytes that the message at the start of `in` needs; a whole header when that is not there yet. */
static size_t store_connection_wanted(const struct br_store_buffer *in, size_t body_max)
{
    struct br_store_header header;

    if (in->used < sizeof header)
        return sizeof header;
    memcpy(&header, in->bytes, sizeof header);
    return sizeof header + (header.bytes < body_max ? header.bytes : body_max);
}

int br_store_connection_read(struct br_store_connection *c, size_t body_max)
{
    for (;;) {
        size_t want = store_connection_wanted(&c->in, body_max);
        ssize_t n;

        if (c->in.used >= want)
            return 0;
        if (store_connection_reserve(&c->in, want) < 0)
            return -ENOMEM;
        n = recv(c->fd, c->in.bytes + c->in.used, want - c->in.used, 0);
        if (n == 0)
            return -ECONNRESET;
        if (n < 0)
            return errno == EAGAIN || errno == EINTR ? 0 : -errno;
        c->in.used += (size_t)n;
    }
}

void br_store_connection_consume(struct br_store_connection *c, size_t n)
{
    c->in.used -= n;
    memmove(c->in.bytes, c->in.bytes + n, c->in.used);
}

void br_store_connection_flush(struct br_store_connection *c)
{
    while (c->sent < c->out.used) {
        ssize_t n = send(c->fd, c->out.bytes + c->sent, c->out.used - c->sent, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            if (errno != EAGAIN)
                c->phase = BR_STORE_DEAD;
            return;
        }
        c->sent += (size_t)n;
    }
    c->sent = c->out.used = 0;
}

void br_store_connection_answer(struct br_store_connection *c, enum br_store_kind kind,
                                const void *body, size_t n)
{
    c->waiting = 0;
    if (store_connection_reserve(&c->out, c->out.used + sizeof(struct br_store_header) + n) < 0) {
        c->phase = BR_STORE_DEAD;
        return;
    }
    c->out.used += br_store_write(c->out.bytes + c->out.used, kind, body, n);
    br_store_connection_flush(c);
}

void br_store_connection_answer_error(struct br_store_connection *c, int err, const char *text)
{
    uint8_t
        message[sizeof(struct br_store_header) + sizeof(struct br_store_error) + BR_STORE_TEXT_MAX];
    size_t n = br_store_write_error(message, err, text);

    br_store_connection_answer(c, BR_STORE_ERROR, message + sizeof(struct br_store_header),
                               n - sizeof(struct br_store_header));
}
