/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/top/top.h"

#include <inttypes.h>
#include <string.h>

#include "tools/common/format.h"

/* A rank now, and the same process before; NULL: it was not there. */
struct pair {
    const struct br_snapshot *now, *before;
    double seconds; /* between them; 0: there is no rate */
};

static struct pair pair_of(const struct br_snapshot *before, int n, const struct br_snapshot *now)
{
    struct pair p = {.now = now};

    for (int i = 0; i < n && !p.before; i++)
        if (before[i].rank == now->rank && before[i].pid == now->pid &&
            !strcmp(before[i].job, now->job))
            p.before = &before[i];
    if (p.before && now->at > p.before->at)
        p.seconds = (double)(now->at - p.before->at) / 1e9;
    return p;
}

/* Growth of a counter a second. */
static double top_table_rate(const struct pair *p, uint64_t now, uint64_t before)
{
    return p->seconds > 0 && now > before ? (double)(now - before) / p->seconds : 0;
}

/* Of a time in ns: the share of the time between, in percent. */
static double top_table_share(const struct pair *p, uint64_t now, uint64_t before)
{
    double percent = top_table_rate(p, now, before) / 1e7;

    return percent > 100 ? 100 : percent;
}

static const struct braid_rail_stats *rail_before(const struct pair *p,
                                                  const struct braid_rail_stats *rail)
{
    static const struct braid_rail_stats none;

    for (int i = 0; p->before && i < p->before->n_rails; i++)
        if (p->before->rails[i].peer == rail->peer && p->before->rails[i].rail == rail->rail)
            return &p->before->rails[i];
    return p->before ? &none : rail;
}

static const struct braid_peer_stats *peer_of(const struct br_snapshot *s, int peer)
{
    static const struct braid_peer_stats none;

    for (int i = 0; i < s->n_peers; i++)
        if (s->peers[i].peer == peer)
            return &s->peers[i];
    return &none;
}

static void print_rail(const struct pair *p, const struct braid_rail_stats *rail, double all,
                       FILE *out)
{
    const struct braid_rail_stats *old = rail_before(p, rail);
    const struct braid_peer_stats *peer = peer_of(p->now, rail->peer);
    double tx = top_table_rate(p, rail->tx_bytes, old->tx_bytes),
           rx = top_table_rate(p, rail->rx_bytes, old->rx_bytes);
    char queue[48], flight[BR_FORMAT_BYTES], window[BR_FORMAT_BYTES];

    snprintf(queue, sizeof queue, "%" PRIu64 "/%" PRIu64 "/%" PRIu64, peer->queued_high,
             peer->queued_normal, peer->queued_low);
    fprintf(out,
            "%4d %4d %4d %-12.12s %-4s %8.1f %8.1f %4.0f%% %5.0f%% %4.0f%% %5.0f%% %9s %8s %8s "
            "%6" PRIu64 " %4" PRIu64 "\n",
            p->now->rank, rail->peer, rail->rail, rail->device, rail->up ? "up" : "DOWN", tx / 1e6,
            rx / 1e6, all > 0 ? 100 * (tx + rx) / all : 0,
            top_table_share(p, rail->stalled_window_ns, old->stalled_window_ns),
            top_table_share(p, rail->stalled_full_ns, old->stalled_full_ns),
            top_table_share(p, rail->stalled_credit_ns, old->stalled_credit_ns), queue,
            br_format_bytes(flight, (double)rail->in_flight_bytes),
            br_format_bytes(window, (double)rail->window_bytes),
            rail->resent_packets + rail->resent_slices, rail->failures);
}

/* What the rails of the rank carry, in bytes a second. */
static double top_table_traffic(const struct pair *p)
{
    const struct braid_stats *now = &p->now->stats, *old = p->before ? &p->before->stats : now;

    return top_table_rate(p, now->tx_bytes + now->rx_bytes, old->tx_bytes + old->rx_bytes);
}

static void print_downgrades(const struct braid_stats *stats, FILE *out)
{
    const char *between = "; downgrades: ";

    for (const struct br_counter *c = br_counters_rank; c->name; c++)
        if (!strncmp(c->name, "downgrade_", 10) &&
            *(const uint64_t *)((const char *)stats + c->offset)) {
            fprintf(out, "%s%s", between, c->name + 10);
            between = ", ";
        }
}

static void print_rank(const struct pair *p, FILE *out)
{
    const struct braid_stats *now = &p->now->stats, *old = p->before ? &p->before->stats : now;
    uint64_t ready = 0, before = 0;

    for (int i = 0; i < p->now->n_peers; i++)
        ready += p->now->peers[i].ready_wait_ns;
    for (int i = 0; p->before && i < p->before->n_peers; i++)
        before += p->before->peers[i].ready_wait_ns;
    fprintf(
        out,
        "rank %d (process %d): %.0f op/s, %" PRIu64 " under way, %" PRIu64
        " failed; worker busy %.0f%%, spins %.0f%%, sleeps %.0f%%; CPU %.0f%%; for READY wait %.1f",
        p->now->rank, p->now->pid, top_table_rate(p, now->operations, old->operations),
        now->outstanding, now->failed_operations, top_table_share(p, now->busy_ns, old->busy_ns),
        top_table_share(p, now->idle_ns, old->idle_ns),
        top_table_share(p, now->asleep_ns, old->asleep_ns),
        top_table_rate(p, now->process_cpu_ns, old->process_cpu_ns) / 1e7,
        p->before ? top_table_rate(p, ready, before) / 1e9 : 0);
    print_downgrades(now, out);
    fputc('\n', out);
}

static int all_rails(const struct br_snapshot *now, int n)
{
    int rails = 0;

    for (int i = 0; i < n; i++)
        rails += now[i].n_rails;
    return rails;
}

void br_top_print(const struct br_snapshot *before, int n_before, const struct br_snapshot *now,
                  int n, int rows, FILE *out)
{
    int rails = all_rails(now, n), room = rows ? rows - n - 5 : rails, left = 0;

    fprintf(out, "job %s%s%s: %d of %d ranks on this host\n", now->job, now->name[0] ? " " : "",
            now->name, n, now->size);
    for (int i = 0; i < n && (!rows || i < rows - 5); i++) {
        struct pair p = pair_of(before, n_before, &now[i]);

        print_rank(&p, out);
    }
    fprintf(out, "\n%4s %4s %4s %-12s %-4s %8s %8s %5s %6s %5s %6s %9s %8s %8s %6s %4s\n", "rank",
            "peer", "rail", "device", "", "tx MB/s", "rx MB/s", "share", "window", "full", "credit",
            "h/n/l", "in flight", "of", "resent", "lost");
    for (int i = 0; i < n; i++) {
        struct pair p = pair_of(before, n_before, &now[i]);
        double all = top_table_traffic(&p);

        for (int k = 0; k < now[i].n_rails; k++)
            if (room-- > 0)
                print_rail(&p, &now[i].rails[k], all, out);
            else
                left++;
    }
    if (left)
        fprintf(out, "%d more rails; --once shows all\n", left);
}
