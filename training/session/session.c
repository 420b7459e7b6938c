/* SPDX-License-Identifier: BSD-3-Clause */
/* A session's beginning and end. */
#include "training/session/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/process.h"
#include "base/sized.h"
#include "collectives/comm/comm.h"
#include "collectives/schedule/type.h"
#include "training/session/agree.h"

#define WARMUP 5
#define REVIEW 100

/* ---- arguments ------------------------------------------------------------------------------- */

static int check_options(const struct braid_session_options *o)
{
    int rc = br_reduction_check("braid_session_create", o->type, o->reduction);

    if (rc)
        return rc;
    if ((unsigned)o->order > BRAID_ORDER_RANKS)
        return br_error(EINVAL, "braid_session_create: there is no order %d", (int)o->order);
    if (o->warmup < 0)
        return br_error(EINVAL, "braid_session_create: warmup is %d; it must not be negative",
                        o->warmup);
    if (!(o->a >= 0) || !(o->b >= 0))
        return br_error(
            EINVAL, "braid_session_create: a is %g s, b is %g s/byte; they must not be negative",
            o->a, o->b);
    return 0;
}

static int session_check_layers(const struct braid_layer *layers, int n)
{
    if (!layers || n < 1 || n > BRAID_SESSION_LAYERS)
        return br_error(EINVAL, "braid_session_create: %d layers; there must be 1 to %d", n,
                        BRAID_SESSION_LAYERS);
    for (int l = 0; l < n; l++) {
        if (!layers[l].count || layers[l].count > SIZE_MAX / 16 / BRAID_SESSION_LAYERS)
            return br_error(EINVAL, "braid_session_create: layer %d has %zu elements", l,
                            layers[l].count);
        if (!layers[l].gradient != !layers[0].gradient)
            return br_error(
                EINVAL,
                "braid_session_create: layers 0 and %d: either all have memory, or none and the "
                "session allocates it",
                l);
    }
    return 0;
}

static void session_set_options(struct braid_session *s,
                                const struct braid_session_options *options)
{
    s->options = *options;
    s->options.warmup = s->options.warmup ? s->options.warmup : WARMUP;
    s->options.replan = s->options.replan ? s->options.replan : REVIEW;
    s->options.bucket_bytes =
        s->options.bucket_bytes ? s->options.bucket_bytes : (size_t)BR_TRAINING_BUCKET;
    s->options.policy = NULL;
    if (s->options.algorithm && strcmp(s->options.algorithm, "auto") != 0)
        snprintf(s->algorithm, sizeof s->algorithm, "%s", s->options.algorithm);
    s->options.algorithm = s->algorithm;
    s->element = br_type_size(s->options.type);
    s->has_cost = s->options.a > 0 || s->options.b > 0;
    s->work = (struct br_workload){.n = s->n,
                                   .cost = {s->options.a, s->options.b},
                                   .slice_bytes = BR_TRAINING_SLICE_BYTES,
                                   .bucket_bytes = (double)s->options.bucket_bytes};
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int session_allocate(struct braid_session *s)
{
    s->gradients = calloc(s->n, sizeof *s->gradients);
    s->names = calloc(s->n, sizeof *s->names);
    s->states = calloc(s->n, sizeof *s->states);
    s->joins = calloc(s->n, sizeof *s->joins);
    s->groups = calloc(s->n, sizeof *s->groups);
    s->ops = calloc(s->n, sizeof(struct braid_op *));
    s->layers = calloc(s->n, sizeof *s->layers);
    s->work.layers = s->layers;
    if (!s->gradients || !s->names || !s->states || !s->joins || !s->groups || !s->ops ||
        !s->layers)
        return br_error(ENOMEM, "braid_session_create: no memory for %u layers", s->n);
    return br_profiler_open(&s->profiler, s->n);
}

static int take_layers(struct braid_session *s, const struct braid_layer *layers)
{
    size_t all = 0;
    uint8_t *memory;

    for (uint32_t l = 0; l < s->n; l++)
        all += layers[l].count;
    if (!layers[0].gradient && !(s->allocated = braid_alloc(s->comm, all * s->element)))
        return -ENOMEM;
    memory = s->allocated;
    for (uint32_t l = 0; l < s->n; l++) {
        s->gradients[l].memory = memory ? memory : layers[l].gradient;
        s->gradients[l].count = layers[l].count;
        s->layers[l].bytes = (double)(layers[l].count * s->element);
        if (memory)
            memory += layers[l].count * s->element;
    }
    return 0;
}

static void session_destroy(struct braid_session *s)
{
    br_profiler_close(&s->profiler);
    if (s->allocated)
        braid_free(s->comm, s->allocated);
    if (s->buffer)
        braid_free(s->comm, s->buffer);
    for (uint32_t l = 0; s->names && l < s->n; l++)
        free(s->names[l]);
    free(s->names);
    free(s->gradients);
    free(s->states);
    free(s->joins);
    free(s->groups);
    free(s->ops);
    free(s->layers);
    free(s);
}

/* ---- the plan -------------------------------------------------------------------------------- */

void br_session_begin(struct braid_session *s)
{
    memset(s->states, BR_LAYER_WRITTEN, s->n * sizeof *s->states);
    s->missing = s->n;
    s->next = (int)s->n_groups - 1;
    for (uint32_t g = 0; g < s->n_groups; g++)
        s->groups[g].missing = s->groups[g].last - s->groups[g].first + 1;
}

int br_session_lay_out(struct braid_session *s, const uint8_t *joins, bool urgent)
{
    size_t bytes = br_groups_buffer(s->gradients, s->n, s->element, joins);

    if (bytes > s->buffer_bytes) {
        if (s->buffer)
            braid_free(s->comm, s->buffer);
        s->buffer_bytes = 0;
        s->buffer = braid_alloc(s->comm, bytes);
        if (!s->buffer)
            return -ENOMEM;
        s->buffer_bytes = bytes;
    }
    memmove(s->joins, joins, s->n);
    s->urgent = urgent;
    s->n_groups =
        br_groups_lay_out(s->gradients, s->n, s->element, joins, urgent, s->buffer, s->groups);
    br_session_title(s);
    br_session_begin(s);
    return 0;
}

/* Before anything is known: what needs no times, else buckets. */
static int first_plan(struct braid_session *s)
{
    bool urgent = s->policy == BR_POLICY_P3;

    if (s->policy == BR_POLICY_LAYERWISE || urgent)
        br_merge_layerwise(&s->work, s->joins);
    else if (s->policy == BR_POLICY_SINGLE)
        br_merge_single(&s->work, s->joins);
    else
        br_merge_bucket(&s->work, s->work.bucket_bytes, s->joins);
    return br_session_lay_out(s, s->joins, urgent);
}

/* ---- do the ranks agree? --------------------------------------------------------------------- */

static uint64_t session_digest(const struct braid_session *s)
{
    const struct braid_session_options *o = &s->options;
    uint64_t words[] = {0,
                        s->n,
                        (uint64_t)s->policy,
                        (uint64_t)o->type,
                        (uint64_t)o->reduction,
                        (uint64_t)o->warmup,
                        (uint64_t)o->replan,
                        o->bucket_bytes,
                        (uint64_t)o->priority,
                        (uint64_t)o->order,
                        (uint64_t)(o->a * 1e12),
                        (uint64_t)(o->b * 1e18),
                        br_digest_bytes(s->algorithm, strlen(s->algorithm))};

    for (uint32_t l = 0; l < s->n; l++) {
        uint64_t both[] = {words[0], s->gradients[l].count};

        words[0] = br_digest(both, 2);
    }
    return br_digest(words, sizeof words / sizeof *words);
}

/* Whether there is such an algorithm, all ranks find alike by using it. */
static int try_algorithm(struct braid_session *s)
{
    struct braid_options options = {.algorithm = s->algorithm, .order = s->options.order};
    float nothing = 0;

    if (!s->algorithm[0])
        return 0;
    return br_error_prefix(
        braid_allreduce(s->comm, &nothing, &nothing, 1, BRAID_FLOAT32, BRAID_SUM, &options, NULL),
        "braid_session_create: ");
}

/* ---- public ---------------------------------------------------------------------------------- */

static int session_check(const struct braid_comm *comm, const struct braid_layer *layers, int n,
                         const struct braid_session_options *options,
                         struct braid_session_options *copy, enum br_policy *policy)
{
    int rc = br_comm_check(comm, "braid_session_create");

    if (!rc)
        rc = session_check_layers(layers, n);

    *policy = BR_POLICY_AUTO;
    if (!rc)
        rc = br_sized_read("braid_session_create", "braid_session_options", options, sizeof *copy,
                           sizeof *copy, copy);
    if (!rc)
        rc = check_options(copy);
    if (!rc && copy->policy)
        rc = br_error_prefix(br_policy_find(copy->policy, policy), "braid_session_create: policy ");
    return rc;
}

int braid_session_create(struct braid_comm *comm, const struct braid_layer *layers, int n,
                         const struct braid_session_options *options,
                         struct braid_session **session)
{
    BR_DISABLE_CANCELLATION;
    struct braid_session_options copy;
    struct braid_session *s;
    enum br_policy policy;
    int rc = session ? session_check(comm, layers, n, options, &copy, &policy)
                     : br_error(EINVAL, "braid_session_create: nowhere to store the session");

    if (rc)
        return rc;
    s = calloc(1, sizeof *s);
    if (!s)
        return br_error(ENOMEM, "braid_session_create: no memory");
    s->comm = comm;
    s->n = (uint32_t)n;
    s->policy = policy;
    session_set_options(s, &copy);
    rc = session_allocate(s);
    if (!rc)
        rc = take_layers(s, layers);
    if (!rc)
        rc = first_plan(s);
    rc =
        br_agree(comm, rc ? 0 : session_digest(s), rc, "braid_session_create", "layers or options");
    if (!rc)
        rc = try_algorithm(s);
    if (rc) {
        session_destroy(s);
        return rc;
    }
    *session = s;
    return 0;
}

void *braid_gradient(struct braid_session *session, int layer)
{
    if (!session || layer < 0 || (uint32_t)layer >= session->n) {
        br_error(EINVAL, "braid_gradient: there is no layer %d", layer);
        return NULL;
    }
    return session->gradients[layer].memory;
}

int braid_session_free(struct braid_session *s)
{
    BR_DISABLE_CANCELLATION;
    int rc = 0;

    for (uint32_t g = 0; s && g < s->n_groups; g++) {
        int failed = s->ops[g] ? braid_wait(s->ops[g], -1) : 0;

        rc = rc ? rc : failed;
    }
    if (s)
        session_destroy(s);
    return rc;
}
