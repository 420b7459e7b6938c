/* SPDX-License-Identifier: BSD-3-Clause */
/* The settings of a job: braid_config over environment variables over defaults. */
#ifndef BR_COLLECTIVES_COMM_SETTINGS_H
#define BR_COLLECTIVES_COMM_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cpu_affinity.h"
#include "base/trace.h"
#include "bcube/address.h"
#include "collectives/comm/contention.h"
#include "protocol/bootstrap/environment.h"
#include "protocol/bootstrap/secret.h"
#include "protocol/worker.h"
#include "transport/transport.h"

#define BR_CHUNK_BYTES (512u << 10) /* the default of chunk_bytes */

struct braid_config;

/* Where the values of GPUs are combined. The order is that of BRAID_GPU_REDUCE's words. */
enum br_gpu_reduce { BR_GPU_REDUCE_AUTO, BR_GPU_REDUCE_CPU, BR_GPU_REDUCE_GPU };

/* When the ranks of a mesh that are on different hosts get links. The order is that of BRAID_LINKS'
 * words. AUTO: on demand where there are many ranks. */
enum br_links { BR_LINKS_AUTO, BR_LINKS_START, BR_LINKS_DEMAND };

/* us; of br_settings.turn_us. A window is measured over four times as long, and that within 100 ms
 * (protocol/rail.c). */
#define BR_TURN_MOST 25000

struct br_settings {
    struct br_environment environment;
    struct br_secret secret;
    char backend[16];  /* as the user says: auto, shm, or what network can be */
    char no_rdma[200]; /* why RDMA devices of this rank stay unused; "": none do */
    /* between hosts: tcp, udp, verbs; "" until all ranks are asked (backend.h) */
    char network[16];
    char devices[512];
    bool devices_expanded;         /* its order is the system's (device_names.h) */
    int64_t calibration_bound;     /* a factor by which it may be off without a warning; 0: any */
    char calibration[512];         /* a file; "": none */
    char report[512];              /* "1": to stderr; a file; "": none */
    char trace[BR_TRACE_PATH - 8]; /* a file, or a pattern of one; "": none */
    uint64_t trace_bytes;          /* that it may have */
    uint64_t trace_details;        /* steps and slices a second that are in it */
    /* folder for the socket of `braid top`; "": the user's; "off": none */
    char stats[80];
    /* the network between the ranks; n == 0: a mesh, everybody is linked with everybody */
    struct br_bcube cube;
    bool has_inventory;                        /* an inventory says the next three */
    char host[64];                             /* what people call this host; "": not known */
    char nics[BR_MAX_DEVICES][BR_DEVICE_NAME]; /* of each level; "": there is none */
    uint32_t gids[BR_MAX_DEVICES];             /* of these NICs: as in br_device_config */
    uint32_t cabling_ms; /* how long to look at the wires of a BCube, at most; 0: not at all */
    int rails;           /* 0: one a device */
    int links;           /* enum br_links */
    uint64_t link_idle;  /* ns; after which a link that was made on demand is shut; 0: never */
    int64_t workers;     /* BRAID_WORKERS (br_settings_threads()) */
    uint64_t slice_bytes, eager_bytes;
    uint64_t chunk_bytes; /* of a fragment, about (engine.h) */
    /* up to this size a collective within the host takes the shared segment; 0: never */
    uint64_t shm_collective_bytes;
    bool shm_collective_default; /* nobody has said it: executor.h then takes more of some */
    uint64_t timeout, peer_timeout, starvation, spin; /* ns */
    /* spin and cache_bytes are the defaults, which depend on the ranks of this host */
    bool spin_default, cache_default;
    int64_t machine_ranks; /* BRAID_MACHINE_RANKS; 0: those of this host */
    bool one_machine;      /* all ranks of the job are on it, perhaps in emulated hosts */
    uint32_t cores;        /* that all ranks of the job share, being more; 0: it is not so */
    int own_cores;         /* this rank's part of the machine's cores that it may use; 0: less */
    bool oversubscribed;   /* more ranks than cores on this host: yield instead of spinning */
    uint32_t turn_us;      /* after which a rank of this host has had a core; 0: each has one */
    uint32_t least_window; /* see br_rail_config; 0: the usual one */
    /* of threads that wait in a call, where ranks share cores; under the context's lock */
    struct br_cpu_affinity cpu_affinity;
    struct br_contention contention;
    int pin_cpu;               /* -1: not pinned */
    uint64_t cache_bytes;      /* that the registration cache may pin; 0: there is none */
    int gpu_reduce;            /* enum br_gpu_reduce */
    int order;                 /* enum braid_order, of calls that name none */
    uint64_t gpu_stream_bytes; /* of a GPU, for all-reduces in streams (stream_local.h); 0: none */
    bool gpu_direct;           /* NICs may read and write memory of GPUs themselves */
};

/* Fills *settings from config (NULL: nothing is given), environment and defaults. May block on the
 * files of a secret and of an inventory. Returns 0, -EINVAL or an error of these files, with a
 * message that names the variable. */
int br_settings_read(const struct braid_config *config, struct br_settings *settings);

/* Sets what depends on the ranks of this host (environment.local_size and local_rank): spin,
 * one_machine, cores, own_cores, oversubscribed, turn_us, least_window, cpu_affinity, contention,
 * cache_bytes.
 * br_settings_read() has done so by what the launcher says; again when the store has said more. */
void br_settings_apply_local(struct br_settings *settings);

/* Returns how many of this rank's `devices` devices between hosts, the first ones, get a thread
 * each; 0: the progress loop drives all of them. */
int br_settings_threads(const struct br_settings *settings, int devices);

/* Fills only the fields of *settings that BRAID_TRACE, BRAID_TRACE_BYTES and BRAID_TRACE_DETAIL
 * set, for commands that have no job. details: the default of BRAID_TRACE_DETAIL. Returns 0, or
 * -EINVAL with a message. */
int br_settings_read_trace(struct br_settings *settings, int64_t details);

#endif
