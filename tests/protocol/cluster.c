/* SPDX-License-Identifier: BSD-3-Clause */
#include "cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"

const struct br_worker_config cluster_defaults = {
    .eager_bytes = 4096,
    .slice_bytes = 64 << 10,
    .peer_timeout = BR_SEC,
    .starvation = 100 * BR_MS,
    .connect_timeout = BR_SEC,
    .max_slots = 256,
    .max_transfers = 4096,
    .check = 77,
};

static void open_rank(struct cluster *c, int rank, const struct br_worker_config *given)
{
    struct br_worker_config config = given ? *given : cluster_defaults;

    config.rank = rank;
    config.size = c->n;
    config.seed = 1;
    config.cube = c->cube;
    assert_int_equal(br_worker_create(&config, &c->workers[rank]), 0);
    for (int r = 0; r < c->rails; r++) {
        struct br_device_config device = {0};
        int index;

        br_sim_device_config(c->sim, rank, r, &device);
        assert_int_equal(br_worker_open_device(c->workers[rank], br_transport_get("sim"),
                                               device.name, device.simulation, &index),
                         0);
        assert_int_equal(index, r);
    }
}

/* Of the levels on which the two are connected. */
static void set_peer(struct cluster *c, int rank, int peer)
{
    int only = c->cube.hosts ? br_bcube_level(&c->cube, (uint32_t)rank, (uint32_t)peer) : -1, n = 0;
    struct br_rail_config rails[BR_MAX_RAILS];

    for (int r = 0; r < c->rails; r++) {
        struct br_device *device = c->workers[peer]->devices[r];

        if (c->cube.hosts && r != only)
            continue;
        rails[n].device = rails[n].level = r;
        rails[n++].address = device->address;
    }
    if (n)
        assert_int_equal(br_worker_set_peer(c->workers[rank], peer, rails, n), 0);
}

static bool connected(const struct cluster *c)
{
    for (int i = 0; i < c->n; i++)
        if (!br_worker_connected(c->workers[i]))
            return false;
    return true;
}

static void open_all(struct cluster *c, const struct br_worker_config *worker)
{
    c->workers = calloc((size_t)c->n, sizeof *c->workers);
    for (int i = 0; i < c->n; i++)
        open_rank(c, i, worker);
    for (int i = 0; i < c->n; i++)
        for (int peer = 0; peer < c->n; peer++)
            if (peer != i)
                set_peer(c, i, peer);
    while (!connected(c)) {
        assert_true(br_sim_now(c->sim) < 20 * BR_SEC);
        assert_true(cluster_step(c));
    }
}

void cluster_create(struct cluster *c, int n, int rails, const struct br_sim_config *config,
                    const struct br_worker_config *worker)
{
    memset(c, 0, sizeof *c);
    c->n = n;
    c->rails = rails;
    c->sim = br_sim_create(config);
    assert_non_null(c->sim);
    assert_int_equal(br_sim_add_rails(c->sim, n, rails), 0);
    open_all(c, worker);
}

void cluster_create_bcube(struct cluster *c, int n, int k, const struct br_sim_config *config,
                          const struct br_worker_config *worker)
{
    memset(c, 0, sizeof *c);
    assert_int_equal(br_bcube_init(&c->cube, n, k), 0);
    c->n = (int)c->cube.hosts;
    c->rails = k;
    c->sim = br_sim_create(config);
    assert_non_null(c->sim);
    assert_int_equal(br_sim_add_bcube(c->sim, &c->cube), 0);
    open_all(c, worker);
}

void cluster_destroy(struct cluster *c)
{
    for (int i = 0; i < c->n; i++)
        br_worker_destroy(c->workers[i]);
    free(c->workers);
    br_sim_destroy(c->sim);
}

static int turn(struct cluster *c, int i)
{
    uint64_t now = br_sim_host_now(c->sim, i);
    struct br_worker *w = c->workers[i];
    int n = br_worker_poll(w, now);

    while (br_worker_done(w))
        c->done++;
    return n + br_worker_pump(w, now);
}

bool cluster_step(struct cluster *c)
{
    uint64_t next = br_sim_next(c->sim);

    for (int i = 0; i < c->n; i++) {
        uint64_t timer;

        if (br_sim_host_dead(c->sim, i))
            continue;
        for (int k = 0; turn(c, i) && k < 1000; k++)
            ;
        timer = br_worker_next_timer(c->workers[i]);
        if (timer != UINT64_MAX && br_sim_time_of(c->sim, i, timer) < next)
            next = br_sim_time_of(c->sim, i, timer);
    }
    if (br_sim_next(c->sim) < next)
        next = br_sim_next(c->sim);
    if (next == BR_SIM_NEVER)
        return false;
    if (next <= br_sim_now(c->sim))
        next = br_sim_now(c->sim) + 1;
    br_sim_advance_to(c->sim, next);
    return true;
}

static bool any_failed(const struct cluster *c)
{
    for (int i = 0; i < c->n; i++)
        if (c->workers[i]->failed && !br_sim_host_dead(c->sim, i))
            return true;
    return false;
}

void cluster_run(struct cluster *c, int done, uint64_t until)
{
    while (c->done < done && !any_failed(c) && br_sim_now(c->sim) < until)
        if (!cluster_step(c))
            return;
}
