/* SPDX-License-Identifier: BSD-3-Clause */
#include "protocol/bootstrap/pmi1.h"

#include "base/clock.h"
#include "base/error.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- lines ----------------------------------------------------------------------------------- */

bool br_pmi1_value(const char *line, const char *key, char *out, size_t bytes)
{
    size_t n = strlen(key);

    while (*line) {
        size_t word = strcspn(line, " \t");

        if (word > n && !strncmp(line, key, n) && line[n] == '=') {
            size_t length = word - n - 1;

            if (length >= bytes)
                return false;
            memcpy(out, line + n + 1, length);
            out[length] = 0;
            return true;
        }
        line += word;
        line += strspn(line, " \t");
    }
    return false;
}

static int pmi1_wait(const struct br_pmi1 *pmi, short events, uint64_t deadline)
{
    struct pollfd pollfd = {.fd = pmi->fd, .events = events};

    for (;;) {
        uint64_t now = br_clock_now(),
                 ms = now < deadline ? (deadline - now + BR_MS - 1) / BR_MS : 0;
        int n = poll(&pollfd, 1, ms > INT_MAX ? INT_MAX : (int)ms);

        if (n > 0 && !(pollfd.revents & POLLNVAL))
            return 0;
        if (n > 0)
            return br_error(EBADF,
                            "its descriptor %d is not open in this process: was it closed, "
                            "or is PMI_FD of another one?",
                            pmi->fd);
        if (n < 0 && errno != EINTR)
            return br_error(errno, "%s", strerror(errno));
        if (br_clock_now() >= deadline)
            return br_error(ETIMEDOUT, "the launcher does not answer in time; is a rank missing? "
                                       "BRAID_INIT_TIMEOUT sets how long to wait");
    }
}

/* The descriptor may be shared with other processes, so it stays as it is: blocking, mostly. */
static int pmi1_send(struct br_pmi1 *pmi, const char *line, size_t n, uint64_t deadline)
{
    while (n) {
        ssize_t sent;
        int rc = pmi1_wait(pmi, POLLOUT, deadline);

        if (rc < 0)
            return rc;
        sent = send(pmi->fd, line, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0) {
            line += sent;
            n -= (size_t)sent;
        } else if (errno == EPIPE || errno == ECONNRESET) {
            return br_error(ECONNRESET,
                            "the launcher has closed its connection; a process speaks "
                            "with it once, and another program may have done so before");
        } else if (errno != EAGAIN && errno != EINTR) {
            return br_error(errno, "sending: %s", strerror(errno));
        }
    }
    return 0;
}

/* The next line, without its end, in `line`. */
static int pmi1_receive(struct br_pmi1 *pmi, char line[BR_PMI1_LINE], uint64_t deadline)
{
    for (;;) {
        char *end = memchr(pmi->in, '\n', pmi->used);
        ssize_t got;
        int rc;

        if (end) {
            size_t n = (size_t)(end - pmi->in);

            memcpy(line, pmi->in, n);
            line[n] = 0;
            pmi->used -= n + 1;
            memmove(pmi->in, end + 1, pmi->used);
            sodium_memzero(pmi->in + pmi->used, n + 1); /* it may have held an id, with its key */
            return 0;
        }
        if (pmi->used == sizeof pmi->in)
            return br_error(EPROTO, "the launcher sends a line of more than %d bytes",
                            BR_PMI1_LINE - 1);
        rc = pmi1_wait(pmi, POLLIN, deadline);
        if (rc < 0)
            return rc;
        got = recv(pmi->fd, pmi->in + pmi->used, sizeof pmi->in - pmi->used, MSG_DONTWAIT);
        if (got > 0)
            pmi->used += (size_t)got;
        else if (got == 0 || errno == ECONNRESET)
            return br_error(ECONNRESET,
                            "the launcher has closed its connection; a process speaks "
                            "with it once, and another program may have done so before");
        else if (errno != EAGAIN && errno != EINTR)
            return br_error(errno, "receiving: %s", strerror(errno));
    }
}

/* A line of the launcher's as words of ours. */
static int pmi1_unexpected(const char *line, const char *wanted)
{
    char text[120];
    size_t n = 0;

    for (; line[n] && n < sizeof text - 1; n++)
        text[n] = line[n];
    text[n] = 0;
    for (size_t i = 0; i < n; i++)
        if (text[i] < 0x20 || text[i] > 0x7e)
            text[i] = '?';
    return br_error(EPROTO, "the launcher says \"%s\" where %s was due", text, wanted);
}

/* Receives a line whose cmd is `answer`, and that does not say that it failed. */
static int pmi1_expect(struct br_pmi1 *pmi, const char *answer, char line[BR_PMI1_LINE],
                       uint64_t deadline)
{
    char value[64];
    int rc = pmi1_receive(pmi, line, deadline);

    if (rc < 0)
        return rc;
    if (!br_pmi1_value(line, "cmd", value, sizeof value) || strcmp(value, answer) != 0)
        return pmi1_unexpected(line, answer);
    if (br_pmi1_value(line, "rc", value, sizeof value) && strcmp(value, "0") != 0)
        return pmi1_unexpected(line, "success");
    return 0;
}

static int pmi1_ask(struct br_pmi1 *pmi, const char *question, const char *answer,
                    char line[BR_PMI1_LINE], uint64_t deadline)
{
    int rc = pmi1_send(pmi, question, strlen(question), deadline);

    return rc < 0 ? rc : pmi1_expect(pmi, answer, line, deadline);
}

static int pmi1_number(const char *line, const char *key, long most, long *out)
{
    char value[24], *end;

    if (!br_pmi1_value(line, key, value, sizeof value) || !*value)
        return pmi1_unexpected(line, key);
    *out = strtol(value, &end, 10);
    return *end || *out < 0 || *out > most ? pmi1_unexpected(line, key) : 0;
}

/* ---- the conversation ------------------------------------------------------------------------ */

void br_pmi1_make(struct br_pmi1 *pmi, int fd)
{
    memset(pmi, 0, sizeof *pmi);
    pmi->fd = fd;
}

int br_pmi1_introduce(struct br_pmi1 *pmi, int id, uint32_t *rank, uint32_t *size,
                      uint64_t deadline)
{
    static const char *const keys[] = {"size", "rank", "debug"};
    char line[BR_PMI1_LINE];
    long numbers[3] = {0};
    int rc;

    snprintf(line, sizeof line, "cmd=initack pmiid=%d\n", id);
    rc = pmi1_ask(pmi, line, "initack", line, deadline);
    for (int i = 0; i < 3 && rc == 0; i++) {
        rc = pmi1_expect(pmi, "set", line, deadline);
        if (rc == 0)
            rc = pmi1_number(line, keys[i], INT_MAX, &numbers[i]);
    }
    *size = (uint32_t)numbers[0];
    *rank = (uint32_t)numbers[1];
    return rc;
}

int br_pmi1_begin(struct br_pmi1 *pmi, uint64_t deadline)
{
    char line[BR_PMI1_LINE];
    long most = 0;
    int rc = pmi1_ask(pmi, "cmd=init pmi_version=1 pmi_subversion=1\n", "response_to_init", line,
                      deadline);

    if (rc == 0)
        rc = pmi1_ask(pmi, "cmd=get_maxes\n", "maxes", line, deadline);
    if (rc == 0)
        rc = pmi1_number(line, "vallen_max", LONG_MAX, &most);
    if (rc == 0)
        rc = pmi1_ask(pmi, "cmd=get_my_kvsname\n", "my_kvsname", line, deadline);
    if (rc == 0 && (!br_pmi1_value(line, "kvsname", pmi->name, sizeof pmi->name) || !pmi->name[0]))
        rc = pmi1_unexpected(line, "kvsname");
    pmi->value_max = (size_t)most;
    return rc;
}

int br_pmi1_share(struct br_pmi1 *pmi, bool gives, const char *key, void *bytes, size_t n,
                  uint64_t deadline)
{
    char line[BR_PMI1_LINE], value[BR_PMI1_LINE];
    size_t got;
    int rc = 0;

    if (2 * n >= sizeof value - 256 || 2 * n > pmi->value_max)
        return br_error(ENOSPC,
                        "the launcher takes values of %zu bytes at most, and %zu are needed",
                        pmi->value_max, 2 * n);
    if (gives) {
        int used = snprintf(line, sizeof line, "cmd=put kvsname=%s key=%s value=", pmi->name, key);

        if ((size_t)used + 2 * n + 2 > sizeof line)
            return br_error(ENOSPC, "the launcher's name for its space of keys is too long");
        sodium_bin2hex(line + used, sizeof line - (size_t)used, bytes, n);
        memcpy(line + (size_t)used + 2 * n, "\n", 2);
        rc = pmi1_ask(pmi, line, "put_result", line, deadline);
    }
    if (rc == 0)
        rc = pmi1_ask(pmi, "cmd=barrier_in\n", "barrier_out", line, deadline);
    if (rc == 0 && !gives) {
        snprintf(line, sizeof line, "cmd=get kvsname=%s key=%s\n", pmi->name, key);
        rc = pmi1_ask(pmi, line, "get_result", line, deadline);
        /* the line stays unsaid: there may be a key in it */
        if (rc == 0 &&
            (!br_pmi1_value(line, "value", value, sizeof value) ||
             sodium_hex2bin(bytes, n, value, strlen(value), NULL, &got, NULL) || got != n))
            rc = br_error(EPROTO,
                          "the launcher does not hand over the %zu bytes that rank 0 gave; does "
                          "rank 0 run another version of braid?",
                          n);
        sodium_memzero(value, sizeof value);
    }
    sodium_memzero(line, sizeof line);
    if (rc < 0) { /* the beginning of a line may be left */
        sodium_memzero(pmi->in, sizeof pmi->in);
        pmi->used = 0;
    }
    return rc;
}
static_assert(BR_PMI1_NAME + 512 < BR_PMI1_LINE, "a put of 256 bytes fits");

int br_pmi1_end(struct br_pmi1 *pmi, uint64_t deadline)
{
    char line[BR_PMI1_LINE];

    return pmi1_ask(pmi, "cmd=finalize\n", "finalize_ack", line, deadline);
}
