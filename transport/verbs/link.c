/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links of the verbs back end: their queue pairs.
 *
 * Settings: the path MTU is the smaller of both ports'. RNR is tried for ever (7): a slow reader is
 * back-pressure, and the protocol's keepalive finds one that is dead. Timeout and retries:
 * device.c.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/verbs/verbs.h"

#define PSN_MASK      0xffffffu
#define RETRIES       7
#define RNR_FOR_EVER  7
#define RNR_TIMER     8 /* 0.16 ms: until a sender tries again */
#define HOP_LIMIT     64
#define INLINE_WANTED 192u /* a header, and what READY carries behind it */

struct br_verbs_link *br_verbs_link_make(struct br_verbs_device *device,
                                         const union br_inet_address *peer)
{
    struct br_verbs_link *link = br_pool_get(&device->links);

    if (!link) {
        br_error(EMFILE, "device %s: all %u links are in use", device->base.name,
                 device->links.count);
        return NULL;
    }
    memset(link, 0, br_verbs_link_bytes(device));
    link->base.device = &device->base;
    link->fd = -1;
    br_list_init(&link->ready);
    br_list_init(&link->inbox);
    br_list_init(&link->held);
    br_inet_text(peer, true, link->base.peer_name, sizeof link->base.peer_name);
    link->index = device->n_open;
    link->number = br_pool_index(&device->links, link);
    device->open[device->n_open++] = link;
    device->n_exchanges++;
    device->check_events = true;
    return link;
}

struct br_verbs_link *br_verbs_link_find(struct br_verbs_device *device, uint32_t qp_num)
{
    struct br_verbs_link *link = br_table_find(&device->numbers, qp_num, 0);

    if (link)
        device->recent[qp_num % BR_VERBS_RECENT] = (struct br_verbs_recent){qp_num, link};
    return link;
}

static void forget_number(struct br_verbs_device *device, uint32_t qp_num)
{
    br_table_remove(&device->numbers, qp_num, 0);
    if (device->recent[qp_num % BR_VERBS_RECENT].qp_num == qp_num)
        device->recent[qp_num % BR_VERBS_RECENT] = (struct br_verbs_recent){0};
}

static void end_exchange(struct br_verbs_link *link)
{
    if (link->state == BR_VLINK_CONNECTING)
        br_verbs_device_of(link)->n_exchanges--;
    else if (link->state == BR_VLINK_UP && !link->opened)
        br_verbs_device_of(link)->n_closed--;
}

static void set_error_state(struct br_verbs_link *link)
{
    const struct br_verbs_device *device = br_verbs_device_of(link);

    for (unsigned i = 0; i < device->classes.n && link->lanes[i].qp; i++) {
        struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
        int rc = device->library->modify_qp(link->lanes[i].qp, &attr, IBV_QP_STATE);

        if (rc && !device->dead)
            br_log_debug("device %s: queue pair %u to ERROR: %s", link->base.device->name,
                         link->lanes[i].qp->qp_num, strerror(rc));
    }
}

void br_verbs_link_fail(struct br_verbs_link *link, int error, bool silent, const char *why)
{
    struct br_verbs_device *device = br_verbs_device_of(link);
    char local[64];

    if (link->state == BR_VLINK_FAILED)
        return;
    br_inet_text(&device->address, link->accepted, local, sizeof local);
    br_error(-error, "device %s (level %d), %s %s %s: %s", device->base.name,
             device->base.config->level, local, link->accepted ? "<-" : "->", link->base.peer_name,
             why);
    snprintf(link->base.message, sizeof link->base.message, "%.159s", br_error_message());
    br_log_limited(&device->base.peer_lines, br_clock_now(), BR_LOG_INFO, "%s", br_error_message());
    end_exchange(link);
    set_error_state(link);
    if (link->fd >= 0)
        shutdown(link->fd, SHUT_RDWR); /* so that the peer hears of it, too */
    br_verbs_cm_disconnect(link);
    link->reported = false;
    link->silent = silent;
    link->state = BR_VLINK_FAILED;
    link->error = error;
    br_verbs_link_is_ready(link);
}

static int verbs_link_error_of(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
        return -ETIMEDOUT;
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_LOC_LEN_ERR:
        return -EPROTO;
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
        return -EFAULT;
    case IBV_WC_WR_FLUSH_ERR:
        return -ECONNABORTED;
    default:
        return -EIO;
    }
}

static const char *verbs_link_hint(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
        return "; the peer's port or queue pair does not answer";
    case IBV_WC_REM_ACCESS_ERR:
        return "; the peer's NIC refuses the place";
    default:
        return "";
    }
}

void br_verbs_link_fail_by(struct br_verbs_link *link, const struct ibv_wc *wc)
{
    char why[120];

    if (link->hung_up) /* it has closed, which is the better reason */
        return;
    snprintf(why, sizeof why, "%s (vendor error %u)%s",
             br_verbs_device_of(link)->library->wc_status_str(wc->status), wc->vendor_err,
             verbs_link_hint(wc->status));
    br_verbs_link_fail(link, verbs_link_error_of(wc->status), false, why);
}

static int create_lane(struct br_verbs_link *link, struct br_verbs_lane *lane)
{
    struct br_verbs_device *device = br_verbs_device_of(link);
    struct ibv_qp_init_attr init = {
        .send_cq = device->cq,
        .recv_cq = device->cq,
        .srq = device->receive.srq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = device->depth, .max_send_sge = 2, .max_inline_data = INLINE_WANTED},
    };
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = device->port};
    int rc;

    errno = 0;
    lane->qp = device->library->create_qp(device->pd, &init);
    if (!lane->qp && br_verbs_errno() == EINVAL) { /* so much does not go inline here */
        init.cap.max_inline_data = sizeof(struct br_frame_header);
        lane->qp = device->library->create_qp(device->pd, &init);
    }
    if (!lane->qp)
        return br_error(br_verbs_errno(), "cannot make a queue pair: %s%s",
                        strerror(br_verbs_errno()),
                        br_verbs_errno() == ENOMEM
                            ? "; the device has no more, or the limit of locked memory is too low "
                              "(ulimit -l)"
                            : "");
    lane->id = br_verbs_lane_id(link->number, (unsigned)(lane - link->lanes));
    lane->write = (struct ibv_send_wr){
        .sg_list = &lane->sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM};
    if (!link->max_inline || init.cap.max_inline_data < link->max_inline)
        link->max_inline = init.cap.max_inline_data;
    rc = br_table_insert(&device->numbers, lane->qp->qp_num, 0, link);
    if (!rc) /* qp_access_flags 0: the peer may write nothing */
        rc = -device->library->modify_qp(
            lane->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    return rc ? br_error(-rc, "cannot prepare queue pair %u: %s", lane->qp->qp_num, strerror(-rc))
              : 0;
}

int br_verbs_link_create(struct br_verbs_link *link)
{
    int rc = 0;

    if (getrandom(&link->psn, sizeof link->psn, 0) != (ssize_t)sizeof link->psn)
        return br_error(EIO, "getrandom: %s", strerror(errno));
    link->psn &= PSN_MASK;
    for (unsigned i = 0; i < br_verbs_device_of(link)->classes.n && !rc; i++)
        rc = create_lane(link, &link->lanes[i]);
    return rc;
}

void br_verbs_link_up(struct br_verbs_link *link)
{
    struct br_verbs_device *device = br_verbs_device_of(link);

    link->state = BR_VLINK_UP;
    device->n_exchanges--;
    device->n_closed++;
    br_verbs_link_is_ready(link);
}

void br_verbs_link_give_up(struct br_verbs_link *link, int error, const char *why)
{
    if (link->known) {
        br_verbs_link_fail(link, error, true, why);
        return;
    }
    br_log_limited(&link->base.device->peer_lines, br_clock_now(), BR_LOG_INFO,
                   "device %s: %s does not become a link: %s", link->base.device->name,
                   link->base.peer_name, why);
    br_verbs_link_close(&link->base);
}

/* The way to the peer, but for the class. */
static int address_of_peer(struct br_verbs_link *link, struct ibv_ah_attr *ah)
{
    struct br_verbs_device *device = br_verbs_device_of(link);
    struct br_gid_set theirs;
    enum br_gid_family family;
    int place;

    ah->port_num = device->port;
    if (device->attr.link_layer != IBV_LINK_LAYER_ETHERNET) {
        ah->dlid = link->hello.lid;
        if (!(device->attr.flags & IBV_QPF_GRH_REQUIRED))
            return 0;
    }
    memcpy(theirs.raw, link->hello.gids, sizeof theirs.raw);
    memcpy(theirs.type, link->hello.gid_types, sizeof theirs.type);
    place = br_gid_agree(device->gids, &device->choice, &theirs, &family);
    if (place < 0)
        return place;
    ah->is_global = 1;
    ah->grh.sgid_index = (uint8_t)device->gids[place].index;
    ah->grh.hop_limit = HOP_LIMIT;
    memcpy(&ah->grh.dgid, theirs.raw[family], sizeof ah->grh.dgid);
    return 0;
}

/* With the peer's number and first packet, and our first packet, in attr. */
static int connect_lane(struct br_verbs_link *link, unsigned i, struct ibv_qp_attr attr)
{
    struct br_verbs_device *device = br_verbs_device_of(link);
    const struct br_verbs_class *class = &device->classes.of[i];
    struct ibv_qp *qp = link->lanes[i].qp;
    int rc;

    if (class->service_level) /* 0: as rdma_cm says */
        attr.ah_attr.sl = class->service_level;
    if (class->traffic_class)
        attr.ah_attr.grh.traffic_class = class->traffic_class;
    attr.qp_state = IBV_QPS_RTR;
    rc = device->library->modify_qp(qp, &attr,
                                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                        IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                        IBV_QP_MIN_RNR_TIMER);
    if (rc)
        return br_error(rc, "queue pair %u cannot receive from the peer: %s", qp->qp_num,
                        strerror(rc));
    attr.qp_state = IBV_QPS_RTS;
    rc = device->library->modify_qp(qp, &attr,
                                    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
                                        IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                        IBV_QP_MAX_QP_RD_ATOMIC);
    return rc ? br_error(rc, "queue pair %u cannot send: %s", qp->qp_num, strerror(rc)) : 0;
}

int br_verbs_link_ready(struct br_verbs_link *link)
{
    struct br_verbs_device *device = br_verbs_device_of(link);
    enum ibv_mtu mtu = device->attr.active_mtu;
    struct ibv_qp_attr attr = {.path_mtu =
                                   link->hello.mtu < mtu ? (enum ibv_mtu)link->hello.mtu : mtu,
                               .dest_qp_num = link->hello.qps[0],
                               .rq_psn = link->hello.psn,
                               .sq_psn = link->psn,
                               .min_rnr_timer = RNR_TIMER,
                               .timeout = device->timeout,
                               .retry_cnt = RETRIES,
                               .rnr_retry = RNR_FOR_EVER};
    uint32_t theirs = (uint32_t)sizeof(struct br_frame_header) + link->hello.message_bytes;
    int rc;

    if (link->hello.lanes != device->classes.n)
        return br_error(EPROTO,
                        "the peer has %u priority classes, we have %u: set BRAID_SERVICE_LEVEL and "
                        "BRAID_TRAFFIC_CLASS alike on all ranks",
                        link->hello.lanes, device->classes.n);
    rc = link->id ? br_verbs_cm_path(link, &attr) : address_of_peer(link, &attr.ah_attr);
    for (unsigned i = 0; i < device->classes.n && !rc; i++) {
        rc = connect_lane(link, i, attr);
        if (i + 1 < device->classes.n) { /* what rdma_cm says is of the first only */
            attr.dest_qp_num = link->hello.qps[i + 1];
            attr.rq_psn = link->hello.psn;
            attr.sq_psn = link->psn;
        }
    }
    if (!rc)
        link->piece_bytes =
            theirs < device->receive.wire_bytes ? theirs : device->receive.wire_bytes;
    return rc;
}

static void verbs_link_open_link(struct br_verbs_link *link)
{
    struct br_verbs_device *device = br_verbs_device_of(link);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    int rc = 0;

    if (link->opened || link->state != BR_VLINK_UP || !link->base.authenticated)
        return;
    if (!br_verbs_has_room(link, &link->lanes[BR_VERBS_MESSAGES]))
        return; /* to tell it */
    for (unsigned i = 0; i < device->classes.n && !rc; i++)
        rc = device->library->modify_qp(link->lanes[i].qp, &attr,
                                        IBV_QP_STATE | IBV_QP_ACCESS_FLAGS);
    if (rc) {
        br_verbs_link_fail(link, -rc, true, strerror(rc));
        return;
    }
    link->opened = true;
    device->n_closed--;
    br_verbs_send_open(link);
}

void br_verbs_open_links(struct br_verbs_device *device)
{
    for (int i = 0; i < device->n_open && device->n_closed; i++)
        verbs_link_open_link(device->open[i]);
}

/* What the NIC may still do to memory ends when the queue pair has been destroyed. */
static void destroy_lanes(struct br_verbs_link *link)
{
    struct br_verbs_device *device = br_verbs_device_of(link);
    unsigned n = 0;

    if (link->lanes[0].qp)
        /* some providers (mlx5) drop what stands there of a queue pair with it, buffers and all */
        br_verbs_drain(device);
    for (; n < device->classes.n && link->lanes[n].qp; n++) {
        struct br_verbs_lane *lane = &link->lanes[n];
        int rc;

        forget_number(device, lane->qp->qp_num);
        rc = device->library->destroy_qp(lane->qp);
        if (rc) { /* nothing proves that it is fenced */
            br_log_error("device %s: ibv_destroy_qp: %s", device->base.name, strerror(rc));
            br_verbs_device_fail(device, "a queue pair cannot be destroyed");
        }
        lane->qp = NULL;
    }
    if (n)
        br_verbs_drain(device); /* its completions go, those of others to their links */
    for (unsigned i = 0; i < n; i++)
        for (struct br_verbs_lane *lane = &link->lanes[i]; lane->done != lane->posted; lane->done++)
            br_verbs_entry_done(device, &lane->entries[lane->done % BR_VERBS_DEPTH]);
}

void br_verbs_link_close(struct br_link *base)
{
    struct br_verbs_link *link = (struct br_verbs_link *)base;
    struct br_verbs_device *device = br_verbs_device_of(link);

    if (link->state != BR_VLINK_FAILED) {
        end_exchange(link);
        set_error_state(link);
        link->state = BR_VLINK_FAILED;
    }
    destroy_lanes(link);
    if (link->fd >= 0)
        close(link->fd);
    br_verbs_cm_close(link);
    br_verbs_receive_return(device, &link->inbox);
    br_verbs_receive_return(device, &link->held);
    br_list_remove(&link->ready);
    if (link->pieces.frame.kind)
        device->n_pushing--;
    device->open[link->index] = device->open[--device->n_open];
    device->open[link->index]->index = link->index;
    br_pool_put(&device->links, link);
}
