/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA devices that exist in this process only: a table of libibverbs' functions whose queue pairs
 * write into each other's memory. They are strict where the manual pages are: attributes of
 * ibv_modify_qp, order of destruction, events that are not acknowledged, keys, bounds and access.
 * Any call can be made to fail.
 *
 * FAKE_DEVICES devices fake0, fake1, ..., one active Ethernet port each, whose GID 0 is 127.0.0.1,
 * 127.0.0.2, ... (so BRAID_GID_INDEX=0) and whose rdma_cm works, too. A work request is done when
 * it is posted; one that finds no receive buffer waits, and is tried again in each ibv_poll_cq.
 */
#ifndef BR_TESTS_TRANSPORT_VERBS_FAKE_H
#define BR_TESTS_TRANSPORT_VERBS_FAKE_H

#include "transport/verbs/library.h"

#define FAKE_DEVICES 3
/* As errno of a fault: a call that returns a pointer returns NULL and says nothing. */
#define FAKE_SILENT 0

/* What a test may set at any time. */
extern struct fake_device {
    enum ibv_port_state state;
    uint8_t link_layer;
    union ibv_gid gid; /* entry 0 */
    int max_srq_wr, max_qp_wr, max_cqe;
    bool hold;          /* work requests stay where they are */
    bool loses_buffers; /* a queue pair that fails takes one receive buffer of its queue with it */
} fake_devices[FAKE_DEVICES];

/* Where the device finds what it is to read or write at an address; NULL, as at first: there. For
 * memory that it reaches and the CPU does not. */
extern void *(*fake_memory)(uint64_t address);

struct fake_live {
    int contexts, pds, mrs, channels, cqs, srqs, qps, cm_channels, ids;
};

/* From now on braid sees these devices, without faults. */
void fake_install(void);
/* The end: fails the test if anything is left of what was made. */
void fake_remove(void);
struct fake_live fake_live(void);
/* What a fault has kept alive is nobody's any more. */
void fake_abandon(void);

/* The nth call (from 1) of the table's field of this name (or post_send, post_srq_recv, poll_cq,
 * req_notify_cq, query_port) fails with this errno; always: it and all after it. One fault at a
 * time. */
void fake_fail(const char *call, int nth, int err);
void fake_fail_always(const char *call, int err);
void fake_heal(void);
/* Has the fault come to pass? */
bool fake_has_failed(void);
int fake_calls(const char *call); /* since fake_install() */

/* An asynchronous event of the device; element: what it is about, as in struct ibv_async_event. */
void fake_event(int device, enum ibv_event_type type, uint8_t port);
void fake_event_qp(enum ibv_event_type type, struct ibv_qp *qp);
/* An event of rdma_cm. */
void fake_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type type, int status);
/* librdmacm is not there. */
void fake_without_cm(void);
/* The queue pair fails as by a work request with this status. */
void fake_break(struct ibv_qp *qp, enum ibv_wc_status status);
enum ibv_qp_state fake_state(const struct ibv_qp *qp);
uint8_t fake_service_level(const struct ibv_qp *qp);
uint8_t fake_traffic_class(const struct ibv_qp *qp);
uint32_t fake_buffers(const struct ibv_srq *srq); /* that stand in the queue */

#endif
