/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How two devices find each other by rdma_cm (BRAID_VERBS_CONNECT=cm): there is no TCP between the
 * hosts, the fabric's own messages carry what connect.c sends over a socket. For fabrics where IP
 * packets do not pass, and where the subnet manager chooses paths.
 *
 * The numbered notes are in doc/design/verbs.md.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/error.h"
#include "base/log.h"
#include "transport/verbs/verbs.h"

#define BACKLOG      64
#define RESOLVE_MS   2000 /* rdma_cm's own patience for an address, and for a route */
#define RETRIES      7
#define HELLO_BYTES  offsetof(struct br_verbs_hello, gids)
#define NOT_LISTENED 8 /* IB_CM_REJ_INVALID_SERVICE_ID, status of REJECTED */

/* What remains of an event when it has been acknowledged. */
struct event {
    enum rdma_cm_event_type type;
    struct rdma_cm_id *id;
    int status;
    size_t bytes;
    struct br_verbs_hello hello;
};

/* For functions of librdmacm: -1 and errno. */
static int connect_cm_failed(const char *call)
{
    int err = br_verbs_errno();

    return br_error(err, "%s: %s", call, strerror(err));
}

/* rdma_cm goes by address; that must be our port. */
static int connect_cm_check_device(const struct br_verbs_device *device,
                                   const struct rdma_cm_id *id)
{
    const char *name = device->library->get_device_name(device->context->device);

    if (id->verbs && !strcmp(device->library->get_device_name(id->verbs->device), name) &&
        id->port_num == device->port)
        return 0;
    return br_error(EADDRNOTAVAIL, "rdma_cm takes another device for its address: %s",
                    id->verbs ? device->library->get_device_name(id->verbs->device) : "none");
}

static int open_channel(struct br_verbs_device *device)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &device->cm};
    int flags;

    if (*device->library->cm_why_not)
        return br_error(EOPNOTSUPP, "BRAID_VERBS_CONNECT=cm: %s", device->library->cm_why_not);
    errno = 0;
    device->cm.channel = device->library->cm_create_event_channel();
    if (!device->cm.channel)
        return br_error(br_verbs_errno(), "rdma_create_event_channel: %s (modprobe rdma_ucm)",
                        strerror(br_verbs_errno()));
    flags = fcntl(device->cm.channel->fd, F_GETFL);
    if (flags < 0 || fcntl(device->cm.channel->fd, F_SETFL, flags | O_NONBLOCK))
        return br_error(errno, "fcntl: %s", strerror(errno));
    if (epoll_ctl(device->epoll_fd, EPOLL_CTL_ADD, device->cm.channel->fd, &event))
        return br_error(errno, "epoll_ctl: %s", strerror(errno));
    return 0;
}

static void connect_cm_set_port(union br_inet_address *address, uint16_t port)
{
    if (address->any.sa_family == AF_INET6)
        address->v6.sin6_port = port;
    else
        address->v4.sin_port = port;
}

int br_verbs_cm_listen(struct br_verbs_device *device)
{
    const struct br_verbs_library *library = device->library;
    int rc = open_channel(device);

    if (rc)
        return rc;
    errno = 0;
    if (library->cm_create_id(device->cm.channel, &device->cm.listener, NULL, RDMA_PS_TCP)) {
        device->cm.listener = NULL;
        return connect_cm_failed("rdma_create_id");
    }
    if (library->cm_bind_addr(device->cm.listener, &device->address.any))
        return connect_cm_failed("rdma_bind_addr");
    rc = connect_cm_check_device(device, device->cm.listener);
    if (rc)
        return rc;
    if (library->cm_listen(device->cm.listener, BACKLOG))
        return connect_cm_failed("rdma_listen");
    connect_cm_set_port(&device->address, library->cm_get_src_port(device->cm.listener));
    return 0;
}

void br_verbs_cm_destroy(struct br_verbs_device *device)
{
    if (device->cm.listener && device->library->cm_destroy_id(device->cm.listener))
        br_log_error("device %s: rdma_destroy_id: %s", device->base.name, strerror(errno));
    if (device->cm.channel)
        device->library->cm_destroy_event_channel(device->cm.channel);
}

int br_verbs_cm_connect(struct br_verbs_link *link, const union br_inet_address *peer)
{
    struct br_verbs_device *device = br_verbs_device_of(link);
    union br_inet_address from = device->address, to = *peer;

    errno = 0;
    if (device->library->cm_create_id(device->cm.channel, &link->id, link, RDMA_PS_TCP)) {
        link->id = NULL;
        return connect_cm_failed("rdma_create_id");
    }
    connect_cm_set_port(&from, 0);
    if (device->library->cm_resolve_addr(link->id, &from.any, &to.any, RESOLVE_MS))
        return connect_cm_failed("rdma_resolve_addr");
    return 0;
}

void br_verbs_cm_disconnect(struct br_verbs_link *link)
{
    if (link->id && link->state == BR_VLINK_UP)
        /* an error: the peer was first */
        br_verbs_device_of(link)->library->cm_disconnect(link->id);
}

void br_verbs_cm_close(struct br_verbs_link *link)
{
    struct br_verbs_device *device = br_verbs_device_of(link);

    if (link->id && device->library->cm_destroy_id(link->id))
        br_log_error("device %s: rdma_destroy_id: %s", device->base.name, strerror(errno));
    link->id = NULL;
}

int br_verbs_cm_path(struct br_verbs_link *link, struct ibv_qp_attr *attr)
{
    struct br_verbs_device *device = br_verbs_device_of(link);
    struct ibv_qp_attr known = {.qp_state = IBV_QPS_RTR};
    int mask;

    errno = 0;
    if (device->library->cm_init_qp_attr(link->id, &known, &mask))
        return connect_cm_failed("rdma_init_qp_attr");
    attr->ah_attr = known.ah_attr;
    attr->dest_qp_num = known.dest_qp_num;
    attr->rq_psn = known.rq_psn;
    if (known.path_mtu < attr->path_mtu)
        attr->path_mtu = known.path_mtu;
    known.qp_state = IBV_QPS_RTS;
    if (device->library->cm_init_qp_attr(link->id, &known, &mask))
        return connect_cm_failed("rdma_init_qp_attr");
    attr->sq_psn = known.sq_psn;
    return 0;
}

static void connect_cm_fill(const struct br_verbs_link *link, struct br_verbs_hello *hello,
                            struct rdma_conn_param *param)
{
    br_verbs_hello_fill(link, hello);
    *param = (struct rdma_conn_param){.private_data = hello,
                                      .private_data_len = HELLO_BYTES,
                                      .retry_count = RETRIES,
                                      .rnr_retry_count = RETRIES,
                                      .qp_num = link->lanes[0].qp->qp_num,
                                      .srq = 1};
}

static int connect_cm_take_hello(struct br_verbs_link *link, const struct event *event)
{
    int rc;

    if (event->bytes < HELLO_BYTES)
        return br_error(EPROTO, "%zu bytes of private data are no hello of braid", event->bytes);
    link->hello = event->hello;
    rc = br_verbs_hello_check(&link->hello);
    if (rc)
        br_verbs_device_of(link)->base.counters.bad_frames++;
    return rc;
}

static int connect_cm_request(struct br_verbs_link *link)
{
    struct br_verbs_device *device = br_verbs_device_of(link);
    struct rdma_conn_param param;
    struct br_verbs_hello hello;
    int rc = br_verbs_link_create(link);

    if (rc)
        return rc;
    connect_cm_fill(link, &hello, &param);
    return device->library->cm_connect(link->id, &param) ? connect_cm_failed("rdma_connect") : 0;
}

/* The listener has accepted. */
static int connect_cm_respond(struct br_verbs_link *link, const struct event *event)
{
    int rc = connect_cm_take_hello(link, event);

    if (!rc)
        rc = br_verbs_link_ready(link);
    if (!rc && br_verbs_device_of(link)->library->cm_establish(link->id))
        rc = connect_cm_failed("rdma_establish");
    if (!rc)
        br_verbs_link_up(link);
    return rc;
}

static int resolve_route(struct br_verbs_link *link)
{
    struct br_verbs_device *device = br_verbs_device_of(link);
    int rc = connect_cm_check_device(device, link->id);

    if (rc)
        return rc;
    return device->library->cm_resolve_route(link->id, RESOLVE_MS)
               ? connect_cm_failed("rdma_resolve_route")
               : 0;
}

static int connect_cm_answer(struct br_verbs_link *link, const struct event *event)
{
    struct br_verbs_device *device = br_verbs_device_of(link);
    struct rdma_conn_param param;
    struct br_verbs_hello hello;
    int rc = connect_cm_check_device(device, link->id);

    if (!rc)
        rc = connect_cm_take_hello(link, event);
    if (!rc)
        rc = br_verbs_link_create(link);
    if (!rc)
        rc = br_verbs_link_ready(link);
    if (rc)
        return rc;
    connect_cm_fill(link, &hello, &param);
    return device->library->cm_accept(link->id, &param) ? connect_cm_failed("rdma_accept") : 0;
}

static void accept_request(struct br_verbs_device *device, const struct event *event)
{
    const union br_inet_address *peer = (const void *)&event->id->route.addr.dst_addr;
    struct br_verbs_link *link = device->dead ? NULL : br_verbs_link_make(device, peer);

    if (!link) {
        device->base.counters.refused_links++;
        device->library->cm_reject(event->id, NULL, 0);
        device->library->cm_destroy_id(event->id);
        return;
    }
    link->id = event->id;
    link->id->context = link;
    link->accepted = true;
    if (!connect_cm_answer(link, event))
        return;
    device->library->cm_reject(link->id, NULL, 0);
    br_verbs_link_give_up(link, -EPROTO, br_error_message());
}

/* Why a connection did not come about, in words. */
static int connect_cm_refused(const struct br_verbs_device *device, const struct event *event)
{
    const char *what = device->library->cm_event_str(event->type);
    /* -1: librdmacm's own, it says no more */
    int err = event->status < -1 ? -event->status : EHOSTUNREACH;

    /* iWARP has an errno in place of a reason */
    if (event->type == RDMA_CM_EVENT_REJECTED &&
        (event->status == NOT_LISTENED || event->status == -ECONNREFUSED))
        return br_error(ECONNREFUSED, "%s (reason %d): nobody listens there", what, event->status);
    if (event->type == RDMA_CM_EVENT_REJECTED) /* by a process that lives */
        return br_error(ECONNRESET, "%s (reason %d); the peer's log (BRAID_LOG=info) says why",
                        what, event->status);
    return br_error(err, "%s: %s", what, strerror(err));
}

/* 0; -errno with a message: the exchange has come to nothing. */
static int connect_cm_exchange(struct br_verbs_link *link, const struct event *event)
{
    switch (event->type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        return resolve_route(link);
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        return connect_cm_request(link);
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
        return connect_cm_respond(link, event);
    case RDMA_CM_EVENT_ESTABLISHED:
        br_verbs_link_up(link);
        return 0;
    case RDMA_CM_EVENT_DISCONNECTED:
        return br_error(ECONNREFUSED,
                        "the peer closed during the exchange; its log (BRAID_LOG=info) says why");
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED:
        return connect_cm_refused(br_verbs_device_of(link), event);
    default:
        return 0;
    }
}

static void connect_cm_one(struct br_verbs_device *device, const struct event *event)
{
    struct br_verbs_link *link = event->id->context;
    int rc;

    if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
        accept_request(device, event);
    } else if (event->type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
        br_verbs_device_fail(device, "it has been removed");
    } else if (link && link->state == BR_VLINK_CONNECTING) {
        rc = connect_cm_exchange(link, event);
        if (rc)
            br_verbs_link_give_up(link, rc, br_error_message());
    } else if (link && link->state == BR_VLINK_UP && event->type == RDMA_CM_EVENT_DISCONNECTED) {
        link->hung_up = true; /* what it said before is reported first (poll.c) */
        br_verbs_link_is_ready(link);
    } else {
        br_log_debug("device %s: %s", device->base.name,
                     device->library->cm_event_str(event->type));
    }
}

void br_verbs_cm_events(struct br_verbs_device *device)
{
    struct rdma_cm_event *event;

    errno = 0;
    while (!device->library->cm_get_event(device->cm.channel, &event)) {
        struct event copy = {.type = event->event, .id = event->id, .status = event->status};

        device->base.counters.system_calls++;
        if (event->param.conn.private_data && event->param.conn.private_data_len >= HELLO_BYTES) {
            copy.bytes = HELLO_BYTES;
            memcpy(&copy.hello, event->param.conn.private_data, HELLO_BYTES);
        }
        device->library->cm_ack_event(event);
        connect_cm_one(device, &copy);
        errno = 0;
    }
    /* these pass, and it is looked at again */
    if (errno != EAGAIN && errno != EINTR && errno != ENOMEM) {
        br_log_error(
            "device %s: rdma_get_cm_event: %s: no new links, and the end of others is found late",
            device->base.name, strerror(br_verbs_errno()));
        epoll_ctl(device->epoll_fd, EPOLL_CTL_DEL, device->cm.channel->fd, NULL);
    }
}
