/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulator: a network of hosts, NIC ports and switches in virtual time, below the back end
 * sim. One thread; the caller steps the workers of the hosts and moves the time:
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

    /* What kind of back end it plays. */
    bool unordered; /* DATA frames of a link may overtake all others (caps.ordered = false) */
    /* SENT when a frame has left the NIC, before it has arrived; payload is copied by post() */
    bool early_sent;
    bool maps; /* hands over mappings for slots with may_map */
    /* As an RDMA NIC: devices of port i, for each bit i, need remote keys, and no frame is looked
     * at before its bytes are written. early_sent and maps do not hold there. What must never
     * happen is counted in bad_places. */
    uint32_t rkey_ports;
    /* devices of port i, for each bit i, apply reducers themselves; not with hollow, nor where
     * place_ports has it */
    uint32_t reduce_ports;
    uint32_t rkey_refused_ppm; /* tokens that a device cannot make */
    uint32_t max_frame;        /* [256 KiB] */
    uint32_t max_message;      /* at most the device's message_bytes [that] */
    uint32_t tx_depth;         /* frames of a link between post() and the acknowledgement [64] */

    /* Cables and switches; br_sim_attach() may choose another rate and latency for one cable. */
    uint64_t bits_per_second; /* [10 Gb/s] each way of each cable */
    uint64_t latency_ns;      /* [2 us] of one cable; a path has two */
    /* what a switch must have of a frame before it forwards [4096; UINT32_MAX: all] */
    uint32_t forward_bytes;
    /* what waits for one output port of a switch; more is dropped [no limit] */
    uint64_t queue_bytes;

    uint32_t loss_ppm, corrupt_ppm, duplicate_ppm;
    uint32_t reorder_ppm;   /* packets that are delayed by up to reorder_ns more */
    uint64_t reorder_ns;    /* [100 us] */
    uint64_t retransmit_ns; /* [4 ms] */
    uint32_t retry_limit;   /* [7] */

    /* Each host's clock differs by up to this from virtual time [0] and drifts by up to this
     * [0]. */
    uint64_t clock_offset_ns;
    uint32_t clock_drift_ppm;

    /* DATA frames carry no payload: for timing jobs whose bytes mean nothing, at a tenth of the
     * processor time */
    bool hollow;

    FILE *trace; /* one line a fact; NULL: only the hash */
};

struct br_sim_counters {
    uint64_t frames, packets;           /* posted; put on a wire */
    uint64_t lost, corrupt, duplicates; /* packets; duplicates: recognised by the receiver */
    uint64_t overflowed;                /* packets that found a switch's queue full */
    uint64_t late;                      /* packets that came to a link that was already closed */
    uint64_t resent;                    /* packets */
    uint64_t failed_links;              /* by the retry limit */
    /* Place tokens that are missing, wrong, void or not given back, memory without keys, frames
     * that come when their place no longer waits for them: an RDMA NIC would have written them into
     * memory that is the user's again. */
    uint64_t bad_rkeys;
    /* mapped frames whose bytes changed before map_release(): the sender's bug */
    uint64_t payload_changed;
};

struct br_sim;

/* NULL: out of memory. Lives until br_sim_destroy(); all devices must be closed before. */
struct br_sim *br_sim_create(const struct br_sim_config *config);
void br_sim_destroy(struct br_sim *sim);

/* Topology. Hosts and switches are numbered 0, 1, ... in the order of their creation. Plugs port
 * `port` of host `host` into a switch; rate and latency 0: the configuration's. */
void br_sim_attach(struct br_sim *sim, int host, int port, int switch_, uint64_t bits_per_second,
                   uint64_t latency_ns);
/* `hosts` hosts with `rails` ports each; port r of each is on switch r. 0 or -ENOMEM. */
int br_sim_add_rails(struct br_sim *sim, int hosts, int rails);
/* The cube: port l of each host is on its switch of level l, which is number br_sim_bcube_switch().
 * 0 or -ENOMEM. In an empty simulator only. */
int br_sim_add_bcube(struct br_sim *sim, const struct br_bcube *cube);
int br_sim_bcube_switch(const struct br_bcube *cube, uint32_t level, uint32_t index);
int br_sim_hosts(const struct br_sim *sim);

/* Fills name, level and simulation so that device_open() opens port `port` of host `host`. The
 * strings belong to sim. */
void br_sim_device_config(struct br_sim *sim, int host, int port, struct br_device_config *config);

/* Time. A host's clock is what its worker is told; virtual time is the simulator's own. */
uint64_t br_sim_now(const struct br_sim *sim);
uint64_t br_sim_host_now(const struct br_sim *sim, int host);
/* The virtual time at which the host's clock shows host_time (deadlines of workers). */
uint64_t br_sim_time_of(const struct br_sim *sim, int host, uint64_t host_time);
uint64_t
/* virtual time of the next event; BR_SIM_NEVER: nothing will happen */
br_sim_next(const struct br_sim *sim);
/* Runs everything up to `time`, and that is the time then. BR_SIM_NEVER: stops at the next event's
 * time (false when there was none). */
bool br_sim_advance_to(struct br_sim *sim, uint64_t time);
bool br_sim_advance(struct br_sim *sim); /* to the next event; false: there is none */
/* A host with events for poll() that nobody has been told of since, or -1. A dead host is never
 * named. */
int br_sim_take_ready(struct br_sim *sim);

enum br_sim_fault_kind {
    BR_SIM_PORT_DOWN, /* the cable of host's port carries nothing, either way */
    BR_SIM_PORT_UP,
    BR_SIM_SWITCH_DOWN, /* number in `host` */
    BR_SIM_SWITCH_UP,
    BR_SIM_PATH_DOWN, /* between host and peer, on port `port` (-1: all), both ways */
    BR_SIM_PATH_UP,
    BR_SIM_PORT_RATE,   /* the cable now carries `bits_per_second` */
    BR_SIM_HOST_DEAD,   /* the host stops and never answers again: power cut */
    BR_SIM_HOST_KILLED, /* the process ends, its kernel closes all links: SIGKILL */
};

struct br_sim_fault {
    enum br_sim_fault_kind kind;
    uint64_t at; /* virtual time; one in the past happens at the next advance */
    int host, peer, port;
    uint64_t bits_per_second;
};
/* -ENOMEM, -EINVAL with a message */
int br_sim_add_fault(struct br_sim *sim, const struct br_sim_fault *fault);
bool br_sim_host_dead(const struct br_sim *sim, int host);

/* Random faults from a seed, spread over [from, from + duration). */
struct br_sim_chaos {
    uint64_t seed;
    uint64_t from, duration;
    uint64_t max_outage_ns; /* what goes down comes up after at most this */
    int ports_down, switches_down, paths_down, slow_ports;
    int deaths; /* hosts that die or are killed; at least one host always lives */
};
int br_sim_add_chaos(struct br_sim *sim, const struct br_sim_chaos *chaos); /* -ENOMEM */

uint64_t br_sim_trace_hash(const struct br_sim *sim);
const struct br_sim_counters *br_sim_counters(const struct br_sim *sim);

#endif
