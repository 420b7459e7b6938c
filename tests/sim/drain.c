/* SPDX-License-Identifier: BSD-3-Clause */
/* When the program has ended: rails come back, everything borrowed is given back, all leave in good
 * order. */
#include "storm.h"

#include "base/clock.h"
#include "collectives/engine/internal.h"
#include "protocol/internal.h"
#include "protocol/relay/relay.h"

#define BACK  (15 * BR_SEC) /* for broken rails to come back, from the last fault on */
#define QUIET (500 * BR_MS) /* for the last acknowledgements */
#define LEAVE (30 * BR_SEC)

static bool any_ended(const struct storm *s)
{
    for (int i = 0; i < s->plan->n; i++)
        if (storm_gone(s, i) || s->ranks[i].worker->failed)
            return true;
    return false;
}

static bool all_rails_up(const struct storm *s)
{
    for (int i = 0; i < s->plan->n; i++)
        for (int p = 0; p < s->plan->n; p++) {
            const struct br_peer *peer = &s->ranks[i].worker->peers[p];

            for (int k = 0; k < peer->n_rails - peer->n_alternates; k++)
                if (peer->rails[k].state != BR_RAIL_UP && !br_peer_is_unlinked(peer))
                    return false;
        }
    return true;
}

/* No frame is on its way for others, but for those that ask whether somebody lives. */
static bool nothing_relayed(const struct storm *s)
{
    for (int i = 0; i < s->plan->n; i++) {
        const struct br_relay *relay = s->ranks[i].worker->relay;

        if (relay && (relay->n_own || relay->frames.n_free != relay->frames.count))
            return false;
        if (!relay)
            continue;
        br_list_for_each (node, &s->ranks[i].worker->known)
            if (br_peer_has_work(br_container_of(node, struct br_peer, known)))
                return false;
    }
    return true;
}

static void wait_until(struct storm *s, uint64_t time, bool (*done)(const struct storm *s))
{
    while (br_sim_now(s->sim) < time && !(done && done(s)) && storm_advance(s, time))
        ;
}

static uint64_t last_fault(const struct storm *s)
{
    uint64_t last = br_sim_now(s->sim);

    for (int i = 0; i < s->plan->n_faults; i++)
        if (s->zero + s->plan->faults[i].at > last)
            last = s->zero + s->plan->faults[i].at;
    for (int i = 0; i < s->plan->n_stalls; i++)
        if (s->zero + s->plan->stalls[i].until > last)
            last = s->zero + s->plan->stalls[i].until;
    return last;
}

static void look_at_peer(struct storm *s, int rank, const struct br_peer *peer)
{
    for (int k = 0; k < peer->n_rails; k++) {
        const struct br_rail *rail = &peer->rails[k];

        if (rail->state == BR_RAIL_UP && rail->sent != rail->peer_released)
            storm_wrong(s, "rank %d: %u credits to rank %d on level %d have not come back", rank,
                        rail->sent - rail->peer_released, peer->rank, k);
        if (rail->state == BR_RAIL_UP && rail->tx_bytes != rail->acked_bytes &&
            rail->device->caps.sent_means_arrived)
            storm_wrong(s, "rank %d: %llu bytes to rank %d on level %d count as in flight", rank,
                        (unsigned long long)(rail->tx_bytes - rail->acked_bytes), peer->rank, k);
        if (!br_list_empty(&rail->flights) || !br_list_empty(&rail->unexpected))
            storm_wrong(s, "rank %d: frames or messages of rank %d are left on level %d", rank,
                        peer->rank, k);
    }
    for (int k = 0; k < BR_STREAMS; k++)
        if (!br_list_empty(&peer->streams[k].resend))
            storm_wrong(s, "rank %d: messages to rank %d wait to go again", rank, peer->rank);
    if (peer->early_readys || peer->early_announces)
        storm_wrong(s, "rank %d: %u READYs and %u announcements of rank %d are counted still", rank,
                    peer->early_readys, peer->early_announces, peer->rank);
    if (!br_list_empty(&peer->moving))
        storm_wrong(s, "rank %d: transfers to rank %d are left", rank, peer->rank);
    if (br_peer_has_work(peer))
        storm_wrong(s, "rank %d: something to rank %d has not left", rank, peer->rank);
}

static void look_at_rank(struct storm *s, int rank)
{
    const struct storm_rank *r = &s->ranks[rank];
    const struct br_worker *w = r->worker;

    for (int k = 0; k < BR_SLOTLESS; k++)
        if (!br_list_empty(&w->slotless[k]))
            storm_wrong(s, "rank %d: receives wait for a slot", rank);
    if (w->slots.n_free != w->slots.count)
        storm_wrong(s, "rank %d: %u slots are not given back", rank,
                    w->slots.count - w->slots.n_free);
    if (w->flights.n_free != w->flights.count || w->unexpected.n_used || w->services.n_used)
        storm_wrong(
            s, "rank %d: %u flights, %llu unexpected messages, %llu services are not given back",
            rank, w->flights.count - w->flights.n_free, (unsigned long long)w->unexpected.n_used,
            (unsigned long long)w->services.n_used);
    if (w->receives.count || w->sends.count || w->confirms.count)
        storm_wrong(s, "rank %d: %u receives, %u sends, %u confirmations are left", rank,
                    w->receives.count, w->sends.count, w->confirms.count);
    if (r->region_uses)
        storm_wrong(s, "rank %d: its region is still in use", rank);
    if (s->plan->cube.hosts && !s->plan->calm)
        return; /* timeouts may be shorter than trips: routes come and go for ever */
    br_list_for_each (node, &w->known)
        look_at_peer(s, rank, br_container_of(node, const struct br_peer, known));
}

static bool all_left(const struct storm *s)
{
    for (int i = 0; i < s->plan->n; i++)
        if (!storm_gone(s, i) && !br_worker_left(s->ranks[i].worker))
            return false;
    return true;
}

static void look_at_leaver(struct storm *s, int rank)
{
    const struct br_worker *w = s->ranks[rank].worker;

    for (int p = 0; p < s->plan->n && !br_worker_left(w); p++) {
        const struct br_peer *peer = &w->peers[p];

        if (peer->n_rails && !(peer->state == BR_PEER_LEFT && peer->bye_sent))
            storm_wrong(s,
                        "rank %d waits for %.0f s to leave rank %d (state %d, BYE %ssent, rail 0 "
                        "in state %d)",
                        rank, (double)LEAVE / 1e9, p, peer->state, peer->bye_sent ? "" : "not ",
                        peer->rails[0].state);
    }
}

static void leave(struct storm *s)
{
    for (int i = 0; i < s->plan->n; i++)
        if (!s->ranks[i].worker->failed && !storm_gone(s, i)) {
            br_worker_leave(s->ranks[i].worker);
            s->ranks[i].due = true;
        }
    wait_until(s, br_sim_now(s->sim) + LEAVE, all_left);
    for (int i = 0; i < s->plan->n; i++)
        if (!storm_gone(s, i))
            look_at_leaver(s, i);
}

static void drain_all(struct storm *s)
{
    wait_until(s, last_fault(s), any_ended);
    if (s->plan->calm)
        wait_until(s, br_sim_now(s->sim) + BACK, all_rails_up);
    wait_until(s, br_sim_now(s->sim) + QUIET, any_ended);
    if (any_ended(s) && !s->plan->calm)
        return;
    if (any_ended(s))
        storm_wrong(s, "a rank has failed although nothing that ends a job has happened");
    if (s->plan->calm && !all_rails_up(s))
        storm_wrong(s, "not every rail has come back %.0f s after the last fault",
                    (double)BACK / 1e9);
    wait_until(s, br_sim_now(s->sim) + QUIET, nothing_relayed);
    if (s->plan->calm && !nothing_relayed(s)) /* else timeouts may be shorter than trips */
        storm_wrong(s, "relayed frames are left");
    for (int i = 0; i < s->plan->n && !s->wrong[0]; i++)
        look_at_rank(s, i);
}

void storm_settle(struct storm *s)
{
    if (!any_ended(s) && !s->plan->leaves_early)
        drain_all(s);
    for (int i = 0; i < s->plan->n; i++)
        if (!storm_gone(s, i) &&
            s->ranks[i].engine->n_free != s->ranks[i].engine->config.max_fragments)
            storm_wrong(s, "rank %d: runs are not given back", i);
    if (!s->wrong[0])
        leave(s);
    storm_look_again(s);
    if (br_sim_counters(s->sim)->payload_changed)
        storm_wrong(
            s, "%llu frames were read by their receiver after the sender had got its memory back",
            (unsigned long long)br_sim_counters(s->sim)->payload_changed);
    if (br_sim_counters(s->sim)->bad_rkeys)
        storm_wrong(s, "%llu remote keys, or frames that came with one, were not as they must be",
                    (unsigned long long)br_sim_counters(s->sim)->bad_rkeys);
}
