/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Does a NIC reach a GPU's memory? Two queue pairs of its own port, connected with each other, and
 * one RDMA write from there to there, as to a peer: what the NIC reads and what it writes both
 * cross the way between NIC and GPU.
 *
 * Everything is made anew and given back: context, protection domain, completion queue. So it needs
 * no lock of a worker, and `braid info` can ask.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "transport/verbs/probe.h"
#include "transport/verbs/verbs.h"

#define TIMEOUT   14 /* 67 ms a try, */
#define RETRIES   7  /* so the NIC itself gives up after 0.54 s */
#define PATIENCE  (2 * BR_SEC)
#define HOP_LIMIT 64
#define INDEX     0 /* of the keys: the region has none with devices */

struct trial {
    const struct br_verbs_library *library;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *pairs[2];
    uint8_t port;
    struct ibv_port_attr attr;
    struct ibv_ah_attr self; /* the way to our own port */
    struct br_device_counters counters;
    struct br_verbs_registrar registrar;
    char name[BR_DEVICE_NAME];
};

/* ---- the port -------------------------------------------------------------------------------- */

static int verbs_gpu_check_open_context(struct trial *trial, const char *name)
{
    struct ibv_device **list;
    int n, rc = ENODEV;

    errno = 0;
    list = trial->library->get_device_list(&n);
    if (!list)
        return br_error(br_verbs_errno(), "cannot list the RDMA devices: %s",
                        strerror(br_verbs_errno()));
    for (int i = 0; i < n && rc == ENODEV; i++)
        if (!strcmp(trial->library->get_device_name(list[i]), name)) {
            errno = 0;
            trial->context = trial->library->open_device(list[i]);
            rc = trial->context ? 0 : br_verbs_errno();
        }
    trial->library->free_device_list(list);
    return rc ? br_error(rc, "cannot open %s: %s", name, strerror(rc)) : 0;
}

/* A GID of the port, by IPv4 if it has one, or its LID. */
static void aim_at_self(struct trial *trial, const struct br_verbs_port *port,
                        const struct br_gid_choice *choice)
{
    int entry =
        choice->entry[BR_GID_IPV4] >= 0 ? choice->entry[BR_GID_IPV4] : choice->entry[BR_GID_IPV6];

    trial->self.port_num = trial->port;
    if (trial->attr.link_layer != IBV_LINK_LAYER_ETHERNET) {
        trial->self.dlid = trial->attr.lid;
        if (!(trial->attr.flags & IBV_QPF_GRH_REQUIRED))
            return;
    }
    if (entry < 0)
        return;
    trial->self.is_global = 1;
    trial->self.grh.sgid_index = (uint8_t)port->gids[entry].index;
    trial->self.grh.hop_limit = HOP_LIMIT;
    memcpy(&trial->self.grh.dgid, port->gids[entry].raw, sizeof trial->self.grh.dgid);
}

static int verbs_gpu_check_open_port(struct trial *trial, const struct br_device_config *config)
{
    const struct br_verbs_port *port;
    struct br_gid_choice choice;
    struct br_verbs_host host;
    int rc = br_verbs_host_read(&host);

    if (!rc)
        rc = br_verbs_port_find(&host, config->name, config->gid, &port, &choice);
    if (!rc) {
        snprintf(trial->name, sizeof trial->name, "%s", port->name);
        trial->port = (uint8_t)port->port;
        rc = verbs_gpu_check_open_context(trial, port->device);
    }
    if (!rc) {
        rc = br_verbs_query_port(trial->library, trial->context, trial->port, &trial->attr);
        rc = rc ? br_error(rc, "cannot ask the port: %s", strerror(rc)) : 0;
    }
    if (!rc)
        aim_at_self(trial, port, &choice);
    br_verbs_host_destroy(&host);
    return rc;
}

/* ---- queue pairs ----------------------------------------------------------------------------- */

static int verbs_gpu_check_failed(const char *call)
{
    return br_error(br_verbs_errno(), "%s: %s", call, strerror(br_verbs_errno()));
}

static int verbs_gpu_check_make(struct trial *trial)
{
    struct ibv_qp_init_attr init = {
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};

    errno = 0;
    trial->pd = trial->library->alloc_pd(trial->context);
    if (!trial->pd)
        return verbs_gpu_check_failed("ibv_alloc_pd");
    errno = 0;
    trial->cq = trial->library->create_cq(trial->context, 4, NULL, NULL, 0);
    if (!trial->cq)
        return verbs_gpu_check_failed("ibv_create_cq");
    init.send_cq = init.recv_cq = trial->cq;
    for (int i = 0; i < 2; i++) {
        errno = 0;
        trial->pairs[i] = trial->library->create_qp(trial->pd, &init);
        if (!trial->pairs[i])
            return verbs_gpu_check_failed("ibv_create_qp");
    }
    return 0;
}

static int connect_pair(const struct trial *trial, int i)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = trial->port,
                               .qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
                               .ah_attr = trial->self,
                               .path_mtu = trial->attr.active_mtu,
                               .dest_qp_num = trial->pairs[!i]->qp_num,
                               .timeout = TIMEOUT,
                               .retry_cnt = RETRIES};
    int rc = trial->library->modify_qp(trial->pairs[i], &attr,
                                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                           IBV_QP_ACCESS_FLAGS);

    attr.qp_state = IBV_QPS_RTR;
    if (!rc)
        rc = trial->library->modify_qp(trial->pairs[i], &attr,
                                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                                           IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    attr.qp_state = IBV_QPS_RTS;
    if (!rc)
        rc = trial->library->modify_qp(trial->pairs[i], &attr,
                                       IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
                                           IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                           IBV_QP_MAX_QP_RD_ATOMIC);
    return rc ? br_error(rc, "its port cannot be connected with itself: %s", strerror(rc)) : 0;
}

/* Both, as the write is asked for on one and answered by the other. */
static int connect_pairs(const struct trial *trial)
{
    int rc = connect_pair(trial, 0);

    return rc ? rc : connect_pair(trial, 1);
}

/* ---- the write ------------------------------------------------------------------------------- */

static int verbs_gpu_check_complete(const struct trial *trial)
{
    uint64_t until = br_clock_now() + PATIENCE;
    struct ibv_wc wc;
    int n;

    while ((n = ibv_poll_cq(trial->cq, 1, &wc)) == 0)
        if (br_clock_now() > until)
            return br_error(ETIMEDOUT, "a write to itself has not ended after 2 s");
    if (n < 0)
        return br_error(EIO, "ibv_poll_cq has failed");
    if (wc.status == IBV_WC_SUCCESS)
        return 0;
    return br_error(EIO, "a write to itself ended with: %s (vendor error %u)",
                    trial->library->wc_status_str(wc.status), wc.vendor_err);
}

static int write_there(const struct trial *trial, const struct br_region *region, size_t from,
                       size_t to, size_t bytes)
{
    const struct ibv_mr *mr = region->keys[INDEX];
    struct ibv_sge sge = {(uintptr_t)region->base + from, (uint32_t)bytes, mr->lkey};
    struct ibv_send_wr work = {
        .opcode = IBV_WR_RDMA_WRITE,
        .sg_list = &sge,
        .num_sge = 1,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = {.remote_addr = (uintptr_t)region->base + to, .rkey = mr->rkey}};
    struct ibv_send_wr *bad;
    int rc = ibv_post_send(trial->pairs[0], &work, &bad);

    return rc ? br_error(rc > 0 ? rc : EIO, "ibv_post_send: %s", strerror(rc > 0 ? rc : EIO))
              : verbs_gpu_check_complete(trial);
}

/* As the device itself will be known it says and counts nothing. Returns whether it was by the
 * second way. */
static int with_keys(struct trial *trial, struct br_region *region, size_t from, size_t to,
                     size_t bytes)
{
    int rc;

    trial->registrar = (struct br_verbs_registrar){.pd = trial->pd,
                                                   .reg_mr = trial->library->reg_mr,
                                                   .reg_mr_iova2 = trial->library->reg_mr_iova2,
                                                   .reg_dmabuf_mr = trial->library->reg_dmabuf_mr,
                                                   .dereg_mr = trial->library->dereg_mr,
                                                   .name = trial->name,
                                                   .counters = &trial->counters,
                                                   .quiet = true};
    rc = br_verbs_region_register(&trial->registrar, INDEX, region);
    if (rc)
        return rc;
    rc = write_there(trial, region, from, to, bytes);
    br_verbs_region_release(&trial->registrar, INDEX, region);
    return rc ? rc : trial->registrar.peer_memory;
}

static void verbs_gpu_check_destroy(struct trial *trial)
{
    for (int i = 0; i < 2; i++)
        if (trial->pairs[i])
            trial->library->destroy_qp(trial->pairs[i]);
    if (trial->cq)
        trial->library->destroy_cq(trial->cq);
    if (trial->pd)
        trial->library->dealloc_pd(trial->pd);
    if (trial->context)
        trial->library->close_device(trial->context);
}

int br_verbs_gpu_check(const struct br_device_config *config, struct br_region *region, size_t from,
                       size_t to, size_t bytes)
{
    struct trial trial = {0};
    int rc = br_verbs_library(&trial.library);

    if (!rc)
        rc = verbs_gpu_check_open_port(&trial, config);
    if (!rc)
        rc = verbs_gpu_check_make(&trial);
    if (!rc)
        rc = connect_pairs(&trial);
    if (!rc)
        rc = with_keys(&trial, region, from, to, bytes);
    verbs_gpu_check_destroy(&trial);
    return rc;
}
