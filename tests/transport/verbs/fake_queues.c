/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake_inside.h"

#include <sys/eventfd.h>
#include <unistd.h>

#define MRS 512

static struct ibv_mr *mrs[MRS];
static uint32_t next_key = 0x1000;

/* ---- memory ---------------------------------------------------------------------------------- */

static struct ibv_pd *alloc_pd(struct ibv_context *context)
{
    struct fake_pd *pd;

    if (fake_fails_by_errno("alloc_pd"))
        return NULL;
    pd = fake_make(sizeof *pd, &fake_alive.pds);
    pd->base.context = context;
    ((struct fake_context *)context)->children++;
    return &pd->base;
}

static int dealloc_pd(struct ibv_pd *base)
{
    struct fake_pd *pd = (struct fake_pd *)base;
    int err = fake_fails("dealloc_pd");

    if (err || pd->children)
        return err ? err : EBUSY;
    ((struct fake_context *)base->context)->children--;
    fake_drop(pd, &fake_alive.pds);
    return 0;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *memory, size_t bytes, int access)
{
    struct ibv_mr *mr;
    int i = 0;

    (void)access;
    if (fake_fails_by_errno("reg_mr"))
        return NULL;
    while (mrs[i])
        i++;
    assert_true(i < MRS);
    mr = mrs[i] = fake_make(sizeof *mr, &fake_alive.mrs);
    mr->pd = pd;
    mr->context = pd->context;
    mr->addr = memory;
    mr->length = bytes;
    mr->lkey = next_key++;
    mr->rkey = next_key++;
    ((struct fake_pd *)pd)->children++;
    return mr;
}

static struct ibv_mr *reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t bytes, uint64_t iova,
                                    int fd, int access)
{
    (void)offset;
    assert_true(fd >= 0);
    assert_int_equal(offset % 4096, iova % 4096);
    if (fake_fails_by_errno("reg_dmabuf_mr"))
        return NULL;
    return reg_mr(pd, (void *)(uintptr_t)iova, bytes, access);
}

void *(*fake_memory)(uint64_t address);

void *fake_bytes(uint64_t address)
{
    return fake_memory ? fake_memory(address) : (void *)(uintptr_t)address;
}

static int dereg_mr(struct ibv_mr *mr)
{
    int err = fake_fails("dereg_mr"), i = 0;

    if (err)
        return err;
    while (mrs[i] != mr)
        i++;
    mrs[i] = NULL;
    ((struct fake_pd *)mr->pd)->children--;
    fake_drop(mr, &fake_alive.mrs);
    return 0;
}

/* May a work request of this protection domain touch [address, +bytes) with this key? */
bool fake_is_allowed(const struct ibv_pd *pd, uint32_t key, bool remote, uint64_t address,
                     uint64_t bytes)
{
    for (int i = 0; i < MRS; i++)
        if (mrs[i] && mrs[i]->pd == pd && (remote ? mrs[i]->rkey : mrs[i]->lkey) == key)
            return address >= (uintptr_t)mrs[i]->addr &&
                   address + bytes <= (uintptr_t)mrs[i]->addr + mrs[i]->length;
    return false;
}

/* ---- completion queues ----------------------------------------------------------------------- */

static struct ibv_comp_channel *create_comp_channel(struct ibv_context *context)
{
    struct fake_channel *channel;

    if (fake_fails_by_errno("create_comp_channel"))
        return NULL;
    channel = fake_make(sizeof *channel, &fake_alive.channels);
    channel->base.context = context;
    channel->base.fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
    assert_true(channel->base.fd >= 0);
    ((struct fake_context *)context)->children++;
    return &channel->base;
}

static int destroy_comp_channel(struct ibv_comp_channel *base)
{
    int err = fake_fails("destroy_comp_channel");

    if (err || ((struct fake_channel *)base)->cq)
        return err ? err : EBUSY;
    ((struct fake_context *)base->context)->children--;
    close(base->fd);
    fake_drop(base, &fake_alive.channels);
    return 0;
}

static struct ibv_cq *create_cq(struct ibv_context *context, int entries, void *user,
                                struct ibv_comp_channel *channel, int vector)
{
    struct fake_cq *cq;

    assert_int_equal(vector, 0);
    if (fake_fails_by_errno("create_cq"))
        return NULL;
    assert_in_range(entries, 1, fake_device_of(context)->max_cqe);
    cq = fake_make(sizeof *cq + (size_t)entries * sizeof *cq->ring, &fake_alive.cqs);
    cq->base =
        (struct ibv_cq){.context = context, .channel = channel, .cq_context = user, .cqe = entries};
    if (channel)
        ((struct fake_channel *)channel)->cq = cq;
    ((struct fake_context *)context)->children++;
    return &cq->base;
}

static int destroy_cq(struct ibv_cq *base)
{
    struct fake_cq *cq = (struct fake_cq *)base;
    int err = fake_fails("destroy_cq");

    if (err || cq->children)
        return err ? err : EBUSY;
    assert_int_equal(cq->unacknowledged, 0); /* the real one waits for ever */
    if (base->channel)
        ((struct fake_channel *)base->channel)->cq = NULL;
    ((struct fake_context *)base->context)->children--;
    fake_drop(cq, &fake_alive.cqs);
    return 0;
}

void fake_complete(struct ibv_cq *base, struct ibv_wc wc)
{
    struct fake_cq *cq = (struct fake_cq *)base;
    uint64_t one = 1;

    assert_true(cq->tail - cq->head < (uint32_t)base->cqe); /* else it has run over */
    cq->ring[cq->tail++ % (uint32_t)base->cqe] = wc;
    if (cq->armed)
        assert_int_equal(write(base->channel->fd, &one, sizeof one), sizeof one);
    cq->armed = false;
}

static int poll_cq(struct ibv_cq *base, int n, struct ibv_wc *wc)
{
    struct fake_cq *cq = (struct fake_cq *)base;
    int i = 0;

    if (fake_fails("poll_cq"))
        return -1;
    fake_run();
    for (; i < n && cq->head != cq->tail; i++)
        wc[i] = cq->ring[cq->head++ % (uint32_t)base->cqe];
    return i;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited)
{
    int err = fake_fails("req_notify_cq");

    assert_int_equal(solicited, 0);
    ((struct fake_cq *)cq)->armed = !err;
    return err;
}

static int get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **user)
{
    uint64_t one;

    if (fake_fails_by_errno("get_cq_event") || read(channel->fd, &one, sizeof one) != sizeof one)
        return -1;
    *cq = &((struct fake_channel *)channel)->cq->base;
    *user = (*cq)->cq_context;
    ((struct fake_channel *)channel)->cq->unacknowledged++;
    return 0;
}

static void ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
    assert_true(((struct fake_cq *)cq)->unacknowledged >= n);
    ((struct fake_cq *)cq)->unacknowledged -= n;
}

/* ---- shared receive queues ------------------------------------------------------------------- */

static struct ibv_srq *create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
    struct fake_srq *srq;

    if (fake_fails_by_errno("create_srq"))
        return NULL;
    assert_in_range(init->attr.max_wr, 1, fake_device_of(pd->context)->max_srq_wr);
    srq = fake_make(sizeof *srq + init->attr.max_wr * sizeof *srq->ring, &fake_alive.srqs);
    srq->base = (struct ibv_srq){.context = pd->context, .pd = pd};
    srq->room = init->attr.max_wr;
    ((struct fake_pd *)pd)->children++;
    return &srq->base;
}

static int modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
    int err = fake_fails("modify_srq");

    assert_int_equal(mask, IBV_SRQ_LIMIT);
    if (!err)
        ((struct fake_srq *)srq)->limit = attr->srq_limit;
    return err;
}

static int destroy_srq(struct ibv_srq *base)
{
    struct fake_srq *srq = (struct fake_srq *)base;
    int err = fake_fails("destroy_srq");

    if (err || srq->children)
        return err ? err : EBUSY;
    ((struct fake_pd *)base->pd)->children--;
    fake_drop(srq, &fake_alive.srqs);
    return 0;
}

uint32_t fake_buffers(const struct ibv_srq *srq)
{
    return ((const struct fake_srq *)srq)->tail - ((const struct fake_srq *)srq)->head;
}

static int post_srq_recv(struct ibv_srq *base, struct ibv_recv_wr *work, struct ibv_recv_wr **bad)
{
    struct fake_srq *srq = (struct fake_srq *)base;
    int err;

    for (; work; work = work->next) {
        err = fake_fails("post_srq_recv");
        if (!err && srq->tail - srq->head == srq->room)
            err = ENOMEM;
        if (err) {
            *bad = work;
            return err;
        }
        assert_int_equal(work->num_sge, 1);
        assert_true(fake_is_allowed(base->pd, work->sg_list->lkey, false, work->sg_list->addr,
                                    work->sg_list->length));
        srq->ring[srq->tail++ % srq->room] = (struct fake_receive){*work->sg_list, work->wr_id};
    }
    return 0;
}

/* Takes the buffer in front; the queue says so when few are left. */
struct fake_receive fake_take_buffer(struct fake_srq *srq)
{
    struct fake_receive taken = srq->ring[srq->head++ % srq->room];

    if (srq->tail - srq->head < srq->limit) {
        srq->limit = 0;
        fake_raise((struct fake_context *)srq->base.context,
                   (struct ibv_async_event){.element.srq = &srq->base,
                                            .event_type = IBV_EVENT_SRQ_LIMIT_REACHED});
    }
    return taken;
}

void fake_queues_fill(struct br_verbs_library *library)
{
    library->alloc_pd = alloc_pd;
    library->dealloc_pd = dealloc_pd;
    library->reg_mr = reg_mr;
    library->reg_dmabuf_mr = reg_dmabuf_mr;
    library->dereg_mr = dereg_mr;
    library->create_comp_channel = create_comp_channel;
    library->destroy_comp_channel = destroy_comp_channel;
    library->create_cq = create_cq;
    library->destroy_cq = destroy_cq;
    library->get_cq_event = get_cq_event;
    library->ack_cq_events = ack_cq_events;
    library->create_srq = create_srq;
    library->modify_srq = modify_srq;
    library->destroy_srq = destroy_srq;
}

void fake_queues_operations(struct ibv_context_ops *ops)
{
    ops->poll_cq = poll_cq;
    ops->req_notify_cq = req_notify_cq;
    ops->post_srq_recv = post_srq_recv;
}
