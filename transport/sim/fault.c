/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults: what breaks, when, and which packets suffer; and random schedules of them. */
#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "transport/sim/internal.h"

bool br_sim_port_broken(const struct br_sim_port *port, uint64_t since)
{
    const struct br_sim_switch *switch_ = port->switch_;

    return !switch_ || port->down || port->broken_until > since || switch_->down ||
           switch_->broken_until > since;
}

bool br_sim_path_broken(struct br_sim *sim, const struct br_sim_port *a,
                        const struct br_sim_port *b, uint64_t since)
{
    int port = (int)(a - a->host->ports), other = (int)(b - b->host->ports);

    if (a->switch_ != b->switch_)
        return true; /* no cable leads there */
    for (uint32_t i = 0; i < sim->n_paths; i++) {
        const struct br_sim_path *path = &sim->paths[i];
        bool hosts = (path->a == a->host->number && path->b == b->host->number) ||
                     (path->b == a->host->number && path->a == b->host->number);

        if (hosts && (path->port < 0 || path->port == port || path->port == other) &&
            (path->down || path->broken_until > since))
            return true;
    }
    return false;
}

static void set_path(struct br_sim *sim, const struct br_sim_fault *fault, bool down)
{
    struct br_sim_path *path = NULL;

    for (uint32_t i = 0; i < sim->n_paths; i++)
        if (sim->paths[i].a == fault->host && sim->paths[i].b == fault->peer &&
            sim->paths[i].port == fault->port)
            path = &sim->paths[i];
    if (!path) {
        path = &sim->paths[sim->n_paths++]; /* br_sim_add_fault() has made room */
        *path = (struct br_sim_path){.a = fault->host, .b = fault->peer, .port = fault->port};
    }
    path->down = down;
    if (down)
        path->broken_until = sim->now + 1;
}

/* The process is gone, its kernel tells every peer. */
static void close_all(struct br_sim_host *host)
{
    br_list_for_each (of_sim, &host->sim->connections) {
        struct br_sim_connection *connection =
            br_container_of(of_sim, struct br_sim_connection, node);

        for (int end = 0; end < 2; end++) {
            struct br_sim_frame *frame;

            if (connection->port[end]->host != host || !connection->link[end])
                continue;
            frame = br_sim_frame_new(connection, end, BR_SIM_CLOSE);
            if (!frame)
                continue;
            br_sim_frame_send(frame);
            br_sim_frame_drop(frame);
        }
    }
}

static void sim_fault_die(struct br_sim_host *host, bool silent)
{
    if (host->dead)
        return;
    if (!silent)
        close_all(host);
    host->dead = true;
    host->silent = silent;
    br_list_remove(&host->ready);
    for (int i = 0; i < host->n_ports; i++)
        br_list_for_each (of_port, &host->ports[i].devices)
            br_list_for_each (node, &br_container_of(of_port, struct br_sim_device, node)->links)
                br_sim_link_fail(br_container_of(node, struct br_sim_link, node), EOWNERDEAD,
                                 "this host is dead");
}

void br_sim_run_fault(struct br_sim *sim, const struct br_sim_fault *fault)
{
    static const char *const names[] = {"port down", "port up",   "switch down",
                                        "switch up", "path down", "path up",
                                        "port rate", "host dead", "host killed"};
    bool at_switch = fault->kind == BR_SIM_SWITCH_DOWN || fault->kind == BR_SIM_SWITCH_UP;
    struct br_sim_host *host = at_switch ? NULL : sim->hosts[fault->host];
    struct br_sim_switch *switch_ = at_switch ? sim->switches[fault->host] : NULL;

    br_sim_trace_number(sim, names[fault->kind],
                        (uint64_t)fault->host << 32 | (uint32_t)fault->port);
    switch (fault->kind) {
    case BR_SIM_PORT_DOWN:
        host->ports[fault->port].down = true;
        host->ports[fault->port].broken_until = sim->now + 1;
        break;
    case BR_SIM_PORT_UP:
        host->ports[fault->port].down = false;
        break;
    case BR_SIM_SWITCH_DOWN:
        switch_->down = true;
        switch_->broken_until = sim->now + 1;
        break;
    case BR_SIM_SWITCH_UP:
        switch_->down = false;
        break;
    case BR_SIM_PATH_DOWN:
    case BR_SIM_PATH_UP:
        set_path(sim, fault, fault->kind == BR_SIM_PATH_DOWN);
        break;
    case BR_SIM_PORT_RATE:
        host->ports[fault->port].bits_per_second = fault->bits_per_second;
        break;
    case BR_SIM_HOST_DEAD:
    case BR_SIM_HOST_KILLED:
        sim_fault_die(host, fault->kind == BR_SIM_HOST_DEAD);
        break;
    }
}

static bool port_exists(const struct br_sim *sim, int host, int port)
{
    return host >= 0 && (uint32_t)host < sim->n_hosts && port >= 0 &&
           port < sim->hosts[host]->n_ports;
}

static bool sim_fault_is_possible(const struct br_sim *sim, const struct br_sim_fault *fault)
{
    switch (fault->kind) {
    case BR_SIM_PORT_RATE:
        return port_exists(sim, fault->host, fault->port) && fault->bits_per_second;
    case BR_SIM_PORT_DOWN:
    case BR_SIM_PORT_UP:
        return port_exists(sim, fault->host, fault->port);
    case BR_SIM_SWITCH_DOWN:
    case BR_SIM_SWITCH_UP:
        return fault->host >= 0 && (uint32_t)fault->host < sim->n_switches;
    case BR_SIM_PATH_DOWN:
    case BR_SIM_PATH_UP:
        return port_exists(sim, fault->host, 0) && port_exists(sim, fault->peer, 0);
    case BR_SIM_HOST_DEAD:
    case BR_SIM_HOST_KILLED:
        return port_exists(sim, fault->host, 0);
    }
    return false;
}

int br_sim_add_fault(struct br_sim *sim, const struct br_sim_fault *fault)
{
    struct br_sim_step step = {.kind = BR_SIM_FAULT, .fault = sim->n_faults, .at = fault->at};
    struct br_sim_fault *faults;
    struct br_sim_path *paths;

    if (!sim_fault_is_possible(sim, fault))
        return br_error(EINVAL,
                        "fault of kind %d names a host, port, switch or rate that is not there",
                        (int)fault->kind);
    faults = realloc(sim->faults, (sim->n_faults + 1) * sizeof *faults);
    if (faults)
        sim->faults = faults;
    /* as many as there may ever be */
    paths = realloc(sim->paths, (sim->n_faults + 1) * sizeof *paths);
    if (paths)
        sim->paths = paths;
    if (!faults || !paths)
        return br_error(ENOMEM, "no memory for a fault");
    if (step.at < sim->now)
        step.at = sim->now;
    faults[sim->n_faults++] = *fault;
    return br_sim_heap_push(&sim->heap, &step);
}

static int sim_fault_pick(struct br_random *random, int bound)
{
    return (int)br_random_below(random, (uint64_t)bound);
}

/* Something goes down (or slow) at a random moment and comes back after a random while. */
static int add_outage(struct br_sim *sim, const struct br_sim_chaos *chaos,
                      struct br_random *random, struct br_sim_fault fault,
                      enum br_sim_fault_kind back)
{
    int rc;

    fault.at = chaos->from + br_random_below(random, chaos->duration + 1);
    rc = br_sim_add_fault(sim, &fault);
    if (rc)
        return rc;
    fault.at += 1 + br_random_below(random, chaos->max_outage_ns + 1);
    fault.kind = back;
    if (back == BR_SIM_PORT_RATE)
        fault.bits_per_second = sim->hosts[fault.host]->ports[fault.port].bits_per_second;
    return br_sim_add_fault(sim, &fault);
}

static int add_deaths(struct br_sim *sim, const struct br_sim_chaos *chaos,
                      struct br_random *random)
{
    int n_hosts = br_sim_hosts(sim), first = sim_fault_pick(random, n_hosts), rc = 0;

    for (int i = 0; i < chaos->deaths && i < n_hosts - 1 && !rc; i++) {
        struct br_sim_fault fault = {
            .kind = sim_fault_pick(random, 2) ? BR_SIM_HOST_DEAD : BR_SIM_HOST_KILLED,
            .host = (first + i) % n_hosts,
            .at = chaos->from + br_random_below(random, chaos->duration + 1)};

        rc = br_sim_add_fault(sim, &fault);
    }
    return rc;
}

int br_sim_add_chaos(struct br_sim *sim, const struct br_sim_chaos *chaos)
{
    int n_hosts = br_sim_hosts(sim), rc = 0;
    struct br_random random;
    struct br_sim_fault fault = {0};

    br_random_seed(&random, chaos->seed);
    for (int i = 0; i < chaos->ports_down + chaos->slow_ports && !rc; i++) {
        bool slow = i >= chaos->ports_down;

        fault.host = sim_fault_pick(&random, n_hosts);
        fault.port = sim_fault_pick(&random, sim->hosts[fault.host]->n_ports);
        fault.kind = slow ? BR_SIM_PORT_RATE : BR_SIM_PORT_DOWN;
        fault.bits_per_second = 1 + sim->hosts[fault.host]->ports[fault.port].bits_per_second / 10;
        rc = add_outage(sim, chaos, &random, fault, slow ? BR_SIM_PORT_RATE : BR_SIM_PORT_UP);
    }
    for (int i = 0; i < chaos->paths_down && n_hosts > 1 && !rc; i++) {
        fault.kind = BR_SIM_PATH_DOWN;
        fault.host = sim_fault_pick(&random, n_hosts);
        fault.peer = (fault.host + 1 + sim_fault_pick(&random, n_hosts - 1)) % n_hosts;
        fault.port = sim_fault_pick(&random, 1 + sim->hosts[fault.host]->n_ports) - 1;
        rc = add_outage(sim, chaos, &random, fault, BR_SIM_PATH_UP);
    }
    for (int i = 0; i < chaos->switches_down && sim->n_switches && !rc; i++) {
        fault.kind = BR_SIM_SWITCH_DOWN;
        fault.host = sim_fault_pick(&random, (int)sim->n_switches);
        rc = add_outage(sim, chaos, &random, fault, BR_SIM_SWITCH_UP);
    }
    return rc ? rc : add_deaths(sim, chaos, &random);
}
