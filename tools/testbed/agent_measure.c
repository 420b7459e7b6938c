/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The active side of the measurements. A request has a list of targets, each on a NIC of ours;
 * every target gets a thread, so one that does not answer costs no time of the others. Sockets are
 * bound to the NIC: what the routing table would prefer is not asked.
 */
#include "tools/testbed/agent.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "base/median.h"
#include "tools/testbed/agent_echo.h"
#include "tools/testbed/json.h"

#define TARGETS    1024
#define PINGS      10000
#define FIRST_MS   250 /* the first echo may wait for ARP */
#define NEXT_MS    30
#define LATE_MS    150
#define SIZES      8
#define TRIPS      50 /* of the first size; of the others 3 */
#define TRIP_MS    (uint64_t)10000
#define LARGEST    (64 << 20)
#define IP_UDP     28
#define BULK_BYTES (256 << 10)

struct target {
    const cJSON *request; /* of this target */
    int64_t count, bytes, warm_ms, measure_ms;
    pthread_t thread;
    bool started;

    char error[160]; /* "": none */
    int sent, got;
    int64_t path_mtu; /* largest packet that passed with DF; 0: not looked for */
    double min_us, median_us;
    uint64_t rate_bytes, rate_ns;
    uint32_t retransmits;
    int n_sizes;
    size_t sizes[SIZES];
    double trip_us[SIZES];
    uint32_t *rtt; /* ns, `got` of them; owned by the thread */
};

static int agent_measure_open_socket(struct target *target, int type, struct sockaddr_in *to)
{
    const char *nic = br_json_text(target->request, "nic", "");
    struct sockaddr_in from = {.sin_family = AF_INET};
    int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    *to = (struct sockaddr_in){.sin_family = AF_INET,
                               .sin_port =
                                   htons((uint16_t)br_json_number(target->request, "port", 0))};
    if (fd < 0 ||
        inet_pton(AF_INET, br_json_text(target->request, "from", ""), &from.sin_addr) != 1 ||
        inet_pton(AF_INET, br_json_text(target->request, "to", ""), &to->sin_addr) != 1) {
        snprintf(target->error, sizeof target->error, "bad addresses, or no socket");
    } else if (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, nic, (socklen_t)strlen(nic))) {
        snprintf(target->error, sizeof target->error, "cannot use %.16s: %s", nic, strerror(errno));
    } else if (bind(fd, (struct sockaddr *)&from, sizeof from)) {
        snprintf(target->error, sizeof target->error, "%.16s does not have the address %s: %s", nic,
                 br_json_text(target->request, "from", ""), strerror(errno));
    } else {
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

/* ---- echoes ---------------------------------------------------------------------------------- */

/* Sends one echo and waits for it; earlier ones that come late are counted too. RTT in ns; 0: none
 * in time. */
static uint64_t ping_once(struct target *target, int fd, uint32_t sequence, size_t payload,
                          int wait_ms)
{
    uint8_t buffer[65536];
    memset(buffer, 0x5a, payload);
    memcpy(buffer, &sequence, sizeof sequence);
    uint64_t begin = br_clock_now(), until = begin + (uint64_t)wait_ms * BR_MS;
    if (send(fd, buffer, payload, MSG_DONTWAIT) < 0 && errno != ECONNREFUSED) {
        snprintf(target->error, sizeof target->error, "%s", strerror(errno));
        return 0;
    }
    for (uint64_t now = begin; now < until; now = br_clock_now()) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        uint32_t echoed;
        if (poll(&wait, 1, (int)((until - now) / BR_MS) + 1) <= 0)
            continue;
        ssize_t bytes = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
        if (bytes < 0) {
            snprintf(target->error, sizeof target->error, "%s", strerror(errno));
            return 0;
        }
        if (bytes < (ssize_t)sizeof echoed)
            continue;
        memcpy(&echoed, buffer, sizeof echoed);
        if (echoed == sequence)
            return br_clock_now() - begin;
        target->got += echoed < (uint32_t)target->sent; /* it was given up too soon */
    }
    return 0;
}

static int agent_measure_by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void ping_many(struct target *target, int fd)
{
    int timed = 0;
    for (int64_t i = 0; i < target->count; i++) {
        target->sent++;
        uint64_t rtt = ping_once(target, fd, (uint32_t)i, 32, timed ? NEXT_MS : FIRST_MS);
        if (rtt) {
            target->got++;
            target->rtt[timed++] = rtt > UINT32_MAX ? UINT32_MAX : (uint32_t)rtt;
        } else if (!timed && i >= 2) {
            break; /* dead: three are enough */
        }
    }
    if (target->got < target->sent && timed) /* stragglers are late, not lost */
        ping_once(target, fd, UINT32_MAX, 32, LATE_MS);
    if (timed) {
        target->error[0] = 0;
        qsort(target->rtt, (size_t)timed, sizeof *target->rtt, agent_measure_by_value);
        target->min_us = target->rtt[0] / 1e3;
        const uint32_t *middle = &target->rtt[timed / 2];
        target->median_us = *middle / 1e3;
    }
}

static bool agent_measure_passes(struct target *target, int fd, int64_t packet)
{
    char before[sizeof target->error];
    bool passed = false;
    memcpy(before, target->error, sizeof before);
    for (int i = 0; i < 3 && !passed; i++) {
        passed = ping_once(target, fd, 1u << 30 | (uint32_t)(packet << 4) | (uint32_t)i,
                           (size_t)(packet - IP_UDP), NEXT_MS) != 0;
    }
    memcpy(target->error, before, sizeof before); /* too large is an answer here, no error */
    return passed;
}

/* The largest packet that passes, to 8 bytes: the full size as a rule, so the search is for what is
 * broken. */
static void find_path_mtu(struct target *target, int fd)
{
    int64_t low = 68, high = target->bytes;
    if (high < low || high > 65000)
        return;
    if (agent_measure_passes(target, fd, high))
        low = high;
    while (high - low > 8) {
        int64_t middle = low + (high - low) / 2;
        if (agent_measure_passes(target, fd, middle))
            low = middle;
        else
            high = middle;
    }
    target->path_mtu = low;
}

static void *ping_thread(void *argument)
{
    struct target *target = argument;
    struct sockaddr_in to;
    int probe = IP_PMTUDISC_PROBE, fd = agent_measure_open_socket(target, SOCK_DGRAM, &to);
    target->rtt = calloc((size_t)target->count, sizeof *target->rtt);
    if (fd >= 0 && target->rtt) {
        setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof probe);
        if (connect(fd, (struct sockaddr *)&to, sizeof to)) {
            snprintf(target->error, sizeof target->error, "%s", strerror(errno));
        } else {
            ping_many(target, fd);
            if (target->got)
                find_path_mtu(target, fd);
        }
    }
    if (fd >= 0)
        close(fd);
    free(target->rtt);
    target->rtt = NULL;
    return NULL;
}

/* ---- streams --------------------------------------------------------------------------------- */

static bool agent_measure_wait_for(int fd, short events, uint64_t until)
{
    struct pollfd wait = {.fd = fd, .events = events};
    uint64_t now = br_clock_now();
    return now < until && poll(&wait, 1, (int)((until - now) / BR_MS) + 1) > 0;
}

/* Sends until the receiver says its result. false: it never did. */
static bool agent_measure_pour(int fd, const char *buffer, struct br_echo_result *result,
                               uint64_t until)
{
    size_t got = 0;
    while (agent_measure_wait_for(fd, POLLIN | POLLOUT, until)) {
        ssize_t bytes = recv(fd, (char *)result + got, sizeof *result - got, MSG_DONTWAIT);
        if (bytes == 0 || (bytes < 0 && errno != EAGAIN))
            return false;
        if (bytes > 0)
            got += (size_t)bytes;
        if (got == sizeof *result)
            return true;
        if (send(fd, buffer, BULK_BYTES, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno != EAGAIN)
            return false;
    }
    return false;
}

/* Connects, and says what is to come. false with target->error. */
static bool agent_measure_greet(struct target *target, int fd, const struct sockaddr_in *to,
                                const struct br_echo_hello *hello)
{
    struct linger reset = {.l_onoff = 1};
    int err = 0, one = 1;
    socklen_t size = sizeof err;
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5); /* bbr is slow on short local paths */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    /* what still waits to be sent is no use */
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    if (connect(fd, (const struct sockaddr *)to, sizeof *to) && errno != EINPROGRESS)
        err = errno;
    else if (!agent_measure_wait_for(fd, POLLOUT, br_clock_now() + BR_SEC))
        err = ETIMEDOUT;
    else
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &size);
    if (!err && send(fd, hello, sizeof *hello, MSG_NOSIGNAL) != sizeof *hello)
        err = EPIPE;
    if (err)
        snprintf(target->error, sizeof target->error, "connect: %s", strerror(err));
    return !err;
}

static void stream_to(struct target *target, int fd, const struct sockaddr_in *to,
                      const char *buffer)
{
    struct br_echo_hello hello = {BR_ECHO_MAGIC, (uint32_t)target->warm_ms,
                                  (uint32_t)target->measure_ms, 0};
    struct br_echo_result result;
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    uint64_t until =
        br_clock_now() + (uint64_t)(target->warm_ms + target->measure_ms + 1500) * BR_MS;
    if (!agent_measure_greet(target, fd, to, &hello))
        return;
    if (!agent_measure_pour(fd, buffer, &result, until)) {
        snprintf(target->error, sizeof target->error, "no result came back in time");
        return;
    }
    target->rate_bytes = result.bytes;
    target->rate_ns = result.ns;
    if (!getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size))
        target->retransmits = info.tcpi_total_retrans;
}

static void *bulk_thread(void *argument)
{
    struct target *target = argument;
    struct sockaddr_in to;
    char *buffer = calloc(1, BULK_BYTES);
    int fd = agent_measure_open_socket(target, SOCK_STREAM, &to);
    if (fd >= 0 && buffer)
        stream_to(target, fd, &to, buffer);
    if (fd >= 0)
        close(fd);
    free(buffer);
    return NULL;
}

/* ---- trips ----------------------------------------------------------------------------------- */

/* Sends `bytes` and waits for the byte that says they arrived. Microseconds; 0: it did not come. */
static double agent_measure_trip(int fd, const char *buffer, size_t bytes, uint64_t until)
{
    uint64_t begin = br_clock_now();
    size_t sent = 0;
    char said;
    while (agent_measure_wait_for(fd, sent < bytes ? POLLOUT : POLLIN, until)) {
        if (sent < bytes) {
            size_t part = bytes - sent < BULK_BYTES ? bytes - sent : BULK_BYTES;
            ssize_t done = send(fd, buffer, part, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (done < 0 && errno != EAGAIN)
                return 0;
            sent += done > 0 ? (size_t)done : 0;
        } else {
            return recv(fd, &said, 1, MSG_DONTWAIT) == 1 ? (double)(br_clock_now() - begin) / 1e3
                                                         : 0;
        }
    }
    return 0;
}

/* The median of `count` trips, after one that warms up. 0: they did not come back. */
static double trips_of(struct target *target, const char *buffer, size_t bytes, int count)
{
    struct sockaddr_in to;
    double times[TRIPS] = {0};
    struct br_echo_hello hello = {BR_ECHO_MAGIC, 0, 0, (uint32_t)bytes};
    int fd = agent_measure_open_socket(target, SOCK_STREAM, &to), done = 0;
    uint64_t until = br_clock_now() + TRIP_MS * BR_MS;
    if (fd >= 0 && agent_measure_greet(target, fd, &to, &hello) &&
        agent_measure_trip(fd, buffer, bytes, until) > 0)
        while (done < count && (times[done] = agent_measure_trip(fd, buffer, bytes, until)) > 0)
            done++;
    if (fd >= 0)
        close(fd);
    return done ? br_median(times, (size_t)done) : 0;
}

static void *trips_thread(void *argument)
{
    struct target *target = argument;
    char *buffer = calloc(1, BULK_BYTES);
    for (int i = 0; i < target->n_sizes && buffer; i++)
        target->trip_us[i] = trips_of(target, buffer, target->sizes[i], i ? 3 : TRIPS);
    free(buffer);
    return NULL;
}

/* ---- requests -------------------------------------------------------------------------------- */

static void add_result(cJSON *array, const struct target *target)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddNumberToObject(object, "id", (double)br_json_number(target->request, "id", -1));
    if (target->error[0])
        cJSON_AddStringToObject(object, "error", target->error);
    if (target->sent) {
        cJSON_AddNumberToObject(object, "sent", target->sent);
        cJSON_AddNumberToObject(object, "got", target->got);
        cJSON_AddNumberToObject(object, "path_mtu", (double)target->path_mtu);
        cJSON_AddNumberToObject(object, "min_us", target->min_us);
        cJSON_AddNumberToObject(object, "median_us", target->median_us);
    }
    if (target->rate_ns) {
        cJSON_AddNumberToObject(object, "bytes", (double)target->rate_bytes);
        cJSON_AddNumberToObject(object, "ns", (double)target->rate_ns);
        cJSON_AddNumberToObject(object, "retransmits", target->retransmits);
    }
    if (target->n_sizes)
        cJSON_AddItemToObject(object, "us",
                              cJSON_CreateDoubleArray(target->trip_us, target->n_sizes));
    cJSON_AddItemToArray(array, object);
}

static int64_t agent_measure_within(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

static void read_sizes(struct target *target, const cJSON *sizes)
{
    const cJSON *size;
    cJSON_ArrayForEach(size, sizes)
    {
        if (cJSON_IsNumber(size) && size->valuedouble >= 1 && size->valuedouble <= LARGEST &&
            target->n_sizes < SIZES)
            target->sizes[target->n_sizes++] = (size_t)size->valuedouble;
    }
}

static int agent_measure_measure(const cJSON *request, cJSON *reply, void *(*run)(void *))
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(request, "targets"), *item;
    int count = cJSON_GetArraySize(list), i = 0;
    if (count > TARGETS)
        return br_error(E2BIG, "at most %d targets a request", TARGETS);
    struct target *targets = calloc((size_t)count + 1, sizeof *targets);
    cJSON *results = cJSON_AddArrayToObject(reply, "results");
    if (!targets)
        return br_error(ENOMEM, "no memory for %d targets", count);
    cJSON_ArrayForEach(item, list)
    {
        struct target *target = &targets[i++];
        target->request = item;
        target->count = agent_measure_within(br_json_number(request, "count", 20), 1, PINGS);
        target->bytes = br_json_number(request, "bytes", 0);
        target->warm_ms = agent_measure_within(br_json_number(request, "warm_ms", 30), 0, 60000);
        target->measure_ms =
            agent_measure_within(br_json_number(request, "measure_ms", 100), 1, 60000);
        read_sizes(target, cJSON_GetObjectItemCaseSensitive(request, "sizes"));
        target->started = br_thread_start(&target->thread, run, target) == 0;
        if (!target->started)
            snprintf(target->error, sizeof target->error, "no thread for it");
    }
    for (i = 0; i < count; i++) {
        if (targets[i].started)
            pthread_join(targets[i].thread, NULL);
        add_result(results, &targets[i]);
    }
    free(targets);
    return 0;
}

int br_agent_ping(struct br_agent *agent, const cJSON *request, cJSON *reply)
{
    (void)agent;
    return agent_measure_measure(request, reply, ping_thread);
}

int br_agent_bulk(struct br_agent *agent, const cJSON *request, cJSON *reply)
{
    (void)agent;
    return agent_measure_measure(request, reply, bulk_thread);
}

int br_agent_trips(struct br_agent *agent, const cJSON *request, cJSON *reply)
{
    (void)agent;
    return agent_measure_measure(request, reply, trips_thread);
}
