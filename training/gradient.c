/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of an iteration. */
#include "training/session.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/process.h"
#include "collectives/comm.h"

static int check(const struct braid_session *s, const char *name, int layer)
{
    if (!s)
        return br_error(EINVAL, "%s: session is NULL", name);
    if (layer < 0 || (uint32_t)layer >= s->n)
        return br_error(EINVAL, "%s: there is no layer %d, there are 0 to %u", name, layer, s->n - 1);
    if (s->failed)
        return br_error(-s->failed, "%s: the session has failed before", name);
    return br_comm_check(s->comm, name);
}

/* ---- a group leaves and comes back ---------------------------------------------------------- */

static int submit(struct braid_session *s, uint32_t g)
{
    const struct br_group_of_layers *group = &s->groups[g];
    struct braid_options options = {.priority = s->options.priority + group->priority,
                                    .algorithm = s->algorithm};

    return braid_allreduce(s->comm, group->memory, group->memory, group->count, s->options.type,
                           s->options.reduction, &options, &s->ops[g]);
}

/* Between a layer's gradient and its place in the group's buffer, which is host memory; a gradient that lies on a GPU goes to the host and back
 * here, in the program's thread. */
static int copy(struct braid_session *s, uint32_t layer, bool back)
{
    struct br_gradient *gradient = &s->gradients[layer];
    size_t bytes = gradient->count * s->element;

    if (!gradient->place)
        return 0;
    s->report.copied_bytes += bytes;
    return br_comm_copy(s->comm, back ? gradient->memory : gradient->place,
                        back ? gradient->place : gradient->memory, bytes);
}

/* The layer's group is under way, or its all-reduce has ended. */
static int finish(struct braid_session *s, uint32_t layer)
{
    uint32_t g = s->gradients[layer].group;
    int rc = s->ops[g] ? braid_wait(s->ops[g], -1) : 0;

    s->ops[g] = NULL;
    if (!rc)
        rc = copy(s, layer, true);
    if (rc) {
        s->failed = rc;
        return rc;
    }
    s->states[layer] = BR_LAYER_OURS;
    return 0;
}

/* ---- public --------------------------------------------------------------------------------- */

int braid_gradient_ready(struct braid_session *s, int layer)
{
    BR_HOLD_CANCELLATION;
    int rc = check(s, "braid_gradient_ready", layer);
    uint32_t l = (uint32_t)layer;

    if (rc)
        return rc;
    if (s->next < 0)
        return br_error(
            EINVAL,
            "braid_gradient_ready: layer %d: all layers are ready; braid_session_step() ends the iteration",
            layer);
    if (layer != s->next)
        return br_error(EINVAL, "braid_gradient_ready: layer %d: in the backward pass layer %d is next",
                        layer, s->next);
    br_pace_enter(&s->pace, BR_PACE_READY, l, br_comm_now(s->comm));
    s->states[l] = BR_LAYER_READY;
    s->next--;
    rc = copy(s, l, false);
    if (!rc && s->groups[s->gradients[l].group].first == l)
        rc = submit(s, s->gradients[l].group);
    if (rc)
        s->failed = rc;
    br_pace_leave(&s->pace, br_comm_now(s->comm));
    return rc;
}

int braid_gradient_wait(struct braid_session *s, int layer)
{
    BR_HOLD_CANCELLATION;
    int rc = check(s, "braid_gradient_wait", layer);
    uint32_t l = (uint32_t)layer;

    if (rc)
        return rc;
    if (s->states[l] == BR_LAYER_READY && s->next >= (int)s->groups[s->gradients[l].group].first)
        return br_error(EINVAL, "braid_gradient_wait: layer %d travels with layer %u, which is not ready yet",
                        layer, s->groups[s->gradients[l].group].first);
    br_pace_enter(&s->pace, BR_PACE_WAIT, l, br_comm_now(s->comm));
    if (s->states[l] == BR_LAYER_READY)
        rc = finish(s, l);
    br_pace_leave(&s->pace, br_comm_now(s->comm));
    return rc;
}

static bool is_due(const struct braid_session *s)
{
    uint64_t since = s->report.iterations - s->looked_at;

    if (!s->has_plan)
        return since >= (uint64_t)s->options.warmup;
    return s->options.review > 0 && since >= (uint64_t)s->options.review;
}

int braid_session_step(struct braid_session *s)
{
    BR_HOLD_CANCELLATION;
    int rc = check(s, "braid_session_step", 0);
    double seconds;

    if (rc)
        return rc;
    if (s->next >= 0 && s->next != (int)s->n - 1)
        return br_error(EINVAL, "braid_session_step: in the midst of a backward pass, layer %d is next",
                        s->next);
    br_pace_enter(&s->pace, BR_PACE_STEP, 0, br_comm_now(s->comm));
    for (uint32_t l = 0; l < s->n && !rc; l++)
        if (s->states[l] == BR_LAYER_READY)
            rc = finish(s, l);
    br_pace_leave(&s->pace, br_comm_now(s->comm));
    if (rc || s->next >= 0)
        return rc;
    s->next = (int)s->n - 1;
    s->report.iterations++;
    seconds = (double)(br_comm_now(s->comm) - s->stepped) / 1e9;
    s->shortest = s->shortest > 0 ? fmin(s->shortest, seconds) : seconds;
    if (br_trial_left(&s->trial))
        rc = br_session_try(s, seconds);
    else if (is_due(s))
        rc = br_session_review(s);
    s->failed = rc;
    s->stepped = br_comm_now(s->comm);
    return rc;
}

int braid_session_report(struct braid_session *s, struct braid_session_report *report)
{
    if (!s || !report)
        return br_error(EINVAL, "braid_session_report: session or report is NULL");
    *report = s->report;
    report->groups = (int)s->n_groups;
    report->urgent = s->urgent;
    report->a = s->work.line.a;
    report->b = s->work.line.b;
    report->trying = br_trial_left(&s->trial);
    if (s->pace.iterations)
        report->iteration = br_pace_iteration(&s->pace, &report->exposed);
    return 0;
}

int braid_session_groups(struct braid_session *s, int *first, int max)
{
    if (!s || (max > 0 && !first))
        return br_error(EINVAL, "braid_session_groups: session or first is NULL");
    for (int g = 0; g < (int)s->n_groups && g < max; g++)
        first[g] = (int)s->groups[g].first;
    return (int)s->n_groups;
}
