/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of an iteration. */
#include "training/session/session.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/process.h"
#include "base/sized.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/operation_memory.h"

#define MOST_NAMED   8 /* layers in an error */
#define MISSING_TEXT 512

static int gradient_check(const struct braid_session *s, const char *name, int layer)
{
    if (!s)
        return br_error(EINVAL, "%s: session is NULL", name);
    if (layer < 0 || (uint32_t)layer >= s->n)
        return br_error(EINVAL, "%s: there is no layer %d, there are 0 to %u", name, layer,
                        s->n - 1);
    if (s->failed)
        return br_error(-s->failed, "%s: the session has failed before", name);
    return br_comm_check(s->comm, name);
}

/* ---- a group leaves and comes back ----------------------------------------------------------- */

static int gradient_submit(struct braid_session *s, uint32_t g)
{
    const struct br_layer_group *group = &s->groups[g];
    struct braid_options options = {.priority = s->options.priority + group->priority,
                                    .algorithm = s->algorithm,
                                    .order = s->options.order,
                                    .title = group->title};

    return braid_allreduce(s->comm, group->memory, group->memory, group->count, s->options.type,
                           s->options.reduction, &options, &s->ops[g]);
}

/* All groups that are complete, up to the first one that is not (session.h, `next`). */
static int submit_complete(struct braid_session *s)
{
    int rc = 0;

    while (!rc && s->next >= 0 && !s->groups[s->next].missing) {
        rc = gradient_submit(s, (uint32_t)s->next);
        s->next--;
    }
    return rc;
}

/* Between a layer's gradient and its place in the group's buffer, which is host memory; a gradient
 * that lies on a GPU goes to the host and back here, in the program's thread. */
static int gradient_copy(struct braid_session *s, uint32_t layer, bool back)
{
    struct br_gradient *gradient = &s->gradients[layer];
    size_t bytes = gradient->count * s->element;

    if (!gradient->packed)
        return 0;
    s->report.copied_bytes += bytes;
    return br_comm_copy(s->comm, back ? gradient->memory : gradient->packed,
                        back ? gradient->packed : gradient->memory, bytes);
}

/* Zeros where the layer travels from, which may be memory of a GPU. */
static int gradient_clear(struct braid_session *s, uint32_t layer)
{
    static const uint8_t zeros[64 << 10];
    const struct br_gradient *gradient = &s->gradients[layer];
    uint8_t *to = gradient->packed ? gradient->packed : gradient->memory;
    size_t left = gradient->count * s->element;
    int rc = 0;

    while (left && !rc) {
        size_t bytes = left < sizeof zeros ? left : sizeof zeros;

        rc = br_comm_copy(s->comm, to, zeros, bytes);
        to += bytes;
        left -= bytes;
    }
    return rc;
}

/* The layer's group is under way, or its all-reduce has ended. It stays under way, and 0 is
 * returned, if it does not end within timeout_ms; negative: waits for the end. It stays under way,
 * too, and the session whole, where the call could not wait. */
static int gradient_finish(struct braid_session *s, uint32_t layer, int timeout_ms)
{
    uint32_t g = s->gradients[layer].group, first = s->groups[g].first, last = s->groups[g].last;
    char text[2][BR_LAYER_TEXT];
    size_t index = 0;
    int rc = s->ops[g] ? braid_wait_any(&s->ops[g], 1, &index, timeout_ms) : 0;

    if (index)
        return rc == -ETIMEDOUT ? 0 : rc;
    if (rc && first == last)
        br_error_prefix(rc, "the sum of layer %s: ", br_session_layer(s, layer, text[0]));
    else if (rc)
        br_error_prefix(rc, "the sum of layers %s to %s: ", br_session_layer(s, first, text[0]),
                        br_session_layer(s, last, text[1]));
    else
        rc = gradient_copy(s, layer, true);
    if (rc) {
        s->failed = rc;
        return rc;
    }
    s->states[layer] = BR_LAYER_DONE;
    return 0;
}

/* The layers from `first` on that are not ready in this iteration, for an error: "layer 3 (conv2)",
 * "layers 1, 4, 7 and 12 more". */
static const char *name_missing(const struct braid_session *s, uint32_t first,
                                char text[MISSING_TEXT])
{
    char layer[BR_LAYER_TEXT];
    uint32_t n = 0, named = 0;
    int used;

    for (uint32_t l = first; l < s->n; l++)
        n += s->states[l] == BR_LAYER_WRITTEN;
    used = snprintf(text, MISSING_TEXT, n == 1 ? "layer" : "layers");
    for (uint32_t l = first; l < s->n && named < MOST_NAMED; l++)
        if (s->states[l] == BR_LAYER_WRITTEN)
            used += snprintf(text + used, MISSING_TEXT - (size_t)used, "%s %s", named++ ? "," : "",
                             br_session_layer(s, l, layer));
    if (n > named)
        snprintf(text + used, MISSING_TEXT - (size_t)used, " and %u more", n - named);
    return text;
}

/* ---- public ---------------------------------------------------------------------------------- */

static int make_ready(struct braid_session *s, const char *name, uint32_t layer, bool unused)
{
    char text[BR_LAYER_TEXT];
    int rc;

    if (s->states[layer] != BR_LAYER_WRITTEN)
        return br_error(
            EINVAL,
            "%s: layer %s has been made ready in this iteration already; braid_session_step() "
            "ends it",
            name, br_session_layer(s, layer, text));
    br_profiler_enter(&s->profiler, BR_PROFILER_READY, layer, br_comm_now(s->comm));
    s->states[layer] = BR_LAYER_READY;
    s->missing--;
    s->groups[s->gradients[layer].group].missing--;
    rc = unused ? gradient_clear(s, layer) : gradient_copy(s, layer, false);
    if (!rc)
        rc = submit_complete(s);
    if (rc)
        s->failed = rc;
    br_profiler_leave(&s->profiler, br_comm_now(s->comm));
    return rc;
}

int braid_gradient_ready(struct braid_session *s, int layer)
{
    BR_DISABLE_CANCELLATION;
    int rc = gradient_check(s, "braid_gradient_ready", layer);

    return rc ? rc : make_ready(s, "braid_gradient_ready", (uint32_t)layer, false);
}

int braid_gradient_unused(struct braid_session *s, int layer)
{
    BR_DISABLE_CANCELLATION;
    int rc = gradient_check(s, "braid_gradient_unused", layer == BRAID_GRADIENT_REST ? 0 : layer);

    if (!rc && layer != BRAID_GRADIENT_REST)
        return make_ready(s, "braid_gradient_unused", (uint32_t)layer, true);
    for (uint32_t l = rc ? 0 : s->n; l-- > 0 && !rc;)
        if (s->states[l] == BR_LAYER_WRITTEN)
            rc = make_ready(s, "braid_gradient_unused", l, true);
    return rc;
}

static int gradient_await(struct braid_session *s, const char *name, int layer, int timeout_ms)
{
    int rc = gradient_check(s, name, layer);
    uint32_t l = (uint32_t)layer, g;
    char text[MISSING_TEXT], layer_text[BR_LAYER_TEXT];

    if (rc)
        return rc;
    g = s->gradients[l].group;
    if (s->missing < s->n && (int)g <= s->next)
        return br_error(EINVAL,
                        "%s: layer %s does not travel before %s: "
                        "braid_gradient_ready() or braid_gradient_unused() comes first",
                        name, br_session_layer(s, l, layer_text),
                        name_missing(s, s->groups[g].first, text));
    br_profiler_enter(&s->profiler, BR_PROFILER_WAIT, l, br_comm_now(s->comm));
    if (s->states[l] == BR_LAYER_READY)
        rc = gradient_finish(s, l, timeout_ms);
    br_profiler_leave(&s->profiler, br_comm_now(s->comm));
    return rc;
}

int braid_gradient_wait(struct braid_session *s, int layer)
{
    BR_DISABLE_CANCELLATION;

    return gradient_await(s, "braid_gradient_wait", layer, -1);
}

int braid_gradient_test(struct braid_session *s, int layer, int timeout_ms, int *done)
{
    BR_DISABLE_CANCELLATION;
    int rc;

    if (!done)
        return br_error(EINVAL, "braid_gradient_test: done is NULL");
    *done = 0;
    rc = gradient_await(s, "braid_gradient_test", layer, timeout_ms);
    if (!rc)
        *done = s->states[layer] != BR_LAYER_READY;
    return rc;
}

static bool gradient_is_due(const struct braid_session *s)
{
    uint64_t since = s->report.iterations - s->planned_at;

    if (!s->has_plan)
        return since >= (uint64_t)s->options.warmup;
    return s->options.replan > 0 && since >= (uint64_t)s->options.replan;
}

int braid_session_step(struct braid_session *s)
{
    BR_DISABLE_CANCELLATION;
    int rc = gradient_check(s, "braid_session_step", 0);
    char text[MISSING_TEXT];
    double seconds;

    if (rc)
        return rc;
    if (s->missing && s->missing < s->n)
        return br_error(EINVAL,
                        "braid_session_step: in the midst of a backward pass, without %s: "
                        "braid_gradient_ready() or braid_gradient_unused() comes first",
                        name_missing(s, 0, text));
    br_profiler_enter(&s->profiler, BR_PROFILER_STEP, 0, br_comm_now(s->comm));
    for (uint32_t l = 0; l < s->n && !rc; l++)
        if (s->states[l] == BR_LAYER_READY)
            rc = gradient_finish(s, l, -1);
    br_profiler_leave(&s->profiler, br_comm_now(s->comm));
    if (rc || s->missing)
        return rc;
    br_session_begin(s);
    s->report.iterations++;
    seconds = (double)(br_comm_now(s->comm) - s->stepped) / 1e9;
    s->shortest = s->shortest > 0 ? fmin(s->shortest, seconds) : seconds;
    if (br_autotune_left(&s->autotune))
        rc = br_session_try(s, seconds);
    else if (gradient_is_due(s))
        rc = br_session_replan(s);
    s->failed = rc;
    s->stepped = br_comm_now(s->comm);
    return rc;
}

int braid_session_report(struct braid_session *s, struct braid_session_report *report)
{
    struct braid_session_report full;
    size_t bytes;
    int rc;

    if (!s || !report)
        return br_error(EINVAL, "braid_session_report: session or report is NULL");
    rc = br_sized_room("braid_session_report", "the report", report, sizeof full, &bytes);
    if (rc)
        return rc;
    full = s->report;
    full.groups = (int)s->n_groups;
    full.urgent = s->urgent;
    full.a = s->work.cost.a;
    full.b = s->work.cost.b;
    full.trying = br_autotune_left(&s->autotune);
    if (s->profiler.iterations)
        full.iteration = br_profiler_iteration(&s->profiler, &full.exposed);
    br_sized_write(report, bytes, &full, sizeof full);
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
