/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake_inside.h"

#define QPS      256
#define INLINE   256u
#define SENDS    256u
#define FIRST_QP 17u

struct fake_send {
    struct ibv_send_wr work;
    struct ibv_sge sge[2];
    uint8_t bytes[INLINE];
};

struct fake_qp {
    struct ibv_qp base;
    enum ibv_qp_state state;
    unsigned int access;
    struct ibv_qp_attr attr;
    uint32_t depth, max_inline;
    struct fake_send sends[SENDS];
    uint32_t head, tail;
};

static struct fake_qp *qps[QPS];

/* ---- queue pairs ----------------------------------------------------------------------------- */

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    struct fake_qp *qp;
    int i = 0;

    if (fake_fails_by_errno("create_qp"))
        return NULL;
    assert_int_equal(init->qp_type, IBV_QPT_RC);
    assert_in_range(init->cap.max_send_wr, 1, fake_device_of(pd->context)->max_qp_wr);
    if (init->cap.max_inline_data > INLINE || init->cap.max_send_wr > SENDS) {
        errno = EINVAL;
        return NULL;
    }
    while (qps[i])
        i++;
    assert_true(i < QPS);
    qp = qps[i] = fake_make(sizeof *qp, &fake_alive.qps);
    qp->base = (struct ibv_qp){.context = pd->context,
                               .pd = pd,
                               .send_cq = init->send_cq,
                               .recv_cq = init->recv_cq,
                               .srq = init->srq,
                               .qp_num = FIRST_QP + (uint32_t)i,
                               .qp_type = IBV_QPT_RC};
    qp->depth = init->cap.max_send_wr;
    qp->max_inline = init->cap.max_inline_data;
    ((struct fake_pd *)pd)->children++;
    ((struct fake_cq *)init->send_cq)->children++;
    if (init->srq)
        ((struct fake_srq *)init->srq)->children++;
    return &qp->base;
}

static void flush(struct fake_qp *qp)
{
    for (; qp->head != qp->tail; qp->head++)
        fake_complete(qp->base.send_cq,
                      (struct ibv_wc){.wr_id = qp->sends[qp->head % SENDS].work.wr_id,
                                      .status = IBV_WC_WR_FLUSH_ERR,
                                      .qp_num = qp->base.qp_num});
}

static void to_error(struct fake_qp *qp)
{
    struct fake_srq *srq = (struct fake_srq *)qp->base.srq;

    if (srq && qp->state != IBV_QPS_ERR && fake_device_of(qp->base.context)->loses_buffers &&
        srq->head != srq->tail)
        fake_take_buffer(srq);
    qp->state = IBV_QPS_ERR;
    flush(qp);
}

/* Attributes that ibv_modify_qp(3) wants for a reliable connection. */
static int wanted(enum ibv_qp_state from, enum ibv_qp_state to)
{
    if (to == IBV_QPS_ERR)
        return IBV_QP_STATE;
    if (from == IBV_QPS_RESET && to == IBV_QPS_INIT)
        return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    if (from == IBV_QPS_INIT && to == IBV_QPS_RTR)
        return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    if (from == IBV_QPS_RTR && to == IBV_QPS_RTS)
        return IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
               IBV_QP_MAX_QP_RD_ATOMIC;
    if (from == IBV_QPS_RTS && to == IBV_QPS_RTS)
        return IBV_QP_STATE | IBV_QP_ACCESS_FLAGS;
    return -1;
}

static int modify_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask)
{
    struct fake_qp *qp = (struct fake_qp *)base;
    int err = fake_fails("modify_qp");

    if (err)
        return err;
    if (mask != wanted(qp->state, attr->qp_state))
        return EINVAL;
    if (attr->qp_state == IBV_QPS_ERR) {
        to_error(qp);
        return 0;
    }
    qp->state = attr->qp_state;
    if (mask & IBV_QP_ACCESS_FLAGS)
        qp->access = attr->qp_access_flags;
    if (mask & IBV_QP_AV) {
        qp->attr = *attr;
        assert_int_equal(attr->ah_attr.port_num, 1);
    }
    return 0;
}

static int destroy_qp(struct ibv_qp *base)
{
    struct fake_qp *qp = (struct fake_qp *)base;
    int err = fake_fails("destroy_qp");

    if (err)
        return err;
    qps[base->qp_num - FIRST_QP] = NULL;
    ((struct fake_pd *)base->pd)->children--;
    ((struct fake_cq *)base->send_cq)->children--;
    if (base->srq)
        ((struct fake_srq *)base->srq)->children--;
    fake_drop(qp, &fake_alive.qps);
    return 0;
}

enum ibv_qp_state fake_state(const struct ibv_qp *qp)
{
    return ((const struct fake_qp *)qp)->state;
}

uint8_t fake_service_level(const struct ibv_qp *qp)
{
    return ((const struct fake_qp *)qp)->attr.ah_attr.sl;
}

uint8_t fake_traffic_class(const struct ibv_qp *qp)
{
    return ((const struct fake_qp *)qp)->attr.ah_attr.grh.traffic_class;
}

void fake_break(struct ibv_qp *base, enum ibv_wc_status status)
{
    struct fake_qp *qp = (struct fake_qp *)base;

    if (qp->head != qp->tail)
        fake_complete(base->send_cq,
                      (struct ibv_wc){.wr_id = qp->sends[qp->head++ % SENDS].work.wr_id,
                                      .status = status,
                                      .qp_num = base->qp_num});
    to_error(qp);
}

/* ---- work requests --------------------------------------------------------------------------- */

static int post_send(struct ibv_qp *base, struct ibv_send_wr *work, struct ibv_send_wr **bad)
{
    struct fake_qp *qp = (struct fake_qp *)base;
    struct fake_send *send = &qp->sends[qp->tail % SENDS];
    uint32_t at = 0;
    int err = fake_fails("post_send");

    *bad = work;
    if (!err && (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_ERR))
        err = EINVAL;
    if (!err && qp->tail - qp->head == qp->depth)
        err = ENOMEM;
    if (err)
        return err;
    assert_null(work->next);
    assert_in_range(work->num_sge, 0, 2);
    send->work = *work;
    for (int i = 0; i < work->num_sge; i++) {
        send->sge[i] = work->sg_list[i];
        if (!(work->send_flags & IBV_SEND_INLINE))
            continue;
        assert_true(at + send->sge[i].length <= qp->max_inline);
        if (send->sge[i].length)
            memcpy(send->bytes + at, (const void *)(uintptr_t)send->sge[i].addr,
                   send->sge[i].length);
        send->sge[i].addr = (uintptr_t)(send->bytes + at);
        at += send->sge[i].length;
    }
    qp->tail++;
    fake_run();
    return 0;
}

static struct fake_qp *peer_of(const struct fake_qp *qp)
{
    uint32_t place = qp->attr.dest_qp_num - FIRST_QP;
    struct fake_qp *peer = place < QPS ? qps[place] : NULL;

    return peer && (peer->state == IBV_QPS_RTR || peer->state == IBV_QPS_RTS) ? peer : NULL;
}

static uint32_t length_of(const struct fake_send *send)
{
    uint32_t bytes = 0;

    for (int i = 0; i < send->work.num_sge; i++)
        bytes += send->sge[i].length;
    return bytes;
}

static void gather(const struct fake_send *send, uint8_t *to)
{
    for (int i = 0; i < send->work.num_sge; i++) {
        if (send->sge[i].length)
            memcpy(to, fake_bytes(send->sge[i].addr), send->sge[i].length);
        to += send->sge[i].length;
    }
}

static bool has_keys(const struct fake_qp *qp, const struct fake_send *send)
{
    for (int i = 0; i < send->work.num_sge && !(send->work.send_flags & IBV_SEND_INLINE); i++)
        if (!fake_is_allowed(qp->base.pd, send->sge[i].lkey, false, send->sge[i].addr,
                             send->sge[i].length))
            return false;
    return true;
}

static bool may_write(const struct fake_qp *peer, const struct fake_send *send)
{
    return peer->access & IBV_ACCESS_REMOTE_WRITE &&
           fake_is_allowed(peer->base.pd, send->work.wr.rdma.rkey, true,
                           send->work.wr.rdma.remote_addr, length_of(send));
}

/* What the responder does. -1: it has no buffer now. */
static int deliver(struct fake_qp *peer, const struct fake_send *send)
{
    struct fake_srq *srq = (struct fake_srq *)peer->base.srq;
    bool writes = send->work.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    struct ibv_wc wc = {.qp_num = peer->base.qp_num,
                        .byte_len = length_of(send),
                        .opcode = writes ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV};
    struct fake_receive to;

    if ((writes || send->work.opcode == IBV_WR_RDMA_WRITE) && !may_write(peer, send))
        return IBV_WC_REM_ACCESS_ERR;
    /* of which the responder's program hears nothing */
    if (send->work.opcode == IBV_WR_RDMA_WRITE) {
        gather(send, fake_bytes(send->work.wr.rdma.remote_addr));
        return IBV_WC_SUCCESS;
    }
    if (srq->head == srq->tail)
        return -1;
    to = fake_take_buffer(srq);
    wc.wr_id = to.id;
    if (!writes && wc.byte_len > to.sge.length) {
        wc.status = IBV_WC_LOC_LEN_ERR;
        fake_complete(peer->base.recv_cq, wc);
        to_error(peer);
        return IBV_WC_REM_INV_REQ_ERR;
    }
    gather(send, fake_bytes(writes ? send->work.wr.rdma.remote_addr : to.sge.addr));
    if (send->work.opcode != IBV_WR_SEND) {
        wc.wc_flags = IBV_WC_WITH_IMM;
        wc.imm_data = send->work.imm_data;
    }
    fake_complete(peer->base.recv_cq, wc);
    return IBV_WC_SUCCESS;
}

/* The first work request of the queue. -1: not now. */
static int execute(struct fake_qp *qp, const struct fake_send *send)
{
    struct fake_qp *peer = peer_of(qp);

    if (!has_keys(qp, send))
        return IBV_WC_LOC_PROT_ERR;
    return peer ? deliver(peer, send) : IBV_WC_RETRY_EXC_ERR;
}

static void run(struct fake_qp *qp)
{
    while (qp->state == IBV_QPS_RTS && qp->head != qp->tail &&
           !fake_device_of(qp->base.context)->hold) {
        const struct fake_send *send = &qp->sends[qp->head % SENDS];
        int status = execute(qp, send);

        if (status < 0)
            return;
        qp->head++;
        if (status || (send->work.send_flags & IBV_SEND_SIGNALED))
            fake_complete(qp->base.send_cq, (struct ibv_wc){.wr_id = send->work.wr_id,
                                                            .status = (enum ibv_wc_status)status,
                                                            .opcode = IBV_WC_SEND,
                                                            .qp_num = qp->base.qp_num});
        if (status)
            to_error(qp);
    }
    if (qp->state == IBV_QPS_ERR)
        flush(qp);
}

void fake_run(void)
{
    for (int i = 0; i < QPS; i++)
        if (qps[i])
            run(qps[i]);
}

void fake_pairs_fill(struct br_verbs_library *library)
{
    library->create_qp = create_qp;
    library->modify_qp = modify_qp;
    library->destroy_qp = destroy_qp;
}

void fake_pairs_operations(struct ibv_context_ops *ops)
{
    ops->post_send = post_send;
}

void fake_pairs_abandon(void)
{
    memset(qps, 0, sizeof qps);
}
