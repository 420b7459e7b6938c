/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The worker: it owns its devices, links and slots, and moves the transfers.
 *
 * One turn, made by whoever holds the worker's lock (collectives/comm/comm.c):
 *
 *     br_worker_poll(w, now)    events of the devices -> arrivals, credits, links; timers
 *     (engine)                  br_worker_done(w) -> steps -> new transfers, reductions
 *     br_worker_pump(w, now)    control, messages and frames leave, the most urgent first
 *
 * 1. It reads no clock, sleeps never and knows no thread: in the simulator the same code runs in
 *    virtual time. Nothing here is thread-safe.
 * 2. A batch of events may name a link that an earlier event of the batch has lost. So a lost link
 *    is only retired: its owner becomes NULL, its further events are ignored, and it is closed
 *    (fenced) at the end of the batch, before anything is sent again and before any operation ends.
 * 3. Errors of single links are handled here (failover.c). When the last rail of a peer is lost the
 *    worker fails: all links are closed, `failed` and `message` says why, and the transfers are
 *    simply forgotten: as no link is left, nobody touches their memory.
 */
#ifndef BR_PROTOCOL_WORKER_H
#define BR_PROTOCOL_WORKER_H

#include "base/clock.h"
#include "base/log.h"
#include "base/pool.h"
#include "base/random.h"
#include "base/table.h"
#include "base/trace.h"
#include "bcube/address.h"
#include "protocol/peer.h"
#include "protocol/target.h"
#include "protocol/transfer.h"
#include "transport/slot.h"
#include "transport/transport.h"

#define BR_MAX_DEVICES BR_SLOT_DEVICES

struct br_worker_config {
    int rank, size;
    /* of the job's links: BR_SECRET_LINKS of protocol/bootstrap/secret.h */
    uint8_t key[32];
    uint64_t check;           /* braid_key.check: the same of BR_SECRET_REGIONS; no secret */
    uint32_t eager_bytes;     /* <= BR_MAX_EAGER; the same on all ranks */
    uint32_t slice_bytes;     /* the same on all ranks */
    uint64_t peer_timeout;    /* ns of silence */
    uint64_t starvation;      /* ns */
    uint64_t target_delay;    /* ns; see peer.h note 1; 0: 1 ms */
    uint64_t connect_timeout; /* ns for one attempt: connect and handshake */
    uint32_t max_slots;       /* large receives that may be outstanding */
    /* peers that get rails, at most; 0: all others. Links are allocated for so many */
    int neighbours;
    bool own_nic_only; /* as in br_device_config */
    /* br_device_config.gid, in the order in which devices are opened */
    uint32_t gids[BR_MAX_DEVICES];
    /* that may be outstanding, of each: posted transfers, unexpected messages, requests of peers
     * that are served */
    uint32_t max_transfers;
    uint64_t seed;          /* of the simulator; 0: real time */
    struct br_trace *trace; /* borrowed; NULL: nobody wants a timeline */
    /* Of the job: rank = host, the last hosts may be missing. Ranks that are no neighbours are
     * reached by relaying (relay.h). hosts 0: none is. */
    struct br_bcube cube;
    /* One-sided access: the span of a registered region, which must stay until region_done(). 0:
     * host memory; 1 + g: memory of GPU g, which only the hooks may touch; -EACCES. */
    int (*region_find)(void *context, uint32_t id, uint64_t offset, uint64_t bytes, void **memory,
                       struct br_region **region);
    void (*region_done)(void *context, struct br_region *region);
    /* Of memory of a GPU, of a region, to host memory or from there: what goes by other hosts
     * (relay.h, note 10). Returns when the bytes stand there; negative errno with a message, which
     * ends the worker. NULL: frames of such regions do not go that way. */
    int (*region_copy)(void *context, bool to_gpu, void *to, const void *from, uint32_t bytes);
    void *region_context;
    struct br_target_hooks target; /* for memory of GPUs, with the same context */
};

/* What a peer offers for one rail. */
struct br_rail_config {
    int device;                /* index of our device */
    struct br_address address; /* of the peer's device */
    int level;                 /* for words: of the network that both devices are on */
};

#define BR_MAX_UNAUTHENTICATED 32

/* What is known of a recent collective operation: our own arguments, or what a peer has sent for
 * one that we have not begun. */
struct br_agreed {
    uint32_t operation; /* its part of the tag: group and number */
    uint16_t check;
    bool used, ours, part;
    int rank;            /* whose */
    struct br_call call; /* ours: the arguments */
    uint64_t whole;      /* part: the tag of the operation that it is a part of */
};

/* Puts into words that `rank` and we, `self`, disagree about the operation of this tag. */
typedef void br_disagreement_text(int rank, int self, uint64_t tag, const struct br_call *theirs,
                                  const struct br_call *ours, char *text, size_t bytes);
#define BR_AGREED 256u /* operations; ranks are fewer apart, by the credits */

/* for the peers of a worker that fails to hear why, on a busy machine too (shutdown.c) */
#define BR_ABORT_LINGER BR_SEC

struct br_unauthenticated; /* an incoming link that has not yet proved who it is (connect.c) */

struct br_worker {
    struct br_worker_config config;
    struct br_device *devices[BR_MAX_DEVICES];
    struct br_device_config device_configs[BR_MAX_DEVICES];
    int n_devices;
    struct br_slot_table slots;
    struct br_peer *peers;    /* [size]; those without rails, as our own, are nothing but zeroes */
    struct br_list known;     /* the peers with rails, in the order in which they got them */
    int n_waited;             /* peers not yet UP for the first time */
    struct br_table receives; /* (tag, peer) -> posted receive, or unexpected message (match.c) */
    struct br_table sends;    /* (tag, peer) -> send that waits for READY, or unexpected READY */
    struct br_table confirms; /* (slot number, peer) -> send that waits for DONE */
    struct br_pool unexpected, flights, services;
    struct br_agreed agreed[BR_AGREED];
    br_disagreement_text *disagreement_text; /* the engine's; NULL: digests are named */
    /* ns; a rank disagrees, and has been told our arguments: it fails with both sides', or we do at
     * this time, with disputed; 0: none does */
    uint64_t dispute_until;
    char disputed[320];
    struct br_list done;                        /* ended transfers, for the engine */
    struct br_list slotless;                    /* large receives that wait for a free slot */
    struct br_list active;                      /* peers with something to send */
    struct br_unauthenticated *unauthenticated; /* [BR_MAX_UNAUTHENTICATED] */
    struct br_log_limit refusals;               /* log lines about them */
    uint64_t next_unauthenticated;              /* how many there have been */
    struct br_relay *relay;                     /* NULL: no relaying (relay.h) */
    /* lost links, closed when the present batch of events is through (note 2) */
    struct br_link **deferred;
    uint32_t n_deferred, max_deferred;
    bool in_batch;
    struct br_random random; /* only with config.seed */
    /* of the transfer that may use the credits and the slot that are kept (br_worker_reserve_for)
     */
    struct br_age oldest;
    /* the largest `order` of a transfer so far: what peers ask for comes behind it */
    uint64_t newest;
    uint64_t now; /* of this turn */
    uint64_t last_timers;
    int failed; /* 0, or the negative errno of what ended it */
    char message[320];
    /* failed, but links are still open: peers are being told; nothing may end yet */
    bool fail_due;
    uint64_t fail_at; /* then: they are closed at this time at the latest, ns; 0: not yet begun */
    bool leaving;
    struct br_worker_counters {
        uint64_t failed_handshakes, dropped_messages, copied_bytes, direct_bytes, mapped_bytes;
        uint64_t credit_stalls, window_stalls;  /* times the head of a queue had to wait */
        uint64_t slot_stalls;                   /* large receives that had to wait for a slot */
        uint64_t relayed_frames, relayed_bytes; /* passed on for others */
        uint64_t relay_stalls; /* times all of them had to wait for a buffer at the next host */
        uint64_t unreachable;  /* routes that broke here, or beyond */
        /* rails left out of a transfer because their device could make no remote key */
        uint64_t skipped_rails;
    } counters;
};

int br_worker_create(const struct br_worker_config *config, struct br_worker **worker);
/* Closes links and devices. Transfers still posted are forgotten: their memory is the caller's
 * again. NULL allowed. */
void br_worker_destroy(struct br_worker *worker);

/* Before connecting. Opens a device (name as in br_device_config); *index is what
 * br_rail_config.device takes. */
int br_worker_open_device(struct br_worker *worker, const struct br_transport_ops *ops,
                          const char *name, void *simulation, int *index);
/* Rails of one peer; the side with the larger rank connects. Transfers to a peer without any end at
 * once (-EHOSTUNREACH), unless config.cube says how to relay: there only neighbours are set, with
 * one rail each. */
int br_worker_set_peer(struct br_worker *worker, int rank, const struct br_rail_config *rails,
                       int n_rails);

/* Is there a way to the peer, and do all its ways begin at these devices (a bit each, by
 * br_device.index), as long as no rail is lost? Not while only relays lead there. */
bool br_worker_uses_only(const struct br_worker *worker, int rank, uint32_t devices);

/* true when every rail of every peer has been up. */
bool br_worker_connected(const struct br_worker *worker);
/* Names up to a few peers and rails that are not connected, with their last error, into words. */
void br_worker_missing(const struct br_worker *worker, char *text, size_t bytes);

/* A collective operation begins here, with these arguments. Fails the worker when another rank has
 * sent others for it. sequence: its number in the group, not cut to the tag's bits. call: the
 * arguments in full; NULL: words name digests. */
void br_worker_begins(struct br_worker *worker, uint32_t group, uint64_t sequence, uint16_t check,
                      const struct br_call *call);
/* A collective that has begun is a part of the one with the tag `whole`, and its `call` is that of
 * the whole: errors name that one. */
void br_worker_is_part(struct br_worker *worker, uint32_t group, uint64_t sequence, uint64_t whole);
/* A collective that has begun waits for this rank outside the worker: tells it so, that it notices
 * if it has begun another. */
void br_worker_waits_for(struct br_worker *worker, int rank, uint32_t group, uint64_t sequence,
                         uint16_t check, const struct br_call *call);
/* Forgets the operations of a group, which ends; */
void br_worker_forget_group(struct br_worker *worker, uint32_t group);
/* or those before `sequence`, as its numbers are about to come round. What other ranks have begun
 * already stays. */
void br_worker_forget_before(struct br_worker *worker, uint32_t group, uint64_t sequence);

/* One credit of each rail and one slot are kept for the transfer with this order and this `within`,
 * of this fragment (peer.h, note 4), until the next call. None by default. */
void br_worker_reserve_for(struct br_worker *worker, uint64_t order, uint32_t fragment,
                           uint64_t within);

/* Both return how much was done; 0: nothing. */
int br_worker_poll(struct br_worker *worker, uint64_t now);
int br_worker_pump(struct br_worker *worker, uint64_t now);
/* The next ended transfer, or NULL. */
struct br_transfer *br_worker_done(struct br_worker *worker);

/* Is there something to pump, or a transfer that has ended? After a poll without an event a timer
 * may have made it so. */
static inline bool br_worker_is_due(const struct br_worker *worker)
{
    return !br_list_empty(&worker->active) || !br_list_empty(&worker->done);
}

/* Ends the worker. Its next polls tell all peers (reason in the ABORT message) and close all links,
 * which takes until the peers have answered, BR_ABORT_LINGER at most; then fail_due is false.
 * Idempotent: the first reason stays. error > 0. */
void br_worker_fail(struct br_worker *worker, int error, const char *text);
/* Leaves in good order: BYE to all; br_worker_left() is true when all peers have said BYE too or
 * are gone. */
void br_worker_leave(struct br_worker *worker);
bool br_worker_left(const struct br_worker *worker);

/* Neighbours in a BCube that have not left and whose rail is down: bit level * (n - 1) + i for
 * neighbour i of a level (bcube/address.h). 0 without relaying, and where neighbours are more than
 * 64. */
uint64_t br_worker_broken_links(const struct br_worker *worker);

/* ns for which the rail has waited for this, up to `now`. */
uint64_t br_stall_time(const struct br_rail *rail, enum br_stall stall, uint64_t now);

/* Names the rows of all rails in config.trace, which is there; once rails are set. Not on the data
 * path. */
void br_tracing_name(const struct br_worker *worker);

/* When the next timer is due, ns; for the simulator and for sleeping. */
uint64_t br_worker_next_timer(const struct br_worker *worker);
/* It is not due before this, whatever happens meanwhile; found without a look at the rails. */
uint64_t br_worker_no_timer_before(const struct br_worker *worker);

#endif
