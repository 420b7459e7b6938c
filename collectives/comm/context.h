/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The context of a job: what braid_init() builds, and what all communicators of the process's rank
 * share: settings, worker with its links, engine, lock, progress thread, registered memory,
 * operations.
 */
#ifndef BR_COLLECTIVES_COMM_CONTEXT_H
#define BR_COLLECTIVES_COMM_CONTEXT_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/growing_pool.h"
#include "base/list.h"
#include "base/mutex.h"
#include "base/ring.h"
#include "base/table.h"
#include "collectives/comm/memory.h"
#include "collectives/comm/posted.h"
#include "collectives/comm/settings.h"
#include "collectives/engine/backlog.h"
#include "collectives/engine/executor.h"
#include "collectives/stats/snapshot.h"
#include "collectives/tuning/network.h"
#include "protocol/message.h"

struct braid_comm;
struct br_algorithm_report;
struct br_cache;
struct br_copier;
struct br_engine;
struct br_epochs;
struct br_meeting;
struct br_gpu_hosts;
struct br_gpu_local;
struct br_gpu_memory;
struct br_gpu_ops;
struct br_gpudirect;
struct br_http;
struct br_ipc;
struct br_offload;
struct br_store;
struct br_stream_ops;
struct br_stream_peers;
struct br_trace;
struct br_worker;

#define BR_HANDLE_PLACES 1024u
/* So many communicators at most keep all-reduces in streams on the GPUs (stream_local.h). */
#define BR_STREAM_PEERS 16

/* Where a handle stands of a call that needs no operation (handles.c, note 3). */
struct br_handle_place {
    _Atomic uint64_t handle; /* 0: the place is free */
    /* The communicator of a call that has ended; with a bit of handles.c that of a receive that
     * waits (posted.c), or the operation that such a one has become. */
    _Atomic uintptr_t of;
};

/* What braid_init() builds. */
struct br_context {
    int rank, size;         /* of the job */
    uint32_t index;         /* in the list of contexts (handles.c) */
    uint64_t init_deadline; /* ns: braid_init() ends by then */
    unsigned forks; /* br_process_forks at braid_init(): another number is that of a child */
    struct br_settings settings;
    struct br_worker *worker;
    struct br_engine *engine;
    const struct br_gpu_ops *gpu;     /* gpu_ops.h */
    struct br_gpu_memory *gpu_memory; /* for the engine */
    struct br_copier *copier;   /* of memory of GPUs; what is open there is found out as it comes */
    struct br_offload *offload; /* reductions on GPUs, opened as they come */
    /* NICs that read and write memory of GPUs; NULL: none can */
    struct br_gpudirect *gpudirect;
    struct br_ipc *ipc; /* memory of GPUs that other processes have shared */
    /* who hands descriptors of such memory over (fd_passing.h, note 2); NULL: nobody */
    struct br_gpu_local *fd_sender;
    bool gpu_local_possible; /* all ranks of the job could (gpu_local.h, note 7) */
    bool gpus;               /* a rank of the job has a driver of GPUs */
    bool crowded;            /* a rank of the job shares its core with others */
    double memory_trip; /* ns/B, measured by the first segment (collectives/shm/past.h); 0: not */
    /* the level between hosts of such memory; NULL: there is none */
    struct br_gpu_hosts *gpu_hosts;
    struct br_stream_ops *stream_ops; /* of operations on streams; under its own lock */
    /* memory for those that stay on GPUs, of all communicators, to the end of the job */
    struct br_stream_peers *stream_peers[BR_STREAM_PEERS];
    int n_stream_peers; /* under stream_lock */
    /* of putting operations into streams and of opening GPUs; taken before `lock` */
    pthread_mutex_t stream_lock;
    /* a bit each: for copies, and where they can be, for reductions */
    _Atomic uint64_t opened_gpus;
    /* at the end: a GPU is lost and may write into our memory yet: it stays mapped */
    bool stays_pinned;
    struct br_network network;
    struct br_algorithm_report *report; /* NULL: nobody wants a report */
    /* rank 0, with a calibration: is it still right? */
    struct br_calibration_drift calibration_drift;
    /* NULL: nobody wants a timeline. Set once, under `lock`, and in the worker's configuration */
    struct br_trace *_Atomic trace;
    pthread_mutex_t trace_opening;  /* of braid_trace_start(); taken before `lock` */
    char trace_path[BR_TRACE_PATH]; /* of this process's file, once `trace` is set */
    bool late_trace; /* braid_trace_start() has opened it, and braid_trace_stop() pauses it */
    /* counters for `braid top`; NULL: switched off, or not possible */
    struct br_http *stats_server;
    char job[BR_JOB_TEXT];  /* what `braid top` calls it */
    char name[BR_JOB_NAME]; /* and the program, by braid_job_name() */
    struct br_store *store; /* NULL but during braid_init() */
    /* with another rank: what is allocated can be mapped by it. As braid_init() found; peers that
     * are relayed come later */
    bool shares_host;
    struct br_epochs *epochs;   /* NULL: no BCube, or too large a one; under the lock */
    struct braid_comm *world;   /* of all ranks of the job */
    struct br_meeting *meeting; /* by which members of a group find each other (meeting.h) */

    struct br_mutex lock; /* worker, engine, shared segments and all below up to the next comment */
    /* of operations of all kinds and communicators; each has two (doc/design/epochs.md, 4) */
    uint64_t next_order;
    uint64_t passed;        /* ns: when the last pass began */
    uint64_t now;           /* ns: of the last pass, or of what was done without one since */
    uint32_t accesses_made; /* without a look at the clock (br_progress_leave()) */
    bool accesses_rest;     /* since the last pass: accesses wait for the next one */
    uint32_t yields;        /* of callers that look at a shared segment */
    struct br_progress_counters {
        /* ns, except calls, the number of passes; busy: passes that found something to do */
        uint64_t calls, busy, idle, asleep;
    } progress;
    bool armed; /* all devices, for sleeping; nobody polls them (progress_lock.c) */
    /* By number. One that has been finalized stays, without a group, so that its handle is known
     * for what it is, until the number is used again. */
    struct braid_comm *comms[BR_MAX_GROUPS];
    uint64_t group_numbers[BR_MAX_GROUPS / 64]; /* taken, a bit each */
    uint64_t place_serial;                      /* the next one for a handle in handle_places */
    uint32_t place_serials_left; /* taken for this context; 0: it takes more (handles.c) */
    /* to a split that is under way (doc/design/split.md, 2) */
    bool shows_numbers;
    /* lowest number of a communicator that is being split */
    uint32_t first_to_split;
    struct br_backlog accesses;         /* one-sided ones */
    struct br_list backlogs;            /* struct br_backlog: those in which operations wait */
    struct br_list executors;           /* struct br_executor, in the order of their steps */
    struct br_executor engine_executor; /* the last of every communicator's chain */
    struct braid_region **regions;      /* by address; room for max_regions */
    int n_regions, max_regions;
    /* (br_region.id, 0), and of braid_register() (handle, 1) -> struct braid_region */
    struct br_table regions_by_number;
    uint32_t next_region;
    /* for memory in none of these; NULL: no device needs one, or it could not be created */
    struct br_cache *cache;
    /* uses of memory that goes without a region with devices that want one */
    uint64_t unregistered;

    struct br_ring submissions; /* struct br_operation */
    pthread_mutex_t pool_lock;
    struct br_growing_pool operations;
    struct br_handle_place handle_places[BR_HANDLE_PLACES];
    struct br_posted_receives posted; /* under the lock */

    pthread_t progress_thread;
    bool has_progress_thread;
    _Atomic bool stop;
    /* waits that callers drove: how the progress thread sees that somebody does */
    _Atomic uint64_t caller_waits;
    _Atomic int callers;  /* threads inside a blocking call */
    _Atomic bool parked;  /* the progress thread waits for `unpark`, until they have left */
    _Atomic bool napping; /* it waits for `unpark` for a short time, as they make short calls */
    sem_t unpark;
    /* operations in streams that have not ended: callers need not wait for them */
    _Atomic int in_streams;
    _Atomic int lock_waiters;     /* threads that wait for the lock: who drives lets them in */
    _Atomic uint32_t lock_turns;  /* of those that have had it after that */
    _Atomic bool last_waits;      /* the progress thread does: who drives does not */
    _Atomic int sleeping_threads; /* threads asleep in the devices' descriptors */
    int sleeping_callers;         /* of these inside a blocking call; under the lock */
    /* operations that have ended and whose `done` has not been called; a thread is calling one.
     * Under the lock (completion.c) */
    struct br_list untold;
    bool telling;
    _Atomic bool may_wake;   /* somebody sleeps and wake_fd has not been written since */
    _Atomic uint64_t events; /* operations that have ended, and br_progress_signal() */
    _Atomic int probes;      /* threads that look for messages (probe.c) */
    uint64_t probed; /* what had arrived in the last pass with such a thread; under the lock */
    /* braid_comm_fd(): an eventfd, or -1: nobody has asked for one. It is made under the lock */
    _Atomic int ends_fd;
    bool ends_due;       /* an end has not been written to it yet; under the lock */
    int wake_fd;         /* eventfd: wakes all sleepers; the last one to wake drains it */
    _Atomic int waiters; /* that could not drive and wait for `ended` */
    pthread_mutex_t ended_lock;
    pthread_cond_t ended;
};

#endif
