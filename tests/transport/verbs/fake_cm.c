/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma_cm of the fake devices: device i has the address of its GID. */
#include "fake_inside.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define CM_EVENTS          256
#define LISTENERS          64
#define REJECTED_BY_PEER   28
#define REJECTED_NO_LISTEN 8

struct fake_id {
    struct rdma_cm_id base;
    struct fake_id *peer; /* the other end, from the request on */
    struct sockaddr_in to;
    uint32_t qp, psn;
    int unacknowledged;
};

struct fake_cm_channel {
    struct rdma_event_channel base;
    struct fake_cm_event {
        struct rdma_cm_event base;
        uint8_t private_data[56];
    } events[CM_EVENTS];
    uint32_t head, tail;
};

static struct ibv_context cm_contexts[FAKE_DEVICES]; /* librdmacm opens devices for itself */
static struct fake_id *listeners[LISTENERS];         /* by port, from 1 */
static uint32_t next_psn = 100;

/* ---- events ---------------------------------------------------------------------------------- */

static struct rdma_event_channel *create_event_channel(void)
{
    struct fake_cm_channel *channel;

    if (fake_fails_by_errno("cm_create_event_channel"))
        return NULL;
    channel = fake_make(sizeof *channel, &fake_alive.cm_channels);
    channel->base.fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
    assert_true(channel->base.fd >= 0);
    return &channel->base;
}

static void destroy_event_channel(struct rdma_event_channel *channel)
{
    close(channel->fd);
    fake_drop(channel, &fake_alive.cm_channels);
}

static void push(struct fake_id *id, enum rdma_cm_event_type type, int status,
                 const struct rdma_conn_param *param)
{
    struct fake_cm_channel *channel = (struct fake_cm_channel *)id->base.channel;
    struct fake_cm_event *event = &channel->events[channel->tail++ % CM_EVENTS];
    uint64_t one = 1;

    assert_true(channel->tail - channel->head < CM_EVENTS);
    memset(event, 0, sizeof *event);
    event->base.id = &id->base;
    event->base.event = type;
    event->base.status = status;
    if (param && param->private_data_len) {
        assert_true(param->private_data_len <= sizeof event->private_data);
        memcpy(event->private_data, param->private_data, param->private_data_len);
        event->base.param.conn.private_data = event->private_data;
        /* padded, as on the wire */
        event->base.param.conn.private_data_len = sizeof event->private_data;
    }
    assert_int_equal(write(channel->base.fd, &one, sizeof one), sizeof one);
}

void fake_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type type, int status)
{
    push((struct fake_id *)id, type, status, NULL);
}

static int get_cm_event(struct rdma_event_channel *base, struct rdma_cm_event **out)
{
    struct fake_cm_channel *channel = (struct fake_cm_channel *)base;
    struct rdma_cm_event *event;
    uint64_t one;

    do { /* those of identifiers that are gone were taken back */
        if (fake_fails_by_errno("cm_get_event") || read(base->fd, &one, sizeof one) != sizeof one)
            return -1;
        event = &channel->events[channel->head++ % CM_EVENTS].base;
    } while (!event->id);
    ((struct fake_id *)event->id)->unacknowledged++;
    *out = event;
    return 0;
}

static int ack_cm_event(struct rdma_cm_event *event)
{
    ((struct fake_id *)event->id)->unacknowledged--;
    memset(event, 0xee, sizeof(struct fake_cm_event)); /* it is not to be read any more */
    return 0;
}

static const char *event_str(enum rdma_cm_event_type type)
{
    static char text[32];

    snprintf(text, sizeof text, "event %d", type);
    return text;
}

/* ---- identifiers ----------------------------------------------------------------------------- */

static int create_id(struct rdma_event_channel *channel, struct rdma_cm_id **out, void *user,
                     enum rdma_port_space space)
{
    struct fake_id *id;

    assert_int_equal(space, RDMA_PS_TCP);
    if (fake_fails_by_errno("cm_create_id"))
        return -1;
    id = fake_make(sizeof *id, &fake_alive.ids);
    id->base.channel = channel;
    id->base.context = user;
    id->psn = next_psn++;
    *out = &id->base;
    return 0;
}

static void forget_events(struct fake_id *id)
{
    struct fake_cm_channel *channel = (struct fake_cm_channel *)id->base.channel;

    for (uint32_t i = channel->head; i != channel->tail; i++)
        if (channel->events[i % CM_EVENTS].base.id == &id->base)
            channel->events[i % CM_EVENTS].base.id = NULL;
}

static int destroy_id(struct rdma_cm_id *base)
{
    struct fake_id *id = (struct fake_id *)base;

    assert_int_equal(id->unacknowledged, 0); /* the real one waits for ever */
    for (int i = 0; i < LISTENERS; i++)
        if (listeners[i] == id)
            listeners[i] = NULL;
    if (id->peer) {
        push(id->peer, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
        id->peer->peer = NULL;
    }
    forget_events(id);
    fake_drop(id, &fake_alive.ids);
    return 0;
}

/* The device whose GID is this address. */
static int take_device(struct fake_id *id, const struct sockaddr *address)
{
    const struct sockaddr_in *v4 = (const void *)address;

    for (int i = 0; i < FAKE_DEVICES; i++)
        if (!memcmp(fake_devices[i].gid.raw + 12, &v4->sin_addr, 4)) {
            cm_contexts[i].device = fake_ibv_device(i);
            id->base.verbs = &cm_contexts[i];
            id->base.port_num = 1;
            memcpy(&id->base.route.addr.src_addr, address, sizeof *v4);
            return 0;
        }
    errno = ENODEV;
    return -1;
}

static int bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
    return fake_fails_by_errno("cm_bind_addr") ? -1 : take_device((struct fake_id *)id, address);
}

static int listen_on(struct rdma_cm_id *id, int backlog)
{
    int i = 0;

    assert_true(backlog > 0);
    if (fake_fails_by_errno("cm_listen"))
        return -1;
    while (listeners[i])
        i++;
    assert_true(i < LISTENERS);
    listeners[i] = (struct fake_id *)id;
    return 0;
}

static __be16 get_src_port(struct rdma_cm_id *id)
{
    for (int i = 0; i < LISTENERS; i++)
        if (listeners[i] == (struct fake_id *)id)
            return htons((uint16_t)(i + 1));
    return 0;
}

static int resolve_addr(struct rdma_cm_id *base, struct sockaddr *from, struct sockaddr *to,
                        int timeout)
{
    struct fake_id *id = (struct fake_id *)base;

    assert_true(timeout > 0);
    assert_int_equal(((const struct sockaddr_in *)(const void *)from)->sin_port, 0);
    if (fake_fails_by_errno("cm_resolve_addr") || take_device(id, from))
        return -1;
    memcpy(&id->to, to, sizeof id->to);
    push(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL);
    return 0;
}

static int resolve_route(struct rdma_cm_id *id, int timeout)
{
    assert_true(timeout > 0);
    if (fake_fails_by_errno("cm_resolve_route"))
        return -1;
    push((struct fake_id *)id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
    return 0;
}

/* ---- connections ----------------------------------------------------------------------------- */

static int request(struct rdma_cm_id *base, struct rdma_conn_param *param)
{
    struct fake_id *id = (struct fake_id *)base, *listener;
    struct rdma_cm_id *made;
    uint16_t port = ntohs(id->to.sin_port);

    if (fake_fails_by_errno("cm_connect"))
        return -1;
    id->qp = param->qp_num;
    listener = port && port <= LISTENERS ? listeners[port - 1] : NULL;
    if (!listener) {
        push(id, RDMA_CM_EVENT_REJECTED, REJECTED_NO_LISTEN, NULL);
        return 0;
    }
    made = fake_make(sizeof(struct fake_id), &fake_alive.ids);
    *made = listener->base;
    made->context = listener->base.context;
    ((struct fake_id *)made)->psn = next_psn++;
    ((struct fake_id *)made)->peer = id;
    memcpy(&made->route.addr.dst_addr, &base->route.addr.src_addr, sizeof(struct sockaddr_in));
    id->peer = (struct fake_id *)made;
    push(id->peer, RDMA_CM_EVENT_CONNECT_REQUEST, 0, param);
    return 0;
}

static int init_qp_attr(struct rdma_cm_id *base, struct ibv_qp_attr *attr, int *mask)
{
    struct fake_id *id = (struct fake_id *)base;

    if (fake_fails_by_errno("cm_init_qp_attr"))
        return -1;
    if (!id->peer) {
        errno = EINVAL;
        return -1;
    }
    *mask = 0;
    if (attr->qp_state == IBV_QPS_RTS) {
        attr->sq_psn = id->psn;
        return 0;
    }
    attr->ah_attr.port_num = 1;
    attr->path_mtu = IBV_MTU_2048;
    attr->dest_qp_num = id->peer->qp;
    attr->rq_psn = id->peer->psn;
    return 0;
}

static int accept_id(struct rdma_cm_id *base, struct rdma_conn_param *param)
{
    struct fake_id *id = (struct fake_id *)base;

    if (fake_fails_by_errno("cm_accept"))
        return -1;
    id->qp = param->qp_num;
    if (id->peer)
        push(id->peer, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, param);
    return 0;
}

static int reject(struct rdma_cm_id *base, const void *data, uint8_t bytes)
{
    struct fake_id *id = (struct fake_id *)base;

    assert_true(!data && !bytes);
    if (id->peer) {
        push(id->peer, RDMA_CM_EVENT_REJECTED, REJECTED_BY_PEER, NULL);
        id->peer->peer = NULL;
    }
    id->peer = NULL;
    return 0;
}

static int establish(struct rdma_cm_id *base)
{
    struct fake_id *id = (struct fake_id *)base;

    if (fake_fails_by_errno("cm_establish"))
        return -1;
    if (id->peer)
        push(id->peer, RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
    return 0;
}

static int disconnect(struct rdma_cm_id *base)
{
    struct fake_id *id = (struct fake_id *)base;

    if (fake_fails_by_errno("cm_disconnect"))
        return -1;
    if (id->peer) {
        push(id->peer, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
        id->peer->peer = NULL;
        push(id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
    }
    id->peer = NULL;
    return 0;
}

void fake_cm_fill(struct br_verbs_library *library)
{
    library->cm_create_event_channel = create_event_channel;
    library->cm_destroy_event_channel = destroy_event_channel;
    library->cm_create_id = create_id;
    library->cm_destroy_id = destroy_id;
    library->cm_bind_addr = bind_addr;
    library->cm_resolve_addr = resolve_addr;
    library->cm_resolve_route = resolve_route;
    library->cm_listen = listen_on;
    library->cm_accept = accept_id;
    library->cm_reject = reject;
    library->cm_connect = request;
    library->cm_establish = establish;
    library->cm_disconnect = disconnect;
    library->cm_init_qp_attr = init_qp_attr;
    library->cm_get_event = get_cm_event;
    library->cm_ack_event = ack_cm_event;
    library->cm_event_str = event_str;
    library->cm_get_src_port = get_src_port;
}
