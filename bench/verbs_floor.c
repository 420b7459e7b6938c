/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a round trip costs with bare libibverbs, and what braid's back end adds to it.
 *
 *   verbs_floor [--size SIZE] [--rounds N] DEVICE PEER
 *
 * write: an RDMA write, seen by looking at its last byte, as ib_write_lat does. imm: an RDMA write
 * with immediate, which takes a buffer from a shared receive queue and completes, as braid's. send:
 * the same by a send. braid: a placed frame through the operations of transport/verbs. imm+padding:
 * imm, with 290 instructions that do nothing at each end (padding.h). Both ends are processes of
 * this host, on processors 0 and 1, and poll. The bare ones do as transport/verbs does: every work
 * request is signalled, at most 192 bytes go inline, receive buffers go back 16 at a time.
 *
 * They take turns of TURN round trips in one pair of processes, as an emulated machine's speed
 * changes from second to second: ratios are medians over the rounds, of times that were taken
 * within milliseconds. Half a round trip is printed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/numa.h"
#include "bench/padding.h"
#include "tools/common/options.h"
#include "transport/transport.h"
#include "transport/verbs/library.h"
#include "transport/verbs/probe.h"

#define BUFFERS     64
#define BATCH       16
#define INLINE      192u
#define TURN        20 /* round trips */
#define ROUNDS_MOST 100000
#define WARM_UP     10 /* rounds */
#define BYTES_MOST  (1u << 20)
#define EVENTS      8

enum test { WRITE, IMM, SEND, BRAID, PADDING, TESTS };
static const char *const names[TESTS] = {"write", "imm", "send", "braid", "imm+padding"};

/* What one end tells the other. */
struct hello {
    uint8_t gid[BR_GID_BYTES];
    uint32_t qp, rkey;
    uint64_t address;
    struct br_address braid; /* where its back end listens */
};

/* What one end tells the other over braid's link. */
struct place {
    uint32_t number;
    uint8_t token[BR_RKEY_BYTES];
};

/* The same device through the back end. */
struct braid {
    const struct br_transport_ops *ops;
    struct br_device_config config;
    struct br_device *device;
    struct br_link *link;
    struct br_slot_table slots;
    struct br_slot *slot;
    struct br_region region;
    struct place theirs;
    uint64_t expected, data_frames, messages; /* frames */
};

struct end {
    bool leads;
    uint32_t bytes;
    int rounds, fd;
    struct braid braid;
    const struct br_verbs_library *library;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_srq *srq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    uint8_t *memory; /* what arrives, what leaves, then the receive buffers */
    struct hello theirs;
    int port, gid_index, spent;
    enum ibv_mtu mtu;
    /* of the bare queue pair, all tests together; both ends count alike */
    uint64_t posted, expected, arrived, sent;
    double *took[TESTS]; /* us, half a round trip: of the turns' medians */
};

static void die(const char *what)
{
    fprintf(stderr, "verbs_floor: %s: %s\n", what, errno ? strerror(errno) : br_error_message());
    exit(1);
}

static void must(int rc, const char *what)
{
    if (rc) {
        errno = rc > 0 ? rc : 0;
        die(what);
    }
}

static void *made(void *object, const char *what)
{
    if (!object)
        die(what);
    return object;
}

/* ---- set-up ---------------------------------------------------------------------------------- */

static void open_port(struct end *end, const char *name, struct hello *ours)
{
    const struct br_verbs_port *port;
    struct br_verbs_host host;
    struct br_gid_choice choice;
    struct ibv_device **list;
    int n;

    must(br_verbs_host_read(&host), "devices");
    must(br_verbs_port_find(&host, name, 0, &port, &choice), name);
    if (choice.entry[BR_GID_IPV4] < 0)
        die("no GID of IPv4");
    list = made(end->library->get_device_list(&n), "ibv_get_device_list");
    for (int i = 0; i < n && !end->context; i++)
        if (!strcmp(end->library->get_device_name(list[i]), port->device))
            end->context = made(end->library->open_device(list[i]), "ibv_open_device");
    end->port = port->port;
    end->gid_index = port->gids[choice.entry[BR_GID_IPV4]].index;
    end->mtu = port->mtu >= 4096 ? IBV_MTU_4096 : port->mtu >= 2048 ? IBV_MTU_2048 : IBV_MTU_1024;
    memcpy(ours->gid, port->gids[choice.entry[BR_GID_IPV4]].raw, BR_GID_BYTES);
    br_verbs_host_destroy(&host);
}

static void refill(struct end *end, int n)
{
    struct ibv_recv_wr work[BUFFERS], *bad;
    struct ibv_sge sge = {(uintptr_t)end->memory + 2 * end->bytes, end->bytes, end->mr->lkey};

    for (int i = 0; i < n; i++)
        work[i] = (struct ibv_recv_wr){
            .next = i + 1 < n ? &work[i + 1] : NULL, .sg_list = &sge, .num_sge = 1, .wr_id = 0};
    must(ibv_post_srq_recv(end->srq, work, &bad), "ibv_post_srq_recv");
}

static void make(struct end *end, const char *device, struct hello *ours)
{
    struct ibv_srq_init_attr shared = {.attr = {.max_wr = BUFFERS, .max_sge = 1}};
    struct ibv_qp_init_attr init = {
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 128, .max_send_sge = 2, .max_inline_data = INLINE}};

    must(br_verbs_library(&end->library), "libibverbs");
    open_port(end, device, ours);
    end->pd = made(end->library->alloc_pd(end->context), "ibv_alloc_pd");
    end->cq = made(end->library->create_cq(end->context, 512, NULL, NULL, 0), "ibv_create_cq");
    end->srq = made(end->library->create_srq(end->pd, &shared), "ibv_create_srq");
    init.send_cq = init.recv_cq = end->cq;
    init.srq = end->srq;
    end->qp = made(end->library->create_qp(end->pd, &init), "ibv_create_qp");
    end->memory = made(aligned_alloc(4096, (3 * end->bytes + 4095) / 4096 * 4096), "memory");
    memset(end->memory, 0, 3 * end->bytes);
    end->mr = made(end->library->reg_mr(end->pd, end->memory, 3 * end->bytes,
                                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
                   "ibv_reg_mr");
    ours->qp = end->qp->qp_num;
    ours->rkey = end->mr->rkey;
    ours->address = (uintptr_t)end->memory;
    refill(end, BUFFERS);
}

static void connect_pair(struct end *end)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = (uint8_t)end->port,
                               .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

    must(end->library->modify_qp(
             end->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
         "INIT");
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR,
        .path_mtu = end->mtu,
        .dest_qp_num = end->theirs.qp,
        .min_rnr_timer = 8,
        .ah_attr = {.is_global = 1,
                    .port_num = (uint8_t)end->port,
                    .grh = {.sgid_index = (uint8_t)end->gid_index, .hop_limit = 64}}};
    memcpy(&attr.ah_attr.grh.dgid, end->theirs.gid, BR_GID_BYTES);
    must(end->library->modify_qp(end->qp, &attr,
                                 IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                     IBV_QP_MIN_RNR_TIMER),
         "RTR");
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = attr.rnr_retry = 7;
    must(end->library->modify_qp(end->qp, &attr,
                                 IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                     IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC),
         "RTS");
}

static void tell(struct end *end, const void *bytes, void *answer, size_t n)
{
    if (write(end->fd, bytes, n) != (ssize_t)n ||
        recv(end->fd, answer, n, MSG_WAITALL) != (ssize_t)n)
        die("the other end");
}

/* ---- bare ------------------------------------------------------------------------------------ */

static void step(struct end *end)
{
    struct ibv_wc wcs[BATCH];
    int n = ibv_poll_cq(end->cq, BATCH, wcs);

    if (n < 0)
        die("ibv_poll_cq");
    for (int i = 0; i < n; i++) {
        errno = 0;
        if (wcs[i].status != IBV_WC_SUCCESS)
            die(end->library->wc_status_str(wcs[i].status));
        if (wcs[i].wr_id) {
            end->sent++;
            continue;
        }
        end->arrived++;
        if (++end->spent == BATCH) {
            refill(end, BATCH);
            end->spent = 0;
        }
    }
}

/* One work request; the last byte says the how many-th. */
static void post(struct end *end, enum test test)
{
    static const enum ibv_wr_opcode codes[TESTS] = {
        IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
        IBV_WR_SEND, [PADDING] = IBV_WR_RDMA_WRITE_WITH_IMM};
    struct ibv_sge sge = {(uintptr_t)end->memory + end->bytes, end->bytes, end->mr->lkey};
    struct ibv_send_wr *bad, work = {.wr_id = 1,
                                     .sg_list = &sge,
                                     .num_sge = 1,
                                     .send_flags = IBV_SEND_SIGNALED,
                                     .opcode = codes[test]};

    end->memory[2 * end->bytes - 1] = (uint8_t)++end->posted;
    if (end->bytes <= INLINE)
        work.send_flags |= IBV_SEND_INLINE;
    work.wr.rdma.remote_addr = end->theirs.address;
    work.wr.rdma.rkey = end->theirs.rkey;
    must(ibv_post_send(end->qp, &work, &bad), "ibv_post_send");
}

static void await_bare(struct end *end, enum test test, uint64_t trip)
{
    volatile uint8_t *last = end->memory + end->bytes - 1;

    if (test == WRITE)
        while (*last != (uint8_t)trip)
            ;
    else
        for (end->expected++; end->arrived < end->expected;)
            step(end);
}

static void trip_bare(struct end *end, enum test test)
{
    uint64_t trip = end->posted + 1;

    if (end->leads)
        post(end, test);
    await_bare(end, test, trip);
    if (test == PADDING)
        padding();
    if (!end->leads)
        post(end, test);
    while (end->sent < trip) /* else the queue of those that have been sent runs over */
        step(end);
}

/* ---- braid ----------------------------------------------------------------------------------- */

static void handle(struct braid *braid, const struct br_event *event)
{
    switch (event->kind) {
    case BR_EVENT_ACCEPTED:
    case BR_EVENT_CONNECTED:
        braid->link = event->link;
        braid->link->authenticated = true;
        break;
    case BR_EVENT_DATA:
        braid->data_frames++;
        break;
    case BR_EVENT_MESSAGE:
        memcpy(&braid->theirs, event->inline_, sizeof braid->theirs);
        braid->messages++;
        braid->ops->release(event->link->device, event->link, event->buffer);
        break;
    case BR_EVENT_CLOSED:
        errno = 0;
        die(event->link->message);
    case BR_EVENT_SENT:
        break;
    }
}

static void step_braid(struct braid *braid)
{
    struct br_event events[EVENTS];
    int n = braid->ops->poll(braid->device, br_clock_now(), events, EVENTS);

    for (int i = 0; i < n; i++)
        handle(braid, &events[i]);
}

static void post_braid(struct braid *braid, const struct br_frame *frame)
{
    int rc;

    while (!(rc = braid->ops->post(braid->link, frame, 1)))
        step_braid(braid);
    must(rc < 0, "post");
}

static void trip_braid(struct end *end)
{
    struct braid *braid = &end->braid;
    struct br_frame frame = {.kind = BR_FRAME_DATA,
                             .length = end->bytes,
                             .cookie = 1, /* each frame of a transfer is reported */
                             .region = &braid->region,
                             .payload = braid->region.base,
                             .slot = braid->theirs.number,
                             .rkey = braid->theirs.token};

    if (end->leads)
        post_braid(braid, &frame);
    for (braid->expected++; braid->data_frames < braid->expected;)
        step_braid(braid);
    if (!end->leads)
        post_braid(braid, &frame);
}

static void open_braid(struct end *end, const char *name, struct hello *ours)
{
    struct braid *braid = &end->braid;

    braid->ops = made((void *)(uintptr_t)br_transport_get("verbs"), "back end");
    must(br_slot_table_init(&braid->slots, 16), "slots");
    braid->config = (struct br_device_config){.name = name,
                                              .slots = &braid->slots,
                                              .message_bytes = 1024,
                                              .message_buffers = 16,
                                              .max_links = 4};
    braid->region = (struct br_region){.bytes = end->bytes,
                                       .base = made(aligned_alloc(4096, end->bytes), "memory"),
                                       .segment_fd = -1};
    must(br_transport_open(braid->ops, &braid->config, &braid->device), name);
    must(braid->ops->region_register(braid->device, &braid->region), "region");
    ours->braid = braid->device->address;
}

static void connect_braid(struct end *end)
{
    struct braid *braid = &end->braid;
    uint8_t words[BR_FRAME_INLINE] = {0};
    struct br_frame frame = {.kind = BR_FRAME_MESSAGE, .inline_ = words};
    struct place ours;

    if (end->leads)
        must(braid->ops->link_connect(braid->device, &end->theirs.braid, &braid->link), "connect");
    braid->link = NULL;
    while (!braid->link)
        step_braid(braid);
    braid->slot = br_slot_get(&braid->slots, braid->region.base, end->bytes, end->bytes);
    braid->slot->region = &braid->region;
    ours = (struct place){.number = br_slot_number(&braid->slots, braid->slot)};
    must(braid->ops->rkey(braid->device, braid->slot, ours.token), "place");
    memcpy(words, &ours, sizeof ours);
    post_braid(braid, &frame);
    while (!braid->messages)
        step_braid(braid);
}

static void close_braid(struct braid *braid)
{
    braid->ops->link_close(braid->link);
    braid->ops->rkey(braid->device, braid->slot, NULL);
    braid->ops->region_release(braid->device, &braid->region);
    braid->ops->device_close(braid->device);
}

/* ---- turns ----------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* us, median, of half a round trip. */
static double turn(struct end *end, enum test test)
{
    double took[TURN];

    for (int i = 0; i < TURN; i++) {
        uint64_t start = br_clock_now();

        if (test == BRAID)
            trip_braid(end);
        else
            trip_bare(end, test);
        took[i] = (double)(br_clock_now() - start) / 2e3;
    }
    qsort(took, TURN, sizeof took[0], by_value);
    return (took[TURN / 2 - 1] + took[TURN / 2]) / 2;
}

/* Median over the rounds of a test's time, over that of another one in the same round; `other`
 * TESTS: of its time. */
static double median(struct end *end, enum test test, enum test other)
{
    double *values = made(calloc((size_t)end->rounds, sizeof *values), "memory"), result;

    for (int i = 0; i < end->rounds; i++)
        values[i] = end->took[test][i] / (other == TESTS ? 1 : end->took[other][i]);
    qsort(values, (size_t)end->rounds, sizeof *values, by_value);
    result = values[end->rounds / 2];
    free(values);
    return result;
}

static void rounds(struct end *end)
{
    for (int t = 0; t < TESTS; t++)
        end->took[t] = made(calloc((size_t)end->rounds, sizeof *end->took[t]), "memory");
    for (int i = -WARM_UP; i < end->rounds; i++)
        for (int t = 0; t < TESTS; t++) {
            int test = (t + i + WARM_UP) % TESTS;
            double us = turn(end, (enum test)test);

            if (i >= 0)
                end->took[test][i] = us;
        }
    for (int t = 0; t < TESTS && end->leads; t++)
        printf("%u bytes, %s: %.2f us, %.3f of write, %.3f of imm\n", end->bytes, names[t],
               median(end, (enum test)t, TESTS), median(end, (enum test)t, WRITE),
               median(end, (enum test)t, IMM));
    for (int t = 0; t < TESTS; t++)
        free(end->took[t]);
}

static void destroy(struct end *end)
{
    must(end->library->destroy_qp(end->qp), "ibv_destroy_qp");
    must(end->library->destroy_srq(end->srq), "ibv_destroy_srq");
    must(end->library->destroy_cq(end->cq), "ibv_destroy_cq");
    must(end->library->dereg_mr(end->mr), "ibv_dereg_mr");
    must(end->library->dealloc_pd(end->pd), "ibv_dealloc_pd");
    must(end->library->close_device(end->context), "ibv_close_device");
    free(end->memory);
}

static void run(struct end *end, const char *device)
{
    struct hello ours = {0};
    char word = 1, answer;

    if (br_numa_pin(!end->leads % br_numa_cpus()))
        die("processor");
    make(end, device, &ours);
    open_braid(end, device, &ours);
    tell(end, &ours, &end->theirs, sizeof ours);
    connect_pair(end);
    connect_braid(end);
    tell(end, &word, &answer, 1);
    rounds(end);
    tell(end, &word, &answer, 1);
    close_braid(&end->braid);
    destroy(end);
}

int main(int argc, char **argv)
{
    int64_t bytes = 8, rounds_wanted = 120;
    const struct br_option options[] = {
        {"size", 's', BR_OPTION_BYTES, &bytes, 1, BYTES_MOST, "SIZE of a message; default 8"},
        {"rounds", 0, BR_OPTION_NUMBER, &rounds_wanted, 1, ROUNDS_MOST, "N default 120"},
        {0},
    };
    const char *usage = "verbs_floor [options] DEVICE PEER";
    struct br_arguments arguments;
    int fds[2], status, rc = br_arguments_parse(&arguments, options, usage, argc, argv);
    struct end end = {.bytes = (uint32_t)bytes, .rounds = (int)rounds_wanted};
    pid_t child = -1;

    if (!rc && (arguments.count != 2 || arguments.command))
        rc = br_error(EINVAL, "write it as: %s", usage);
    if (rc < 0)
        fprintf(stderr, "verbs_floor: %s\n", br_error_message());
    if (rc)
        return rc < 0 ? 2 : 0;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) || (child = fork()) < 0)
        die("set-up");
    end.leads = child != 0;
    end.fd = fds[!child];
    close(fds[child != 0]);
    run(&end, arguments.operands[child ? 0 : 1]);
    return child && (waitpid(child, &status, 0) < 0 || status);
}
