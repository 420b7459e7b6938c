/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The target's side of put, get and atomics. A request names a span of a registered region. Small data of a put come with it;
 * others are an ordinary transfer with the request's tag (part DATA). One more brings the answer (part STATUS), but for a get that
 * goes well: its data are the answer, and waiting here until they are acknowledged would cost another trip where a NIC
 * moves them. The target's program does nothing. The requester's side is in collectives/access.c.
 *
 * Atomics are atomic among themselves, whichever workers and devices they come through, and to a program that uses atomic instructions
 * on its own memory, as both are the CPU's. Rejected: those of the NIC, which are not atomic to the CPU's nor to another NIC's.
 */
#include "protocol/internal.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"

struct br_service {
    struct br_transfer data, status;
    struct br_answer answer; /* what the status transfer carries, or the first bytes of it */
};

size_t br_onesided_service_bytes(void)
{
    return sizeof(struct br_service);
}

static void answer(struct br_worker *w, struct br_service *s, int32_t status, uint32_t length)
{
    s->answer.status = status;
    s->status = (struct br_transfer){
        .tag = br_tag_with_part(s->data.tag, BR_PART_STATUS),
        .peer = s->data.peer,
        .length = length,
        .memory = &s->answer,
        .priority = s->data.priority,
        .order = w->newest,
        .within = UINT64_MAX,
        .owner = &w->services,
    };
    if (br_transfer_send(w, &s->status))
        br_pool_put(&w->services, s);
}

static void let_go(struct br_worker *w, struct br_service *s)
{
    if (s->data.region)
        w->config.region_done(w->config.region_context, s->data.region);
    s->data.region = NULL;
}

void br_onesided_forget(struct br_worker *w)
{
    for (uint32_t i = 0; i < w->services.count; i++) /* free ones are zeroed, or have let go */
        let_go(w, br_pool_at(&w->services, i));
}

/* The span that the request names; held until let_go(). */
static int reach(struct br_worker *w, struct br_service *s, const struct br_message *m)
{
    if (m->onesided.check != w->config.check || !m->bytes || m->bytes > BR_MAX_TRANSFER ||
        !w->config.region_find)
        return -EACCES;
    return w->config.region_find(w->config.region_context, m->onesided.region, m->onesided.offset, m->bytes,
                                 &s->data.memory, &s->data.region);
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
    else if (operation == BR_ATOMIC_SWAP)
        __atomic_compare_exchange_n(word, before, operands->value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    else
        return -EOPNOTSUPP;
    return 0;
}

/* All that is wanted came with the request. rc: of reach(). */
static void serve_at_once(struct br_worker *w, struct br_service *s, const struct br_message *m,
                          const uint8_t *payload, int rc)
{
    struct br_operands operands;

    if (!rc && m->type == BR_MESSAGE_PUT) {
        memcpy(s->data.memory, payload, m->bytes);
        w->counters.copied_bytes += m->bytes;
    } else if (!rc) {
        memcpy(&operands, payload, sizeof operands);
        rc = br_onesided_change(s->data.memory, (enum br_atomic)m->onesided.operation, &operands,
                                &s->answer.before);
    }
    let_go(w, s);
    answer(w, s, rc, m->type == BR_MESSAGE_PUT ? BR_ANSWER_BYTES : sizeof s->answer);
}

void br_onesided_request(struct br_worker *w, struct br_peer *peer, const struct br_message *m,
                         const uint8_t *payload, uint32_t length)
{
    struct br_service *s = br_pool_get(&w->services);
    int rc;

    if (!s) {
        br_worker_fail(w, EPROTO, "a peer has more one-sided requests outstanding than its credits allow");
        return;
    }
    memset(s, 0, sizeof *s);
    s->data.tag = br_tag_with_part(m->tag, BR_PART_DATA);
    s->data.peer = peer->rank;
    s->data.length = m->bytes;
    s->data.order = w->newest; /* behind what has been submitted, before what follows */
    s->data.within = UINT64_MAX;
    s->data.rendezvous = true;
    s->data.owner = &w->services;
    rc = reach(w, s, m);
    if (m->type != BR_MESSAGE_GET && length) {
        serve_at_once(w, s, m, payload, rc);
        return;
    }
    if (rc &&
        m->type ==
            BR_MESSAGE_GET) /* its READY is on its way: take it in, that it does not hold a credit for ever */
        s->data.refuse = rc;
    if (!rc || s->data.refuse)
        rc = m->type == BR_MESSAGE_PUT ? br_transfer_receive(w, &s->data) : br_transfer_send(w, &s->data);
    if (rc) {
        let_go(w, s);
        answer(w, s, rc, BR_ANSWER_BYTES);
    }
}

bool br_onesided_ended(struct br_worker *w, struct br_transfer *t)
{
    struct br_service *s;

    if (t->owner != &w->services)
        return false;
    if (br_tag_with_part(t->tag, BR_PART_STATUS) == t->tag) {
        s = br_container_of(t, struct br_service, status);
        br_pool_put(&w->services, s);
    } else {
        s = br_container_of(t, struct br_service, data);
        let_go(w, s);
        if (t->is_send && !t->status)
            br_pool_put(&w->services, s);
        else
            answer(w, s, t->status, BR_ANSWER_BYTES);
    }
    return true;
}
