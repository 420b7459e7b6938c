/* SPDX-License-Identifier: BSD-3-Clause */
#include "cable.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "transport/backends.h"
#include "transport/dpdk/library.h"

#define DEPTH 1024u /* packets on the way to a port */
#define MTU   1500u
#define ROOM  (MTU + 14u)

struct br_dpdk_port {
    bool open;
    uint8_t bytes[DEPTH][ROOM];
    uint32_t n[DEPTH];
    unsigned first, last; /* packets [first..last) wait to be received */
    bool full;
    struct cable_counts counts;
};

static struct br_dpdk_port ports[2];

static int start(const struct br_dpdk_start *how, char *text)
{
    (void)how;
    (void)text;
    return 0;
}

static int open_port(const char *devargs, uint16_t mtu, bool all, struct br_dpdk_port **out,
                     struct br_dpdk_facts *facts, char *text)
{
    int number = devargs[strlen("net_cable")] - '0';

    (void)mtu;
    (void)all;
    (void)text;
    memset(facts, 0, sizeof *facts);
    snprintf(facts->driver, sizeof facts->driver, "net_cable");
    memcpy(facts->mac, (uint8_t[6]){2, 0, 0, 0, 0, (uint8_t)(number + 1)}, sizeof facts->mac);
    facts->mtu = MTU;
    facts->memory = facts->direct = true;
    facts->numa_node = -1;
    *out = &ports[number];
    return 0;
}

static void close_port(struct br_dpdk_port *port)
{
    (void)port;
}

static bool is_up(struct br_dpdk_port *port)
{
    (void)port;
    return true;
}

static int receive(struct br_dpdk_port *port, struct br_dpdk_arrival *out)
{
    int n = 0;

    port->counts.looks++;
    for (; n < BR_DPDK_BURST && port->first < port->last; n++, port->first++)
        out[n] = (struct br_dpdk_arrival){.bytes = port->bytes[port->first % DEPTH],
                                          .n = port->n[port->first % DEPTH]};
    return n;
}

static int send(struct br_dpdk_port *port, const struct br_dpdk_leaving *packets, int n)
{
    struct br_dpdk_port *peer = &ports[port == ports];

    assert_in_range(n, 1, BR_DPDK_BURST);
    if (port->full)
        return 0;
    port->counts.bursts++;
    port->counts.packets += (unsigned)n;
    for (int i = 0; i < n; i++, peer->last++) {
        uint8_t *to = peer->bytes[peer->last % DEPTH];

        assert_true(peer->last - peer->first < DEPTH - BR_DPDK_BURST);
        assert_true(packets[i].head_bytes + packets[i].payload_bytes <= ROOM);
        memcpy(to, packets[i].head, packets[i].head_bytes);
        if (packets[i].payload_bytes)
            memcpy(to + packets[i].head_bytes, packets[i].payload, packets[i].payload_bytes);
        peer->n[peer->last % DEPTH] = packets[i].head_bytes + packets[i].payload_bytes;
    }
    return n;
}

static uint64_t none(struct br_dpdk_port *port)
{
    (void)port;
    return 0;
}

static const struct br_dpdk_module cable = {.version = BR_DPDK_VERSION,
                                            .start = start,
                                            .open = open_port,
                                            .close = close_port,
                                            .is_up = is_up,
                                            .receive = receive,
                                            .send = send,
                                            .dropped = none,
                                            .copied = none};

void cable_install(void)
{
    memset(ports, 0, sizeof ports);
    setenv("BRAID_DPDK_PORTS", "net_cable0,address=10.0.0.1/24; net_cable1,address=10.0.0.2/24", 1);
    br_dpdk_library_replace(&cable);
}

void cable_remove(void)
{
    br_dpdk_library_replace(NULL);
    unsetenv("BRAID_DPDK_PORTS");
}

struct cable_counts cable_counts(int port)
{
    return ports[port].counts;
}

void cable_fill(int port, bool full)
{
    ports[port].full = full;
}

uint8_t cable_last_byte(int port)
{
    const struct br_dpdk_port *peer = &ports[!port];
    unsigned latest = (peer->last - 1) % DEPTH;

    return peer->bytes[latest][peer->n[latest] - 1];
}

static void open_end(struct cable_end *end, const char *name)
{
    memset(end, 0, sizeof *end);
    assert_int_equal(br_slot_table_init(&end->slots, 4), 0);
    end->config = (struct br_device_config){.name = name,
                                            .slots = &end->slots,
                                            .message_bytes = 1024,
                                            .message_buffers = 8,
                                            .max_links = 4};
    if (br_transport_open(&br_dpdk_ops, &end->config, &end->device))
        fail_msg("%s", br_error_message());
    end->slot = br_slot_get(&end->slots, end->place, sizeof end->place, sizeof end->place);
}

void cable_connect(struct cable_end ends[2], uint64_t *now)
{
    struct br_address address;

    open_end(&ends[0], "net_cable0");
    open_end(&ends[1], "net_cable1");
    address = ends[1].device->address;
    assert_int_equal(br_dpdk_ops.link_connect(ends[0].device, &address, &ends[0].link), 0);
    for (int turn = 0, up = 0; up < 2; turn++) {
        struct br_event event;

        assert_in_range(turn, 0, 1000);
        *now += 10 * BR_US;
        if (!br_dpdk_ops.poll(ends[turn & 1].device, *now, &event, 1))
            continue;
        assert_int_equal(event.kind, turn & 1 ? BR_EVENT_ACCEPTED : BR_EVENT_CONNECTED);
        ends[turn & 1].link = event.link;
        event.link->authenticated = true;
        up++;
    }
}

void cable_disconnect(struct cable_end ends[2])
{
    for (int i = 0; i < 2; i++) {
        br_dpdk_ops.link_close(ends[i].link);
        br_dpdk_ops.device_close(ends[i].device);
        br_slot_table_destroy(&ends[i].slots);
    }
}

void cable_write(struct cable_end *from, struct cable_end *to, uint32_t bytes)
{
    struct br_frame frame = {.kind = BR_FRAME_DATA,
                             .length = bytes,
                             .payload = from->place,
                             .slot = br_slot_number(&to->slots, to->slot),
                             .cookie = 1};

    assert_int_equal(br_dpdk_ops.post(from->link, &frame, 1), 1);
}
