/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/calibrate/link.h"

#include <errno.h>
#include <math.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/median.h"

#define WINDOW      8 /* messages of a stream under way */
#define FIRST_TRIPS 5
#define MOST_TRIPS  1000

enum { TAG_ORDER = 1, TAG_DATA, TAG_READY, TAG_RESULT };

enum order_kind { RELEASE, TRIPS, STREAM };

struct order {
    uint32_t kind, lead, count;
    uint64_t bytes;
};

int br_link_open(struct br_link_bench *b, struct braid_comm *comm)
{
    *b = (struct br_link_bench){.comm = comm};
    b->out = braid_alloc(comm, BR_LINK_MAX_BYTES);
    b->in = b->out ? braid_alloc(comm, BR_LINK_MAX_BYTES) : NULL;
    if (b->in)
        return 0;
    br_link_close(b);
    return br_error(ENOMEM, "rank %d: no memory to measure with", braid_rank(comm));
}

void br_link_close(struct br_link_bench *b)
{
    if (b->in)
        braid_free(b->comm, b->in);
    if (b->out)
        braid_free(b->comm, b->out);
    *b = (struct br_link_bench){0};
}

static int send_to(struct br_link_bench *b, int other, uint32_t tag, const void *data, size_t bytes)
{
    struct braid_options options = {.tag = tag};

    return braid_send(b->comm, data, bytes, other, &options, NULL);
}

static int post_receive(struct br_link_bench *b, int other, uint32_t tag, void *data, size_t bytes,
                        struct braid_op **op)
{
    struct braid_options options = {.tag = tag};

    return braid_recv(b->comm, data, bytes, other, &options, op);
}

static int receive_from(struct br_link_bench *b, int other, uint32_t tag, void *data, size_t bytes)
{
    return post_receive(b, other, tag, data, bytes, NULL);
}

/* ---- trips ----------------------------------------------------------------------------------- */

static int lead_trips(struct br_link_bench *b, int other, size_t bytes, uint32_t count,
                      double *seconds)
{
    struct order order = {.kind = TRIPS, .count = count, .bytes = bytes};
    double times[MOST_TRIPS];
    char ready;
    int rc = send_to(b, other, TAG_ORDER, &order, sizeof order);

    if (!rc)
        rc = receive_from(b, other, TAG_READY, &ready, 1);
    for (uint32_t i = 0; i < count && !rc; i++) {
        struct braid_op *op;
        uint64_t start;

        rc = post_receive(b, other, TAG_DATA, b->in, bytes, &op);
        start = br_clock_now();
        if (!rc)
            rc = send_to(b, other, TAG_DATA, b->out, bytes);
        if (!rc)
            rc = braid_wait(op, -1);
        times[i] = (double)(br_clock_now() - start) / 1e9;
    }
    if (!rc)
        *seconds = br_median(times, count) / 2;
    return rc;
}

int br_link_trip(struct br_link_bench *b, int other, size_t bytes, uint64_t ns, double *seconds)
{
    double most;
    int rc = lead_trips(b, other, bytes, FIRST_TRIPS, seconds);

    if (rc)
        return rc;
    most = (double)ns / 1e9 / fmax(2 * *seconds, 1e-7);
    return lead_trips(b, other, bytes,
                      most < FIRST_TRIPS ? FIRST_TRIPS : (uint32_t)fmin(most, MOST_TRIPS), seconds);
}

static int follow_trips(struct br_link_bench *b, int leader, const struct order *order)
{
    struct braid_op *op;
    int rc = post_receive(b, leader, TAG_DATA, b->in, order->bytes, &op);

    if (!rc)
        rc = send_to(b, leader, TAG_READY, "", 1);
    for (uint32_t i = 0; i < order->count && !rc; i++) {
        rc = braid_wait(op, -1);
        if (!rc && i + 1 < order->count)
            rc = post_receive(b, leader, TAG_DATA, b->in, order->bytes, &op);
        if (!rc)
            rc = send_to(b, leader, TAG_DATA, b->out, order->bytes);
    }
    return rc;
}

/* ---- streams --------------------------------------------------------------------------------- */

int br_link_stream(struct br_link_bench *b, int other, size_t bytes, uint32_t lead, uint32_t count,
                   double *seconds)
{
    struct order order = {.kind = STREAM, .lead = lead, .count = count, .bytes = bytes};
    struct braid_options options = {.tag = TAG_DATA};
    struct braid_op *ops[WINDOW] = {NULL};
    char ready;
    int rc = send_to(b, other, TAG_ORDER, &order, sizeof order);

    if (!rc)
        rc = receive_from(b, other, TAG_READY, &ready, 1);
    for (uint32_t i = 0; i < lead + count + WINDOW && !rc; i++) {
        if (i >= WINDOW && i - WINDOW < lead + count)
            rc = braid_wait(ops[i % WINDOW], -1);
        if (!rc && i < lead + count)
            rc = braid_send(b->comm, b->out, bytes, other, &options, &ops[i % WINDOW]);
    }
    return rc ? rc : receive_from(b, other, TAG_RESULT, seconds, sizeof *seconds);
}

static int follow_stream(struct br_link_bench *b, int leader, const struct order *order)
{
    uint32_t all = order->lead + order->count;
    struct braid_op *ops[WINDOW] = {NULL};
    uint64_t start = 0;
    double seconds;
    int rc = 0;

    for (uint32_t i = 0; i < WINDOW && i < all && !rc; i++)
        rc = post_receive(b, leader, TAG_DATA, b->in, order->bytes, &ops[i]);
    if (!rc)
        rc = send_to(b, leader, TAG_READY, "", 1);
    for (uint32_t i = 0; i < all && !rc; i++) {
        rc = braid_wait(ops[i % WINDOW], -1);
        if (i + 1 == order->lead)
            start = br_clock_now();
        if (!rc && i + WINDOW < all)
            rc = post_receive(b, leader, TAG_DATA, b->in, order->bytes, &ops[i % WINDOW]);
    }
    seconds = (double)(br_clock_now() - start) / 1e9 / order->count;
    return rc ? rc : send_to(b, leader, TAG_RESULT, &seconds, sizeof seconds);
}

/* ---- following ------------------------------------------------------------------------------- */

int br_link_release(struct br_link_bench *b, int other)
{
    struct order order = {.kind = RELEASE};

    return send_to(b, other, TAG_ORDER, &order, sizeof order);
}

int br_link_follow(struct br_link_bench *b, int leader)
{
    for (;;) {
        struct order order;
        int rc = receive_from(b, leader, TAG_ORDER, &order, sizeof order);

        if (rc || order.kind == RELEASE)
            return rc;
        if (order.bytes > BR_LINK_MAX_BYTES || !order.count ||
            (order.kind == STREAM && !order.lead))
            return br_error(EPROTO, "rank %d ordered what cannot be measured", leader);
        rc = order.kind == TRIPS ? follow_trips(b, leader, &order)
                                 : follow_stream(b, leader, &order);
        if (rc)
            return rc;
    }
}
