/* SPDX-License-Identifier: BSD-3-Clause */
/* The settings of the user: braid_config over environment over defaults. */
#include "collectives/comm/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpu_affinity.h"
#include "base/env.h"
#include "base/error.h"
#include "base/numa.h"
#include "base/sized.h"
#include "bcube/address.h"
#include "collectives/comm/device_names.h"
#include "collectives/shm/coll.h"
#include "collectives/shm/executor.h"
#include "protocol/bootstrap/environment.h"
#include "protocol/bootstrap/inventory.h"
#include "protocol/bootstrap/secret.h"
#include "protocol/message.h"
#include "protocol/worker.h"
#include "transport/cache.h"
#include "transport/interface.h"
#include "transport/transport.h"
#include "transport/verbs/probe.h"

/* A granule, a 64th of it, is the least that a frame carries, and frames over UDP end at 60 KiB. */
#define TRACE_DETAILS 30000 /* a second; each takes 0.1 us of a core */
#define MOST_SLICE    (2u << 20)
#define CPUS          4096
#define CABLING_MS    300
#define LONGEST_SPIN  (1 * BR_MS)
#define SHARED_SPIN   (200 * BR_US) /* at least, where ranks share cores */
#define LINK_IDLE     60            /* s */
#define TURN          1000          /* us; of a rank on a core that others want, too */
/* bytes; what a rank has of a peer for one of its turns takes several times as long as the turn
 * costs */
#define TURN_WINDOW (256u << 10)
/* bytes; of all links of a host: the kernel gives all sockets some sixteenth of memory */
#define HOST_WINDOWS (512u << 20)

/* Reads a duration: `given_ms`, or if that is 0 the variable, in units of `unit` ns. */
static int comm_settings_duration(int given_ms, const char *name, int64_t least, int64_t most,
                                  int64_t fallback, uint64_t unit, uint64_t *out)
{
    int64_t value;
    int rc;

    if (given_ms < 0)
        return br_error(EINVAL,
                        "braid_config: the field behind %s is %d ms; it must not be negative", name,
                        given_ms);
    if (given_ms > 0) {
        *out = (uint64_t)given_ms * BR_MS;
        return 0;
    }
    rc = br_env_number(name, least, most, fallback, &value);
    if (!rc)
        *out = (uint64_t)value * unit;
    return rc;
}

/* Reads a number: `given`, or if that is 0 the variable, or the default. */
static int comm_settings_number(int64_t given, const char *name, int64_t least, int64_t most,
                                int64_t fallback, int64_t *out)
{
    if (!given)
        return br_env_number(name, least, most, fallback, out);
    if (given < least || given > most)
        return br_error(EINVAL,
                        "braid_config: the field behind %s is %lld; possible are %lld to %lld",
                        name, (long long)given, (long long)least, (long long)most);
    *out = given;
    return 0;
}

/* The same for sizes; the variable may have a unit (k, M, G). */
static int comm_settings_size(uint32_t given, const char *name, uint64_t least, uint64_t most,
                              uint64_t fallback, uint64_t *out)
{
    int64_t value = 0;
    int rc;

    if (!given)
        return br_env_bytes(name, least, most, fallback, out);
    rc = comm_settings_number(given, name, (int64_t)least, (int64_t)most, 0, &value);
    *out = (uint64_t)value;
    return rc;
}

static int comm_settings_read_times(const struct braid_config *c, struct br_settings *s)
{
    int rc;

    if ((rc = comm_settings_duration(c->timeout_ms, "BRAID_TIMEOUT", 1, 86400, 300, BR_SEC,
                                     &s->timeout)) ||
        (rc = comm_settings_duration(c->peer_timeout_ms, "BRAID_PEER_TIMEOUT", 1, 86400, 10, BR_SEC,
                                     &s->peer_timeout)) ||
        (rc = comm_settings_duration(c->starvation_ms, "BRAID_STARVATION_MS", 1, 60000, 100, BR_MS,
                                     &s->starvation)))
        return rc;
    return 0;
}

static int read_spin(const struct braid_config *c, struct br_settings *s)
{
    int64_t us = 0;
    int rc = br_env_number("BRAID_MACHINE_RANKS", 1, BR_MAX_RANKS, 0, &s->machine_ranks);

    if (!rc)
        rc = comm_settings_number(c->spin_us, "BRAID_SPIN_US", 0, 10000000, -1, &us);
    s->spin_default = us < 0;
    s->spin = (uint64_t)us * BR_US;
    return rc;
}

/* A waiting thread that spins to no end keeps others from working where ranks share cores; but it
 * should not sleep before those on its core have had a few turns, of some 10 us each. ns. */
static uint64_t default_spin(bool oversubscribed, int64_t ranks, int64_t cores)
{
    uint64_t spin = (uint64_t)(ranks / cores) * 50 * BR_US;

    if (!oversubscribed || spin > LONGEST_SPIN)
        return LONGEST_SPIN;
    return spin > SHARED_SPIN ? spin : SHARED_SPIN;
}

/* Of ranks that share the cores of their host, if no message leaves it: else the windows of many
 * ranks would stand in front of one NIC. */
static uint32_t least_window(const struct br_environment *e)
{
    uint64_t links = (uint64_t)e->size * (e->size - 1);

    if (e->local_size != e->size)
        return 0;
    return links * TURN_WINDOW < HOST_WINDOWS ? TURN_WINDOW : (uint32_t)(HOST_WINDOWS / links);
}

void br_settings_apply_local(struct br_settings *s)
{
    const struct br_environment *e = &s->environment;
    int64_t ranks = s->machine_ranks ? s->machine_ranks : (int64_t)e->local_size;
    int64_t cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t index;

    /* Of the whole machine: a launcher may have bound each rank to its own share. */
    s->oversubscribed = ranks > cores;
    s->turn_us = 0;
    if (s->oversubscribed)
        s->turn_us =
            TURN * ranks / cores < BR_TURN_MOST ? (uint32_t)(TURN * ranks / cores) : BR_TURN_MOST;
    s->least_window = s->oversubscribed ? least_window(e) : 0;
    s->one_machine = ranks == s->environment.size;
    s->cores = s->oversubscribed && s->one_machine ? (uint32_t)cores : 0;
    s->own_cores = (int)(cores / (ranks > 0 ? ranks : 1));
    if (s->own_cores > br_numa_cpus())
        s->own_cores = br_numa_cpus();
    /* the number of this rank among those of the machine, which emulated hosts share; UINT32_MAX:
     * not known */
    index = ranks == e->local_size ? e->local_rank : ranks == e->size ? e->rank : UINT32_MAX;
    br_cpu_affinity_choose(&s->cpu_affinity, index, (uint32_t)ranks);
    s->contention.ranks = (uint32_t)ranks;
    s->contention.cores = (uint32_t)(cores < br_numa_cpus() ? cores : br_numa_cpus());
    if (s->spin_default)
        s->spin = default_spin(s->oversubscribed, ranks, cores);
    if (s->cache_default)
        s->cache_bytes = br_cache_default_bytes(e->local_size);
}

int br_settings_threads(const struct br_settings *s, int devices)
{
    return s->workers < 2 ? 0 : s->workers < devices ? (int)s->workers : devices;
}

static int comm_settings_read_sizes(const struct braid_config *c, struct br_settings *s)
{
    int64_t rails = 0, cpu = 0, probe = 0;
    int rc;

    if ((rc = comm_settings_size(c->slice_bytes, "BRAID_SLICE_BYTES", 4096, MOST_SLICE, 256u << 10,
                                 &s->slice_bytes)) ||
        (rc = comm_settings_size(c->eager_bytes, "BRAID_EAGER_BYTES", 64, BR_MAX_EAGER,
                                 s->cube.n ? BR_EAGER_BYTES_OF_CUBE : BR_EAGER_BYTES,
                                 &s->eager_bytes)) ||
        (rc = br_env_bytes("BRAID_CHUNK_BYTES", 4096, BR_MAX_TRANSFER, BR_CHUNK_BYTES,
                           &s->chunk_bytes)) ||
        (rc = br_env_number("BRAID_CALIBRATION_BOUND", 0, 1000000, 3, &s->calibration_bound)) ||
        (rc = br_env_number("BRAID_WORKERS", 1, BR_MAX_DEVICES, 1, &s->workers)) ||
        (rc = br_env_number("BRAID_CABLING_MS", 0, 60000, CABLING_MS, &probe)) ||
        (rc = br_env_bytes("BRAID_SHM_COLLECTIVE_BYTES", 0, BR_SHM_COLL_BYTES,
                           BR_SHM_COLLECTIVE_BYTES, &s->shm_collective_bytes)) ||
        (rc = br_env_bytes("BRAID_CACHE_BYTES", 0, UINT64_MAX, 0, &s->cache_bytes)) ||
        (rc = comm_settings_number(c->rails, "BRAID_RAILS", 0, BR_MAX_RAILS, 0, &rails)))
        return rc;
    rc = c->pin_cpu ? comm_settings_number(c->pin_cpu, "BRAID_PIN_CPU", 1, CPUS, 0, &cpu)
                    : br_env_number("BRAID_PIN_CPU", -1, CPUS - 1, -1, &cpu);
    s->cache_default = !br_env_is_set("BRAID_CACHE_BYTES");
    s->shm_collective_default = !br_env_is_set("BRAID_SHM_COLLECTIVE_BYTES");
    s->cabling_ms = (uint32_t)probe;
    s->rails = (int)rails;
    s->pin_cpu = (int)cpu - (c->pin_cpu ? 1 : 0);
    return rc;
}

static int read_links(struct br_settings *s)
{
    static const char *const when[] = {
        [BR_LINKS_AUTO] = "auto", [BR_LINKS_START] = "start", [BR_LINKS_DEMAND] = "demand", NULL};

    int64_t idle;
    int rc = br_env_choice("BRAID_LINKS", when, BR_LINKS_AUTO, &s->links);

    if (!rc)
        rc = br_env_number("BRAID_LINK_IDLE", 0, 86400, LINK_IDLE, &idle);
    if (!rc)
        s->link_idle = (uint64_t)idle * BR_SEC;
    return rc;
}

static int read_gpus(struct br_settings *s)
{
    static const char *const ways[] = {[BR_GPU_REDUCE_AUTO] = "auto",
                                       [BR_GPU_REDUCE_CPU] = "cpu",
                                       [BR_GPU_REDUCE_GPU] = "gpu",
                                       NULL};

    static const char *const direct[] = {"off", "auto", NULL};
    int choice, rc = br_env_choice("BRAID_GPU_REDUCE", ways, BR_GPU_REDUCE_AUTO, &s->gpu_reduce);

    if (!rc)
        rc = br_env_choice("BRAID_GPU_DIRECT", direct, 1, &choice);
    s->gpu_direct = !rc && choice;
    return rc ? rc
              : br_env_bytes("BRAID_GPU_STREAM_BYTES", 0, (uint64_t)16 << 30, 64u << 20,
                             &s->gpu_stream_bytes);
}

static int comm_settings_read_text(const char *given, const char *name, const char *fallback,
                                   char *out, size_t bytes)
{
    const char *text = given ? given : getenv(name);

    if (!text || !*text)
        text = fallback;
    if ((size_t)snprintf(out, bytes, "%s", text) >= bytes)
        return br_error(EINVAL, "%s is longer than %zu characters", name, bytes - 1);
    return 0;
}

/* Ranks take hosts in order, so there must be no gap among them. */
static int check_hosts(const struct br_settings *s, const struct br_inventory *inventory,
                       const char *file)
{
    uint32_t size = s->environment.size;

    if (size > inventory->n_hosts)
        return br_error(EINVAL,
                        "%s has %u hosts, one a rank, and the job has %u ranks; start %u or fewer",
                        file, inventory->n_hosts, size, inventory->n_hosts);
    for (uint32_t r = 0; r < size; r++)
        if (inventory->hosts[r].missing)
            return br_error(
                EINVAL, "%s: host %u (%s) is missing, so the job can have %u ranks at most, not %u",
                file, r, inventory->hosts[r].name, r, size);
    return 0;
}

static int apply_inventory_host(struct br_settings *s, const struct br_inventory *inventory,
                                const char *file)
{
    const struct br_inventory_host *host = &inventory->hosts[s->environment.rank];
    const struct br_bcube *cube = &inventory->cabling.cube;

    if (s->cube.n && (s->cube.n != cube->n || s->cube.k != cube->k))
        return br_error(
            EINVAL,
            "BRAID_TOPOLOGY=bcube:%u,%u, but %s is of a BCube(%u,%u); leave one of them out",
            s->cube.n, s->cube.k, file, cube->n, cube->k);
    if (cube->k >= BR_MAX_DEVICES)
        return br_error(EINVAL, "%s: BCube(%u,%u) has %u levels; a rank can use %d devices at most",
                        file, cube->n, cube->k, cube->k, BR_MAX_DEVICES - 1);
    s->cube = *cube;
    s->has_inventory = true;
    snprintf(s->host, sizeof s->host, "%s", host->name);
    for (uint32_t level = 0; level < cube->k; level++) {
        snprintf(s->nics[level], sizeof s->nics[level], "%s", host->nics[level].name);
        s->gids[level] = (uint32_t)(host->nics[level].gid_index + 1);
    }
    return 0;
}

/* Shape of the cube, host name and NICs of this rank from an inventory file, in which rank r is
 * host r. */
static int read_inventory(struct br_settings *s, const char *file)
{
    struct br_inventory inventory;
    int rc = br_inventory_load(&inventory, file);

    if (rc)
        return br_error_prefix(rc, "BRAID_INVENTORY: ");
    rc = br_inventory_sound(&inventory);
    if (!rc)
        rc = check_hosts(s, &inventory, file);
    if (!rc)
        rc = apply_inventory_host(s, &inventory, file);
    br_inventory_destroy(&inventory);
    return rc;
}

/* The shape, in which every rank has its place: rank r is host r, and the hosts that a partial cube
 * lacks are the last ones. */
static int read_topology(const struct braid_config *c, struct br_settings *s)
{
    static const char bcube[] = "bcube:";
    uint32_t size = s->environment.size;
    char text[32], inventory[4096];
    int rc = comm_settings_read_text(c->topology, "BRAID_TOPOLOGY", "", text, sizeof text);

    if (!rc)
        rc = comm_settings_read_text(c->inventory, "BRAID_INVENTORY", "", inventory,
                                     sizeof inventory);
    if (rc || !strcmp(text, "mesh") || (!*text && !*inventory))
        return rc;
    if (!*text)
        return read_inventory(s, inventory);
    if (strncmp(text, bcube, sizeof bcube - 1) != 0)
        return br_error(EINVAL,
                        "BRAID_TOPOLOGY is \"%s\"; it must be mesh, or bcube:N,K as in bcube:3,2",
                        text);
    rc = br_bcube_parse(&s->cube, text + sizeof bcube - 1);
    if (rc)
        return br_error_prefix(rc, "BRAID_TOPOLOGY=%s: ", text);
    if (size > s->cube.hosts)
        return br_error(EINVAL,
                        "BRAID_TOPOLOGY=%s: BCube(%u,%u) has %u hosts, one a rank, and the job has "
                        "%u ranks; start "
                        "%u or fewer, or name a larger shape",
                        text, s->cube.n, s->cube.k, s->cube.hosts, size, s->cube.hosts);
    return *inventory ? read_inventory(s, inventory) : 0;
}

/* Checks the other settings of a BCube, where every link is one rail over one device. */
static int check_topology(const struct br_settings *s)
{
    if (!s->cube.n)
        return 0;
    if (s->cube.k >= BR_MAX_DEVICES)
        return br_error(
            EINVAL, "BRAID_TOPOLOGY: BCube(%u,%u) has %u levels; a rank can use %d devices at most",
            s->cube.n, s->cube.k, s->cube.k, BR_MAX_DEVICES - 1);
    if (br_transport_traits(s->backend).within_host)
        return br_error(EINVAL,
                        "BRAID_BACKEND=%s does not go with a BCube, whose links are those of its "
                        "NICs; leave it out",
                        s->backend);
    if (s->rails > 1)
        return br_error(
            EINVAL,
            "BRAID_RAILS=%d does not go with a BCube, where neighbours have one link; leave it out",
            s->rails);
    return 0;
}

/* Puts names in the place of beginnings of names and of `^`: of interfaces, for verbs of those that
 * have an RDMA port. Back ends with devices of their own have names of their own. */
static int expand_devices(struct br_settings *s)
{
    struct br_transport_traits traits = br_transport_traits(s->backend);
    struct br_interface list[BR_INTERFACES];
    char netdev[IF_NAMESIZE];
    int n = 0, kept = 0;

    if (!s->devices[0] || traits.within_host || traits.owns_device)
        return 0;
    n = br_interface_list(list, BR_INTERFACES);
    for (int i = 0; i < n; i++)
        if (!traits.rdma || !br_verbs_netdev(list[i].name, netdev))
            list[kept++] = list[i];
    return n < 0 ? n
                 : br_device_names_expand(list, kept, s->devices, sizeof s->devices,
                                          &s->devices_expanded);
}

int br_settings_read_trace(struct br_settings *s, int64_t details)
{
    int rc;

    if ((rc = comm_settings_read_text(NULL, "BRAID_TRACE", "", s->trace, sizeof s->trace)) ||
        (rc = br_env_bytes("BRAID_TRACE_BYTES", 4096, UINT64_MAX / 2, 1u << 30, &s->trace_bytes)) ||
        (rc = br_env_number("BRAID_TRACE_DETAIL", 0, INT64_MAX / 2, details, &details)))
        return rc;
    s->trace_details = (uint64_t)details;
    return 0;
}

int br_settings_read(const struct braid_config *config, struct br_settings *s)
{
    static const char *const orders[] = {
        [BRAID_ORDER_ANY] = "any", [BRAID_ORDER_RANKS] = "ranks", NULL};
    struct braid_config copy;
    const struct braid_config *c = &copy;
    int rc;

    memset(s, 0, sizeof *s);
    if ((rc = br_sized_read("braid_init", "braid_config", config, sizeof copy, sizeof copy,
                            &copy)) ||
        (rc = br_environment_read(c, &s->environment)) ||
        (rc = br_secret_read(&s->environment, c->secret, &s->secret)) ||
        (rc = comm_settings_read_text(c->backend, "BRAID_BACKEND", "auto", s->backend,
                                      sizeof s->backend)) ||
        (rc = comm_settings_read_text(c->devices, "BRAID_DEVICES", "", s->devices,
                                      sizeof s->devices)) ||
        (rc = comm_settings_read_text(NULL, "BRAID_REPORT", "", s->report, sizeof s->report)) ||
        (rc = br_settings_read_trace(s, TRACE_DETAILS)) ||
        (rc = comm_settings_read_text(NULL, "BRAID_STATS", "", s->stats, sizeof s->stats)) ||
        (rc = comm_settings_read_text(NULL, "BRAID_CALIBRATION", "", s->calibration,
                                      sizeof s->calibration)) ||
        (rc = read_topology(c, s)) || (rc = comm_settings_read_times(c, s)) ||
        (rc = read_spin(c, s)) || (rc = comm_settings_read_sizes(c, s)) || (rc = read_links(s)) ||
        (rc = read_gpus(s)) ||
        (rc = br_env_choice("BRAID_ORDER", orders, BRAID_ORDER_ANY, &s->order)))
        return rc;
    rc = expand_devices(s);
    if (rc)
        return rc;
    br_settings_apply_local(s);
    if (strcmp(s->backend, "auto") != 0 && !br_transport_known(s->backend))
        return br_error(
            EINVAL,
            "BRAID_BACKEND is \"%s\"; it must be auto, tcp, udp, dpdk, verbs or shm (`braid info` "
            "shows what each "
            "can do)",
            s->backend);
    return check_topology(s);
}
