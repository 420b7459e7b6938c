/* SPDX-License-Identifier: BSD-3-Clause */
/* What is posted on a link. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "transport/verbs/place.h"
#include "transport/verbs/verbs.h"

#define SIGNALS                                                                                              \
    8u /* of the work requests that a queue pair may have outstanding, one in depth / SIGNALS at least */

bool br_verbs_has_room(const struct br_verbs_link *link, const struct br_verbs_lane *lane)
{
    uint32_t depth = br_verbs_device_of(link)->depth;

    return lane->posted - lane->done < depth && lane->posted - lane->reported < depth;
}

void br_verbs_entry_done(struct br_verbs_device *device, struct br_verbs_entry *entry)
{
    if (entry->copy)
        br_pool_put(&device->copies, entry->copy);
    if (entry->bounce)
        br_verbs_bounce_put(&device->tx, entry->bounce);
    entry->copy = entry->bounce = NULL;
}

/* Hands one work request to the NIC. 0; on -errno the link has failed. */
static int submit(struct br_verbs_link *link, unsigned number, struct ibv_send_wr *work,
                  const struct br_verbs_entry *entry)
{
    struct br_verbs_lane *lane = &link->lanes[number];
    struct ibv_send_wr *bad;
    int rc;

    work->wr_id = br_verbs_work_id(link, number);
    if (!entry->early || entry->copy || ++lane->unsignalled >= br_verbs_device_of(link)->depth / SIGNALS) {
        work->send_flags |= IBV_SEND_SIGNALED;
        lane->unsignalled = 0;
    }
    rc = ibv_post_send(lane->qp, work, &bad);
    if (rc) {
        struct br_verbs_entry failed = *entry;

        br_verbs_entry_done(br_verbs_device_of(link), &failed);
        br_verbs_link_fail(link, -rc, false, strerror(rc));
        return br_error(rc, "%s", link->base.words);
    }
    lane->entries[lane->posted++ % BR_VERBS_DEPTH] = *entry;
    if (entry->early)
        br_verbs_link_is_ready(link);
    return 0;
}

void br_verbs_send_open(struct br_verbs_link *link)
{
    struct ibv_send_wr work = {.opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htonl(BR_VERBS_OPEN)};

    submit(link, BR_VERBS_MESSAGES, &work, &(struct br_verbs_entry){.early = true});
}

/* The unsignalled ones at the end are followed by one that is not. */
bool br_verbs_flush(struct br_verbs_link *link)
{
    struct ibv_send_wr work = {.opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htonl(BR_VERBS_NOTHING)};
    const struct br_verbs_lane *first = &link->lanes[BR_VERBS_MESSAGES];
    bool busy = false;

    if (link->state != BR_VLINK_UP || link->hung_up)
        return false;
    for (unsigned i = 0; i < br_verbs_device_of(link)->classes.n; i++)
        busy = busy || link->lanes[i].done != link->lanes[i].posted;
    if (first->unsignalled && br_verbs_has_room(link, first) &&
        submit(link, BR_VERBS_MESSAGES, &work, &(struct br_verbs_entry){.early = false}))
        return false;
    return busy;
}

/* A SEND of `header` (or none) and bytes, inline or from a copy. 1; 0: no buffer is free; -errno. */
static int send_bytes(struct br_verbs_link *link, const struct br_frame_header *header, const void *bytes,
                      uint32_t length, struct br_verbs_entry *entry)
{
    struct br_verbs_device *device = br_verbs_device_of(link);
    uint32_t head = header ? (uint32_t)sizeof *header : 0;
    struct ibv_sge sge[2] = {{(uintptr_t)header, head, 0}, {(uintptr_t)bytes, length, 0}};
    struct ibv_send_wr work = {.opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = length ? 2 : 1};

    entry->early = true;
    if (head && head + length <= link->max_inline) {
        work.send_flags = IBV_SEND_INLINE;
    } else {
        uint8_t *copy = entry->copy = br_pool_get(&device->copies);

        if (!copy)
            return 0;
        if (header)
            memcpy(copy, header, head);
        if (length)
            memcpy(copy + head, bytes, length);
        device->base.counters.tx_copied_bytes += length;
        sge[0] = (struct ibv_sge){(uintptr_t)copy, head + length, device->copies_mr->lkey};
        work.num_sge = 1;
    }
    return submit(link, BR_VERBS_MESSAGES, &work, entry) ? link->error : 1;
}

static int post_message(struct br_verbs_link *link, const struct br_frame *frame)
{
    struct br_verbs_entry entry = {.cookie = frame->cookie, .length = frame->length, .reports = true};
    struct br_frame_header header;

    if (!br_verbs_has_room(link, &link->lanes[BR_VERBS_MESSAGES]))
        return 0;
    br_frame_header_fill(&header, frame);
    return send_bytes(link, &header, frame->payload, frame->length, &entry);
}

void br_verbs_push(struct br_verbs_link *link)
{
    struct br_verbs_pieces *pieces = &link->pieces;

    while (pieces->frame.kind && link->state == BR_VLINK_UP &&
           br_verbs_has_room(link, &link->lanes[BR_VERBS_MESSAGES])) {
        bool first = pieces->sent == 0;
        uint32_t room = link->piece_bytes - (first ? (uint32_t)sizeof pieces->header : 0);
        uint32_t left = pieces->frame.length - pieces->sent, length = left < room ? left : room;
        struct br_verbs_entry entry = {
            .cookie = pieces->frame.cookie, .length = pieces->frame.length, .reports = length == left};

        if (send_bytes(link, first ? &pieces->header : NULL,
                       (const uint8_t *)pieces->frame.payload + pieces->sent, length, &entry) <= 0)
            return;
        pieces->sent += length;
        if (length == left) {
            pieces->frame.kind = 0;
            br_verbs_device_of(link)->n_pushing--;
        }
    }
}

/* In pieces that the receiver checks and copies (place.h note 2). */
static int post_pieces(struct br_verbs_link *link, const struct br_frame *frame)
{
    struct br_verbs_pieces *pieces = &link->pieces;

    pieces->frame = *frame;
    pieces->sent = 0;
    br_verbs_device_of(link)->n_pushing++;
    br_frame_header_fill(&pieces->header, frame);
    br_verbs_push(link);
    return link->state == BR_VLINK_UP ? 1 : link->error;
}

/* Where the NIC reads the payload: from its memory, inline, or from a copy. 0; -EAGAIN: no room for one now; other -errno with
 * words: never. */
static int source(struct br_verbs_link *link, const struct br_frame *frame, struct ibv_send_wr *work,
                  struct br_verbs_entry *entry)
{
    struct br_verbs_device *device = br_verbs_device_of(link);
    const struct ibv_mr *mr = br_verbs_region_mr(frame->region, device->base.index);
    struct ibv_sge *sge = work->sg_list;
    int rc;

    *sge = (struct ibv_sge){(uintptr_t)frame->payload, frame->length, mr ? mr->lkey : 0};
    if (frame->length <= link->max_inline) {
        work->send_flags = IBV_SEND_INLINE;
        return 0;
    }
    if (mr)
        return 0;
    rc = br_verbs_bounce_get(&device->tx, frame->length, &entry->bounce);
    if (rc)
        return rc;
    memcpy(entry->bounce, frame->payload, frame->length);
    device->base.counters.tx_copied_bytes += frame->length;
    sge->addr = (uintptr_t)entry->bounce;
    sge->lkey = device->tx.mr->lkey;
    return 0;
}

/* Takes one frame: 1; 0: not now; -errno: the link has failed. */
static int post_placed(struct br_verbs_link *link, const struct br_frame *frame)
{
    struct br_verbs_entry entry = {.cookie = frame->cookie, .length = frame->length, .reports = true};
    struct ibv_sge sge;
    struct ibv_send_wr work = {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .sg_list = &sge, .num_sge = 1};
    unsigned lane = br_verbs_class_of(&br_verbs_device_of(link)->classes, frame->priority);
    struct br_verbs_place place;
    uint32_t imm;
    int rc;

    if (!frame->place)
        return post_pieces(link, frame);
    br_verbs_place_unpack(frame->place, &place);
    if (!place.address || !br_verbs_imm_pack(frame, &place, &imm))
        return post_pieces(link, frame);
    if (!link->may_write || !br_verbs_has_room(link, &link->lanes[lane]))
        return 0;
    rc = source(link, frame, &work, &entry);
    if (rc == -EAGAIN)
        return 0;
    if (rc)
        return post_pieces(link, frame); /* in small copies */
    work.imm_data = htonl(imm);
    work.wr.rdma.remote_addr = place.address + frame->offset;
    work.wr.rdma.rkey = place.rkey;
    return submit(link, lane, &work, &entry) ? link->error : 1;
}

int br_verbs_post(struct br_link *base, const struct br_frame *frames, int n)
{
    struct br_verbs_link *link = (struct br_verbs_link *)base;
    const struct br_caps *caps = &base->device->caps;
    int taken = 0;

    if (link->state == BR_VLINK_FAILED)
        return link->error;
    if (link->state == BR_VLINK_CONNECTING)
        return 0;
    for (; taken < n && !link->pieces.frame.kind; taken++) {
        const struct br_frame *frame = &frames[taken];
        int rc;

        if (frame->length > (frame->kind == BR_FRAME_MESSAGE ? caps->max_message : caps->max_frame))
            return taken ? taken
                         : br_error(EMSGSIZE, "a frame of %u bytes is too long to post", frame->length);
        rc = frame->kind == BR_FRAME_MESSAGE ? post_message(link, frame) : post_placed(link, frame);
        if (rc <= 0)
            return taken ? taken : rc;
    }
    return taken;
}
