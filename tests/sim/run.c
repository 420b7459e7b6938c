/* SPDX-License-Identifier: BSD-3-Clause */
/* Moves the time and the ranks; every rank follows its program. */
#include "storm.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"

#define LIMIT (200 * BR_SEC)                  /* of virtual time */
#define SLACK (BR_ABORT_LINGER + 100 * BR_US) /* from a deadline to the end */
#define TURNS 20000                           /* of one rank at one moment */

bool storm_wrong(struct storm *s, const char *format, ...)
{
    va_list args;

    if (s->wrong[0])
        return false;
    va_start(args, format);
    vsnprintf(s->wrong, sizeof s->wrong, format, args);
    va_end(args);
    storm_say(s, "WRONG: %s", s->wrong);
    return false;
}

void storm_say(const struct storm *s, const char *format, ...)
{
    va_list args;

    if (!s->trace)
        return;
    fprintf(stderr, "%12.6f ms  ", s->sim ? (double)br_sim_now(s->sim) / 1e6 : 0);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

bool storm_gone(const struct storm *s, int rank)
{
    return br_sim_host_dead(s->sim, rank);
}

/* ---- the end of a call ----------------------------------------------------------------------- */

static bool is_typed(int status)
{
    return status == -ETIMEDOUT || status == -ECONNRESET || status == -ECANCELED;
}

/* An error says who: a rank, and where it is a link, level and device. A rank that has stood still
 * may have nothing to say but that its operations wait for itself. */
static void look_at_error(struct storm *s, int call, int rank, const char *name)
{
    const struct br_operation *op = &storm_memory_of(s, call, rank)->op;

    if (s->plan->calls[call].stale_key && op->status == -EACCES &&
        strstr(op->message, "has no region"))
        return;
    if (s->plan->network.rkey_refused_ppm && strstr(op->message, "device sim") &&
        strstr(op->message, "cannot pin"))
        return;
    if (s->plan->calm)
        storm_wrong(s, "rank %d, %s: %d although nothing that ends a job has happened: %s", rank,
                    name, op->status, op->message);
    else if (!is_typed(op->status))
        storm_wrong(s, "rank %d, %s: status %d: %s", rank, name, op->status, op->message);
    else if (!strstr(op->message, "rank "))
        storm_wrong(s, "rank %d, %s: its words name no rank: %s", rank, name, op->message);
    else if (s->plan->aborter < 0 && !(s->plan->n_stalls && strstr(op->message, " itself")) &&
             !(strstr(op->message, "level ") && strstr(op->message, "device ")))
        storm_wrong(s, "rank %d, %s: its words name no level and device: %s", rank, name,
                    op->message);
}

static bool stalled_since(const struct storm *s, int rank, uint64_t when)
{
    for (int i = 0; i < s->plan->n_stalls; i++)
        if (s->plan->stalls[i].rank == rank && s->zero + s->plan->stalls[i].until + BR_MS >= when)
            return true;
    return false;
}

/* A peer that is dead is noticed by its silence, not only by a deadline. */
static void look_at_silence(struct storm *s, int rank, const char *name, int status)
{
    uint64_t patience = 2 * s->plan->worker.peer_timeout + BR_SEC;

    for (int i = 0; i < s->plan->n_faults && status && !s->plan->n_stalls && s->zero; i++) {
        const struct br_sim_fault *f = &s->plan->faults[i];

        if (f->kind == BR_SIM_HOST_DEAD && br_sim_now(s->sim) > s->zero + f->at + patience)
            storm_wrong(s, "rank %d, %s: ended long after rank %d died, which nobody has noticed",
                        rank, name, f->host);
    }
}

static void call_ended(struct storm *s, int call, int rank)
{
    struct storm_part *part = storm_memory_of(s, call, rank);
    uint64_t now = br_sim_host_now(s->sim, rank);
    char name[160];

    storm_name_call(s, call, name, sizeof name);
    storm_say(s, "rank %d: %s ends: %d %s", rank, name, part->op.status, part->op.message);
    s->hash = storm_mix(storm_mix(s->hash, now), (uint64_t)(part->op.status + 1000 * rank));
    part->state = STORM_ENDED;
    s->ranks[rank].outstanding--;
    if (part->op.status)
        look_at_error(s, call, rank, name);
    look_at_silence(s, rank, name, part->op.status);
    if (now > part->op.deadline + SLACK &&
        !stalled_since(s, rank, br_sim_time_of(s->sim, rank, part->op.deadline)))
        storm_wrong(s, "rank %d, %s: ended %.3f ms after its deadline: %s", rank, name,
                    (double)(now - part->op.deadline) / 1e6, part->op.message);
    storm_look(s, call, rank);
}

/* The call whose part this operation is now. */
static int call_of(struct storm *s, int rank, const struct br_operation *op)
{
    int found = -1;

    for (int c = 0; c < s->ranks[rank].next_call; c++)
        if (storm_takes_part(s->plan, c, rank) && &storm_memory_of(s, c, rank)->op == op)
            found = c;
    return found;
}

/* ---- the program ----------------------------------------------------------------------------- */

static void submit(struct storm *s, int rank, int call)
{
    struct storm_rank *r = &s->ranks[rank];
    struct storm_part *part = storm_memory_of(s, call, rank);
    uint64_t now = br_sim_host_now(s->sim, rank);
    char name[160];
    int rc;

    storm_prepare(s, call, rank);
    part->op.deadline = now + part->op.timeout;
    part->op.order = r->next_order++;
    if (part->op.kind == BR_OPERATION_COLLECTIVE)
        part->op.sequence = r->next_sequence[s->plan->calls[call].comm]++;
    storm_name_call(s, call, name, sizeof name);
    storm_say(s, "rank %d: %s begins", rank, name);
    rc = br_engine_submit(r->engine, &part->op, now);
    if (!rc) {
        part->state = STORM_RUNNING;
        r->outstanding++;
        return;
    }
    r->refused = true;
    part->state = STORM_IDLE;
    if (rc != -ECANCELED || !r->worker->failed)
        storm_wrong(s, "rank %d, %s was refused with %d: %s", rank, name, rc, br_error_message());
}

/* Skips what does not concern the rank. false: it has to wait. */
static bool may_submit(struct storm *s, int rank)
{
    struct storm_rank *r = &s->ranks[rank];
    const struct storm_part *part;

    while (r->next_call < s->plan->n_calls && !storm_takes_part(s->plan, r->next_call, rank))
        r->next_call++;
    if (r->next_call == s->plan->n_calls || r->refused || r->outstanding >= s->plan->window[rank] ||
        br_sim_now(s->sim) < r->may_submit)
        return false;
    part = storm_memory_of(s, r->next_call, rank);
    return part->state != STORM_RUNNING;
}

static void follow_program(struct storm *s, int rank)
{
    struct storm_rank *r = &s->ranks[rank];

    while (may_submit(s, rank) && !s->wrong[0]) {
        submit(s, rank, r->next_call++);
        if (s->plan->pause && br_random_below(&s->random, 2))
            r->may_submit = br_sim_now(s->sim) + br_random_below(&s->random, s->plan->pause);
    }
}

/* ---- turns ----------------------------------------------------------------------------------- */

static int turn(struct storm *s, int rank)
{
    struct storm_rank *r = &s->ranks[rank];
    uint64_t now = br_sim_host_now(s->sim, rank);
    struct br_operation *op;
    int n = br_engine_progress(r->engine, now);

    for (; (op = br_operation_pop(&r->ended)); n++)
        call_ended(s, call_of(s, rank, op), rank);
    return n;
}

/* Virtual time until which the rank is stopped; 0: it is not. */
static uint64_t stalled_until(const struct storm *s, int rank)
{
    uint64_t now = br_sim_now(s->sim), until = 0;

    for (int i = 0; i < s->plan->n_stalls && s->zero; i++) {
        const struct storm_stall *stall = &s->plan->stalls[i];

        if (stall->rank == rank && s->zero + stall->at <= now && now < s->zero + stall->until &&
            s->zero + stall->until > until)
            until = s->zero + stall->until;
    }
    return until;
}

static void set_wake(struct storm *s, int rank)
{
    struct storm_rank *r = &s->ranks[rank];
    uint64_t timer = br_worker_next_timer(r->worker), deadline = br_engine_next_deadline(r->engine);
    uint64_t now = br_sim_now(s->sim);

    if (deadline < timer)
        timer = deadline;
    r->wake = timer == UINT64_MAX ? BR_SIM_NEVER : br_sim_time_of(s->sim, rank, timer);
    if (s->zero && r->next_call < s->plan->n_calls && !r->refused && r->may_submit > now &&
        r->may_submit < r->wake)
        r->wake = r->may_submit;
    if (r->wake <= now)
        r->wake = now + 1;
}

static void progress_all(struct storm *s, int rank)
{
    struct storm_rank *r = &s->ranks[rank];
    int turns = 0, n;

    r->wake = stalled_until(s, rank);
    if (r->wake)
        return;
    r->due = false;
    do {
        n = turn(s, rank);
        if (s->zero) {
            int before = r->next_call;

            follow_program(s, rank);
            n += r->next_call - before;
        }
    } while (n && ++turns < TURNS && !s->wrong[0]);
    if (turns == TURNS)
        storm_wrong(s, "rank %d always has something to do and gets nowhere", rank);
    set_wake(s, rank);
}

static bool finished(const struct storm *s)
{
    for (int i = 0; i < s->plan->n; i++) {
        const struct storm_rank *r = &s->ranks[i];

        if (!storm_gone(s, i) &&
            (r->outstanding || (r->next_call < s->plan->n_calls && !r->refused)))
            return false;
    }
    return true;
}

bool storm_advance(struct storm *s, uint64_t until)
{
    int n = s->plan->n, host, first = (int)br_random_below(&s->random, (uint64_t)n);
    uint64_t now = br_sim_now(s->sim), next = BR_SIM_NEVER;

    while ((host = br_sim_take_ready(s->sim)) >= 0)
        s->ranks[host].due = true;
    for (int i = 0; i < n && !s->wrong[0]; i++) {
        int rank = (first + i) % n;

        if (storm_gone(s, rank))
            continue;
        if (s->ranks[rank].due || s->ranks[rank].wake <= now)
            progress_all(s, rank);
        if (s->ranks[rank].wake < next)
            next = s->ranks[rank].wake;
    }
    if (br_sim_next(s->sim) < next)
        next = br_sim_next(s->sim);
    if (until < next)
        next = until;
    if (next == BR_SIM_NEVER)
        return finished(s) || storm_wrong(s, "nothing will ever happen");
    if (next > LIMIT)
        return storm_wrong(s, "no end is in sight");
    br_sim_advance_to(s->sim, next <= now ? now + 1 : next);
    return !s->wrong[0];
}

/* ---- a run ----------------------------------------------------------------------------------- */

static bool all_connected(struct storm *s)
{
    for (int i = 0; i < s->plan->n; i++)
        if (!storm_gone(s, i) && !br_worker_connected(s->ranks[i].worker))
            return false;
    return true;
}

static bool any_failed(const struct storm *s)
{
    for (int i = 0; i < s->plan->n; i++)
        if (s->ranks[i].worker->failed || storm_gone(s, i))
            return true;
    return false;
}

static void add_faults(struct storm *s)
{
    for (int i = 0; i < s->plan->n_faults; i++) {
        struct br_sim_fault fault = s->plan->faults[i];

        fault.at += br_sim_now(s->sim);
        if (br_sim_add_fault(s->sim, &fault))
            storm_wrong(s, "%s", br_error_message());
    }
}

/* As the communicator does: a rank that cannot reach another says whom, and gives up. */
static bool connect_all(struct storm *s)
{
    char text[300] = "";

    if (s->plan->faults_from_start)
        add_faults(s);
    while (!all_connected(s)) {
        if (!s->plan->calm && (any_failed(s) || br_sim_now(s->sim) > 20 * BR_SEC))
            return false;
        if (br_sim_now(s->sim) > 20 * BR_SEC) {
            for (int i = 0; i < s->plan->n && !text[0]; i++)
                br_worker_missing(s->ranks[i].worker, text, sizeof text);
            return storm_wrong(s, "not connected after 20 s: %s", text);
        }
        if (!storm_advance(s, BR_SIM_NEVER))
            return false;
    }
    storm_say(s, "all are connected");
    s->zero = br_sim_now(s->sim);
    if (!s->plan->faults_from_start)
        add_faults(s);
    for (int i = 0; i < s->plan->n; i++)
        s->ranks[i].due = true;
    return true;
}

static void perhaps_abort(struct storm *s)
{
    int rank = s->plan->aborter;

    if (rank >= 0 && !storm_gone(s, rank) && br_sim_now(s->sim) >= s->zero + s->plan->abort_at &&
        !s->ranks[rank].worker->failed && !stalled_until(s, rank)) {
        char text[80];

        snprintf(text, sizeof text, "aborted by rank %d: enough", rank);
        br_worker_fail(s->ranks[rank].worker, ECANCELED, text);
        s->ranks[rank].due = true;
    }
}

/* Early ends in good order: whoever has nothing left to do, and has not failed, leaves. */
static void perhaps_leave(struct storm *s)
{
    for (int i = 0; i < s->plan->n && s->plan->leaves_early; i++) {
        struct storm_rank *r = &s->ranks[i];

        if (r->left || storm_gone(s, i) || stalled_until(s, i) || r->worker->failed ||
            r->outstanding || r->next_call < s->plan->n_calls)
            continue;
        storm_say(s, "rank %d leaves", i);
        br_worker_leave(r->worker);
        r->left = r->due = true;
    }
}

static void count(const struct storm *s, struct storm_result *result)
{
    for (int c = 0; c < s->plan->n_calls; c++)
        for (int r = 0; r < s->plan->n; r++) {
            result->ended += s->parts[c][r].state == STORM_ENDED;
            result->failed += s->parts[c][r].state == STORM_ENDED && s->parts[c][r].op.status;
        }
}

void storm_run(const struct storm_plan *plan, bool trace, struct storm_result *result)
{
    static struct storm s; /* too large for a stack */

    memset(&s, 0, sizeof s);
    memset(result, 0, sizeof *result);
    s.plan = plan;
    s.trace = trace;
    br_random_seed(&s.random, plan->seed ^ 0x5eed);
    if (trace)
        storm_show(plan);
    if (storm_open(&s) && connect_all(&s)) {
        while (!finished(&s) && storm_advance(&s, BR_SIM_NEVER)) {
            perhaps_abort(&s);
            perhaps_leave(&s);
        }
        if (!s.wrong[0])
            storm_settle(&s);
    }
    if (s.sim) {
        result->virtual_ns = br_sim_now(s.sim);
        result->hash = storm_mix(s.hash, br_sim_trace_hash(s.sim));
    }
    count(&s, result);
    memcpy(result->wrong, s.wrong, sizeof s.wrong);
    storm_close(&s);
}
