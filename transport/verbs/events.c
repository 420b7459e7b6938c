/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asynchronous events of the device. Every kind that verbs.h names is dealt with; each is
 * acknowledged at once, because destroying what it belongs to waits for that. A port or a GID that
 * goes takes its links along: the NIC would try for seconds, and the protocol has other rails. When
 * it comes back nothing is to be done: the protocol connects again.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/error.h"
#include "base/log.h"
#include "transport/verbs/verbs.h"

static void fail_all(struct br_verbs_device *device, int error, const char *why)
{
    for (int i = 0; i < device->n_open; i++)
        br_verbs_link_fail(device->open[i], error, false, why);
}

static void fail_one(struct br_verbs_device *device, const struct ibv_qp *qp, const char *why)
{
    struct br_verbs_link *link = br_verbs_link_of(device, qp->qp_num);

    if (link && !link->hung_up)
        br_verbs_link_fail(link, -EIO, false, why);
}

void br_verbs_device_fail(struct br_verbs_device *device, const char *why)
{
    char text[BR_ERROR_BYTES];

    if (device->dead)
        return;
    device->dead = true;
    snprintf(text, sizeof text, "%s", why); /* it may be br_error_message() */
    br_log_error("device %s: %s: the device is given up", device->base.name, text);
    /* These descriptors may stay readable for ever, and then nobody would ever sleep. */
    epoll_ctl(device->epoll_fd, EPOLL_CTL_DEL, device->context->async_fd, NULL);
    epoll_ctl(device->epoll_fd, EPOLL_CTL_DEL, device->channel->fd, NULL);
    fail_all(device, -ENODEV, text);
}

/* Is an entry of the table still what was chosen? */
static bool gid_stands(const struct br_verbs_device *device, const struct br_gid *gid)
{
    union ibv_gid now;

    return !device->library->query_gid(device->context, device->port, gid->index, &now) &&
           !memcmp(now.raw, gid->raw, sizeof now.raw);
}

static void gids_change(struct br_verbs_device *device)
{
    bool any = false, stand = true;

    for (int family = 0; family < BR_GID_FAMILIES; family++) {
        int entry = device->choice.entry[family];

        any = any || entry >= 0;
        stand = stand && (entry < 0 || gid_stands(device, &device->gids[entry]));
    }
    if (any && stand)
        return;
    if (!stand)
        fail_all(device, -EADDRNOTAVAIL, "the GID that the link used is gone");
    if (br_verbs_choose_gids(device))
        br_log_warn("device %s: %s", device->base.name, br_error_message());
}

static void port_changes(struct br_verbs_device *device, uint8_t port, const char *what)
{
    struct ibv_port_attr attr;
    char why[100];
    int rc;

    if (port != device->port)
        return;
    rc = br_verbs_query_port(device->library, device->context, port, &attr);
    if (rc) {
        br_log_warn("device %s: ibv_query_port: %s; port %u counts as down", device->base.name,
                    strerror(rc), port);
        attr = device->attr;
        attr.state = IBV_PORT_DOWN;
    }
    device->attr = attr;
    br_log_info("device %s (level %d): port %u: %s; it is %s", device->base.name,
                device->base.config->level, port, what,
                device->library->port_state_str(device->attr.state));
    if (device->attr.state == IBV_PORT_ACTIVE)
        return;
    snprintf(why, sizeof why, "port %u is %s", port,
             device->library->port_state_str(device->attr.state));
    fail_all(device, -ENETDOWN, why);
}

static void events_one(struct br_verbs_device *device, const struct ibv_async_event *event)
{
    const char *what = device->library->event_type_str(event->event_type);

    switch (event->event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_PATH_MIG_ERR:
        fail_one(device, event->element.qp, what);
        break;
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_WQ_FATAL:
        br_verbs_device_fail(device, what);
        break;
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        br_verbs_receive_limit(device);
        break;
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
        port_changes(device, (uint8_t)event->element.port_num, what);
        break;
    case IBV_EVENT_LID_CHANGE:
        port_changes(device, (uint8_t)event->element.port_num, what);
        if (event->element.port_num == device->port &&
            device->attr.link_layer != IBV_LINK_LAYER_ETHERNET)
            fail_all(device, -ENETRESET, what);
        break;
    case IBV_EVENT_GID_CHANGE:
        if (event->element.port_num == device->port)
            gids_change(device);
        break;
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
        br_log_debug("device %s: %s", device->base.name, what);
        break;
    default:
        br_log_info("device %s: unknown event %d", device->base.name, event->event_type);
        break;
    }
}

void br_verbs_events(struct br_verbs_device *device)
{
    struct ibv_async_event event, copy;

    errno = 0;
    while (!device->library->get_async_event(device->context, &event)) {
        copy = event;
        device->library->ack_async_event(&event);
        events_one(device, &copy);
        errno = 0;
    }
    if (errno != EAGAIN && errno != EINTR) /* the driver has taken it from us */
        br_verbs_device_fail(device, "ibv_get_async_event has failed");
}
