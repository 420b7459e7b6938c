/* SPDX-License-Identifier: BSD-3-Clause */
#include "storm.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"

static int region_find(void *context, uint32_t id, uint64_t offset, uint64_t bytes, void **memory,
                       struct br_region **region)
{
    struct storm_rank *rank = context;

    if (id != rank->region.id || offset > rank->region.bytes || bytes > rank->region.bytes - offset)
        return -EACCES;
    rank->region_uses++;
    *memory = (uint8_t *)rank->region.base + offset;
    *region = &rank->region;
    return 0;
}

static void region_done(void *context, struct br_region *region)
{
    struct storm_rank *rank = context;

    rank->region_uses -= region == &rank->region;
}

static bool open_rank(struct storm *s, int rank)
{
    struct storm_rank *r = &s->ranks[rank];
    struct br_worker_config worker = s->plan->worker;
    struct br_engine_config engine = s->plan->engine;

    worker.rank = engine.rank = rank;
    engine.ended = &r->ended;
    br_list_init(&r->ended);
    worker.region_find = region_find;
    worker.region_done = region_done;
    worker.region_context = r;
    if (br_worker_create(&worker, &r->worker))
        return storm_wrong(s, "%s", br_error_message());
    for (int i = 0; i < s->plan->rails; i++) {
        struct br_device_config device = {0};
        int index;

        br_sim_device_config(s->sim, rank, i, &device);
        if (br_worker_open_device(r->worker, br_transport_get("sim"), device.name,
                                  device.simulation, &index))
            return storm_wrong(s, "%s", br_error_message());
    }
    if (br_engine_create(r->worker, &engine, &r->engine))
        return storm_wrong(s, "%s", br_error_message());
    storm_fill_region(s, rank);
    for (int i = 0; i < s->plan->rails; i++)
        r->worker->devices[i]->ops->region_register(r->worker->devices[i], &r->region);
    if (!storm_open_comms(s, rank))
        return false;
    r->due = true;
    return true;
}

/* All rails; in a cube the one of the level on which they are neighbours. */
static bool set_peer(struct storm *s, int rank, int peer)
{
    const struct br_bcube *cube = &s->plan->cube;
    int only = cube->hosts ? br_bcube_level(cube, (uint32_t)rank, (uint32_t)peer) : -1, n = 0;
    struct br_rail_config rails[BR_MAX_RAILS];

    for (int i = 0; i < s->plan->rails; i++) {
        struct br_device *device = s->ranks[peer].worker->devices[i];

        if (cube->hosts && i != only)
            continue;
        rails[n].device = rails[n].level = i;
        rails[n++].address = device->address;
    }
    if (n && br_worker_set_peer(s->ranks[rank].worker, peer, rails, n))
        return storm_wrong(s, "%s", br_error_message());
    return true;
}

bool storm_open(struct storm *s)
{
    struct br_sim_config network = s->plan->network;

    if (s->trace && getenv("BRAID_STORM_LOG")[0] > '1')
        network.trace = stderr; /* every packet */
    s->sim = br_sim_create(&network);
    if (!s->sim || (s->plan->cube.hosts ? br_sim_add_bcube(s->sim, &s->plan->cube)
                                        : br_sim_add_rails(s->sim, s->plan->n, s->plan->rails)))
        return storm_wrong(s, "no memory for the network");
    for (int i = 0; i < s->plan->n; i++)
        if (!open_rank(s, i))
            return false;
    for (int i = 0; i < s->plan->n; i++)
        for (int peer = 0; peer < s->plan->n; peer++)
            if (peer != i && !set_peer(s, i, peer))
                return false;
    return true;
}

void storm_close(struct storm *s)
{
    for (int i = 0; i < s->plan->n; i++) {
        br_worker_destroy(s->ranks[i].worker);
        br_engine_destroy(s->ranks[i].engine);
        storm_close_comms(&s->ranks[i]);
        free(s->ranks[i].region.base);
    }
    for (int c = 0; c < s->plan->n_calls; c++) {
        for (int i = 0; i < s->plan->n; i++)
            free(s->parts[c][i].block);
        free(s->first[c]);
    }
    br_sim_destroy(s->sim);
}
