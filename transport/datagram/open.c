/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Set-up of a link, which also finds the size of packets that the path carries in both directions.
 *
 * 1. The connector sends OPENs of several sizes at once and again; the acceptor sends each back at
 *    its size (never more than it got: no amplifier). When the largest is back, or one is and two
 *    more volleys were in vain, that is the size for the life of the link. CONFIRM says so and
 *    proves that the connector hears us; CONFIRMED ends it.
 * 2. Sizes are fixed from then on. A path that later carries less loses what is larger, the link
 *    fails by its patience, and the next one finds the new size. Rejected: to cut frames anew in
 *    the middle (a part's number would not say its place).
 * 3. Rejected: to search in steps (halving): a round trip each, and a lost probe looks like a size
 *    too large.
 */
#include <errno.h>

#include "base/clock.h"
#include "transport/datagram/internal.h"

#define VOLLEY_FIRST (20 * BR_MS) /* doubled each time */
#define VOLLEY_MOST  (200 * BR_MS)
#define VOLLEY_AFTER (5 * BR_MS) /* once something has come back */
#define VOLLEYS_MORE 2u

/* Ethernet with jumbo frames, 4 KiB, Ethernet, common tunnels, IPv6's least, ours: less IPv4 and
 * UDP headers. */
static const uint32_t common_sizes[] = {8972, 4068, 1472, 1408, 1232, BR_DGRAM_MIN_PACKET};

static uint8_t zeros[BR_DGRAM_MAX_PACKET]; /* behind OPEN; never written */

static uint64_t next_volley(const struct br_dgram_link *link)
{
    uint64_t wait = link->volleys < 4 ? VOLLEY_FIRST << link->volleys : VOLLEY_MOST;

    return link->best ? VOLLEY_AFTER : wait;
}

void br_dgram_open_begin(struct br_dgram_link *link, uint64_t now)
{
    link->state = BR_DGRAM_OPENING;
    link->sizes[link->n_sizes++] = link->config.max_packet;
    for (unsigned i = 0; i < sizeof common_sizes / sizeof common_sizes[0]; i++)
        if (common_sizes[i] < link->config.max_packet)
            link->sizes[link->n_sizes++] = common_sizes[i];
    link->volley_at = now + next_volley(link);
}

void br_dgram_open_packet(struct br_dgram_link *link, enum br_dgram_kind kind, uint32_t size,
                          struct br_dgram_packet *out)
{
    struct br_dgram_open *open = (struct br_dgram_open *)out->head;
    bool padded = kind == BR_DGRAM_OPEN || kind == BR_DGRAM_OPENED;

    *open = (struct br_dgram_open){
        .header.kind = (uint8_t)kind,
        .header.link = kind == BR_DGRAM_OPEN ? 0 : link->peer,
        .from = link->config.id,
        .size = size,
        .paths = (uint8_t)link->config.paths,
    };
    out->head_bytes = sizeof *open;
    out->payload = padded ? zeros : NULL;
    out->payload_bytes = padded ? size - (uint32_t)sizeof *open : 0;
    out->path = 0;
    out->region = NULL;
    br_dgram_seal(open, sizeof *open, out->payload, out->payload_bytes);
}

static void use_paths(struct br_dgram_link *link, const struct br_dgram_open *open)
{
    if (open->paths < link->config.paths)
        link->config.paths = open->paths;
}

static void open_answer_open(struct br_dgram_link *link, const struct br_dgram_open *open)
{
    if (open->from != link->peer || open->size > link->config.max_packet || link->connector ||
        link->n_sizes == BR_DGRAM_PROBES) {
        link->stats.dropped++;
        return;
    }
    link->sizes[link->n_sizes++] = open->size;
    use_paths(link, open);
}

static void open_confirm(struct br_dgram_link *link, uint64_t now)
{
    link->state = BR_DGRAM_CONFIRMING;
    link->volley_at = now;
    link->volleys = 0;
    link->next_size = link->n_sizes;
}

static void receive_opened(struct br_dgram_link *link, const struct br_dgram_open *open,
                           uint64_t now)
{
    if (link->state != BR_DGRAM_OPENING || open->size > link->config.max_packet ||
        (link->peer && open->from != link->peer)) {
        link->stats.dropped++;
        return;
    }
    link->peer = open->from;
    use_paths(link, open);
    if (!link->best) {
        link->volleys = 0;
        link->volley_at = now + next_volley(link);
    }
    if (open->size > link->best)
        link->best = open->size;
    if (link->best == link->config.max_packet)
        open_confirm(link, now);
}

void br_dgram_open_input(struct br_dgram_link *link, const struct br_dgram_view *view, uint64_t now)
{
    const struct br_dgram_open *open = &view->open;

    if (view->kind == BR_DGRAM_OPEN) {
        open_answer_open(link, open);
    } else if (view->kind == BR_DGRAM_OPENED) {
        receive_opened(link, open, now);
    } else if (open->from != link->peer) {
        link->stats.dropped++;
    } else if (view->kind == BR_DGRAM_CONFIRMED) {
        if (link->state == BR_DGRAM_CONFIRMING)
            br_dgram_link_up(link, link->best, now);
    } else if (!link->connector && open->size <= link->config.max_packet) {
        if (link->state == BR_DGRAM_ANSWERING)
            br_dgram_link_up(link, open->size, now);
        link->answer_confirm = true;
    }
}

/* A volley has been sent and not answered in time. */
static void open_volley(struct br_dgram_link *link, uint64_t now)
{
    link->volleys++;
    if (link->state == BR_DGRAM_OPENING && link->best && link->volleys > VOLLEYS_MORE) {
        open_confirm(link, now);
        return;
    }
    if (link->state == BR_DGRAM_OPENING)
        link->next_size = 0;
    link->volley_at = now + next_volley(link);
}

static bool connector_next(struct br_dgram_link *link, uint64_t now, struct br_dgram_packet *out)
{
    if (link->state == BR_DGRAM_OPENING && now >= link->volley_at)
        open_volley(link, now);
    if (link->state == BR_DGRAM_OPENING && link->next_size < link->n_sizes) {
        br_dgram_open_packet(link, BR_DGRAM_OPEN, link->sizes[link->next_size++], out);
        return true;
    }
    if (link->state == BR_DGRAM_CONFIRMING && now >= link->volley_at) {
        open_volley(link, now);
        br_dgram_open_packet(link, BR_DGRAM_CONFIRM, link->best, out);
        return true;
    }
    return false;
}

bool br_dgram_open_next(struct br_dgram_link *link, uint64_t now, struct br_dgram_packet *out)
{
    if (link->state != BR_DGRAM_UP && now >= link->received_at + link->config.patience) {
        br_dgram_link_fail(link, ETIMEDOUT, "no answer for %llu ms while the link was made",
                           (unsigned long long)(link->config.patience / BR_MS));
        return false;
    }
    if (link->answer_confirm) {
        link->answer_confirm = false;
        br_dgram_open_packet(link, BR_DGRAM_CONFIRMED, link->packet_bytes, out);
        return true;
    }
    if (!link->connector && link->n_sizes) {
        br_dgram_open_packet(link, BR_DGRAM_OPENED, link->sizes[--link->n_sizes], out);
        return true;
    }
    return link->connector && connector_next(link, now, out);
}

uint64_t br_dgram_open_timer(const struct br_dgram_link *link)
{
    uint64_t end = link->received_at + link->config.patience;

    if (link->n_sizes > link->next_size)
        return 0;
    return link->connector && link->volley_at < end ? link->volley_at : end;
}
