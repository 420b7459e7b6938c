/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perf/exchange.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "collectives/comm/settings.h"
#include "protocol/bootstrap/secret.h"
#include "protocol/bootstrap/store_socket.h"
#include "tools/perf/parameters.h"
#include "transport/transport.h"

#define PATIENCE (5 * BR_SEC)
#define SPIN_US  10000000 /* a waiting side spins, as in perftest; with -e it sleeps */

/* ---- the configuration of the job of two ---------------------------------------------------- */

/* NULL: the environment's, or the library's choice. */
static const char *exchange_devices(const struct br_perf_settings *s,
                                    const struct br_exchange *where)
{
    const char *chosen = s->backend ? s->backend : getenv("BRAID_BACKEND"),
               *named = getenv("BRAID_DEVICES");

    if (s->devices || !where->loopback || (named && *named) || br_transport_traits(chosen).rdma)
        return s->devices;
    return "lo";
}

/* A user who names a device wants to measure it, and not the shared memory that `auto` takes within
 * a host. */
static const char *exchange_backend(const struct br_perf_settings *s,
                                    const struct br_exchange *where)
{
    const char *chosen = getenv("BRAID_BACKEND");

    return s->backend || !s->devices || !where->loopback || (chosen && *chosen)
               ? s->backend
               : br_transport_default(false)->name;
}

struct braid_config br_exchange_config(const struct br_perf_settings *s,
                                       const struct br_exchange *where)
{
    const char *spin = getenv("BRAID_SPIN_US");

    return (struct braid_config){.size = 2,
                                 .rank = s->server ? 1 : 0,
                                 .master_addr = where->address,
                                 .master_port = where->port,
                                 .secret = *where->secret ? where->secret : NULL,
                                 .backend = exchange_backend(s, where),
                                 .devices = exchange_devices(s, where),
                                 .topology = "mesh",
                                 .rails = (int)s->rails,
                                 .init_timeout_ms = 15000,
                                 .spin_us = s->events       ? 1
                                            : spin && *spin ? 0
                                                            : SPIN_US};
}

int br_exchange_check(const struct br_perf_settings *s)
{
    struct br_exchange anywhere = {.port = 1};
    struct br_settings found;
    struct braid_config config;
    int rc;

    snprintf(anywhere.address, sizeof anywhere.address, "127.0.0.1");
    if (!getenv("BRAID_SECRET"))
        snprintf(anywhere.secret, sizeof anywhere.secret, "for this check only");
    config = br_exchange_config(s, &anywhere);
    rc = br_settings_read(&config, &found);
    br_secret_wipe(&found.secret);
    return rc;
}

/* ---- messages: the length in four bytes, little-endian, then text ---------------------------- */

static int exchange_put(int fd, const char *text)
{
    uint32_t n = (uint32_t)strlen(text);
    uint8_t length[4] = {(uint8_t)n, (uint8_t)(n >> 8), 0, 0};
    uint64_t deadline = br_clock_now() + PATIENCE;
    int rc = br_socket_send(fd, length, sizeof length, deadline);

    return rc ? rc : br_socket_send(fd, text, n, deadline);
}

static int exchange_get(int fd, char text[BR_PERF_TEXT])
{
    uint64_t deadline = br_clock_now() + PATIENCE;
    uint8_t length[4];
    uint32_t n;
    int rc = br_socket_receive(fd, length, sizeof length, deadline);

    if (rc)
        return rc;
    n = length[0] | (uint32_t)length[1] << 8 | (uint32_t)length[2] << 16 |
        (uint32_t)length[3] << 24;
    if (n >= BR_PERF_TEXT)
        return br_error(EPROTO, "what it says is no message of `braid perf`");
    rc = br_socket_receive(fd, text, n, deadline);
    text[rc ? 0 : n] = 0;
    if (!rc && strlen(text) != n)
        return br_error(EPROTO, "what it says is no message of `braid perf`");
    br_text_clean(text, true); /* parts of it may be shown */
    return rc;
}

/* ---- the server ------------------------------------------------------------------------------ */

int br_exchange_listen(const struct br_perf_settings *s, int *fd)
{
    int rc = br_socket_listen("", (uint16_t)s->port, false, fd);

    return rc ? br_error(-rc, "cannot listen on port %" PRId64 ": %s; -p chooses another", s->port,
                         strerror(-rc))
              : 0;
}

/* Our end of the connection. */
static int local_address(int fd, char address[BR_EXCHANGE_ADDRESS], bool *loopback)
{
    struct sockaddr_storage own;
    socklen_t bytes = sizeof own;
    const char mapped[] = "::ffff:";
    int rc;

    if (getsockname(fd, (struct sockaddr *)&own, &bytes))
        return br_error(errno, "getsockname: %s", strerror(errno));
    rc = getnameinfo((struct sockaddr *)&own, bytes, address, BR_EXCHANGE_ADDRESS, NULL, 0,
                     NI_NUMERICHOST);
    if (rc)
        return br_error(EIO, "getnameinfo: %s", gai_strerror(rc));
    if (!strncmp(address, mapped, sizeof mapped - 1) && strchr(address, '.'))
        memmove(address, address + sizeof mapped - 1, strlen(address + sizeof mapped - 1) + 1);
    *loopback = !strcmp(address, "::1") || !strncmp(address, "127.", 4);
    return 0;
}

static int make_secret(char secret[BR_EXCHANGE_SECRET])
{
    const char *text = getenv("BRAID_SECRET"), *file = getenv("BRAID_SECRET_FILE");
    uint8_t bytes[(BR_EXCHANGE_SECRET - 1) / 2];

    secret[0] = 0;
    if ((text && *text) || (file && *file))
        return 0;
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return br_error(errno, "getrandom: %s", strerror(errno));
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(secret + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

/* 1: what the client says does not go with what the server's user asked for; both are told why. */
static int exchange_agree(int fd, const struct br_perf_settings *asked,
                          struct br_perf_settings *agreed)
{
    char theirs[BR_PERF_TEXT], text[BR_PERF_TEXT] = "", reply[BR_PERF_TEXT];
    int rc = exchange_get(fd, theirs);

    if (rc)
        return rc;
    rc = br_perf_parameters_agree(asked, theirs, agreed, text);
    if (rc == 0 && br_exchange_check(agreed)) {
        snprintf(text, sizeof text, "the server cannot do that: %.1000s", br_error_message());
        rc = 1;
    }
    if (rc) {
        snprintf(reply, sizeof reply, "differ %.4000s\n", rc > 0 ? text : br_error_message());
        exchange_put(fd, reply);
    }
    return rc > 0 ? (br_error(EINVAL, "the two sides differ: %s", text), 1) : rc;
}

static int exchange_answer(int fd, const struct br_perf_settings *asked,
                           struct br_perf_settings *agreed, struct br_exchange *out)
{
    char reply[BR_EXCHANGE_SECRET + 32];
    int rc = exchange_agree(fd, asked, agreed);

    if (rc || (rc = local_address(fd, out->address, &out->loopback)) ||
        (rc = make_secret(out->secret)) ||
        (rc = br_socket_reserve(NULL, &out->port, &out->reserved)))
        return rc;
    snprintf(reply, sizeof reply, "port %u\nsecret %s\n", out->port,
             *out->secret ? out->secret : "yours");
    return exchange_put(fd, reply);
}

int br_exchange_accept(int listener, const struct br_perf_settings *asked,
                       struct br_perf_settings *agreed, struct br_exchange *out)
{
    struct pollfd ready = {.fd = listener, .events = POLLIN};
    int fd, rc;

    if (poll(&ready, 1, -1) < 0)
        return errno == EINTR ? -EINTR : br_error(errno, "poll: %s", strerror(errno));
    fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return br_error(EPROTO, "accept: %s", strerror(errno));
    br_socket_tune(fd);
    out->reserved = -1;
    rc = exchange_answer(fd, asked, agreed, out);
    close(fd);
    if (rc && out->reserved >= 0)
        close(out->reserved);
    return rc < 0 ? -EPROTO : rc;
}

/* ---- the client ------------------------------------------------------------------------------ */

static int exchange_understand(const char *reply, struct br_exchange *out)
{
    size_t n = 0, m = 0;
    const char *port = br_perf_parameters_find(reply, "port", &n),
               *secret = br_perf_parameters_find(reply, "secret", &m),
               *differ = br_perf_parameters_find(reply, "differ", &n);
    long number = port ? strtol(port, NULL, 10) : 0;

    if (differ)
        return br_error(
            EINVAL,
            "the two sides differ: %.*s; a server takes the options of the client, unless it is "
            "given others",
            (int)n, differ);
    if (number < 1 || number > 65535 || !secret || m >= BR_EXCHANGE_SECRET)
        return br_error(EPROTO, "the answer is none of `braid perf`");
    out->port = (uint16_t)number;
    snprintf(out->secret, sizeof out->secret, "%.*s", (int)m,
             strncmp(secret, "yours", m) ? secret : "");
    return 0;
}

int br_exchange_connect(const struct br_perf_settings *s, struct br_exchange *out)
{
    char text[BR_PERF_TEXT], own[BR_EXCHANGE_ADDRESS];
    int fd, rc = br_socket_connect(s->server, (uint16_t)s->port, br_clock_now() + PATIENCE, &fd);

    if (rc == -ENXIO)
        return br_error(ENXIO, "there is no host '%s'", s->server);
    if (rc)
        return br_error(-rc,
                        "%s:%" PRId64 ": %s; start `braid perf %s` there first, without a name",
                        s->server, s->port, strerror(-rc), s->test->name);
    br_socket_tune(fd);
    snprintf(out->address, sizeof out->address, "%s", s->server);
    out->reserved = -1;
    br_perf_parameters_write(s, text);
    rc = local_address(fd, own, &out->loopback);
    if (!rc)
        rc = exchange_put(fd, text);
    if (!rc)
        rc = exchange_get(fd, text);
    close(fd);
    if (rc)
        return br_error_prefix(rc, "%s:%" PRId64 ": ", s->server, s->port);
    rc = exchange_understand(text, out);
    return rc == -EPROTO ? br_error_prefix(rc, "%s:%" PRId64 ": ", s->server, s->port) : rc;
}
