/* SPDX-License-Identifier: BSD-3-Clause */
/* What is wrong with the wiring, in words: first switches, then hosts. */
#include "bcube/wiring.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "bcube/wiring_internal.h"

#define LISTED 6 /* ranks that are named one by one */

static void __attribute__((format(printf, 2, 3)))
wiring_findings_report(struct br_wiring *w, const char *format, ...)
{
    va_list args;

    if (w->n_findings < BR_WIRING_FINDINGS) {
        va_start(args, format);
        vsnprintf(w->findings[w->n_findings], BR_WIRING_TEXT, format, args);
        va_end(args);
    }
    w->n_findings++;
}

/* Text that grows and is cut where it is full. */
struct text {
    char message[120];
    size_t used;
};

static void __attribute__((format(printf, 2, 3)))
wiring_findings_add(struct text *t, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(t->message + t->used, sizeof t->message - t->used, format, args);
    va_end(args);
    if (n > 0)
        t->used =
            t->used + (size_t)n < sizeof t->message ? t->used + (size_t)n : sizeof t->message - 1;
}

/* ---- where a host's NIC of a level is -------------------------------------------------------- */

enum where {
    RIGHT,
    ELSEWHERE,
    ALONE, /* hears nobody, or there is no NIC for the level at all */
    DOWN,
    UNKNOWN /* blind */
};

struct place {
    enum where where;
    int nic; /* -1: none */
    const struct br_wiring_segment *segment;
    struct br_wiring_switch belongs;
};

/* Of a host without a NIC on `level`: one that is on a switch where it does not belong. */
static int misplaced_nic(const struct br_wiring *w, uint32_t host, uint32_t level)
{
    int found = -1;

    for (uint32_t nic = 0; nic < w->hosts[host].n_nics; nic++) {
        const struct br_wiring_segment *segment = br_wiring_segment_of(w, host, nic);

        if (w->hosts[host].nics[nic].level >= 0 || !segment || !segment->n_is)
            continue;
        if (found < 0 || segment->is[0].level == level)
            found = (int)nic;
    }
    return found;
}

static struct place wiring_findings_location_of(const struct br_wiring *w, uint32_t host,
                                                uint32_t level)
{
    struct place p = {.where = ALONE,
                      .nic = br_wiring_nic_on(w, host, level),
                      .belongs = {level, br_bcube_switch(&w->cube, host, level)}};

    if (p.nic < 0)
        p.nic = misplaced_nic(w, host, level);
    if (p.nic < 0)
        return p;
    p.segment = br_wiring_segment_of(w, host, (uint32_t)p.nic);
    if (!p.segment)
        p.where = UNKNOWN;
    else if (br_wiring_segment_is(p.segment, p.belongs) ||
             (!p.segment->n_is && br_wiring_expected(w, p.belongs) == 1)) /* nobody to hear */
        p.where = RIGHT;
    else if (p.segment->n_is)
        p.where = ELSEWHERE;
    else if (!w->hosts[host].nics[p.nic].up)
        p.where = DOWN;
    return p;
}

/* "rank 4 (host h04)" */
static const char *wiring_findings_name_of(const struct br_wiring *w, uint32_t host, char out[96])
{
    const char *name = w->hosts[host].name;

    snprintf(out, 96, *name ? "rank %u (host %s)" : "rank %u", host, name);
    return out;
}

/* "eth0 (level 0)" */
static const char *nic_name(const struct br_wiring *w, uint32_t host, int nic, char out[48])
{
    const struct br_wiring_nic *n = &w->hosts[host].nics[nic];

    snprintf(out, 48, n->level < 0 ? "%s" : "%s (level %d)", n->name, n->level);
    return out;
}

/* ---- switches -------------------------------------------------------------------------------- */

static void judge_joined(struct br_wiring *w, const struct br_wiring_segment *segment)
{
    struct text levels = {0}, switches = {0};
    uint32_t n_levels = 0;

    if (segment->n_is < 2)
        return;
    for (uint32_t level = 0; level < w->cube.k; level++)
        for (uint32_t i = 0; i < segment->n_is; i++)
            if (segment->is[i].level == level) {
                wiring_findings_add(&levels, n_levels++ ? " and %u" : "%u", level);
                break;
            }
    for (uint32_t i = 0; i < segment->n_is; i++)
        wiring_findings_add(&switches, "%s<%u,%u>", i ? " and " : "", segment->is[i].level,
                            segment->is[i].index);
    wiring_findings_report(w,
                           "%s %s %s joined: switches %s%s are one network; take out the cable "
                           "between them, or give each a "
                           "VLAN of its own",
                           n_levels > 1 ? "levels" : "on level", levels.message,
                           n_levels > 1 ? "are" : "switches are", switches.message,
                           segment->n_is == BR_WIRING_JOINED ? " and more" : "");
}

static void list_ranks(const struct br_wiring *w, const struct br_wiring_segment *segment,
                       struct br_wiring_switch at, struct text *t)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < segment->n; i++) {
        uint32_t host = br_wiring_host_of(w->ports[segment->first + i]);

        if (!br_wiring_belongs(w, host, at) || n > LISTED)
            continue;
        wiring_findings_add(t, n == LISTED ? " and others" : n ? ", %u" : "%u", host);
        n++;
    }
}

/* Two networks with the same hosts are no halves of a switch: the hosts simply have both. */
static bool share_a_host(const struct br_wiring *w, const struct br_wiring_segment *a,
                         const struct br_wiring_segment *b)
{
    for (uint32_t i = 0, j = 0; i < a->n && j < b->n;) { /* both in the order of hosts */
        uint32_t x = br_wiring_host_of(w->ports[a->first + i]),
                 y = br_wiring_host_of(w->ports[b->first + j]);

        if (x == y)
            return true;
        if (x < y)
            i++;
        else
            j++;
    }
    return false;
}

/* Two segments that are the same switch. */
static void judge_split(struct br_wiring *w, uint32_t s)
{
    const struct br_wiring_segment *one = &w->segments[s], *other;
    struct text ours = {0}, theirs = {0};

    if (!one->n_is || one->out_of_band)
        return;
    for (uint32_t i = 0; i < s; i++) {
        other = &w->segments[i];
        if (other->out_of_band || !other->n_is || other->is[0].level != one->is[0].level ||
            other->is[0].index != one->is[0].index || share_a_host(w, one, other))
            continue;
        list_ranks(w, other, one->is[0], &ours);
        list_ranks(w, one, one->is[0], &theirs);
        wiring_findings_report(w,
                               "switch <%u,%u> is split: ranks %s and ranks %s do not hear each "
                               "other; it is two VLANs, or two "
                               "switches "
                               "without a cable between them",
                               one->is[0].level, one->is[0].index, ours.message, theirs.message);
        return;
    }
}

/* The NICs of a switch that hear nobody although they should. */
struct lonely {
    uint32_t n, n_down;
    bool others; /* some of the switch's hosts do hear each other */
    struct text text;
};

static void count_lonely(const struct br_wiring *w, struct br_wiring_switch at, struct lonely *out)
{
    *out = (struct lonely){0};
    for (uint32_t port = 0; port < w->cube.n; port++) {
        uint32_t host = br_bcube_switch_host(&w->cube, at.level, at.index, port);
        struct place p;

        if (host >= w->n_hosts)
            continue;
        p = wiring_findings_location_of(w, host, at.level);
        out->others = out->others || p.where == RIGHT;
        out->n_down += p.where == DOWN;
        if (p.where != ALONE && p.where != DOWN)
            continue;
        if (out->n < LISTED)
            wiring_findings_add(&out->text, "%s%s of rank %u", out->n ? ", " : "",
                                p.nic < 0 ? "a NIC" : w->hosts[host].nics[p.nic].name, host);
        out->n++;
    }
}

/* Nobody on the switch hears anybody: is there one cause for all of them? When some know that they
 * are down, it is theirs. */
static bool is_silent(const struct lonely *lonely)
{
    return !lonely->others && lonely->n >= 2 && (!lonely->n_down || lonely->n_down == lonely->n);
}

static void judge_silent(struct br_wiring *w, struct br_wiring_switch at)
{
    struct lonely lonely;

    count_lonely(w, at, &lonely);
    if (!is_silent(&lonely))
        return;
    if (lonely.n_down)
        wiring_findings_report(
            w, "switch <%u,%u>: no carrier at %s: it is off, or all its cables are out", at.level,
            at.index, lonely.text.message);
    else if (lonely.n == 2)
        wiring_findings_report(
            w,
            "switch <%u,%u>: %s do not hear each other: a cable is missing, a port "
            "or the switch is dead",
            at.level, at.index, lonely.text.message);
    else
        wiring_findings_report(
            w, "switch <%u,%u>: nobody hears anybody (%s): it is off, or keeps its ports apart",
            at.level, at.index, lonely.text.message);
}

/* ---- hosts ----------------------------------------------------------------------------------- */

/* The other NIC of the host that is on the same segment; -1: none. */
static int wiring_findings_twin(const struct br_wiring *w, uint32_t host, const struct place *p)
{
    for (uint32_t nic = 0; nic < w->hosts[host].n_nics; nic++)
        if ((int)nic != p->nic && br_wiring_segment_of(w, host, nic) == p->segment)
            return (int)nic;
    return -1;
}

/* Both cables are in each other's place. */
static bool is_swapped(const struct br_wiring *w, uint32_t host, const struct place *p,
                       struct place *with)
{
    for (uint32_t level = 0; level < w->cube.k; level++) {
        *with = wiring_findings_location_of(w, host, level);
        if (with->where == ELSEWHERE && with->nic != p->nic &&
            br_wiring_segment_is(p->segment, with->belongs) &&
            br_wiring_segment_is(with->segment, p->belongs))
            return true;
    }
    return false;
}

static void judge_elsewhere(struct br_wiring *w, uint32_t host, const struct place *p)
{
    struct br_wiring_switch is = p->segment->is[0];
    char rank[96], nic[48], other[48];
    int both = wiring_findings_twin(w, host, p);
    struct place with;

    wiring_findings_name_of(w, host, rank);
    nic_name(w, host, p->nic, nic);
    if (is_swapped(w, host, p, &with)) {
        if (p->belongs.level < with.belongs.level)
            wiring_findings_report(w, "%s: the cables of %s and %s are swapped", rank, nic,
                                   nic_name(w, host, with.nic, other));
    } else if (both >= 0) {
        wiring_findings_report(
            w, "%s: %s and %s are both on switch <%u,%u>; %s belongs into <%u,%u>", rank,
            nic_name(w, host, both, other), nic, is.level, is.index,
            w->hosts[host].nics[p->nic].name, p->belongs.level, p->belongs.index);
    } else {
        wiring_findings_report(w, "%s: %s is plugged into switch <%u,%u>, it belongs into <%u,%u>",
                               rank, nic, is.level, is.index, p->belongs.level, p->belongs.index);
    }
}

/* Only where others of the switch do hear each other: else the switch, or the NICs that are
 * elsewhere, have been named. */
static void find_isolated_host(struct br_wiring *w, uint32_t host, const struct place *p)
{
    struct lonely lonely;
    char rank[96], nic[48];

    count_lonely(w, p->belongs, &lonely);
    if (!lonely.others)
        return;
    wiring_findings_name_of(w, host, rank);
    if (p->nic >= 0)
        wiring_findings_report(
            w, "%s: %s hears nobody of switch <%u,%u>: its cable is missing, or a port is dead",
            rank, nic_name(w, host, p->nic, nic), p->belongs.level, p->belongs.index);
    else
        wiring_findings_report(w,
                               "%s: none of its NICs hears anybody of switch <%u,%u>, level %u: a "
                               "cable is missing, a port "
                               "dead, or a NIC down",
                               rank, p->belongs.level, p->belongs.index, p->belongs.level);
}

static void judge_down(struct br_wiring *w, uint32_t host, const struct place *p)
{
    struct lonely lonely;
    char rank[96], nic[48];

    count_lonely(w, p->belongs, &lonely);
    if (!is_silent(&lonely))
        wiring_findings_report(
            w, "%s: %s is down or has no carrier; plug its cable in, and say: ip link set %s up",
            wiring_findings_name_of(w, host, rank), nic_name(w, host, p->nic, nic),
            w->hosts[host].nics[p->nic].name);
}

static void judge_host(struct br_wiring *w, uint32_t host)
{

    for (uint32_t level = 0; level < w->cube.k; level++) {
        struct place p = wiring_findings_location_of(w, host, level);

        if (p.where == ELSEWHERE)
            judge_elsewhere(w, host, &p);
        else if (p.where == DOWN)
            judge_down(w, host, &p);
        else if (p.where == ALONE)
            find_isolated_host(w, host, &p);
    }
}

void br_wiring_find(struct br_wiring *w)
{
    uint32_t of_level = br_bcube_power(&w->cube, w->cube.k - 1);

    for (uint32_t s = 0; s < w->n_segments; s++) {
        judge_joined(w, &w->segments[s]);
        judge_split(w, s);
    }
    for (uint32_t level = 0; level < w->cube.k; level++)
        for (uint32_t index = 0; index < of_level; index++)
            judge_silent(w, (struct br_wiring_switch){level, index});
    for (uint32_t host = 0; host < w->n_hosts; host++)
        judge_host(w, host);
}
