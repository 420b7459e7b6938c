/* SPDX-License-Identifier: BSD-3-Clause */
#include "net.h"

#include <stdio.h>
#include <string.h>

static void take(struct net *net, int at, const struct br_event *event)
{
    struct net_host *host = &net->hosts[at];

    switch (event->kind) {
    case BR_EVENT_ACCEPTED:
        for (int i = 0, peer; i < net->n; i++) /* peer_name begins with "host N" */
            if (sscanf(event->link->peer_name, "host %d", &peer) == 1 && peer == i)
                host->link[i] = event->link;
        break;
    case BR_EVENT_CONNECTED:
        break;
    case BR_EVENT_CLOSED:
        host->closed++;
        host->error = event->error;
        memcpy(host->message, event->link->message, sizeof host->message);
        for (int i = 0; i < net->n; i++)
            if (host->link[i] == event->link)
                host->link[i] = NULL;
        br_sim_ops.link_close(event->link);
        break;
    case BR_EVENT_SENT:
        host->sent++;
        break;
    case BR_EVENT_MESSAGE:
        host->messages++;
        host->last_message = br_sim_now(net->sim);
        br_sim_ops.release(event->link->device, event->link, event->buffer);
        break;
    case BR_EVENT_DATA:
        host->placed++;
        if (event->mapped)
            br_sim_ops.release(host->device, NULL, event->buffer);
        break;
    }
}

int net_poll(struct net *net)
{
    struct br_event events[16];
    int host, n, total = 0;

    while ((host = br_sim_take_ready(net->sim)) >= 0) {
        while ((n = br_sim_ops.poll(net->hosts[host].device, 0, events, 16))) {
            total += n;
            for (int i = 0; i < n; i++)
                take(net, host, &events[i]);
        }
    }
    return total;
}

void net_run(struct net *net, uint64_t until)
{
    net_poll(net);
    while (br_sim_next(net->sim) <= until && br_sim_advance(net->sim))
        net_poll(net);
    if (until != BR_SIM_NEVER)
        br_sim_advance_to(net->sim, until);
}

void net_connect(struct net *net, int a, int b)
{
    struct br_address address;

    address = net->hosts[b].device->address;
    assert_int_equal(
        br_sim_ops.link_connect(net->hosts[a].device, &address, &net->hosts[a].link[b]), 0);
}

void net_open(struct net *net, const struct br_sim_config *config, int n)
{
    memset(net, 0, sizeof *net);
    net->n = n;
    net->sim = br_sim_create(config);
    assert_non_null(net->sim);
    assert_int_equal(br_sim_add_rails(net->sim, n, 1), 0);
    for (int i = 0; i < n; i++) {
        struct net_host *host = &net->hosts[i];

        host->config = (struct br_device_config){.slots = &host->slots,
                                                 .message_bytes = 65536,
                                                 .message_buffers = 64,
                                                 .max_links = NET_HOSTS};
        assert_int_equal(br_slot_table_init(&host->slots, 16), 0);
        br_sim_device_config(net->sim, i, 0, &host->config);
        assert_int_equal(br_transport_open(&br_sim_ops, &host->config, &host->device), 0);
        host->device->index = 0;
    }
    for (int a = 0; a < n; a++)
        for (int b = a + 1; b < n; b++)
            net_connect(net, a, b);
    net_run(net, BR_SIM_NEVER);
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++)
            assert_true(a == b || net->hosts[a].link[b]);
}

void net_close(struct net *net)
{
    for (int i = 0; i < net->n; i++) {
        br_sim_ops.device_close(net->hosts[i].device);
        br_slot_table_destroy(&net->hosts[i].slots);
    }
    br_sim_destroy(net->sim);
}

int net_message(struct net *net, int a, int b, const void *payload, uint32_t length)
{
    struct br_frame frame = {
        .kind = BR_FRAME_MESSAGE, .payload = payload, .length = length, .cookie = 1};

    assert_non_null(net->hosts[a].link[b]);
    return br_sim_ops.post(net->hosts[a].link[b], &frame, 1);
}
