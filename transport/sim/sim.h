/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulator: a network of hosts, NIC ports and switches in virtual time, below the back end
 * sim. One thread calls everything, and nothing blocks. The caller steps the workers of the hosts
 * and moves the time:
 *
 *     while (!done) {
 *         while ((host = br_sim_take_ready(sim)) >= 0)
 *             step the worker of `host` until it has nothing more to do, now = br_sim_host_now();
 *         br_sim_advance_to(sim, the earlier of br_sim_next() and the workers' next deadline);
 *     }
 *
 * The same seed and the same calls give the same trace, to the byte. The numbered notes are in
 * doc/design/simulator.md.
 */
#ifndef BR_TRANSPORT_SIM_SIM_H
#define BR_TRANSPORT_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "bcube/address.h"
#include "transport/transport.h"

#define BR_SIM_NEVER UINT64_MAX

/* Zero stands for the default named in brackets. Shares of packets are in parts per million. */
struct br_sim_config {
    uint64_t seed;

    /* What kind of back end it simulates. */
    bool unordered; /* DATA frames of a link may overtake all others. */
    /* SENT is reported when a frame has left the NIC, before it has arrived; post() copies the
     * payload. */
    bool early_sent;
    bool maps; /* Reports mappings for slots with may_map (caps.maps). */
    /* Bit i: devices of port i need remote keys and write frames without looking at them, as RDMA
     * NICs do. early_sent and maps have no effect there. What must never happen is counted in
     * br_sim_counters.bad_rkeys. */
    uint32_t rkey_ports;
    /* Bit i: devices of port i apply reducers themselves. Without effect with `hollow`, and for the
     * ports in rkey_ports. */
    uint32_t reduce_ports;
    uint32_t rkey_refused_ppm; /* The share of remote keys that a device cannot make. */
    uint32_t max_frame;        /* caps.max_frame, bytes [256 KiB] */
    uint32_t max_message;      /* caps.max_message, bytes, at most message_bytes [that] */
    uint32_t tx_depth; /* The most frames of a link that are posted and not acknowledged [64] */

    /* Cables and switches; br_sim_attach() may choose another rate and latency for one cable. */
    uint64_t bits_per_second; /* Of each cable, in each direction [10 Gb/s] */
    uint64_t latency_ns;      /* Of one cable; a path has two [2 us] */
    /* Bytes of a frame that a switch must have before it forwards it; UINT32_MAX for all [4096] */
    uint32_t forward_bytes;
    /* The most bytes that wait for one output port of a switch; more are dropped [no limit] */
    uint64_t queue_bytes;

    uint32_t loss_ppm, corrupt_ppm, duplicate_ppm; /* Of packets. */
    uint32_t reorder_ppm;   /* Packets that are delayed by up to reorder_ns more. */
    uint64_t reorder_ns;    /* [100 us] */
    uint64_t retransmit_ns; /* After which an unacknowledged packet is sent again [4 ms] */
    uint32_t retry_limit;   /* How often, before its link fails [7] */

    /* By how much each host's clock differs from virtual time at most, and by how much it drifts at
     * most [0]. */
    uint64_t clock_offset_ns;
    uint32_t clock_drift_ppm;

    /* DATA frames carry no payload. For measuring the times of jobs whose bytes have no meaning;
     * engines can leave out their reductions then (br_engine_config.hollow). */
    bool hollow;

    /* Called some steps before something may be reported of the link to the host, so that the
     * caller can fetch what its worker will look at into the cache. Must change nothing. NULL: it
     * is not called. */
    void (*soon)(void *context, int host, const struct br_link *link);
    void *soon_context;

    FILE *trace; /* Gets a line for each event; NULL for the hash only. Kept by the caller. */
};

/* Fetches memory into the cache. It may be of anybody, or of nobody. */
static inline void br_sim_fetch(const void *memory, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += 64) /* a cache line */
        __builtin_prefetch((const uint8_t *)memory + at);
}

/* What has happened so far. */
struct br_sim_counters {
    uint64_t frames, packets; /* Frames posted; packets put on a wire. */
    /* Packets; a duplicate was recognised by the receiver. */
    uint64_t lost, corrupt, duplicates;
    uint64_t overflowed;   /* Packets dropped because the queue of a switch was full. */
    uint64_t late;         /* Packets that arrived for a link that was closed. */
    uint64_t resent;       /* Packets sent again. */
    uint64_t failed_links; /* Links that have failed by the retry limit. */
    /* Remote keys that were missing, wrong, invalid or not released, memory without keys, and
     * frames that arrived when their slot did not expect them any more: an RDMA NIC would have
     * written these to memory that is the user's again. */
    uint64_t bad_rkeys;
    /* Mapped frames whose bytes changed before release(), which is an error of the sender. */
    uint64_t payload_changed;
};

struct br_sim;

/* Makes a simulator without hosts. *config is copied. Returns NULL when there is no memory. */
struct br_sim *br_sim_create(const struct br_sim_config *config);
/* Frees a simulator, all of whose devices are closed. */
void br_sim_destroy(struct br_sim *sim);

/* Topology. Hosts and switches are numbered from 0 in the order of their creation. */

/* Plugs port `port` of host `host` into a switch. A rate or latency of 0 stands for that of the
 * configuration. */
void br_sim_attach(struct br_sim *sim, int host, int port, int switch_, uint64_t bits_per_second,
                   uint64_t latency_ns);
/* Adds `hosts` hosts with `rails` ports each; port r of each is plugged into switch r. Returns 0 or
 * -ENOMEM. */
int br_sim_add_rails(struct br_sim *sim, int hosts, int rails);
/* Adds the hosts and switches of a cube to an empty simulator: port l of each host is plugged into
 * its switch of level l. Returns 0 or -ENOMEM. */
int br_sim_add_bcube(struct br_sim *sim, const struct br_bcube *cube);
/* Returns the number that br_sim_add_bcube() gives to switch `index` of a level. */
int br_sim_bcube_switch(const struct br_bcube *cube, uint32_t level, uint32_t index);
/* Returns the number of hosts. */
int br_sim_hosts(const struct br_sim *sim);

/* Fills name, level and simulation so that device_open() opens port `port` of host `host`. The
 * strings belong to sim. */
void br_sim_device_config(struct br_sim *sim, int host, int port, struct br_device_config *config);

/* Returns the virtual time, ns. */
uint64_t br_sim_now(const struct br_sim *sim);
/* Returns the time of a host's clock, ns, for the `now` of its worker. */
uint64_t br_sim_host_now(const struct br_sim *sim, int host);
/* Returns the virtual time at which the host's clock shows host_time, for deadlines of workers. */
uint64_t br_sim_time_of(const struct br_sim *sim, int host, uint64_t host_time);
/* Returns the virtual time of the next event, or BR_SIM_NEVER when nothing will happen. */
uint64_t br_sim_next(const struct br_sim *sim);
/* Runs all events up to `time`, which is the virtual time then. With BR_SIM_NEVER it stops at the
 * time of the next event, and returns false when there was none. */
bool br_sim_advance_to(struct br_sim *sim, uint64_t time);
/* Runs up to the next event. Returns false when there is none. */
bool br_sim_advance(struct br_sim *sim);
/* Returns a host that has events for poll() and has not been returned since they came, or -1 when
 * there is none. A dead host is never returned. */
int br_sim_take_ready(struct br_sim *sim);

enum br_sim_fault_kind {
    BR_SIM_PORT_DOWN, /* The cable of the host's port carries nothing in either direction. */
    BR_SIM_PORT_UP,
    BR_SIM_SWITCH_DOWN, /* `host` is the number of the switch. */
    BR_SIM_SWITCH_UP,
    BR_SIM_PATH_DOWN, /* Between host and peer, on `port` (-1: on all), in both directions. */
    BR_SIM_PATH_UP,
    BR_SIM_PORT_RATE,   /* The cable of the host's port has the rate bits_per_second from now on. */
    BR_SIM_HOST_DEAD,   /* The host stops and never answers again, as without power. */
    BR_SIM_HOST_KILLED, /* The process ends, and its kernel closes all links, as by SIGKILL. */
};

struct br_sim_fault {
    enum br_sim_fault_kind kind;
    /* The virtual time, ns; a fault in the past happens at the next br_sim_advance_to(). */
    uint64_t at;
    int host, peer, port;
    uint64_t bits_per_second;
};
/* Adds a fault, which is copied. Returns 0, -ENOMEM, or -EINVAL with a message. */
int br_sim_add_fault(struct br_sim *sim, const struct br_sim_fault *fault);
/* Returns whether a host is dead or its process was killed. */
bool br_sim_host_dead(const struct br_sim *sim, int host);

/* Random faults, spread over [from, from + duration) of virtual time, ns. */
struct br_sim_chaos {
    uint64_t seed;
    uint64_t from, duration;
    uint64_t max_outage_ns; /* What goes down comes up again after at most so many ns. */
    int ports_down, switches_down, paths_down, slow_ports; /* How many of each. */
    int deaths; /* Hosts that die or are killed; at least one host stays alive. */
};
/* Adds random faults. Returns 0 or -ENOMEM. */
int br_sim_add_chaos(struct br_sim *sim, const struct br_sim_chaos *chaos);

/* Returns the hash of the trace so far. */
uint64_t br_sim_trace_hash(const struct br_sim *sim);
/* Returns the counters, which belong to the simulator and go on counting. */
const struct br_sim_counters *br_sim_counters(const struct br_sim *sim);

#endif
