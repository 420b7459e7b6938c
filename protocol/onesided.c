/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The target's side of put, get and atomics. A request names a span of a registered region. Small
 * data of a put come with the request; larger data are an ordinary transfer with the request's tag
 * (part DATA). Where the requester can map the region, the first request shows it to it, and later
 * accesses come without us (br_worker_shared()). One more transfer brings the answer (part STATUS),
 * except for a get that succeeds: its data are the answer, and to wait here until they are
 * acknowledged would cost another trip where a NIC moves them. Puts that succeed are answered
 * together: PUT_DONE says of all that have been carried out since the last one that they are. So a
 * small put to host memory is over when it has come, and needs no struct br_service. Several of
 * them may come in one request (PUTS). The target's program does nothing.
 * The requester's side is in collectives/engine/onesided.c.
 *
 * Atomics are atomic among themselves, whichever workers and devices they come through, and to a
 * program that uses atomic instructions on its own memory, because the CPU carries out both.
 * Rejected: atomics of the NIC, which are atomic neither to the CPU's nor to another NIC's. In
 * memory of a GPU, where the CPU has no atomics, they are refused (-EFAULT); target.h has puts and
 * gets there.
 *
 * A put may notify: when its bytes stand, and before the answer leaves, the target's program gets a
 * value, or a number in a region changes as by an atomic. A request is dealt with once whatever
 * becomes of rails, so this happens once.
 */
#include "protocol/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/copy.h"
#include "base/error.h"

struct br_service {
    uint32_t place; /* in w->services */
    struct br_transfer data, status;
    struct br_notify notify; /* of a put that `notifies` */
    bool notifies;
    struct br_target target; /* memory of a GPU; gpu 0: it is not, and the data have it */
    struct br_answer answer; /* what the status transfer carries, or the first bytes of it */
};

size_t br_onesided_service_bytes(void)
{
    return sizeof(struct br_service);
}

static void onesided_answer(struct br_worker *w, struct br_service *s, int32_t status,
                            uint32_t length)
{
    s->answer.status = status;
    br_transfer_clear(&s->status);
    s->status.tag = br_tag_with_part(s->data.tag, BR_PART_STATUS);
    s->status.peer = s->data.peer;
    s->status.length = length;
    s->status.memory = &s->answer;
    s->status.priority = s->data.priority;
    s->status.order = w->newest;
    s->status.within = UINT64_MAX;
    s->status.owner = &w->services;
    if (br_transfer_send(w, &s->status))
        br_growing_pool_put(&w->services, s->place);
}

/* Can the next PUT_DONE say that the put with this tag, of any part, has been carried out? */
static bool put_done_has_place(const struct br_peer *peer, uint64_t tag)
{
    uint64_t behind = br_tag_with_part(tag, BR_PART_STATUS) - peer->put_done.tag;

    if (peer->state == BR_PEER_LEFT)
        return false;
    return !peer->put_done.type || (behind % 8 == 0 && behind / 8 < BR_PUTS);
}

/* It has been: the next PUT_DONE says so too. */
static void add_put_done(struct br_worker *w, struct br_peer *peer, uint64_t tag)
{
    struct br_message *m = &peer->put_done;
    uint64_t answer = br_tag_with_part(tag, BR_PART_STATUS), behind;

    if (!m->type) {
        *m = (struct br_message){.type = BR_MESSAGE_PUT_DONE, .tag = answer};
        br_peer_activate(w, peer); /* it stays so until this has left */
    }
    behind = answer - m->tag;
    m->put_done.puts[behind / 8 / 64] |= 1ull << behind / 8 % 64;
}

static void let_go(struct br_worker *w, struct br_service *s)
{
    if (s->target.gpu)
        w->config.target.done(w->config.region_context, &s->target);
    else if (s->data.region)
        w->config.region_done(w->config.region_context, s->data.region);
    s->target.gpu = 0;
    s->data.region = NULL;
}

/* A free one has let go. */
static void forget_service(void *service, void *worker)
{
    let_go(worker, service);
}

void br_onesided_forget(struct br_worker *w)
{
    br_growing_pool_visit(&w->services, forget_service, w);
}

bool br_worker_share(const struct br_worker *w, int rank, const struct br_region *region)
{
    const struct br_peer *peer = &w->peers[rank];
    const struct br_rail *rail = peer->rails; /* such a peer has no other */

    return region->segment_fd >= 0 && peer->n_rails && rail->state == BR_RAIL_UP &&
           rail->device->caps.maps && !rail->device->ops->share(rail->link, region, 0, NULL);
}

bool br_worker_find_shared(struct br_worker *w, int rank, uint32_t id, struct br_shared *shared)
{
    const struct br_peer *peer = &w->peers[rank];
    const struct br_rail *rail = peer->rails;

    if (w->failed || !peer->n_rails || peer->state != BR_PEER_UP || rail->state != BR_RAIL_UP ||
        !rail->device->caps.maps || rail->device->ops->share(rail->link, NULL, id, shared))
        return false;
    if (shared->place)
        w->reached = (struct br_reached){.peer = peer,
                                         .id = id,
                                         .unshared = rail->device->unshared,
                                         .device = rail->device,
                                         .shared = *shared};
    return true;
}

/* The span that the request names; held until let_go(). */
static int onesided_reach(struct br_worker *w, struct br_service *s, const struct br_message *m,
                          uint32_t payload)
{
    const struct br_worker_config *c = &w->config;
    struct br_region *region;
    void *memory;
    int gpu;

    if (s->notifies && !m->bytes && m->onesided.check == c->check)
        return 0; /* nothing but the notification */
    if (m->onesided.check != c->check || !m->bytes || m->bytes > BR_MAX_TRANSFER || !c->region_find)
        return -EACCES;
    gpu = c->region_find(c->region_context, m->onesided.region, m->onesided.offset, m->bytes,
                         &memory, &region);
    if (gpu < 0)
        return gpu;
    if (gpu && m->type == BR_MESSAGE_ATOMIC) {
        c->region_done(c->region_context, region);
        return -EFAULT;
    }
    if (gpu)
        s->target = (struct br_target){.gpu = gpu,
                                       .address = memory,
                                       .bytes = m->bytes,
                                       .peer = s->data.peer,
                                       .arrives = m->type == BR_MESSAGE_PUT,
                                       .carried = m->type == BR_MESSAGE_PUT && payload,
                                       .owner = region};
    s->data.memory = memory;
    s->data.region = region;
    (void)br_worker_share(w, s->data.peer, region);
    return 0;
}

int br_onesided_change(void *memory, enum br_atomic operation, const struct br_operands *operands,
                       uint64_t *before)
{
    uint64_t *word = memory;

    if ((uintptr_t)memory % sizeof *word)
        return -EINVAL;
    *before = operands->compare;
    if (operation == BR_ATOMIC_ADD)
        *before = __atomic_fetch_add(word, operands->value, __ATOMIC_SEQ_CST);
    else if (operation == BR_ATOMIC_SET)
        *before = __atomic_exchange_n(word, operands->value, __ATOMIC_SEQ_CST);
    else if (operation == BR_ATOMIC_SWAP)
        __atomic_compare_exchange_n(word, before, operands->value, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST);
    else
        return -EOPNOTSUPP;
    return 0;
}

/* Changes the number that a put names. Returns what its answer says. */
static int32_t onesided_signal(struct br_worker *w, int rank, const struct br_notify *notify)
{
    const struct br_worker_config *c = &w->config;
    const struct br_operands operands = {.value = notify->value};
    struct br_region *region;
    uint64_t before;
    void *memory;
    int rc = c->region_find(c->region_context, notify->region, notify->offset, sizeof before,
                            &memory, &region);

    if (rc < 0)
        return rc;
    (void)br_worker_share(w, rank, region);
    rc = rc ? -EFAULT
            : br_onesided_change(memory, (enum br_atomic)notify->operation, &operands, &before);
    c->region_done(c->region_context, region);
    return rc;
}

/* The bytes of a put stand where they should. */
static void onesided_stand(struct br_worker *w, struct br_service *s)
{
    const struct br_notify *notify = &s->notify;
    int32_t status = 0;

    let_go(w, s);
    if (s->notifies && notify->region)
        status = onesided_signal(w, s->data.peer, notify);
    else if (s->notifies && w->p2p.notified)
        status = w->p2p.notified(w->p2p.context, notify->group, s->data.peer, notify->value);
    if (status == -ENOMEM) {
        br_worker_fail(w, ENOMEM, br_error_message());
    } else if (!status && put_done_has_place(&w->peers[s->data.peer], s->data.tag)) {
        add_put_done(w, &w->peers[s->data.peer], s->data.tag);
        br_growing_pool_put(&w->services, s->place);
    } else {
        onesided_answer(w, s, status, BR_ANSWER_BYTES);
    }
}

/* All bytes of a put are in their place, or where those for a GPU go first. */
static void onesided_arrived(struct br_worker *w, struct br_service *s)
{
    if (!s->target.gpu || w->config.target.store(w->config.region_context, &s->target))
        onesided_stand(w, s);
}

/* rc: of onesided_reach(). */
static void onesided_change(struct br_worker *w, struct br_service *s, const struct br_message *m,
                            const uint8_t *payload, int rc)
{
    struct br_operands operands;

    memcpy(&operands, payload, sizeof operands);
    if (!rc)
        rc = br_onesided_change(s->data.memory, (enum br_atomic)m->onesided.operation, &operands,
                                &s->answer.before);
    let_go(w, s);
    onesided_answer(w, s, rc, sizeof s->answer);
}

/* The data go by themselves. */
static void onesided_move(struct br_worker *w, struct br_service *s, bool arrives)
{
    int rc = arrives ? br_transfer_receive(w, &s->data) : br_transfer_send(w, &s->data);

    if (rc) {
        let_go(w, s);
        onesided_answer(w, s, rc, BR_ANSWER_BYTES);
    }
}

void br_onesided_resume(struct br_worker *w, struct br_target *target)
{
    struct br_service *s = br_container_of(target, struct br_service, target);

    if (!target->arrives) {
        onesided_move(w, s, false);
        return;
    }
    onesided_stand(w, s);
}

/* false: not yet, or never. */
static bool begin_target(struct br_worker *w, struct br_service *s)
{
    bool ready = w->config.target.begin(w->config.region_context, &s->target);

    s->data.memory = s->target.memory;
    s->data.region = s->target.region;
    return ready;
}

/* A put that brings its bytes, for host memory, and of which PUT_DONE can tell. false: it is
 * another one, and nothing was written. */
static bool put_at_once(struct br_worker *w, struct br_peer *peer, const struct br_message *m,
                        const uint8_t *payload, uint32_t length)
{
    const struct br_worker_config *c = &w->config;
    struct br_region *region;
    void *memory;
    int gpu;

    if (m->type != BR_MESSAGE_PUT || m->flags & BR_PUT_NOTIFIES || !length ||
        m->onesided.check != c->check || !c->region_find || !put_done_has_place(peer, m->tag))
        return false;
    gpu = c->region_find(c->region_context, m->onesided.region, m->onesided.offset, length, &memory,
                         &region);
    if (gpu < 0)
        return false;
    if (!gpu) {
        (void)br_worker_share(w, peer->rank, region);
        br_copy(memory, payload, length);
        w->counters.copied_bytes += length;
    }
    c->region_done(c->region_context, region);
    if (!gpu)
        add_put_done(w, peer, m->tag);
    return !gpu;
}

void br_onesided_request(struct br_worker *w, struct br_peer *peer, const struct br_message *m,
                         const uint8_t *payload, uint32_t length)
{
    uint32_t place;
    struct br_service *s;
    bool arrives = m->type == BR_MESSAGE_PUT;
    char text[240];
    int rc;

    if (put_at_once(w, peer, m, payload, length))
        return;
    s = br_growing_pool_get(&w->services, &place);
    if (!s) {
        snprintf(text, sizeof text,
                 "rank %d: peers have %llu puts, gets and atomics under way here: wait for earlier "
                 "ones (%s)",
                 w->config.rank, (unsigned long long)w->services.n_used, br_error_message());
        br_worker_fail(w, ENOBUFS, text);
        return;
    }
    s->place = place;
    s->notifies = false;
    s->target = (struct br_target){0};
    s->answer = (struct br_answer){0};
    br_transfer_clear(&s->data);
    if (arrives && m->flags & BR_PUT_NOTIFIES) {
        s->notifies = true;
        memcpy(&s->notify, payload, sizeof s->notify);
        payload += sizeof s->notify;
        length -= (uint32_t)sizeof s->notify;
    }
    s->data.tag = br_tag_with_part(m->tag, BR_PART_DATA);
    s->data.peer = peer->rank;
    s->data.length = m->bytes;
    s->data.order = w->newest; /* behind what has been submitted, before what follows */
    s->data.within = UINT64_MAX;
    s->data.rendezvous = true;
    s->data.owner = &w->services;
    rc = onesided_reach(w, s, m, length);
    if (m->type == BR_MESSAGE_ATOMIC) {
        onesided_change(w, s, m, payload, rc);
    } else if (rc && arrives) {
        onesided_answer(w, s, rc, BR_ANSWER_BYTES);
    } else if (arrives && !m->bytes) {
        onesided_arrived(w, s);
    } else if (s->target.gpu && !begin_target(w, s)) {
        return;
    } else if (arrives && length) {
        br_copy(s->data.memory, payload, length);
        w->counters.copied_bytes += length;
        onesided_arrived(w, s);
    } else {
        s->data.refuse =
            /* a get's READY is on its way: take it in, that it is not kept for ever */
            rc;
        onesided_move(w, s, arrives);
    }
}

void br_onesided_puts(struct br_worker *w, struct br_peer *peer, const struct br_message *m,
                      const uint8_t *payload)
{
    struct br_put_entry entry;

    for (uint32_t i = 0; i < m->puts.count && !w->failed; i++, payload += entry.bytes) {
        struct br_message put = {.type = BR_MESSAGE_PUT, .tag = br_tag_of_later(m->tag, i)};

        memcpy(&entry, payload, sizeof entry);
        payload += sizeof entry;
        put.bytes = entry.bytes;
        put.onesided = (struct br_body_onesided){
            .offset = entry.offset, .check = m->puts.check, .region = entry.region};
        br_onesided_request(w, peer, &put, payload, entry.bytes);
    }
}

void br_onesided_ended(struct br_worker *w, struct br_transfer *t)
{
    struct br_service *s;

    if (br_tag_with_part(t->tag, BR_PART_STATUS) == t->tag) {
        s = br_container_of(t, struct br_service, status);
        br_growing_pool_put(&w->services, s->place);
    } else {
        s = br_container_of(t, struct br_service, data);
        if (t->is_send) {
            let_go(w, s);
            if (t->status)
                onesided_answer(w, s, t->status, BR_ANSWER_BYTES);
            else
                br_growing_pool_put(&w->services, s->place);
        } else {
            onesided_arrived(w, s);
        }
    }
}

/* ---- at the requester ------------------------------------------------------------------------ */

void br_onesided_put_done(struct br_worker *w, struct br_rail *rail, const struct br_message *m)
{
    int rank = rail->peer->rank;

    for (uint32_t k = 0; k < BR_PUTS_WORDS; k++)
        for (uint64_t left = m->put_done.puts[k]; left; left &= left - 1) {
            uint64_t tag = br_tag_of_later(m->tag, 64 * k + (uint32_t)__builtin_ctzll(left));
            struct br_transfer *t;

            if (br_put_batch_done(w, rank, tag))
                continue;
            t = br_match_posted(w, tag, rank);
            if (!t || t->length != BR_ANSWER_BYTES) {
                br_rail_lost(w, rail, EPROTO, "the peer has carried out a put that is none");
                return;
            }
            br_table_remove(&w->receives, tag, (uint32_t)rank);
            memset(t->memory, 0, BR_ANSWER_BYTES);
            br_transfer_end(w, t, 0);
        }
}
