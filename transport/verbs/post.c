/* SPDX-License-Identifier: BSD-3-Clause */
/* What is posted on a link. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "transport/verbs/rkey.h"
#include "transport/verbs/verbs.h"

/* of the work requests that a queue pair may have outstanding, one in depth / SIGNALS at least */
#define SIGNALS 8u

bool br_verbs_has_room(const struct br_verbs_link *link, struct br_verbs_lane *lane)
{
    if (lane->posted == lane->until) {
        uint32_t done = lane->posted - lane->done, reported = lane->posted - lane->reported;

        lane->until += br_verbs_device_of(link)->depth - (done > reported ? done : reported);
    }
    return lane->posted != lane->until;
}

void br_verbs_entry_release(struct br_verbs_device *device, struct br_verbs_entry *entry)
{
    if (entry->copy)
        br_pool_put(&device->copies, entry->copy);
    if (entry->bounce)
        br_verbs_bounce_put(&device->tx, entry->bounce);
    entry->copy = entry->bounce = NULL;
}

static inline bool is_of_gpu(const struct br_frame *frame)
{
    return frame->region && frame->region->gpu;
}

/* That of the next work request, which is nobody's until verbs_post_submit(). */
static struct br_verbs_entry *next_entry(struct br_verbs_lane *lane, uint64_t cookie,
                                         uint32_t length)
{
    struct br_verbs_entry *entry = &lane->entries[lane->posted % BR_VERBS_DEPTH];

    entry->cookie = cookie;
    entry->length = length;
    entry->reports = true;
    entry->early = false;
    return entry;
}

BR_VERBS_RARE static int verbs_post_refused(struct br_verbs_link *link,
                                            struct br_verbs_entry *entry, int err)
{
    br_verbs_entry_release(br_verbs_device_of(link), entry);
    br_verbs_link_fail(link, -err, false, strerror(err));
    return br_error(err, "%s", link->base.message);
}

/* Hands a work request with the next entry to the NIC. 0; on -errno the link has failed. */
static inline int verbs_post_submit(struct br_verbs_link *link, struct br_verbs_lane *lane,
                                    struct ibv_send_wr *work)
{
    struct br_verbs_entry *entry = &lane->entries[lane->posted % BR_VERBS_DEPTH];
    struct ibv_send_wr *bad;
    int rc;

    work->wr_id = lane->id | lane->posted;
    if (work->send_flags & IBV_SEND_SIGNALED)
        lane->unsignalled = 0;
    rc = ibv_post_send(lane->qp, work, &bad);
    if (rc)
        /* qedr and bnxt_re return negative ones */
        return verbs_post_refused(link, entry, rc > 0 ? rc : EIO);
    lane->posted++;
    return 0;
}

/* The same for a SEND. If its entry is early it asks for a completion only now and then. */
static int submit_send(struct br_verbs_link *link, struct ibv_send_wr *work)
{
    struct br_verbs_lane *lane = &link->lanes[BR_VERBS_MESSAGES];
    const struct br_verbs_entry *entry = &lane->entries[lane->posted % BR_VERBS_DEPTH];
    int rc;

    if (!entry->early || entry->copy ||
        ++lane->unsignalled >= br_verbs_device_of(link)->depth / SIGNALS)
        work->send_flags |= IBV_SEND_SIGNALED;
    rc = verbs_post_submit(link, lane, work);
    if (!rc && entry->early)
        br_verbs_link_is_ready(link);
    return rc;
}

/* Without payload, with a word for the peer's back end. */
static int send_word(struct br_verbs_link *link, uint32_t word, bool early)
{
    struct ibv_send_wr work = {.opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htonl(word)};
    struct br_verbs_entry *entry = next_entry(&link->lanes[BR_VERBS_MESSAGES], 0, 0);

    entry->reports = false;
    entry->early = early;
    return submit_send(link, &work);
}

void br_verbs_send_open(struct br_verbs_link *link)
{
    send_word(link, BR_VERBS_OPEN, true);
}

/* The unsignalled ones at the end are followed by one that is not. */
bool br_verbs_flush(struct br_verbs_link *link)
{
    struct br_verbs_lane *first = &link->lanes[BR_VERBS_MESSAGES];
    bool busy = false;

    if (link->state != BR_VLINK_UP || link->hung_up)
        return false;
    for (unsigned i = 0; i < br_verbs_device_of(link)->classes.n; i++)
        busy = busy || link->lanes[i].done != link->lanes[i].posted;
    if (first->unsignalled && br_verbs_has_room(link, first) &&
        send_word(link, BR_VERBS_NOTHING, false))
        return false;
    return busy;
}

/* A SEND of `header` (or none) and bytes, inline or from a copy, with the next entry. 1; 0: no
 * buffer is free; -errno. */
static int send_bytes(struct br_verbs_link *link, const struct br_frame_header *header,
                      const void *bytes, uint32_t length, struct br_verbs_entry *entry)
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
    return submit_send(link, &work) ? link->error : 1;
}

/* The same of memory of a GPU, which the NIC reads behind a copy of the header. */
BR_VERBS_RARE static int gather_bytes(struct br_verbs_link *link,
                                      const struct br_frame_header *header, const void *bytes,
                                      uint32_t length, struct br_verbs_entry *entry,
                                      const struct ibv_mr *mr)
{
    struct br_verbs_device *device = br_verbs_device_of(link);
    struct ibv_sge sge[2];
    struct ibv_send_wr work = {.opcode = IBV_WR_SEND, .sg_list = sge};

    if (header) {
        entry->copy = br_pool_get(&device->copies);
        if (!entry->copy)
            return 0;
        memcpy(entry->copy, header, sizeof *header);
        sge[work.num_sge++] =
            (struct ibv_sge){(uintptr_t)entry->copy, sizeof *header, device->copies_mr->lkey};
    }
    if (length)
        sge[work.num_sge++] = (struct ibv_sge){(uintptr_t)bytes, length, mr->lkey};
    device->base.counters.tx_gpu_bytes += length;
    return submit_send(link, &work) ? link->error : 1;
}

static int too_long(const struct br_frame *frame)
{
    return br_error(EMSGSIZE, "a frame of %u bytes is too long to post", frame->length);
}

static int verbs_post_post_message(struct br_verbs_link *link, const struct br_frame *frame)
{
    struct br_verbs_lane *lane = &link->lanes[BR_VERBS_MESSAGES];
    struct br_frame_header header;

    if (frame->length > link->base.device->caps.max_message)
        return too_long(frame);
    if (!br_verbs_has_room(link, lane))
        return 0;
    br_frame_header_fill(&header, frame);
    return send_bytes(link, &header, frame->payload, frame->length,
                      next_entry(lane, frame->cookie, frame->length));
}

static int send_piece(struct br_verbs_link *link, const struct br_frame_header *header,
                      uint32_t length, struct br_verbs_entry *entry)
{
    const struct br_frame *frame = &link->pieces.frame;
    const uint8_t *bytes = (const uint8_t *)frame->payload + link->pieces.sent;

    if (!is_of_gpu(frame))
        return send_bytes(link, header, bytes, length, entry);
    return gather_bytes(link, header, bytes, length, entry,
                        br_verbs_region_mr(frame->region, link->base.device->index));
}

void br_verbs_push(struct br_verbs_link *link)
{
    struct br_verbs_lane *lane = &link->lanes[BR_VERBS_MESSAGES];
    struct br_verbs_pieces *pieces = &link->pieces;

    while (pieces->frame.kind && link->state == BR_VLINK_UP && br_verbs_has_room(link, lane)) {
        bool first = pieces->sent == 0;
        uint32_t room = link->piece_bytes - (first ? (uint32_t)sizeof pieces->header : 0);
        uint32_t left = pieces->frame.length - pieces->sent, length = left < room ? left : room;
        struct br_verbs_entry *entry = next_entry(lane, pieces->frame.cookie, pieces->frame.length);

        entry->reports = length == left;
        if (send_piece(link, first ? &pieces->header : NULL, length, entry) <= 0)
            return;
        pieces->sent += length;
        if (length == left) {
            pieces->frame.kind = 0;
            br_verbs_device_of(link)->n_pushing--;
        }
    }
}

/* Rarely: in pieces that the receiver checks and copies (rkey.h note 2). */
BR_VERBS_RARE static int post_pieces(struct br_verbs_link *link, const struct br_frame *frame)
{
    struct br_verbs_pieces *pieces = &link->pieces;

    pieces->frame = *frame;
    pieces->sent = 0;
    br_verbs_device_of(link)->n_pushing++;
    br_frame_header_fill(&pieces->header, frame);
    br_verbs_push(link);
    return link->state == BR_VLINK_UP ? 1 : link->error;
}

/* Payload that lies in no region, and is too long to go inline: from a copy. 0; -EAGAIN: no room
 * for one now; other -errno with a message: never. */
BR_VERBS_RARE static int verbs_post_bounce(struct br_verbs_link *link, const struct br_frame *frame,
                                           struct ibv_sge *sge, struct br_verbs_entry *entry)
{
    struct br_verbs_device *device = br_verbs_device_of(link);
    int rc = br_verbs_bounce_get(&device->tx, frame->length, &entry->bounce);

    if (rc)
        return rc;
    memcpy(entry->bounce, frame->payload, frame->length);
    device->base.counters.tx_copied_bytes += frame->length;
    sge->addr = (uintptr_t)entry->bounce;
    sge->lkey = device->tx.mr->lkey;
    return 0;
}

/* The NIC writes it. 1; 0: not now; -errno: the link has failed. */
static int write_data(struct br_verbs_link *link, const struct br_frame *frame,
                      const struct br_verbs_rkey *place, uint32_t imm)
{
    struct br_verbs_device *device = br_verbs_device_of(link);
    const struct ibv_mr *mr = br_verbs_region_mr(frame->region, device->base.index);
    struct br_verbs_lane *lane = &link->lanes[br_verbs_class_of(&device->classes, frame->priority)];
    struct ibv_send_wr *work = &lane->write;
    struct br_verbs_entry *entry;

    if (!link->may_write || !br_verbs_has_room(link, lane))
        return 0;
    entry = next_entry(lane, frame->cookie, frame->length);
    lane->sge = (struct ibv_sge){(uintptr_t)frame->payload, frame->length, mr ? mr->lkey : 0};
    work->imm_data = htonl(imm);
    work->wr.rdma.remote_addr = place->address + frame->offset;
    work->wr.rdma.rkey = place->rkey;
    work->send_flags = IBV_SEND_SIGNALED;
    if (is_of_gpu(frame)) {
        device->base.counters.tx_gpu_bytes += frame->length;
    } else if (frame->length <= link->max_inline) {
        work->send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
    } else if (!mr) {
        int rc = verbs_post_bounce(link, frame, &lane->sge, entry);

        if (rc) /* never: in small copies */
            return rc == -EAGAIN ? 0 : post_pieces(link, frame);
    }
    return verbs_post_submit(link, lane, work) ? link->error : 1;
}

/* The caller's mistake (transport.h note 11). */
BR_VERBS_RARE static int without_keys(struct br_verbs_link *link)
{
    br_verbs_link_fail(link, -EFAULT, true, "memory of a GPU that has no keys was posted");
    return link->error;
}

/* Takes one frame: 1; 0: not now; -errno: the link has failed. */
static int verbs_post_data(struct br_verbs_link *link, const struct br_frame *frame)
{
    struct br_verbs_rkey place;
    uint32_t imm;

    if (frame->length > link->base.device->caps.max_frame)
        return too_long(frame);
    if (is_of_gpu(frame) && !br_verbs_region_mr(frame->region, link->base.device->index))
        return without_keys(link);
    if (!frame->rkey)
        return post_pieces(link, frame);
    place = br_verbs_rkey_unpack(frame->rkey);
    if (!place.address || !br_verbs_imm_pack(frame, &place, &imm))
        return post_pieces(link, frame);
    return write_data(link, frame, &place, imm);
}

int br_verbs_post(struct br_link *base, const struct br_frame *frames, int n)
{
    struct br_verbs_link *link = (struct br_verbs_link *)base;
    int taken = 0;

    if (link->state != BR_VLINK_UP)
        return link->state == BR_VLINK_FAILED ? link->error : 0;
    for (; taken < n && !link->pieces.frame.kind; taken++) {
        const struct br_frame *frame = &frames[taken];
        int rc = frame->kind == BR_FRAME_MESSAGE ? verbs_post_post_message(link, frame)
                                                 : verbs_post_data(link, frame);

        if (rc <= 0)
            return taken ? taken : rc;
    }
    return taken;
}
