/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/run/output.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

int br_run_output_open(struct br_run_output *output, const char *label, int colour, int to,
                       int *child)
{
    static const int colours[] = {36, 32, 33, 35, 34, 31};
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return br_error(errno, "no pipe for the output of %s: %s", label, strerror(errno));
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    output->from = ends[0];
    output->to = to;
    output->used = 0;
    *child = ends[1];
    snprintf(output->prefix, sizeof output->prefix, "[%s] ", label);
    if (isatty(to))
        snprintf(output->prefix, sizeof output->prefix, "\033[%dm[%s]\033[0m ", colours[colour % 6],
                 label);
    return 0;
}

static int run_output_write_all(int fd, const char *bytes, size_t n)
{
    while (n) {
        ssize_t written = write(fd, bytes, n);

        if (written < 0 && errno == EAGAIN) /* somebody has made the descriptor non-blocking */
            poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
        else if (written < 0 && errno != EINTR)
            return -errno;
        if (written > 0) {
            bytes += written;
            n -= (size_t)written;
        }
    }
    return 0;
}

/* One line in one write where it is possible, so that lines of other programs do not come in
 * between. */
static int run_output_print(struct br_run_output *output, const char *line, size_t n)
{
    char text[sizeof output->prefix + BR_RUN_LINE + 1];
    size_t at = strlen(output->prefix);

    memcpy(text, output->prefix, at);
    memcpy(text + at, line, n);
    at += n;
    text[at++] = '\n';
    return run_output_write_all(output->to, text, at);
}

/* Prints the whole lines of the buffer and keeps the rest. */
static int print_lines(struct br_run_output *output)
{
    size_t start = 0;
    char *end;
    int rc = 0;

    while (rc == 0 && (end = memchr(output->line + start, '\n', output->used - start))) {
        size_t n = (size_t)(end - output->line) - start;

        rc = run_output_print(output, output->line + start, n);
        start += n + 1;
    }
    if (rc == 0 && start == 0 && output->used == sizeof output->line) {
        rc = run_output_print(output, output->line, output->used);
        start = output->used;
    }
    output->used -= start;
    memmove(output->line, output->line + start, output->used);
    return rc;
}

int br_run_output_copy(struct br_run_output *output)
{
    while (output->from >= 0) {
        ssize_t n =
            read(output->from, output->line + output->used, sizeof output->line - output->used);
        int rc;

        if (n == 0)
            return br_run_output_close(output);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return 0;
        output->used += (size_t)n;
        rc = print_lines(output);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int br_run_output_close(struct br_run_output *output)
{
    size_t n = output->used;

    if (output->from < 0)
        return 0;
    close(output->from);
    output->from = -1;
    output->used = 0;
    return n ? run_output_print(output, output->line, n) : 0;
}
