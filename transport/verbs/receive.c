/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shared receive queue of a device, and its buffers. The numbered notes are in
 * doc/design/verbs.md.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/downgrade.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/verbs/verbs.h"

#define TARGET_BYTES (4u << 20) /* of buffers in the queue, about */
#define TARGET_LEAST 96u
#define TARGET_MOST  512u
#define CHUNK        64u /* buffers allocated at once */
#define BATCH        32  /* of one call */
#define RETRY        (100 * BR_MS)

static int add_chunk(struct br_verbs_device *device)
{
    struct br_verbs_receive *receive = &device->receive;
    struct br_verbs_chunk *chunk = &receive->chunks[receive->n_chunks];
    size_t bytes = (size_t)CHUNK * receive->buffer_bytes;
    int rc;

    if (receive->n_chunks == BR_VERBS_CHUNKS || receive->total >= receive->max)
        return -ENOBUFS;
    chunk->buffers = calloc(CHUNK, sizeof *chunk->buffers);
    if (!chunk->buffers || posix_memalign(&chunk->memory, (size_t)sysconf(_SC_PAGESIZE), bytes)) {
        free(chunk->buffers);
        return br_error(ENOMEM, "no memory for %u receive buffers", CHUNK);
    }
    memset(chunk->memory, 0, bytes);
    rc = br_verbs_pin(&device->registrar, chunk->memory, bytes, BR_VERBS_ACCESS_LOCAL, &chunk->mr);
    if (rc) {
        free(chunk->memory);
        free(chunk->buffers);
        return rc;
    }
    for (uint32_t i = 0; i < CHUNK; i++) {
        struct br_verbs_buffer *buffer = &chunk->buffers[i];

        buffer->frame = (void *)((uint8_t *)chunk->memory + (size_t)i * receive->buffer_bytes);
        buffer->lkey = chunk->mr->lkey;
        br_list_init(&buffer->node);
        br_list_push_back(&receive->spare, &buffer->node);
    }
    receive->total += CHUNK;
    receive->n_chunks++;
    return 0;
}

/* false: there are none to be had now (note 3). */
static bool verbs_receive_grow(struct br_verbs_device *device)
{
    struct br_verbs_receive *receive = &device->receive;
    int rc;

    if (device->now < receive->next_try)
        return false;
    rc = add_chunk(device);
    if (!rc || rc == -ENOBUFS)
        return !rc;
    if (!receive->failures++) {
        br_downgrade(receive_queue);
        br_log_warn(
            "device %s: its receive queue stays short, so that senders may have to wait: %s",
            device->base.name, br_error_message());
    }
    receive->next_try = device->now + RETRY;
    return false;
}

/* Posts up to BATCH spare buffers with one call; returns how many (0: the queue is full), or -errno
 * with a message. */
static int post_batch(struct br_verbs_device *device, uint32_t wanted)
{
    struct br_verbs_receive *receive = &device->receive;
    struct ibv_recv_wr work[BATCH], *bad = NULL;
    struct ibv_sge sge[BATCH];
    uint32_t n = 0, left;
    int rc;

    for (; n < wanted && n < BATCH && !br_list_empty(&receive->spare); n++) {
        struct br_verbs_buffer *buffer =
            br_container_of(br_list_pop_front(&receive->spare), struct br_verbs_buffer, node);

        sge[n] = (struct ibv_sge){(uintptr_t)buffer->frame, receive->wire_bytes, buffer->lkey};
        work[n] = (struct ibv_recv_wr){
            .wr_id = (uintptr_t)buffer, .next = &work[n + 1], .sg_list = &sge[n], .num_sge = 1};
    }
    if (!n)
        return 0;
    work[n - 1].next = NULL;
    rc = ibv_post_srq_recv(receive->srq, work, &bad);
    left = !rc ? 0 : bad ? n - (uint32_t)(bad - work) : n;
    for (uint32_t i = n - left; i < n; i++) {
        struct br_verbs_buffer *buffer = (void *)(uintptr_t)work[i].wr_id;

        br_list_push_back(&receive->spare, &buffer->node);
    }
    if (rc > 0 && rc != ENOMEM) /* mlx4 returns -1 when the queue is full */
        return br_error(rc, "ibv_post_srq_recv: %s", strerror(rc));
    return (int)(n - left);
}

static void arm_limit(struct br_verbs_device *device)
{
    struct br_verbs_receive *receive = &device->receive;
    struct ibv_srq_attr attr = {.srq_limit = receive->target / 4};
    int rc = device->library->modify_srq(receive->srq, &attr, IBV_SRQ_LIMIT);

    if (rc)
        br_log_warn("device %s: buffers that failed links take with them are not replaced: "
                    "ibv_modify_srq: %s",
                    device->base.name, strerror(rc));
    receive->armed = true; /* or never will be: lost buffers are then not replaced */
    receive->refilled = 0;
}

static int verbs_receive_refill(struct br_verbs_device *device)
{
    struct br_verbs_receive *receive = &device->receive;

    while (receive->posted < receive->target) {
        int n;

        if (br_list_empty(&receive->spare) &&
            (receive->posted + receive->slack >= receive->target || !verbs_receive_grow(device)))
            return 0; /* what the caller holds comes back; until then senders wait */
        n = post_batch(device, receive->target - receive->posted);
        if (n <= 0)
            return n; /* full: some of what we thought lost is there */
        receive->posted += (uint32_t)n;
        receive->refilled += (uint32_t)n;
    }
    if (!receive->armed)
        arm_limit(device);
    return 0;
}

void br_verbs_receive_refill(struct br_verbs_device *device)
{
    if (!device->dead && verbs_receive_refill(device))
        br_verbs_device_fail(device, br_error_message());
}

void br_verbs_receive_limit(struct br_verbs_device *device)
{
    struct br_verbs_receive *receive = &device->receive;
    uint32_t limit = receive->target / 4, came;

    br_verbs_drain(device);
    came = receive->target + receive->refilled - receive->posted; /* since it was asked for */
    receive->armed = false;
    if (came < receive->target - limit) {
        uint32_t lost = receive->target - limit - came;

        receive->lost += lost;
        receive->max += lost;
        receive->posted -= lost;
        br_log_info(
            "device %s: failed links have taken receive buffers with them, %u in all; replaced",
            device->base.name, receive->lost);
    }
    br_verbs_receive_refill(device);
}

int br_verbs_receive_init(struct br_verbs_device *device)
{
    const struct br_device_config *config = device->base.config;
    struct br_verbs_receive *receive = &device->receive;
    struct ibv_srq_init_attr attr = {.attr = {.max_sge = 1}};
    int rc = 0;

    br_list_init(&receive->spare);
    receive->wire_bytes = (uint32_t)sizeof(struct br_frame_header) + config->message_bytes;
    receive->buffer_bytes = (receive->wire_bytes + 63) / 64 * 64;
    receive->target = TARGET_BYTES / receive->buffer_bytes;
    if (receive->target < TARGET_LEAST)
        receive->target = TARGET_LEAST;
    if (receive->target > TARGET_MOST)
        receive->target = TARGET_MOST;
    if (device->limits.max_srq_wr > 0 && receive->target > (uint32_t)device->limits.max_srq_wr)
        receive->target = (uint32_t)device->limits.max_srq_wr;
    receive->slack = receive->target < 8 * BATCH ? receive->target / 16 : BATCH / 2;
    receive->max = 2 * receive->target + config->max_links * config->message_buffers;
    attr.attr.max_wr = receive->target;
    errno = 0;
    receive->srq = device->library->create_srq(device->pd, &attr);
    if (!receive->srq)
        return br_error(br_verbs_errno(), "cannot make a shared receive queue: %s",
                        strerror(br_verbs_errno()));
    while (!rc && receive->total < receive->target)
        rc = add_chunk(device);
    return rc ? rc : verbs_receive_refill(device);
}

void br_verbs_receive_destroy(struct br_verbs_device *device)
{
    struct br_verbs_receive *receive = &device->receive;
    int rc = receive->srq ? device->library->destroy_srq(receive->srq) : 0;

    if (rc)
        br_log_warn("device %s: ibv_destroy_srq: %s", device->base.name, strerror(rc));
    while (receive->n_chunks) {
        struct br_verbs_chunk *chunk = &receive->chunks[--receive->n_chunks];

        if (br_verbs_unpin(&device->registrar, chunk->mr))
            free(chunk->memory);
        free(chunk->buffers);
    }
}
