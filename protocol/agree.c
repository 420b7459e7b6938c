/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Do the ranks agree? A rank that calls an operation with other arguments than the other ranks gets
 * an error at once instead of a wait until the deadline (doc/design/agreement.md).
 */
#include "protocol/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

/* For the other rank, which may stand still, to report what it and we have called. */
#define DISPUTE BR_SEC

/* Both ends of a message know its size, and differ in it. */
static void message_text(const struct br_worker *w, const struct br_transfer *t,
                         const struct br_message *m, char *text, size_t bytes)
{
    uint32_t group = (uint32_t)(t->tag >> 52) & (BR_MAX_GROUPS - 1);
    unsigned long long ours = t->total ? t->total : t->length, theirs = m->bytes;
    char of[40] = "", what[40];

    if (m->type == BR_MESSAGE_READY && m->ready.total)
        theirs = m->ready.total;
    else if ((m->type == BR_MESSAGE_WAITING || m->type == BR_MESSAGE_ANNOUNCE) && m->waiting.total)
        theirs = m->waiting.total;
    if (group)
        snprintf(of, sizeof of, " of communicator %u", group);
    if (br_tag_class(t->tag) == BR_TAG_P2P)
        snprintf(what, sizeof what, "message%s (tag %u)", of, (uint32_t)t->tag);
    else
        snprintf(what, sizeof what, "block of operation %u%s", (uint32_t)(t->tag >> 32) & 0xfffff,
                 of);
    snprintf(text, bytes,
             "rank %d and we (rank %d) disagree about a %s: rank %d sends %llu bytes, rank %d "
             "receives %llu; both sizes must be equal",
             t->peer, w->config.rank, what, t->is_send ? w->config.rank : t->peer,
             t->is_send ? ours : theirs, t->is_send ? t->peer : w->config.rank,
             t->is_send ? theirs : ours);
}

static struct br_agreed *agree_entry_of(struct br_worker *w, uint32_t operation)
{
    return &w->agreed[(operation + (operation >> 20) * 37) % BR_AGREED];
}

static bool is_of(const struct br_agreed *a, uint32_t operation)
{
    return a->used && a->operation == operation;
}

const struct br_call *br_agree_call(struct br_worker *w, uint64_t tag)
{
    const struct br_agreed *a = agree_entry_of(w, (uint32_t)(tag >> 32));

    return is_of(a, (uint32_t)(tag >> 32)) && a->ours ? &a->call : NULL;
}

static void digest_text(const struct br_worker *w, int rank, uint64_t tag, uint16_t theirs,
                        uint16_t ours, char *text, size_t bytes)
{
    uint32_t group = (uint32_t)(tag >> 52) & (BR_MAX_GROUPS - 1);
    char of[40] = "";

    if (group)
        snprintf(of, sizeof of, " of communicator %u", group);
    snprintf(
        text, bytes,
        "rank %d and we (rank %d) disagree about an operation (number %u%s; digest %04x there, "
        "%04x here); "
        "every rank must make the same calls with the same arguments (and root) in the same order",
        rank, w->config.rank, (uint32_t)(tag >> 32) & 0xfffff, of, theirs, ours);
}

void br_worker_waits_for(struct br_worker *w, int rank, uint32_t group, uint64_t sequence,
                         uint16_t check, const struct br_call *call)
{
    struct br_peer *peer = &w->peers[rank];

    if (!peer->n_rails)
        return;
    peer->call = (struct br_message){
        .type = BR_MESSAGE_WAITING, .check = check, .tag = br_tag_of_group(group, sequence)};
    br_waiting_describe(&peer->call, call);
    peer->waiting_due = true;
    br_peer_activate(w, peer);
}

/* The rank has other arguments than ours: a. Note 5. theirs: as it has described them, or NULL. */
static void agree_disagree(struct br_worker *w, uint64_t tag, int rank, uint16_t check,
                           const struct br_agreed *a, const struct br_call *theirs)
{
    char text[sizeof w->message];

    digest_text(w, rank, tag, check, a->check, text, sizeof text);
    if (!w->disagreement_text || a->call.by == BR_CALL_UNKNOWN) {
        br_worker_fail(w, EPROTO, text);
    } else if (theirs) {
        w->disagreement_text(rank, w->config.rank, a->part ? a->whole : tag, theirs, &a->call, text,
                             sizeof text);
        br_worker_fail(w, EPROTO, text);
    } else if (!w->dispute_until) {
        w->dispute_until = w->now + DISPUTE;
        snprintf(w->disputed, sizeof w->disputed, "%s", text);
        br_worker_waits_for(w, rank, (uint32_t)(tag >> 52) & (BR_MAX_GROUPS - 1), tag >> 32,
                            a->check, &a->call);
    }
}

void br_worker_is_part(struct br_worker *w, uint32_t group, uint64_t sequence, uint64_t whole)
{
    uint32_t operation = (uint32_t)(br_tag_of_group(group, sequence) >> 32);
    struct br_agreed *a = agree_entry_of(w, operation);

    if (!is_of(a, operation) || !a->ours)
        return;
    a->part = true;
    a->whole = whole;
}

void br_agree_timer(struct br_worker *w)
{
    if (w->dispute_until && w->now >= w->dispute_until)
        br_worker_fail(w, EPROTO, w->disputed);
}

void br_agree_refuse(struct br_worker *w, const struct br_transfer *t, const struct br_message *m)
{
    const struct br_agreed *a = agree_entry_of(w, (uint32_t)(t->tag >> 32));
    struct br_agreed digests = {.check = t->check};
    bool collective = br_tag_class(t->tag) == BR_TAG_COLLECTIVE, same = t->check == m->check;
    char text[sizeof w->message];

    if (br_tag_class(t->tag) == BR_TAG_P2P || (collective && same)) { /* agreement.md, section 1 */
        message_text(w, t, m, text, sizeof text);
        br_worker_fail(w, EPROTO, text);
    } else {
        bool known = is_of(a, (uint32_t)(t->tag >> 32)) && a->ours;

        agree_disagree(w, t->tag, t->peer, m->check, known ? a : &digests, NULL);
    }
}

void br_worker_begins(struct br_worker *w, uint32_t group, uint64_t sequence, uint16_t check,
                      const struct br_call *call)
{
    uint64_t tag = br_tag_of_group(group, sequence);
    struct br_agreed *a = agree_entry_of(w, (uint32_t)(tag >> 32)), before = *a;

    *a = (struct br_agreed){.operation = (uint32_t)(tag >> 32),
                            .check = check,
                            .used = true,
                            .ours = true,
                            .rank = w->config.rank};
    if (call)
        a->call = *call;
    if (is_of(&before, a->operation) && !before.ours && before.check != check &&
        a->call.by != BR_CALL_EITHER)
        agree_disagree(w, tag, before.rank, before.check, a, NULL);
}

void br_worker_forget_group(struct br_worker *w, uint32_t group)
{
    for (uint32_t i = 0; i < BR_AGREED; i++)
        if (w->agreed[i].operation >> 20 == group)
            w->agreed[i].used = false;
}

void br_worker_forget_before(struct br_worker *w, uint32_t group, uint64_t sequence)
{
    for (uint32_t i = 0; i < BR_AGREED; i++) {
        struct br_agreed *a = &w->agreed[i];
        uint32_t ahead = (a->operation - (uint32_t)sequence) % BR_OPERATIONS;

        if (a->operation / BR_OPERATIONS == group && ahead >= BR_OPERATIONS / 2)
            a->used = false;
    }
}

static bool is_same_call(const struct br_call *a, const struct br_call *b)
{
    return a->collective == b->collective && a->type == b->type && a->reduction == b->reduction &&
           a->root == b->root && a->count == b->count;
}

/* One rank may have found out what the other is about to; else both do the same by the same means,
 * and the digests say that it is so. */
static bool is_agreed(const struct br_agreed *ours, const struct br_call *theirs, uint16_t check)
{
    const struct br_call *call = &ours->call;

    if (!is_same_call(theirs, call))
        return false;
    if (theirs->by != call->by)
        return (theirs->by == BR_CALL_EITHER && call->by == BR_CALL_ASKED) ||
               (theirs->by == BR_CALL_ASKED && call->by == BR_CALL_EITHER);
    return call->by == BR_CALL_EITHER || ours->check == check;
}

bool br_agree_operation(struct br_worker *w, int rank, const struct br_message *m)
{
    uint32_t operation = (uint32_t)(m->tag >> 32);
    struct br_agreed *a = agree_entry_of(w, operation);
    struct br_call theirs = {.by = BR_CALL_UNKNOWN};
    bool described, same;

    if (br_tag_class(m->tag) != BR_TAG_COLLECTIVE)
        return true;
    if (!is_of(a, operation)) {
        if (m->type != BR_MESSAGE_WAITING) /* agreement.md, section 4 */
            *a = (struct br_agreed){
                .operation = operation, .check = m->check, .used = true, .rank = rank};
        return true;
    }
    if (!a->ours)
        return true;
    if (m->type == BR_MESSAGE_WAITING)
        theirs = br_waiting_described(m);
    described = theirs.by != BR_CALL_UNKNOWN && a->call.by != BR_CALL_UNKNOWN;
    same = described ? is_agreed(a, &theirs, m->check)
                     : a->check == m->check || a->call.by == BR_CALL_EITHER;
    if (same)
        return true;
    agree_disagree(w, m->tag, rank, m->check, a, described ? &theirs : NULL);
    return false;
}
