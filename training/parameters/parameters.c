/* SPDX-License-Identifier: BSD-3-Clause */
/* The beginning of a struct braid_parameters, and what can be asked of it. */
#include "training/parameters/parameters.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/process.h"
#include "base/sized.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/operation_memory.h"
#include "protocol/message.h"
#include "training/session/agree.h"
#include "training/parameters/update.h"

#define WHO         "braid_parameters_create"
#define SLICE_BYTES 200000
#define WARMUP      500

static const char *const methods[BR_PARAMETERS_METHODS] = {"ssgd", "asgd", "ssd", "local"};

/* ---- arguments ------------------------------------------------------------------------------- */

static int find_method(const char *name, enum br_parameters_method *method)
{
    for (int m = 0; m < BR_PARAMETERS_METHODS; m++)
        if (!name || !strcmp(name, methods[m])) {
            *method = (enum br_parameters_method)m;
            return 0;
        }
    return br_error(EINVAL, WHO ": there is no method %s; there are ssgd, asgd, ssd, local", name);
}

static int check_numbers(const struct braid_parameters_options *o, enum br_parameters_method method)
{
    const float numbers[] = {o->rate, o->momentum, o->decay,     o->drop,
                             o->own,  o->sync,     o->local_rate};

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!(numbers[i] >= 0) || isinf(numbers[i]))
            return br_error(
                EINVAL,
                WHO ": rate, momentum, decay, drop, own, sync and local_rate must be numbers and "
                    "not negative");
    if (o->momentum >= 1)
        return br_error(EINVAL, WHO ": momentum is %g; it must be less than 1",
                        (double)o->momentum);
    if (o->local && strcmp(o->local, "glu") != 0 && strcmp(o->local, "sgd") != 0)
        return br_error(EINVAL, WHO ": there is no local update %s; there are glu and sgd",
                        o->local);
    if (o->steps < 0)
        return br_error(EINVAL, WHO ": steps is %d; it must not be negative", o->steps);
    if ((method == BR_PARAMETERS_SSD || method == BR_PARAMETERS_LOCAL) && !o->steps && o->warmup &&
        o->warmup < 3)
        return br_error(EINVAL,
                        WHO ": steps is 0: to choose it takes a warm-up of 3 iterations or more");
    if ((method == BR_PARAMETERS_SSD || method == BR_PARAMETERS_LOCAL) && !o->steps &&
        o->iterations)
        return br_error(EINVAL, WHO ": iterations is %llu: say steps, too, as it was chosen then",
                        (unsigned long long)o->iterations);
    if (o->in_order != 0 && o->in_order != 1)
        return br_error(EINVAL, WHO ": in_order is %d; it must be 0 or 1", o->in_order);
    return 0;
}

static int check_servers(const struct braid_parameters_options *o, int ranks)
{
    if (o->servers && (o->n_servers < 1 || o->n_servers > ranks))
        return br_error(EINVAL, WHO ": %d servers among %d ranks", o->n_servers, ranks);
    for (int i = 0; o->servers && i < o->n_servers; i++) {
        if (o->servers[i] < 0 || o->servers[i] >= ranks)
            return br_error(EINVAL, WHO ": server %d: there is no rank %d among %d", i,
                            o->servers[i], ranks);
        for (int j = 0; j < i; j++)
            if (o->servers[j] == o->servers[i])
                return br_error(EINVAL, WHO ": rank %d is a server twice", o->servers[i]);
    }
    return 0;
}

static int parameters_check_layers(const struct braid_parameter_layer *layers, int n)
{
    size_t left = SIZE_MAX / 64 / BR_MAX_RANKS;

    if (!layers || n < 1)
        return br_error(EINVAL, WHO ": %d layers; there must be 1 or more", n);
    for (int l = 0; l < n; l++) {
        if (!layers[l].count || layers[l].count > left)
            return br_error(EINVAL, WHO ": layer %d has %zu elements", l, layers[l].count);
        left -= layers[l].count;
    }
    return 0;
}

static int parameters_check(struct braid_comm *comm, const struct braid_parameter_layer *layers,
                            int n, const struct braid_parameters_options *options,
                            struct braid_parameters_options *o, enum br_parameters_method *method)
{
    int rc = br_comm_check(comm, WHO), ranks;

    if (!rc)
        rc = br_sized_read(WHO, "braid_parameters_options", options, sizeof *o, sizeof *o, o);
    if (rc)
        return rc;
    ranks = braid_size(comm);
    rc = find_method(o->method, method);
    if (!rc)
        rc = check_numbers(o, *method);
    if (!rc)
        rc = check_servers(o, ranks);
    if (!rc)
        rc = parameters_check_layers(layers, n);
    if (!rc && o->priority > INT32_MAX - n)
        rc = br_error(EINVAL, WHO ": priority is %d; with %d layers it must be %d at most",
                      (int)o->priority, n, INT32_MAX - n);
    return rc;
}

static void parameters_set_options(struct braid_parameters *p,
                                   const struct braid_parameters_options *options)
{
    struct braid_parameters_options *o = &p->options;

    *o = *options;
    o->rate = o->rate > 0 ? o->rate : 0.01f;
    o->drop = o->drop > 0 ? o->drop : 0.1f;
    o->slice_bytes = o->slice_bytes >= sizeof(float) ? o->slice_bytes : SLICE_BYTES;
    if (o->local && !strcmp(o->local, "sgd")) {
        o->own = 1;
        o->sync = 0;
        o->local_rate = o->local_rate > 0 ? o->local_rate : 0.25f;
    } else if (!(o->own > 0) && !(o->sync > 0) && !(o->local_rate > 0)) {
        o->own = 2;
        o->sync = 0.5f;
        o->local_rate = 4;
    }
    p->warmup = o->warmup < 0 ? 0 : o->warmup ? (uint64_t)o->warmup : WARMUP;
    if (p->method == BR_PARAMETERS_SSGD || p->method == BR_PARAMETERS_ASGD)
        p->warmup = UINT64_MAX;
    atomic_store(&p->steps, o->steps);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Zeroed numbers out of p->memory, which is counted first: with none, only `used` grows. */
static float *parameters_numbers(struct braid_parameters *p, size_t count)
{
    float *at = p->memory ? p->memory + p->used : NULL;

    p->used += (count + 15) / 16 * 16;
    return at;
}

static void parameters_lay_out(struct braid_parameters *p)
{
    p->used = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        struct br_parameters_layer *l = &p->layers[i];

        l->weight = l->pulled = parameters_numbers(p, l->count);
        l->gradients[0] = l->gradients[1] = parameters_numbers(p, l->count);
        if (p->method == BR_PARAMETERS_SSD || p->method == BR_PARAMETERS_LOCAL)
            l->pulled = parameters_numbers(p, l->count);
        if (p->method == BR_PARAMETERS_SSD) {
            l->gradients[1] = parameters_numbers(p, l->count);
            l->pre_weight = parameters_numbers(p, l->count);
        }
        if (p->method == BR_PARAMETERS_LOCAL)
            l->velocity = parameters_numbers(p, l->count);
    }
    for (uint32_t i = 0; i < p->n_slices; i++) {
        struct br_parameters_slice *s = &p->slices[i];

        s->weight = parameters_numbers(p, s->shard->count);
        s->velocity = parameters_numbers(p, s->shard->count);
        if (p->method != BR_PARAMETERS_ASGD)
            s->answer = parameters_numbers(p, s->shard->count);
        for (int r = 0; r < p->ranks; r++)
            s->sources[r] = s->in[r] = parameters_numbers(p, s->shard->count);
    }
}

/* The slices that this rank serves, with room for all that they have of each worker. */
static int get_slices(struct braid_parameters *p)
{
    size_t ranks = (size_t)p->ranks, mine = 0;
    struct br_parameters_exchange *exchange;
    void **at;

    for (uint32_t i = 0; i < p->shards.n; i++)
        mine += p->servers[p->shards.list[i].server] == p->rank;
    p->slices = calloc(mine + 1, sizeof *p->slices);
    p->due = calloc(mine / 64 + 1, sizeof *p->due);
    p->pointers = at = calloc(mine * ranks * 3 + 1, sizeof *p->pointers);
    p->exchanges = exchange = calloc(mine * ranks * 2 + 1, sizeof *exchange);
    if (!p->slices || !p->due || !p->pointers || !p->exchanges)
        return br_error(ENOMEM, WHO ": no memory for %zu slices", mine);
    for (uint32_t i = 0; i < p->shards.n; i++) {
        struct br_parameters_slice *s = &p->slices[p->n_slices];

        if (p->servers[p->shards.list[i].server] != p->rank)
            continue;
        s->due = &p->due[p->n_slices / 64];
        s->due_bit = 1ull << p->n_slices % 64;
        p->n_slices++;
        s->shard = &p->shards.list[i];
        s->number = i;
        s->in = (float **)at;
        s->sources = (const void **)(at + ranks);
        s->pushes = (uint64_t *)(at + 2 * ranks);
        at += 3 * ranks;
        s->receives = exchange;
        s->sends = exchange + ranks;
        for (size_t k = 0; k < 2 * ranks; k++)
            (exchange++)->slice = s;
    }
    return 0;
}

static int get_servers(struct braid_parameters *p, const struct braid_parameters_options *options)
{
    p->n_servers = options->servers ? options->n_servers : p->ranks;
    p->servers = calloc((size_t)p->n_servers, sizeof *p->servers);
    if (!p->servers)
        return br_error(ENOMEM, WHO ": no memory");
    for (int i = 0; i < p->n_servers; i++)
        p->servers[i] = options->servers ? options->servers[i] : i;
    return 0;
}

static int parameters_cut(struct braid_parameters *p, const struct braid_parameter_layer *layers)
{
    /* Of each of its slices a server has a receive posted for each worker, and a worker one for
     * each pull. Large ones each hold a slot; where there was none left, an urgent pull would wait
     * until some other slice has been pushed. A quarter of the slots is for all else. */
    uint64_t slots = br_comm_slots(p->comm) / 4 * 3, servers = (uint64_t)p->n_servers;
    uint32_t limit = (uint32_t)(slots * servers / ((uint64_t)p->ranks + servers));
    /* Cut evenly, no slice of a layer that is larger than this is as small as an eager message,
     * which nothing overtakes once it has left. */
    size_t least = 2 * (size_t)br_comm_eager_bytes(p->comm) / sizeof(float) + 1;
    size_t most = p->options.slice_bytes / sizeof(float);
    size_t *counts = calloc(p->n, sizeof *counts);
    int rc;

    if (!counts)
        return br_error(ENOMEM, WHO ": no memory for %u layers", p->n);
    for (uint32_t l = 0; l < p->n; l++)
        counts[l] = p->layers[l].count = layers[l].count;
    rc = br_shards_open(&p->shards, counts, p->n, (uint32_t)p->n_servers,
                        most > least ? most : least, limit);
    free(counts);
    return rc;
}

static int parameters_allocate(struct braid_parameters *p,
                               const struct braid_parameter_layer *layers,
                               const struct braid_parameters_options *options)
{
    int rc = get_servers(p, options);

    p->layers = calloc(p->n, sizeof *p->layers);
    p->passes = calloc(p->n, sizeof *p->passes);
    if (!rc && (!p->layers || !p->passes))
        rc = br_error(ENOMEM, WHO ": no memory for %u layers", p->n);
    if (!rc)
        rc = parameters_cut(p, layers);
    if (rc)
        return rc;
    p->n_pushes = p->method == BR_PARAMETERS_SSD ? 2 * p->shards.n : p->shards.n;
    p->pushes[0] = calloc(p->n_pushes, sizeof(struct braid_op *));
    p->pulls = calloc(p->shards.n, sizeof(struct braid_op *));
    if (!p->pushes[0] || !p->pulls)
        return br_error(ENOMEM, WHO ": no memory for %u slices", p->shards.n);
    p->pushes[1] = p->pushes[0] + (p->n_pushes - p->shards.n);
    rc = get_slices(p);
    if (!rc)
        rc = br_profiler_open(&p->profiler, p->n);
    if (rc)
        return rc;
    parameters_lay_out(p);
    p->memory = braid_alloc(p->comm, p->used * sizeof *p->memory);
    if (!p->memory)
        return -ENOMEM;
    parameters_lay_out(p);
    p->report.slices = (int)p->shards.n;
    p->report.served_slices = (int)p->n_slices;
    return 0;
}

int br_parameters_destroy(struct braid_parameters *p, int rc)
{
    char text[BR_PARAMETERS_TEXT];

    snprintf(text, sizeof text, "%s", br_error_message());
    br_profiler_close(&p->profiler);
    br_shards_close(&p->shards);
    if (p->memory)
        braid_free(p->comm, p->memory);
    free(p->servers);
    free(p->layers);
    free(p->passes);
    free(p->pushes[0]);
    free(p->pulls);
    free(p->slices);
    free(p->due);
    free(p->pointers);
    free(p->exchanges);
    free(p->shutdowns);
    braid_finalize(p->comm);
    free(p);
    return rc ? br_error(-rc, "%s", text) : 0;
}

/* ---- beginning ------------------------------------------------------------------------------- */

static uint64_t parameters_float_bits(float value)
{
    uint32_t b;

    memcpy(&b, &value, sizeof b);
    return b;
}

static uint64_t parameters_digest(const struct braid_parameters *p)
{
    const struct braid_parameters_options *o = &p->options;
    uint64_t words[] = {0,
                        (uint64_t)p->method << 32 | p->n,
                        parameters_float_bits(o->rate) << 32 | parameters_float_bits(o->momentum),
                        parameters_float_bits(o->decay) << 32 | parameters_float_bits(o->drop),
                        parameters_float_bits(o->own) << 32 | parameters_float_bits(o->sync),
                        parameters_float_bits(o->local_rate) << 32 | (uint32_t)o->steps,
                        p->warmup,
                        (uint64_t)o->slice_bytes << 32 | (uint32_t)o->priority,
                        (uint64_t)o->in_order,
                        br_digest_bytes(p->servers, (size_t)p->n_servers * sizeof *p->servers),
                        br_digest_bytes(o->drops, sizeof o->drops),
                        o->iterations};

    for (uint32_t l = 0; l < p->n; l++) {
        uint64_t both[] = {words[0], p->layers[l].count};

        words[0] = br_digest(both, 2);
    }
    return br_digest(words, sizeof words / sizeof *words);
}

/* On rank 0; they may lie on a GPU. Before the ranks agree, so that all learn when that fails. */
static int copy_initial(struct braid_parameters *p, const struct braid_parameter_layer *layers)
{
    int rc = 0;

    for (uint32_t i = 0; i < p->n && p->rank == 0 && !rc; i++) {
        struct br_parameters_layer *l = &p->layers[i];

        if (layers[i].initial)
            rc = br_comm_copy(p->comm, l->weight, layers[i].initial, l->count * sizeof *l->weight);
    }
    return rc ? br_error_prefix(rc, WHO ": initial: ") : 0;
}

void br_parameters_begin_delay(struct braid_parameters *p, uint32_t layer)
{
    struct br_parameters_layer *l = &p->layers[layer];

    if (!l->pre_weight)
        return;
    memcpy(l->pulled, l->weight, l->count * sizeof *l->pulled);
    memcpy(l->pre_weight, l->weight, l->count * sizeof *l->pre_weight);
}

/* What the options say of the time before the first iteration. */
static void parameters_set_beginning(struct braid_parameters *p)
{
    const struct braid_parameters_options *o = &p->options;

    p->iteration = p->report.iterations = o->iterations;
    atomic_init(&p->begun, o->iterations);
    atomic_init(&p->first_shutdown, UINT64_MAX);
    for (uint32_t i = 0; i < p->n; i++) {
        struct br_parameters_layer *l = &p->layers[i];

        l->next_rate = (struct br_update_sgd){o->rate, o->momentum, o->decay};
        snprintf(l->push_title, sizeof l->push_title, "push layer %u", i);
        snprintf(l->pull_title, sizeof l->pull_title, "pull layer %u", i);
        for (uint32_t j = 0; j < BR_PARAMETERS_RATES; j++)
            l->rates[j] = l->next_rate;
        /* asgd: until the first push, which writes the place behind it */
        atomic_init(&l->latest,
                    (uint32_t)((o->iterations + BR_PARAMETERS_RATES - 1) % BR_PARAMETERS_RATES));
    }
    for (uint32_t i = 0; i < p->n_slices; i++) {
        p->slices[i].round = br_parameters_rounds(p, o->iterations);
        for (int r = 0; r < p->ranks; r++)
            p->slices[i].pushes[r] = o->iterations;
    }
}

/* Rank 0's weights to all workers and servers. */
static int parameters_spread(struct braid_parameters *p)
{
    int rc = 0;

    for (uint32_t i = 0; i < p->n && !rc; i++) {
        struct br_parameters_layer *l = &p->layers[i];

        rc = braid_broadcast(p->comm, l->weight, l->weight, l->count, BRAID_FLOAT32, 0, NULL, NULL);
        if (!rc)
            br_parameters_begin_delay(p, i);
    }
    for (uint32_t i = 0; i < p->n_slices && !rc; i++) {
        const struct br_shard *shard = p->slices[i].shard;

        memcpy(p->slices[i].weight, p->layers[shard->layer].weight + shard->offset,
               shard->count * sizeof(float));
    }
    return rc;
}

int braid_parameters_create(struct braid_comm *comm, const struct braid_parameter_layer *layers,
                            int n, const struct braid_parameters_options *options,
                            struct braid_parameters **parameters)
{
    BR_DISABLE_CANCELLATION;
    enum br_parameters_method method = BR_PARAMETERS_SSGD;
    struct braid_parameters_options copy;
    struct braid_parameters *p;
    int rc = parameters ? parameters_check(comm, layers, n, options, &copy, &method)
                        : br_error(EINVAL, WHO ": nowhere to store the parameters");

    if (rc)
        return rc;
    p = calloc(1, sizeof *p);
    if (!p)
        return br_error(ENOMEM, WHO ": no memory");
    rc = braid_comm_split(comm, 0, braid_rank(comm), &p->comm);
    if (rc) {
        free(p);
        return rc;
    }
    p->method = method;
    p->rank = braid_rank(comm);
    p->ranks = braid_size(comm);
    p->n = (uint32_t)n;
    p->next = n - 1;
    parameters_set_options(p, &copy);
    rc = parameters_allocate(p, layers, &copy);
    if (!rc)
        rc = copy_initial(p, layers);
    rc = br_agree(p->comm, rc ? 0 : parameters_digest(p), rc, WHO, "layers or options");
    if (rc)
        return br_parameters_destroy(p, rc);
    parameters_set_beginning(p);
    rc = parameters_spread(p);
    if (!rc)
        rc = br_parameters_serve_start(p);
    if (!rc)
        rc = br_parameters_shutdown_start(p);
    if (!rc)
        rc = br_parameters_start(p);
    if (rc)
        return br_parameters_give_up(p, rc);
    *parameters = p;
    return 0;
}

float *braid_parameters_weight(struct braid_parameters *p, int layer)
{
    if (!p || layer < 0 || (uint32_t)layer >= p->n) {
        br_error(EINVAL, "braid_parameters_weight: there is no layer %d", layer);
        return NULL;
    }
    return p->layers[layer].weight;
}

int braid_parameters_report(struct braid_parameters *p, struct braid_parameters_report *report)
{
    struct braid_parameters_report full;
    uint64_t start;
    size_t bytes;
    int rc;

    if (!p || !report)
        return br_error(EINVAL, "braid_parameters_report: parameters or report is NULL");
    rc = br_sized_room("braid_parameters_report", "the report", report, sizeof full, &bytes);
    if (rc)
        return rc;
    full = p->report;
    start = p->warmup > p->options.iterations ? p->warmup : p->options.iterations;
    full.steps = atomic_load(&p->steps);
    if (p->iteration > start)
        full.local = (double)atomic_load(&p->local_ns) / 1e9 / (double)(p->iteration - start);
    br_sized_write(report, bytes, &full, sizeof full);
    return 0;
}
