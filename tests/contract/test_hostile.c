/* SPDX-License-Identifier: BSD-3-Clause */
/* Unauthenticated peers who send any bytes, and peers that die. */
#include "contract.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "tests/says.h"

static int unauthenticated_peer(struct contract *contract)
{
    struct br_address address;
    int fd;

    address = contract->sides[1].device->address;
    fd = contract->backend->unauthenticated(contract, &address);
    assert_true(fd >= 0);
    return fd;
}

/* Closes every link that has failed, as a caller does; returns how many. */
static int close_failed(struct contract *contract, int side)
{
    int n = contract_count(contract, side, BR_EVENT_CLOSED, NULL);

    for (int i = 0; i < n; i++)
        contract->ops->link_close(
            contract_event(contract, side, BR_EVENT_CLOSED, NULL, i)->event.link);
    contract_forget(contract, side);
    return n;
}

static void expect_working(struct contract *contract, struct br_link *a, struct br_link *b,
                           uint64_t seed)
{
    int before = contract_count(contract, 1, BR_EVENT_MESSAGE, b);

    contract_message(contract, a, NULL, 0, seed);
    assert_true(contract_until(contract, 1, BR_EVENT_MESSAGE, b, before + 1));
    assert_true(
        contract_is_message(contract_event(contract, 1, BR_EVENT_MESSAGE, b, before), 0, seed));
}

/* Random bytes, or a header that is right but for one field, and random bytes behind it. */
static size_t make_bytes(struct br_random *random, uint8_t *bytes, size_t max)
{
    struct br_frame_header header = {.magic = BR_FRAME_MAGIC, .version = BR_FRAME_VERSION};
    size_t n = br_random_below(random, max);

    contract_fill(bytes, max, br_random_next(random));
    header.kind = (uint8_t)(1 + br_random_below(random, 2));
    header.length = (uint32_t)br_random_below(random, 5000);
    header.slot = (uint32_t)br_random_below(random, 1 << 17);
    switch (br_random_below(random, 8)) {
    case 0:
        return n; /* not a header at all */
    case 1:
        header.length = (uint32_t)br_random_next(random);
        break;
    case 2:
        header.kind = (uint8_t)br_random_next(random);
        break;
    case 3:
        header.version++;
        break;
    case 4:
        header.offset = (uint32_t)br_random_next(random);
        break;
    default:
        break;
    }
    memcpy(bytes, &header, sizeof header);
    return n;
}

static void unauthenticated__any_bytes(void **state)
{
    struct contract *contract = *state;
    static uint8_t place[100000], bytes[20000];
    struct br_link *a, *b;

    if (!contract->backend->unauthenticated)
        return;
    contract_open_two(contract);
    contract_connect(contract, 0, 1, &a, &b);
    contract_slot(contract, 1, place, sizeof place, 4096);
    for (uint64_t i = 0; i < 60; i++) {
        size_t n = make_bytes(&contract->random, bytes, sizeof bytes);
        int fd = unauthenticated_peer(contract);

        (void)!send(fd, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (i % 2)
            shutdown(fd, SHUT_WR);
        expect_working(contract, a, b, i);
        close(fd);
        if (i % 4 == 3) {
            contract_settle(contract);
            close_failed(contract, 1);
        }
    }
    contract_settle(contract);
    close_failed(contract, 1);
    expect_working(contract, a, b, 100);
}

static void unauthenticated__malformed_frame_fails_its_link_alone(void **state)
{
    struct contract *contract = *state;
    struct br_frame_header header = {
        .magic = 0x4547, .version = BR_FRAME_VERSION, .kind = BR_FRAME_MESSAGE};
    const struct contract_record *closed;
    struct br_link *a, *b;
    int fd;

    if (!contract->backend->unauthenticated)
        return;
    contract_open_two(contract);
    contract_connect(contract, 0, 1, &a, &b);
    fd = unauthenticated_peer(contract);
    assert_int_equal(send(fd, &header, sizeof header, MSG_NOSIGNAL), sizeof header);
    contract_settle(contract);
    closed = contract_event(contract, 1, BR_EVENT_CLOSED, NULL, 0);
    if (closed) { /* else it was turned away before it became a link */
        assert_ptr_not_equal(closed->event.link, b);
        assert_int_equal(closed->event.error, -EPROTO);
        assert_true(contract_has_words(closed->event.link));
        assert_int_equal(contract->sides[1].device->counters.bad_frames, 1);
    }
    assert_int_equal(close_failed(contract, 1), closed ? 1 : 0);
    expect_working(contract, a, b, 1);
    close(fd);
}

/* Silent unauthenticated peers take places, but no more than max_links, and give them back when
 * they go. */
static void unauthenticated__many_silent_ones(void **state)
{
    struct contract *contract = *state;
    struct br_link *a, *b, *a2, *b2;
    int fds[20];

    if (!contract->backend->unauthenticated)
        return;
    contract_open_two(contract);
    contract_connect(contract, 0, 1, &a, &b);
    for (int i = 0; i < 20; i++)
        fds[i] = unauthenticated_peer(contract);
    contract_settle(contract);
    assert_true(contract_count(contract, 1, BR_EVENT_ACCEPTED, NULL) <= 8);
    expect_working(contract, a, b, 1);
    for (int i = 0; i < 20; i++)
        close(fds[i]);
    contract_settle(contract);
    close_failed(contract, 1);
    contract_connect(contract, 0, 1, &a2, &b2);
    expect_working(contract, a2, b2, 2);
}

/* Passes one datagram on, as of another version. Returns its bytes, 0 when there is none. from:
 * where it came from, or NULL when nobody wants to know. */
static size_t pass_on(struct contract *contract, int from_fd, int to_fd, struct sockaddr_in *from)
{
    static uint8_t bytes[65536];
    socklen_t from_bytes = sizeof *from;
    ssize_t n = recvfrom(from_fd, bytes, sizeof bytes, MSG_DONTWAIT, (struct sockaddr *)from,
                         from ? &from_bytes : NULL);

    if (n <= 0)
        return 0;
    contract->backend->other_version(bytes, (size_t)n);
    assert_int_equal(send(to_fd, bytes, (size_t)n, 0), n);
    return (size_t)n;
}

/* Each side hears the other one as of the version after its own: who connects learns of it, at once
 * and in words, and its questions are longer than the answers. */
static void unauthenticated__another_version_is_named(void **state)
{
    struct contract *contract = *state;
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    size_t asked = 0, answered = 0;
    socklen_t here_bytes = sizeof here;
    struct sockaddr_in connector;
    struct br_address address;
    struct br_link *link;
    int ahead, back;

    if (!contract->backend->other_version)
        return;
    contract_open_two(contract);
    ahead = unauthenticated_peer(contract);
    back = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(back >= 0 && !bind(back, (struct sockaddr *)&here, sizeof here) &&
                !getsockname(back, (struct sockaddr *)&here, &here_bytes));
    address = contract->sides[1].device->address; /* family, port, IP */
    memcpy(address.data + 1, &here.sin_port, sizeof here.sin_port);
    memcpy(address.data + 3, &here.sin_addr, sizeof here.sin_addr);
    assert_int_equal(contract->ops->link_connect(contract->sides[0].device, &address, &link), 0);
    while (!contract_count(contract, 0, BR_EVENT_CLOSED, link)) {
        size_t n = pass_on(contract, back, ahead, &connector), m;

        if (n)
            assert_int_equal(connect(back, (struct sockaddr *)&connector, sizeof connector), 0);
        m = pass_on(contract, ahead, back, NULL);
        asked += n;
        answered += m;
        if (contract_step(contract) || n || m)
            contract->idle_for = 0;
        else
            contract_pass(contract);
    }
    assert_int_equal(contract_event(contract, 0, BR_EVENT_CLOSED, link, 0)->event.error,
                     -EPROTONOSUPPORT);
    assert_says(link->message, "version|3|4|update|here");
    assert_true(answered > 0 && answered < asked / 10);
    while (!contract->sides[1].device->counters.refused_links) /* which a thread may tell later */
        if (!contract_step(contract))
            contract_pass(contract);
    assert_int_equal(contract->sides[1].device->counters.refused_links, 1);
    contract->ops->link_close(link);
    contract_forget(contract, 0);
    close(ahead);
    close(back);
}

/* The other process: opens side 1, tells its address, answers messages until it is killed, or its
 * parent ends. Never returns. */
static void echo_process(struct contract *contract, pid_t parent, int address_to)
{
    struct contract_side *side = &contract->sides[1];
    struct br_event events[16];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it had ended before that */
        _exit(1);
    if (br_transport_open(contract->ops, &side->config, &side->device))
        _exit(1);
    side->device->index = 0;
    if (write(address_to, &side->device->address, sizeof side->device->address) !=
        sizeof side->device->address)
        _exit(1);
    for (uint64_t now = 1;; now += 1000) {
        int n = contract->ops->poll(side->device, now, events, 16);

        for (int i = 0; i < n; i++) {
            struct br_frame echo = {.kind = BR_FRAME_MESSAGE};

            if (events[i].kind != BR_EVENT_MESSAGE)
                continue;
            echo.inline_ = events[i].inline_;
            contract->ops->post(events[i].link, &echo, 1);
            contract->ops->release(events[i].link->device, events[i].link, events[i].buffer);
        }
        if (!n)
            usleep(100);
    }
}

static void death__of_the_peer_closes_the_link(void **state)
{
    struct contract *contract = *state;
    struct br_address address;
    struct br_link *link[2];
    int pipes[2], status;
    pid_t parent = getpid(), child;

    if (!contract->backend->processes)
        return;
    assert_int_equal(pipe(pipes), 0);
    child = fork();
    assert_true(child >= 0);
    if (!child)
        echo_process(contract, parent, pipes[1]);
    close(pipes[1]);
    assert_int_equal(read(pipes[0], &address, sizeof address), sizeof address);
    close(pipes[0]);
    contract_open(contract, 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(contract->ops->link_connect(contract->sides[0].device, &address, &link[i]),
                         0);
        assert_true(contract_until(contract, 0, BR_EVENT_CONNECTED, link[i], 1));
    }
    for (uint64_t i = 0; i < 5; i++)
        contract_message(contract, link[0], NULL, 0, i);
    assert_true(contract_until(contract, 0, BR_EVENT_MESSAGE, link[0], 5));
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    for (int i = 0; i < 2; i++) { /* the one with traffic and the idle one */
        assert_true(contract_until(contract, 0, BR_EVENT_CLOSED, link[i], 1));
        assert_true(contract_event(contract, 0, BR_EVENT_CLOSED, link[i], 0)->event.error < 0);
        assert_true(contract_has_words(link[i]));
    }
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CONTRACT_CASE(unauthenticated__any_bytes),
        CONTRACT_CASE(unauthenticated__malformed_frame_fails_its_link_alone),
        CONTRACT_CASE(unauthenticated__many_silent_ones),
        CONTRACT_CASE(unauthenticated__another_version_is_named),
        CONTRACT_CASE(death__of_the_peer_closes_the_link),
    };

    return contract_main(cases, sizeof cases / sizeof *cases);
}
