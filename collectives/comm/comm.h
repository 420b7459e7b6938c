/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The communicator, and the context of communicators that braid_comm_split() makes of it. What the
 * ranks of a process share is the context's: settings, worker with its links, engine, lock, thread,
 * registered memory, operations. A communicator has its ranks, its order of operations, what is
 * remembered for them (group.h) and its shared segment.
 *
 * 1. Driving. One lock guards worker and engine. Whoever waits for an operation takes it (try-lock)
 *    and drives progress itself, because waking a sleeping thread on another core costs more than
 *    the operation. The context's progress thread turns it only when nobody has for a while: it
 *    serves peers while the program computes.
 * 2. The progress thread stays out of the way: while callers drive, it naps for NAP at a time and
 *    looks again. Rejected: waking it when a caller leaves, which costs a system call and a thread
 *    switch after every blocking call.
 * 3. With the lock free a call hands its operation to the engine itself, and a blocking call goes
 *    on to drive without letting go of the lock. Else operations go through the submission ring,
 *    and whoever drives takes them out. A thread's operations do not overtake each other: the ring
 *    is emptied before an operation goes past it.
 * 4. Who drives keeps the lock as long as it waits, and a mutex is not fair: those who need it (to
 *    allocate, to abort, to look whether what has woken them was for them) say so in `wanted` and
 *    are let in between two turns. One of those may drive from then on; then who drove before waits
 *    for the end of its operation, not for the lock: that would come as late as the other one falls
 *    asleep.
 * 5. Several threads may sleep at once, the own one and callers, all in the same descriptors. While
 *    the lock is free and somebody sleeps, the devices are armed: who disarmed them, before it
 *    polled them, arms them again when it leaves.
 * 6. An operation object comes from a pool that was filled at braid_init().
 */
#ifndef BR_COLLECTIVES_COMM_COMM_H
#define BR_COLLECTIVES_COMM_COMM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <braid/braid.h>

#include "base/pool.h"
#include "base/ring.h"
#include "base/cpu_affinity.h"
#include "bcube/address.h"
#include "collectives/tuning/calibration.h"
#include "collectives/tuning/calibration_drift.h"
#include "collectives/engine/engine.h"
#include "collectives/engine/executor.h"
#include "collectives/tuning/network.h"
#include "collectives/engine/operation.h"
#include "collectives/stats/snapshot.h"
#include "collectives/stats/algorithm_report.h"
#include "protocol/bootstrap/environment.h"
#include "protocol/bootstrap/secret.h"
#include "protocol/worker.h"

#define BR_MAX_OPERATIONS 1024
#define BR_MAX_REGIONS    4096
#define BR_CHUNK_BYTES    (512u << 10)

#define BR_MEMORY_TEXT 320

struct br_gpu_hosts;
struct br_cache;
struct br_ipc;
struct br_shm_executor;
struct br_stream_ops;
struct br_gpudirect;
struct br_http;
struct br_store;
struct br_epochs;

/* Registered memory of a context, sorted by address; memory.c. */
struct braid_region {
    struct br_region region;
    struct br_context *context;
    uint64_t handle; /* the program's (handles.c); 0: it has none */
    bool allocated;  /* by braid_alloc(): the memory goes with it */
    /* that it lies on, as br_gpu_of() says; no device knows such a region. 0: host memory */
    int gpu;
    _Atomic int uses;   /* our own operations under way */
    _Atomic int served; /* by key: those of peers, and puts and gets to oneself */
};

/* Where the values of GPUs are combined; as in the list of BRAID_GPU_REDUCE's words. */
enum br_gpu_reduce { BR_GPU_REDUCE_AUTO, BR_GPU_REDUCE_CPU, BR_GPU_REDUCE_GPU };

/* braid_config with environment and defaults applied; settings.c. */
struct br_settings {
    struct br_environment environment;
    struct br_secret secret;
    char backend[16];  /* as the user says: auto, shm, or what network can be */
    char no_rdma[200]; /* why RDMA devices of this rank stay unused; "": none do */
    /* between hosts: tcp, udp, verbs; "" until all ranks are asked (backend.h) */
    char network[16];
    char devices[512];
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
    uint64_t slice_bytes, eager_bytes;
    uint64_t chunk_bytes; /* of a fragment, about (engine.h) */
    /* up to this size a collective within the host takes the shared segment (executor.h); 0:
     * never */
    uint64_t shm_collective_bytes;
    uint64_t timeout, peer_timeout, starvation, spin; /* ns */
    bool one_machine;    /* all ranks of the job are on it, perhaps in emulated hosts */
    uint32_t cores;      /* that all ranks of the job share, being more; 0: it is not so */
    bool oversubscribed; /* more ranks than cores on this host: yield instead of spinning */
    /* of threads that wait in a call, where ranks share cores; under the context's lock */
    struct br_cpu_affinity cpu_affinity;
    int pin_cpu;          /* -1: not pinned */
    uint64_t cache_bytes; /* that the registration cache may pin; 0: there is none */
    int gpu_reduce;       /* enum br_gpu_reduce */
    bool gpu_direct;      /* NICs may read and write memory of GPUs themselves */
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
    struct br_copier *copier;   /* of memory of GPUs; what is open there is found out as it comes */
    struct br_offload *offload; /* reductions on GPUs, opened as they come */
    /* NICs that read and write memory of GPUs; NULL: none can */
    struct br_gpudirect *gpudirect;
    struct br_ipc *ipc; /* memory of GPUs that other processes have shared */
    /* who hands descriptors of such memory over (fd_passing.h, note 2); NULL: nobody */
    struct br_gpu_local *fd_sender;
    bool gpu_local_possible; /* all ranks of the job could (gpu_local.h, note 7) */
    /* the level between hosts of such memory; NULL: there is none */
    struct br_gpu_hosts *gpu_hosts;
    struct br_stream_ops *stream_ops; /* of operations on streams; under its own lock */
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
    struct br_trace *trace; /* NULL: nobody wants a timeline */
    /* counters for `braid top`; NULL: switched off, or not possible */
    struct br_http *stats_server;
    char job[BR_JOB_TEXT];  /* what `braid top` calls it */
    struct br_store *store; /* NULL but during braid_init() */
    /* with another rank: what is allocated can be mapped by it. As braid_init() found; peers that
     * are relayed come later */
    bool shares_host;
    struct br_epochs *epochs; /* NULL: no BCube, or too large a one; under the lock */
    struct braid_comm *world; /* of all ranks of the job */

    pthread_mutex_t lock; /* worker, engine, shared segments and all below up to the next comment */
    /* of operations of all kinds and communicators; each has two (epochs.h, note 4) */
    uint64_t next_order;
    uint64_t now; /* of the last turn */
    struct br_progress_counters {
        /* ns but for turns; what a pass of the progress loop found to do */
        uint64_t calls, busy, idle, asleep;
    } progress;
    int armed_devices; /* devices are armed for sleeping (progress_lock.c) */
    /* By number. One that has been finalized stays, without a group, so that its handle is known
     * for what it is, until the number is used again. */
    struct braid_comm *comms[BR_MAX_GROUPS];
    uint64_t group_numbers[BR_MAX_GROUPS / 64]; /* taken, a bit each */
    /* to a split that is under way (split.c, note 2) */
    bool shows_numbers;
    /* lowest number of a communicator that is being split */
    uint32_t first_to_split;
    struct br_list executors;           /* struct br_executor, in the order of their steps */
    struct br_executor engine_executor; /* the last of every communicator's chain */
    struct braid_region *regions[BR_MAX_REGIONS]; /* by address */
    int n_regions;
    uint32_t next_region;
    /* for memory in none of these; NULL: no device needs it, or none is to be had */
    struct br_cache *cache;
    /* uses of memory that goes without a region with devices that want one */
    uint64_t unregistered;

    struct br_ring submissions; /* struct br_operation */
    pthread_mutex_t pool_lock;
    struct br_pool operations;

    pthread_t progress_thread;
    bool has_progress_thread;
    _Atomic bool stop;
    /* waits that callers drove: how the progress thread sees that somebody does */
    _Atomic uint64_t caller_waits;
    _Atomic int callers;          /* threads inside a blocking call */
    _Atomic int lock_waiters;     /* threads that wait for the lock: who drives lets them in */
    _Atomic int sleeping_threads; /* threads asleep in the devices' descriptors */
    int sleeping_callers;         /* of these inside a blocking call; under the lock */
    _Atomic bool may_wake;        /* somebody sleeps and wake_fd has not been written since */
    _Atomic uint64_t events;      /* operations that have ended, and nudges (br_progress_signal) */
    int wake_fd;                  /* eventfd: wakes all sleepers; the last one to wake drains it */
    _Atomic int waiters;          /* that could not drive and wait for `ended` */
    pthread_mutex_t ended_lock;
    pthread_cond_t ended;
};

struct braid_comm {
    struct br_context *context;
    int rank, size;                /* of the group */
    struct br_group *group;        /* NULL: has been finalized */
    struct br_executor *executors; /* its chain (executor.h) */
    struct br_shm_executor *shm;   /* NULL: not all its ranks share this host */
    _Atomic int outstanding;       /* operations submitted and not ended */
    /* of collectives; the same on all ranks; under the lock, as all below */
    uint64_t next_sequence;
    uint64_t operations, failed_operations; /* ended */
    /* collectives that wait for a stream, and those behind them (stream.c) */
    struct br_list deferred;
    struct br_executor stream_order; /* which keeps those */
    struct br_list node;             /* of those that have been finalized (comm.c) */
};

/* settings.c: *settings from config, environment and defaults; -EINVAL with a message. Blocks on a
 * secret file. */
int br_settings_read(const struct braid_config *config, struct br_settings *settings);
/* settings.c: of *settings only what BRAID_TRACE, BRAID_TRACE_BYTES and BRAID_TRACE_DETAIL say.
 * details: the default of BRAID_TRACE_DETAIL. -EINVAL with a message. */
int br_settings_read_trace(struct br_settings *settings, int64_t details);

/* place.c: shape, name and NICs of this rank's host, from an inventory file; environment and cube
 * of *settings are known. -EINVAL and errors of the file, with a message. Blocks on it. */
int br_settings_read_inventory(struct br_settings *settings, const char *file);

/* bootstrap.c: opens devices, finds the other ranks, connects to them. Both block up to the init
 * timeout. */
int br_bootstrap_join(struct br_context *context);
/* returns when every rank is connected to all */
int br_bootstrap_connect(struct br_context *context);
void br_bootstrap_end(struct br_context *context);

/* memory.c. Under the lock. */
struct braid_region *br_region_containing(struct br_context *context, const void *memory,
                                          size_t bytes);
int br_region_find(void *family, uint32_t id, uint64_t offset, uint64_t bytes, void **memory,
                   struct br_region **region); /* as br_worker_config has it */
/* undoes the count that br_region_find() made */
void br_region_done(void *family, struct br_region *region);
/* Scratch of the engine: peers of the host read it in place. */
int br_memory_alloc_scratch(void *family, size_t bytes, void **memory, struct br_region **region);
void br_memory_free_scratch(void *family, void *memory, struct br_region *region);
void br_regions_free(struct br_context *context);
/* In a child of fork(): unmaps what braid_alloc() has given, and tells no device. */
void br_regions_free_in_child(struct br_context *context);
/* when the devices are open: the registration cache */
int br_memory_open(struct br_context *context);
void br_memory_close(struct br_context *context);
/* A reference to the region that an operation's memory lies in, the user's or the cache's; NULL:
 * none. */
struct br_region *br_memory_use(struct br_context *context, const void *memory, size_t bytes);
void br_memory_unuse(struct br_context *context, struct br_region *region); /* NULL: nothing */
/* A line for the report, or "" where no device pins memory. */
const char *br_memory_text(const struct br_context *context, char text[BR_MEMORY_TEXT]);

/* Passages of streams, whose host memory is the context's. */
int br_streams_create(struct br_context *context); /* -ENOMEM */

/* comm.c */
int br_comm_check(const struct braid_comm *comm,
                  /* -EINVAL with a message: none, or finalized; -EPERM: this is a fork */
                  const char *name);
/* ns; for those above that read no clock themselves */
uint64_t br_comm_now(const struct braid_comm *comm);
/* Do this rank and `rank` of the job, another one, map each other's memory? Then both are on one
 * host. */
bool br_comm_maps(const struct br_context *context, int rank);
/* ranks of the job, NULL: all. Do they share this host's memory? Each finds the same. */
bool br_comm_one_host(const struct br_context *context, const int *ranks, int size);
/* "tcp:eth0,tcp:eth1": this rank's devices. */
void br_comm_name_devices(const struct br_context *context, char text[BR_CALIBRATION_TEXT]);
/* Collective over the group, which is borrowed. Blocks until its ranks share their shared segment,
 * at most for the init timeout. */
int br_comm_create(struct br_context *context, struct br_group *group, struct braid_comm **comm);
/* under the lock, or the last one to use the context */
void br_comm_destroy(struct braid_comm *comm);

/* gpu.c. Copies and reductions of GPUs' memory, nothing open yet: -ENOMEM with a message. look:
 * which GPUs an operation's memory lies on, and whether they can be reached; blocks the first time
 * that a GPU comes. copy: now, in the calling thread, between any memory. Errors with a message. */
/* is there a driver? Fails never: what is missing is said */
int br_gpus_probe(struct br_context *context);
/* Could this rank share memory of GPUs with others of its host? */
bool br_gpus_may_share(const struct br_context *context);
int br_gpus_create(struct br_context *context);
void br_gpus_destroy(struct br_context *context);
/* What the first operation on a GPU does before all else, with its errors. 0: host memory,
 * nothing. */
int br_gpus_open(struct br_context *context, int gpu);
int br_comm_probe_memory(const char *name, struct br_operation *op);
int br_comm_copy(struct braid_comm *comm, void *to, const void *from, size_t bytes);

/* stream.c: operations on streams. submit: a collective whose input and output are one block each;
 * op is given back when it fails, with a message. The others under the lock. */
int br_stream_submit(struct br_operation *op, void *stream);
/* Makes the communicator's executor that keeps collectives in stream order, before `next`. */
void br_stream_order_init(struct braid_comm *comm, struct br_executor *next);
/* For what may wait for all work of a GPU, an operation in a stream included. true: none stands
 * there, and none is put there until br_streams_unblock(). Never blocks. */
bool br_streams_block(struct br_context *context);
void br_streams_unblock(struct br_context *context);

/* handles.c. open: -ENFILE with a message. new: of the program's object at `place` of the
 * operations (0 for a region). context: NULL if it has ended, or the handle is none. has_ended:
 * also a handle that is void; does not progress. */
int br_handles_open(struct br_context *context);
void br_handles_close(struct br_context *context);
uint64_t br_handle_new(const struct br_context *context, uint32_t place);
struct br_context *br_handle_context(uint64_t handle);
struct braid_op *br_operation_handle(struct br_operation *op);
bool br_operation_has_ended(struct braid_op *handle);

/* operation_pool.c */
/* zeroed; NULL with a message: -EAGAIN */
struct br_operation *br_comm_get_operation(struct braid_comm *comm);
void br_comm_put_operation(struct br_operation *op);
/* The result of an ended operation, its message in this thread; frees it unless it is
 * persistent. */
int br_comm_finish_operation(struct br_operation *op);
void br_comm_put_operations(struct braid_comm *comm); /* all of it; none is under way */
/* Under the lock: gives the operation its place in the order, and to the executors. */
void br_comm_start_operation(struct br_operation *op, uint64_t now);
/* The engine becomes an executor, the only one so far (executor.h). */
void br_engine_executor_init(struct br_context *context);
/* Of a persistent one, once before its first start: makes room for it. Errors of
 * br_engine_reserve(). */
int br_comm_prepare_operation(struct br_operation *op);
/* Under the lock: an operation that runs no more, whose handle is void, is given back; what it has
 * failed with fails the context. */
void br_comm_release_operation(struct br_operation *op);
/* The first error, with a message that begins with `name`, of those operations of the communicator
 * (of the context, for its first one) that have ended and that nobody has waited for; 0: all is
 * well. Says how many there are. They stay as they are. */
int br_comm_take_results(struct braid_comm *comm, const char *name);
uint64_t br_comm_next_sequence(struct braid_comm *comm); /* takes it; under the lock */
/* Under the lock: the regions that op's memory lies in are in use from here to there. */
void br_comm_use_memory(struct braid_comm *comm, struct br_operation *op);
void br_comm_unuse_memory(struct braid_comm *comm, struct br_operation *op);
void br_comm_operation_ended(struct br_operation *op); /* under the lock */

/* tracing.c. open: a file for this rank, where one is wanted; errors of the file with a message. */
int br_tracing_open(struct br_context *context);
void br_tracing_close(struct br_context *context);
int br_tracing_rails(struct br_context *context); /* names the rows of all rails */
/* begin: when the engine gets the operation; end: when it has ended. trace: of its rank; NULL:
 * nobody wants one, and there is only begin. Under the context's lock, where there is a context. */
void br_tracing_begin(struct br_trace *trace, struct br_operation *op, uint64_t now);
void br_tracing_end(struct br_trace *trace, struct br_operation *op, uint64_t now);

/* progress_lock.c */
/* for a moment: whoever drives lets us in */
void br_progress_lock(struct br_context *context);
void br_progress_lock_last(struct br_context *context); /* when nobody else wants it */
bool br_progress_trylock(struct br_context *context);
/* arms the devices again for those who sleep in them */
void br_progress_unlock(struct br_context *context);
/* Under the lock, before devices are polled; the calls above that take the lock have done it. What
 * a poll finds no longer wakes those who sleep, so the devices must be armed again, which unlocking
 * does only if they are not. */
void br_progress_disarm(struct br_context *context);
/* Under the lock, by whoever drives for long and must go on: those who want the lock get it in
 * between. nap: and the core as well, in ns. */
void br_progress_yield(struct br_context *context, uint64_t nap);
/* The same for who need not go on. false: another drives now, and the lock is not ours any more. */
bool br_progress_yield_or_leave(struct br_context *context);
/* Under the lock, which is free while the thread sleeps, so that a caller can take over; at most
 * until the next timer. */
void br_progress_sleep(struct br_context *context, uint64_t until);
void br_progress_wake(struct br_context *context); /* all that sleep, and the progress thread */

/* stats_server.c: counters on a local socket. open fails never: what is not possible is said. */
int br_stats_server_open(struct br_context *context);
void br_stats_server_close(struct br_context *context);

/* statistics.c: the counters, under the lock; n_peers and n_rails say how many there is room
 * for. */
void br_statistics_take(struct braid_comm *comm, struct br_snapshot *snapshot);

/* progress.c */
int br_progress_start(struct br_context *context); /* thread and wake-up descriptor */
void br_progress_stop(struct br_context *context);
/* under the lock; returns how much was done */
int br_progress_once(struct br_context *context, uint64_t now);
/* under the lock: the operation has ended */
void br_progress_end(struct br_operation *op);
/* Submits, and returns: when the lock is free the first frames leave at once, else whoever drives
 * takes it. -EAGAIN with a message. */
int br_progress_submit(struct br_operation *op);
/* Submits and drives until the operation has ended. -EAGAIN with a message: it was not
 * submitted. */
int br_progress_run(struct br_operation *op);
/* Drives until the operation has ended or `most` ns have passed (UINT64_MAX: no limit); true: it
 * has ended. */
bool br_progress_wait(struct br_operation *op, uint64_t most);
/* Drives until something has happened since `seen` was read, or for `most` ns: an operation
 * ended, somebody nudged. What the caller waits for it looks at after reading `seen` and before
 * waiting. */
uint64_t br_progress_event_count(const struct br_context *context);
void br_progress_wait_event(struct br_context *context, uint64_t seen, uint64_t most);
/* any thread; wakes those who wait for an event */
void br_progress_signal(struct br_context *context);
/* A small collective of one host, while its caller waits (executor.h). false: not possible now, go
 * the long way. */
bool br_progress_shm(struct braid_comm *comm, struct br_operation *op);
void br_progress_try_once(struct br_context *context); /* one turn, if nobody else is at it */
/* Drives until *count is zero, for `most` ns at most (UINT64_MAX: no limit). */
void br_progress_wait_zero(struct br_context *context, const _Atomic int *count, uint64_t most);

/* split.c */
/* braid_finalize() of what braid_comm_split() has made */
int br_comm_leave(struct braid_comm *comm);
void br_split_free(struct br_group *group); /* of such a communicator, which has been destroyed */

#endif
