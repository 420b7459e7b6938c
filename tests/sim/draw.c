/* SPDX-License-Identifier: BSD-3-Clause */
/* A plan from a seed. Extremes are drawn more often than their share: that is where the bugs
 * live. */
#include "storm.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "collectives/schedule/algorithm.h"
#include "collectives/schedule/type.h"

#define GAP 64 /* between two spans of a region */

static uint64_t below(struct br_random *r, uint64_t bound)
{
    return br_random_below(r, bound);
}

static bool chance(struct br_random *r, unsigned percent)
{
    return below(r, 100) < percent;
}

/* As likely between 1 and 10 as between 1000 and 10,000. */
static uint64_t spread(struct br_random *r, uint64_t least, uint64_t most)
{
    return (uint64_t)((double)least * pow((double)most / (double)least, br_random_unit(r)));
}

#define ONE_OF(r, ...)                                                                             \
    ((const uint64_t[]){                                                                           \
        __VA_ARGS__}[below(r, sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))])

static void draw_network(struct br_random *r, struct storm_plan *plan)
{
    struct br_sim_config *net = &plan->network;

    *net = (struct br_sim_config){
        .seed = br_random_next(r),
        .unordered = chance(r, 30),
        .early_sent = chance(r, 40),
        .maps = plan->rails == 1 && chance(r, 30), /* a mapping comes over one link alone */
        .max_frame = (uint32_t)ONE_OF(r, 16 << 10, 64 << 10, 256 << 10),
        .tx_depth = (uint32_t)ONE_OF(r, 4, 16, 64),
        .bits_per_second = ONE_OF(r, 1000000000, 10000000000, 100000000000),
        .latency_ns = spread(r, 200, 50 * BR_US),
        .forward_bytes = (uint32_t)ONE_OF(r, 0, 256, UINT32_MAX),
        .retransmit_ns = ONE_OF(r, 200 * BR_US, BR_MS, 4 * BR_MS),
        .reorder_ns = spread(r, BR_US, 200 * BR_US),
    };
    /* as shared memory: whole slices, and what is mapped does not hold up what comes after */
    if (net->maps) {
        net->tx_depth = 4096;
        net->max_frame = 256 << 10;
    }
    if (chance(r, 50)) {
        net->loss_ppm = (uint32_t)spread(r, 100, plan->calm || chance(r, 80) ? 20000 : 300000);
        net->corrupt_ppm = (uint32_t)below(r, 5000);
    }
    if (chance(r, 40))
        net->duplicate_ppm = (uint32_t)spread(r, 100, 50000);
    if (chance(r, 40))
        net->reorder_ppm = (uint32_t)spread(r, 100, 200000);
    if (!plan->calm && chance(r, 10))
        net->queue_bytes = spread(r, 64 << 10, 1 << 20);
    if (chance(r, 30)) {
        net->clock_offset_ns = spread(r, BR_US, BR_SEC);
        net->clock_drift_ppm = (uint32_t)below(r, 200);
    }
}

/* Some levels or all are RDMA. Drawn apart, so that all else of a seed stays what it was. */
static void draw_places(struct storm_plan *plan)
{
    struct br_random random, *r = &random;

    br_random_seed(r, plan->seed ^ 0x706c616365ull);
    if (plan->network.maps || chance(r, 50))
        return;
    plan->network.rkey_ports = 1 + (uint32_t)below(r, (1u << plan->rails) - 1);
    if (!plan->calm && chance(r, 30))
        plan->network.rkey_refused_ppm = (uint32_t)spread(r, 100, 300000);
}

/* On some levels or all, what is to be added up is so as it comes. Drawn apart, as above. */
static void draw_combining(struct storm_plan *plan)
{
    struct br_random random, *r = &random;

    br_random_seed(r, plan->seed ^ 0x636f6d62696eull);
    if (chance(r, 50))
        plan->network.reduce_ports = 1 + (uint32_t)below(r, (1u << plan->rails) - 1);
}

static void draw_settings(struct br_random *r, struct storm_plan *plan)
{
    plan->worker = (struct br_worker_config){
        .size = plan->n,
        .cube = plan->cube,
        .check = 77,
        .eager_bytes = (uint32_t)ONE_OF(r, 64, 256, 1024, 4096, 16384),
        .slice_bytes = (uint32_t)ONE_OF(r, 4096, 10000, 16 << 10, 64 << 10, 256 << 10),
        .peer_timeout = plan->calm ? 2 * BR_SEC : spread(r, 50 * BR_MS, 2 * BR_SEC),
        .starvation = spread(r, 10 * BR_US, 100 * BR_MS),
        .target_delay = ONE_OF(r, 0, 10 * BR_US, 100 * BR_US),
        .connect_timeout = spread(r, 200 * BR_MS, BR_SEC),
        .max_slots = 4096,
        .max_transfers = 4096,
        .seed = 1 + (br_random_next(r) >> 1),
    };
    plan->engine = (struct br_engine_config){
        .size = plan->n,
        .max_fragments = 2 + (uint32_t)below(r, 15),
        .window = 1 + (uint32_t)below(r, 8),
        .chunk_bytes = (uint32_t)spread(r, 512, 512 << 10),
        .quantum_bytes = (uint32_t)spread(r, 4096, 256 << 10),
    };
    for (int i = 0; i < plan->n; i++)
        plan->window[i] = chance(r, plan->crowded ? 70 : 30) ? 1 : 1 + (int)below(r, STORM_CALLS);
    if (!plan->crowded && chance(r, 50)) /* all the same */
        for (int i = 1; i < plan->n; i++)
            plan->window[i] = plan->window[0];
    if (plan->crowded)
        plan->engine.chunk_bytes = 512 + (uint32_t)below(r, 512);
    plan->pause = plan->crowded || chance(r, 30) ? 0 : spread(r, BR_US, 20 * BR_MS);
}

/* ---- the program ----------------------------------------------------------------------------- */

static void draw_algorithm(struct br_random *r, const struct storm_plan *plan,
                           struct storm_call *call)
{
    struct br_schedule_request request = {.collective = call->collective, .n = (uint32_t)plan->n};

    if (br_collective_rooted(call->collective))
        request.root = (uint32_t)call->root;
    for (int tries = 0; tries < 3 && chance(r, 80); tries++) {
        request.algorithm = (enum br_algorithm)below(r, BR_ALGORITHMS);
        if (request.algorithm == BR_DIMENSIONAL || br_algorithm_check(&request))
            continue;
        snprintf(call->algorithm, sizeof call->algorithm, "%s",
                 br_algorithm_name(request.algorithm));
        return;
    }
}

/* Types and reductions that came later, in place of half of the others. Drawn apart, so that all
 * else of a seed stays what it was. */
static void draw_later_types(const struct storm_plan *plan, struct storm_call *call)
{
    struct br_random random, *r = &random;

    br_random_seed(r, plan->seed ^ 0x7479706573ull ^ (uint64_t)(call - plan->calls) << 40);
    if (chance(r, 50))
        return;
    do {
        call->type = (enum braid_type)below(r, BRAID_TYPES);
        call->reduction = (enum braid_reduction)below(r, BRAID_REDUCTIONS);
    } while (!br_type_has_reduction(call->type, call->reduction));
}

static void draw_collective(struct br_random *r, const struct storm_plan *plan,
                            struct storm_call *call, size_t bytes)
{
    size_t size;

    call->collective = plan->crowded ? BR_BROADCAST : (enum br_collective)below(r, BR_SCATTER + 1);
    call->type = (enum braid_type)below(r, BRAID_UINT64 + 1);
    call->reduction = (enum braid_reduction)below(r, BRAID_AVG + 1);
    call->in_place = chance(r, 40);
    call->root = (int)below(r, (uint64_t)plan->n);
    if (call->type <= BRAID_FLOAT64 && call->reduction == BRAID_SUM)
        chance(r, 50); /* of nothing any more: a seed stays what it was */
    draw_later_types(plan, call);
    size = br_type_size(call->type);
    if (br_collective_blocks(call->collective, 2, BR_INPUT) > 1 ||
        br_collective_blocks(call->collective, 2, BR_OUTPUT) > 1)
        size *= (size_t)plan->n;
    call->count = call->collective == BR_BARRIER ? 0 : bytes / size + below(r, 3);
    draw_algorithm(r, plan, call);
    /* with what is drawn already, so that a seed stays what it was */
    if (call->count % 2 && call->reduction != BRAID_AVG && call->collective == BR_ALLREDUCE &&
        (!call->algorithm[0] || !strcmp(call->algorithm, br_algorithm_name(BR_DOUBLING))))
        call->collective = BR_SCAN;
    if (call->count % 2 && call->reduction != BRAID_AVG && call->collective == BR_REDUCE &&
        (!call->algorithm[0] || !strcmp(call->algorithm, br_algorithm_name(BR_CHAIN))))
        call->collective = BR_EXSCAN;
    call->uneven = br_collective_uneven_name(call->collective) && call->count % 2 &&
                   strcmp(call->algorithm, br_algorithm_name(BR_TREE)) != 0 &&
                   strcmp(call->algorithm, br_algorithm_name(BR_BRUCK)) != 0;
}

static void draw_call(struct br_random *r, struct storm_plan *plan, struct storm_call *call,
                      size_t most)
{
    size_t bytes = chance(r, 15) ? below(r, 8) : spread(r, 1, most);
    unsigned kind = (unsigned)below(r, 100);

    if (plan->crowded && kind < 85)
        kind = kind % 2 ? 0 : 85 + kind % 15;

    *call = (struct storm_call){
        .again = -1,
        .priority = chance(r, 50) ? 0 : (int32_t)below(r, 5) - 2,
        .from = (int)below(r, (uint64_t)plan->n),
        .to = (int)below(r, (uint64_t)plan->n),
        .tag = (uint32_t)below(r, 3),
        .timeout = 60 * BR_SEC,
    };
    if (plan->n > 1 && call->from == call->to && chance(r, 80))
        call->to = (call->from + 1) % plan->n;
    if (kind < 65 || (kind < 85 && call->from == call->to)) {
        draw_collective(r, plan, call, bytes);
        return;
    }
    call->count = bytes;
    call->kind = kind < 85   ? BR_OPERATION_SEND
                 : kind < 92 ? BR_OPERATION_PUT
                 : kind < 97 ? BR_OPERATION_GET
                             : BR_OPERATION_ADD;
    if (call->kind == BR_OPERATION_ADD)
        call->count = sizeof(uint64_t);
    if (call->kind != BR_OPERATION_SEND) {
        call->stale_key = call->from != call->to && call->count && chance(r, 10);
        call->offset = (plan->region_bytes + GAP + 7) / 8 * 8;
        plan->region_bytes = call->offset + call->count;
    }
}

static void draw_program(struct br_random *r, struct storm_plan *plan)
{
    size_t most = plan->crowded
                      ? 128 << 10
                      : ONE_OF(r, 2 << 10, 2 << 10, 32 << 10, 128 << 10, 128 << 10, 512 << 10);

    plan->n_calls = 1 + (int)below(r, STORM_CALLS - 1);
    if (plan->n > 9 && most > 32 << 10)
        most = 32 << 10;
    for (int i = 0; i < plan->n_calls; i++) {
        int earlier = i ? (int)below(r, (uint64_t)i) : 0;

        if (i && chance(r, 15) && plan->calls[earlier].again < 0 &&
            !plan->calls[earlier].stale_key) {
            plan->calls[i] = plan->calls[earlier];
            plan->calls[i].again = earlier;
        } else {
            draw_call(r, plan, &plan->calls[i], most);
        }
    }
    plan->region_bytes += GAP;
    /* nobody leaves while others may still want something of its memory */
    if (plan->region_bytes > GAP) {
        plan->calls[plan->n_calls] =
            (struct storm_call){.collective = BR_BARRIER, .again = -1, .last = true};
        plan->calls[plan->n_calls++].timeout = 60 * BR_SEC;
    }
}

/* ---- what goes wrong ------------------------------------------------------------------------- */

static void add_fault(struct storm_plan *plan, const struct br_sim_fault *fault)
{
    if (plan->n_faults < STORM_FAULTS)
        plan->faults[plan->n_faults++] = *fault;
}

static int draw_switch(struct br_random *r, const struct storm_plan *plan, int level)
{
    const struct br_bcube *cube = &plan->cube;

    if (!cube->hosts)
        return level;
    return br_sim_bcube_switch(cube, (uint32_t)level, (uint32_t)below(r, cube->hosts / cube->n));
}

/* Level `level` breaks somewhere and works again later. */
static void draw_outage(struct br_random *r, struct storm_plan *plan, int level, uint64_t duration)
{
    static const enum br_sim_fault_kind kinds[][2] = {{BR_SIM_PORT_DOWN, BR_SIM_PORT_UP},
                                                      {BR_SIM_SWITCH_DOWN, BR_SIM_SWITCH_UP},
                                                      {BR_SIM_PATH_DOWN, BR_SIM_PATH_UP}};
    unsigned which = (unsigned)below(r, 3);
    struct br_sim_fault fault = {.kind = kinds[which][0],
                                 .host = which == 1 ? draw_switch(r, plan, level)
                                                    : (int)below(r, (uint64_t)plan->n),
                                 .peer = (int)below(r, (uint64_t)plan->n),
                                 .port = level,
                                 .at = below(r, duration)};

    if (plan->n_faults + 2 > STORM_FAULTS)
        return;
    add_fault(plan, &fault);
    fault.kind = kinds[which][1];
    fault.at += spread(r, BR_US, 300 * BR_MS);
    add_fault(plan, &fault);
}

static void draw_slow_ports(struct br_random *r, struct storm_plan *plan, uint64_t duration)
{
    for (uint64_t n = chance(r, 20) ? 1 + below(r, 3) : 0; n; n--)
        add_fault(plan,
                  &(struct br_sim_fault){.kind = BR_SIM_PORT_RATE,
                                         .host = (int)below(r, (uint64_t)plan->n),
                                         .port = (int)below(r, (uint64_t)plan->rails),
                                         .bits_per_second = plan->network.bits_per_second / 10,
                                         .at = below(r, duration)});
}

static void draw_stalls(struct br_random *r, struct storm_plan *plan, uint64_t duration)
{
    plan->n_stalls = chance(r, plan->n_faults ? 50 : 20) ? 1 + (int)below(r, STORM_STALLS) : 0;
    for (int i = 0; i < plan->n_stalls; i++) {
        uint64_t most = plan->calm ? plan->worker.peer_timeout / 8 : 2 * plan->worker.peer_timeout;

        plan->stalls[i].rank = (int)below(r, (uint64_t)plan->n);
        plan->stalls[i].at = below(r, duration);
        plan->stalls[i].until = plan->stalls[i].at + spread(r, BR_US, most);
    }
}

/* What no job survives, or perhaps not. */
static void draw_disasters(struct br_random *r, struct storm_plan *plan, uint64_t duration)
{
    uint64_t timeout = ONE_OF(r, 300 * BR_MS, 5 * BR_SEC, 60 * BR_SEC);

    for (uint64_t n = chance(r, 60) ? 1 + below(r, 4) : 0; n; n--)
        draw_outage(r, plan, (int)below(r, (uint64_t)plan->rails), duration);
    for (uint64_t n = chance(r, 40) ? chance(r, 80) ? 1 : 2 : 0; n; n--)
        add_fault(plan, &(struct br_sim_fault){.kind = chance(r, 50) ? BR_SIM_HOST_DEAD
                                                                     : BR_SIM_HOST_KILLED,
                                               .host = (int)below(r, (uint64_t)plan->n),
                                               .at = below(r, duration)});
    for (int i = 0; i < plan->n_calls; i++)
        plan->calls[i].timeout = timeout;
    if (chance(r, 20))
        plan->calls[below(r, (uint64_t)plan->n_calls)].timeout = spread(r, BR_US, 20 * BR_MS);
    if (chance(r, 8)) {
        plan->aborter = (int)below(r, (uint64_t)plan->n);
        plan->abort_at = below(r, duration);
    }
}

static void draw_cube(struct br_random *r, struct storm_plan *plan)
{
    static const int shapes[][2] = {{2, 2}, {3, 2}, {2, 3}};
    const int *shape = shapes[below(r, 3)];

    br_bcube_init(&plan->cube, shape[0], shape[1]);
    plan->n = (int)plan->cube.hosts;
    plan->rails = shape[1];
}

void storm_draw(uint64_t seed, struct storm_plan *plan)
{
    struct br_random random, *r = &random;
    uint64_t duration;

    memset(plan, 0, sizeof *plan);
    br_random_seed(r, seed);
    plan->seed = seed;
    plan->calm = chance(r, 50);
    plan->crowded = chance(r, 12);
    plan->n = 1 + (int)below(r, chance(r, 4) ? STORM_RANKS : 9);
    plan->rails = 1 + (int)below(r, 3);
    if (chance(r, 20))
        draw_cube(r, plan);
    plan->leaves_early = storm_mix(seed, 0x1eaf) % 4 == 0;
    plan->aborter = -1;
    draw_network(r, plan);
    draw_places(plan);
    draw_combining(plan);
    draw_settings(r, plan);
    plan->worker.on_demand = !plan->cube.hosts && storm_mix(seed, 0x11f5) % 3 == 0;
    if (plan->worker.on_demand && storm_mix(seed, 0x1d1e) % 2) {
        /* so soon that links are shut and made all the time */
        plan->worker.link_idle = BR_MS << storm_mix(seed, 0x1d1f) % 4;
        plan->pause = 5 * plan->worker.link_idle;
    }
    draw_program(r, plan);
    storm_draw_comms(plan);
    duration = spread(r, 20 * BR_US, 100 * BR_MS);
    if (!plan->calm) {
        draw_disasters(r, plan, duration);
        plan->faults_from_start = chance(r, 10);
    } else if (plan->rails > 1 && chance(r, 60)) {
        int level = (int)below(r, (uint64_t)plan->rails);

        /* The other levels stay whole; in a cube whatever breaks is back before the peer
         * timeout. */
        for (uint64_t n = 1 + below(r, 4); n; n--)
            draw_outage(r, plan, plan->cube.hosts ? (int)below(r, (uint64_t)plan->rails) : level,
                        duration);
        plan->faults_from_start = chance(r, 10);
    }
    draw_slow_ports(r, plan, duration);
    draw_stalls(r, plan, duration);
}

/* ---- for people ------------------------------------------------------------------------------ */

static void show_faults(const struct storm_plan *plan)
{
    static const char *const names[] = {"port down", "port up",   "switch down",
                                        "switch up", "path down", "path up",
                                        "port rate", "host dead", "host killed"};

    for (int i = 0; i < plan->n_faults; i++) {
        const struct br_sim_fault *f = &plan->faults[i];

        fprintf(stderr, "# %10.6f ms after %s: %s, host or switch %d, peer %d, port %d\n",
                (double)f->at / 1e6, plan->faults_from_start ? "the start" : "connecting",
                names[f->kind], f->host, f->peer, f->port);
    }
    for (int i = 0; i < plan->n_stalls; i++)
        fprintf(stderr, "# %10.6f ms: rank %d stalls for %.6f ms\n",
                (double)plan->stalls[i].at / 1e6, plan->stalls[i].rank,
                (double)(plan->stalls[i].until - plan->stalls[i].at) / 1e6);
    if (plan->aborter >= 0)
        fprintf(stderr, "# %10.6f ms: rank %d aborts\n", (double)plan->abort_at / 1e6,
                plan->aborter);
}

void storm_show(const struct storm_plan *plan)
{
    const struct br_sim_config *net = &plan->network;
    const struct br_worker_config *w = &plan->worker;

    fprintf(stderr, "# seed %llu: %d ranks, %d %s, %s\n", (unsigned long long)plan->seed, plan->n,
            plan->rails, plan->cube.hosts ? "levels of a cube" : "rails",
            plan->calm ? "calm" : "not calm");
    fprintf(stderr,
            "# network: remote keys on ports %x (%u ppm refused), combining on ports %x, "
            "%s%s%s%llu b/s, "
            "latency %llu ns, frames "
            "to %u, depth %u, loss %u, corrupt %u, "
            "duplicates %u, reordered %u ppm, retransmit %llu us\n",
            net->rkey_ports, net->rkey_refused_ppm, net->reduce_ports,
            net->unordered ? "unordered, " : "", net->early_sent ? "early sent, " : "",
            net->maps ? "maps, " : "", (unsigned long long)net->bits_per_second,
            (unsigned long long)net->latency_ns, net->max_frame, net->tx_depth, net->loss_ppm,
            net->corrupt_ppm, net->duplicate_ppm, net->reorder_ppm,
            (unsigned long long)(net->retransmit_ns / BR_US));
    fprintf(stderr,
            "# eager %u, slice %u, chunk %u, quantum %u, %u runs, window %u; peer timeout %llu ms; "
            "%d calls, "
            "%d, %d, ... at once, pauses to %llu us\n",
            w->eager_bytes, w->slice_bytes, plan->engine.chunk_bytes, plan->engine.quantum_bytes,
            plan->engine.max_fragments, plan->engine.window,
            (unsigned long long)(w->peer_timeout / BR_MS), plan->n_calls, plan->window[0],
            plan->window[1], (unsigned long long)(plan->pause / BR_US));
    storm_show_comms(plan);
    show_faults(plan);
}
