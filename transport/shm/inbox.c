/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/shm/inbox.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "transport/segment.h"

#define PAGE 65536u /* of any processor */

static size_t inbox_round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static size_t inbox_message_area(const struct br_inbox *inbox)
{
    return (size_t)inbox->message_stride * inbox->message_buffers * BR_INBOX_TURNS;
}

/* Everything that follows from the two numbers of a configuration; the pointers are offsets from
 * `memory`. */
static int inbox_lay_out(struct br_inbox *inbox, uint32_t message_bytes, uint32_t message_buffers)
{
    size_t cells = 64;

    if (!message_buffers || message_buffers > BR_INBOX_MAX_BUFFERS ||
        message_bytes > BR_INBOX_MAX_MESSAGE)
        return br_error(EINVAL,
                        "%u message buffers of %u bytes: shm takes 1 to %u of up to %u bytes",
                        message_buffers, message_bytes, BR_INBOX_MAX_BUFFERS, BR_INBOX_MAX_MESSAGE);
    memset(inbox, 0, sizeof *inbox);
    inbox->message_bytes = message_bytes;
    inbox->message_stride = (uint32_t)inbox_round_up(message_bytes, 64);
    inbox->message_buffers = message_buffers;
    inbox->n_tickets = message_buffers + BR_INBOX_DATA;
    while (cells < inbox->n_tickets)
        cells *= 2;
    inbox->mask = (uint32_t)cells - 1;
    inbox->shift = (uint32_t)__builtin_ctzll(cells);
    inbox->bytes = PAGE + inbox_round_up(cells * sizeof(struct br_inbox_cell), PAGE) +
                   inbox_round_up(cells * 4, PAGE) +
                   inbox_round_up(inbox_message_area(inbox), PAGE) +
                   BR_PIPE_BUFFERS * BR_PIPE_BUFFER;
    return 0;
}

static int inbox_map(struct br_inbox *inbox, int fd)
{
    size_t cells = (size_t)inbox->mask + 1;
    uint8_t *at = br_segment_map(fd, inbox->bytes, PROT_READ | PROT_WRITE);

    if (!at)
        return -ENOMEM;
    inbox->header = (struct br_inbox_header *)at;
    at += PAGE;
    inbox->cells = (struct br_inbox_cell *)at;
    at += inbox_round_up(cells * sizeof(struct br_inbox_cell), PAGE);
    inbox->returns = (_Atomic uint32_t *)at;
    at += inbox_round_up(cells * 4, PAGE);
    inbox->messages = at;
    inbox->pipe = at + inbox_round_up(inbox_message_area(inbox), PAGE);
    return 0;
}

int br_inbox_create(struct br_inbox *inbox, uint32_t message_bytes, uint32_t message_buffers,
                    int *fd)
{
    int rc = inbox_lay_out(inbox, message_bytes, message_buffers);

    if (rc)
        return rc;
    *fd = br_segment_create("braid-inbox", inbox->bytes);
    if (*fd < 0)
        return *fd;
    rc = inbox_map(inbox, *fd);
    if (rc)
        close(*fd);
    return rc;
}

int br_inbox_attach(struct br_inbox *inbox, uint32_t message_bytes, uint32_t message_buffers,
                    int fd)
{
    int rc = inbox_lay_out(inbox, message_bytes, message_buffers);
    size_t bytes;

    if (rc)
        return br_error(EPROTO, "the peer's inbox: %s", br_error_message());
    rc = br_segment_check(fd, &bytes);
    if (rc)
        return rc;
    if (bytes < inbox->bytes)
        return br_error(EPROTO, "the peer's inbox has %zu bytes, %zu expected", bytes,
                        inbox->bytes);
    return inbox_map(inbox, fd);
}

void br_inbox_unmap(struct br_inbox *inbox)
{
    if (inbox->header)
        munmap(inbox->header, inbox->bytes);
    memset(inbox, 0, sizeof *inbox);
}
