/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The worker: it owns its devices, links and slots, and moves the transfers.
 *
 * Whoever holds the progress lock (doc/design/progress.md) makes one pass:
 *
 *     br_worker_poll(w, now)    events of the devices: arrivals, credits, links; timers
 *     (engine)                  br_worker_done(w), the next steps, new transfers, reductions
 *     br_worker_pump(w, now)    control, messages and frames leave, the most urgent first
 *
 * 1. A worker reads no clock, never sleeps and knows no thread: in the simulator the same code runs
 *    in virtual time. Nothing here is thread-safe, and nothing blocks but opening and closing
 *    devices.
 * 2. A batch of events may name a link that an earlier event of the batch has lost. So a lost link
 *    is closed later: its owner becomes NULL, its further events are ignored, and it is closed
 *    (fenced) at the end of the batch, before anything is sent again and before any operation ends.
 * 3. Errors of single links are handled here (failover.c). When the last rail of a peer is lost the
 *    worker fails: all links are closed, `failed` and `message` say why, and the transfers are
 *    forgotten. As no link is left, nothing touches their memory.
 */
#ifndef BR_PROTOCOL_WORKER_H
#define BR_PROTOCOL_WORKER_H

#include "base/clock.h"
#include "base/growing_pool.h"
#include "base/log.h"
#include "base/pool.h"
#include "base/random.h"
#include "base/table.h"
#include "base/trace.h"
#include "bcube/address.h"
#include "protocol/peer.h"
#include "protocol/put_batch.h"
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
    uint64_t target_delay;    /* ns; see doc/design/rails.md, section 1; 0: 1 ms */
    uint64_t connect_timeout; /* ns for one attempt: connect and handshake */
    /* ns; several threads may sleep, none for longer, so br_worker_next_timer() says no later time;
     * 0: one thread, that sleeps until the next timer */
    uint64_t sleep_max;
    uint32_t max_slots; /* large receives that may be outstanding */
    /* peers that get rails, at most; 0: all other ranks. Links are allocated for so many */
    int neighbours;
    /* of a mesh: links of devices that do not map are made when first needed (demand.c) */
    bool on_demand;
    /* ns; such links are shut when nothing has been exchanged for so long; 0: never (idle.c) */
    uint64_t link_idle;
    bool own_nic_only;    /* as in br_device_config */
    uint64_t thread_spin; /* As in br_device_config. */
    /* br_device_config.gid, in the order in which devices are opened */
    uint32_t gids[BR_MAX_DEVICES];
    /* how many frames may be outstanding. There is room for so many posted transfers, unexpected
     * messages and requests of peers that are being served, too, and more when more come */
    uint32_t max_transfers;
    uint64_t seed;          /* of the simulator; 0: real time */
    struct br_trace *trace; /* borrowed; NULL: nobody wants a timeline */
    /* The BCube of the job: rank = host, the last hosts may be missing. Ranks that are no
     * neighbours are reached by relaying (relay.h). hosts 0: there is no relaying. */
    struct br_bcube cube;
    /* One-sided access: finds the span of a registered region, which must stay until region_done().
     * Returns 0: host memory; 1 + g: memory of GPU g, which only the hooks may touch; -EACCES:
     * there is no such span. */
    int (*region_find)(void *context, uint32_t id, uint64_t offset, uint64_t bytes, void **memory,
                       struct br_region **region);
    void (*region_done)(void *context, struct br_region *region);
    /* Of memory of a GPU, of a region, to host memory or from there: what goes by other hosts
     * (doc/design/relaying.md, section 10). Returns when the bytes stand there; negative errno with
     * a message, which ends the worker. NULL: frames of such regions do not go that way. */
    int (*region_copy)(void *context, bool to_gpu, void *to, const void *from, uint32_t bytes);
    void *region_context;
    struct br_target_hooks target; /* for memory of GPUs, with the same context */
};

/* What a peer offers for one rail. */
struct br_rail_config {
    int device;                /* index of our device */
    struct br_address address; /* of the peer's device */
    int level;                 /* for error messages: of the network that both devices are on */
    uint64_t turn; /* ns; after which both ends have had a core; 0: they have their own */
    /* bytes; of its window (doc/design/rails.md, section 1), if that is more than the usual least;
     * 0: the usual one */
    uint32_t least_window;
};

/* Pools that grow have room for so many times max_transfers at most. */
#define BR_WORKER_CHUNKS 256u

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

/* Writes into text[bytes] that `rank` and we, `self`, disagree about the operation of this tag. */
typedef void br_disagreement_text(int rank, int self, uint64_t tag, const struct br_call *theirs,
                                  const struct br_call *ours, char *text, size_t bytes);
/* What the engine knows of receives that are no transfers yet (match.c, note 5). NULL: there are
 * none. Called within br_worker_poll(). */
struct br_p2p_hooks {
    void *context;
    /* Has a receive of ours taken the number of this tag from that rank? */
    bool (*is_taken)(void *context, int rank, uint64_t tag);
    /* A put of the rank has been carried out that notifies the program of this group. 0, or
     * -ENOMEM with a message, which fails the worker. */
    int (*notified)(void *context, uint32_t group, int rank, uint64_t value);
    /* The rank has left the job in good order; fails the worker if a receive waits for it. */
    void (*left)(void *context, int rank);
};

/* A point-to-point message that has arrived, or been announced, and that no transfer expects. */
struct br_arrival {
    int peer;          /* rank */
    uint64_t tag;      /* message.h; of its first part */
    uint64_t bytes;    /* of the whole message */
    uint32_t sequence; /* for br_worker_arrived_before() */
    uint64_t number;   /* of the arrival in this process, from br_worker.next_arrival */
};

/* Operations; ranks are closer together than that. Credits bound how many of them early EAGERs are
 * of, and the fragments that a rank has under way, 64 (collectives/engine/engine.h), early READYs.
 */
#define BR_AGREED 256u

/* Lists of receives that wait for a slot, in the order in which they get one. */
enum br_slotless {
    BR_SLOTLESS_OTHERS,   /* of collectives and one-sided accesses */
    BR_SLOTLESS_EXPECTED, /* the sender says that it waits (waiting.c) */
    BR_SLOTLESS_P2P,      /* the other point-to-point ones */
    BR_SLOTLESS,
};

/* ns that the peers of a worker that fails have to hear why, on a busy machine too (shutdown.c) */
#define BR_ABORT_LINGER BR_SEC

struct br_unauthenticated; /* an incoming link that has not yet proved who it is (connect.c) */

/* The region that br_worker_shared() has found last: most accesses are to the one before theirs. */
struct br_reached {
    const struct br_peer *peer; /* NULL: none */
    uint32_t id;
    uint32_t unshared; /* of `device`, when it was found */
    const struct br_device *device;
    struct br_shared shared;
};

struct br_worker {
    struct br_worker_config config;
    struct br_device *devices[BR_MAX_DEVICES];
    struct br_device_config device_configs[BR_MAX_DEVICES];
    int n_devices;
    struct br_slot_table slots;
    struct br_peer *peers; /* [size]; those without rails, as our own, are nothing but zeroes */
    struct br_list known;  /* the peers whose rails are in use, by their first use */
    int n_waited;          /* peers not yet UP for the first time */
    bool several_rails;    /* a peer has more than one, alternate routes not counted */
    int *left;             /* [size]; with config.on_demand: ranks that have left, n_left */
    int n_left;
    bool tree_broken; /* on demand: this rank has links with all, to close a gap in the tree */
    struct br_table receives;  /* (tag, peer) -> posted receive, or unexpected message (match.c) */
    struct br_table sends;     /* (tag, peer) -> send that waits for READY, or unexpected READY */
    struct br_table confirms;  /* (slot number, peer) -> send that waits for DONE */
    uint64_t late_allocations; /* of the first two */
    struct br_pool flights;
    struct br_growing_pool unexpected, services;
    struct br_put_batches puts;
    struct br_list arrivals; /* unexpected messages point to point, as they came */
    uint64_t next_arrival;   /* number of the next of them */
    uint64_t p2p_messages;   /* numbered messages point to point that have come, READYs included */
    uint64_t crowded;        /* unexpected messages that have come where many wait (match.c) */
    struct br_p2p_hooks p2p;
    struct br_agreed agreed[BR_AGREED];
    br_disagreement_text *disagreement_text; /* the engine's; NULL: messages name digests */
    /* ns; a rank disagrees and has been told our arguments. It fails the job with both sides'
     * arguments, or we do at this time, with the text `disputed`; 0: no rank disagrees */
    uint64_t dispute_until;
    char disputed[320];
    struct br_list done;                  /* ended transfers, for the engine */
    struct br_list slotless[BR_SLOTLESS]; /* large receives that wait for a free slot */
    struct br_list active; /* peers with something to send, in the order of their activation */
    uint64_t activations;
    /* Those of which a pump would find what the last one found, as all that they have to send is
     * data and the windows of their rails are used up, until an event of the peer, a timer or
     * blocked_until (ns). Of many peers most are here most of the time, and to look at one takes
     * ten cache lines. */
    struct br_list blocked;
    uint64_t blocked_until;
    bool blocked_shared; /* their rails are (br_peer.shared) */
    /* frames were posted outside a pump, and their device sends them at its next poll */
    bool flush_due;
    struct br_unauthenticated *unauthenticated;   /* [n_unauthenticated] places */
    int n_unauthenticated, fresh_unauthenticated; /* fresh: the first one that was never taken */
    struct br_list unauthenticated_links;         /* places that are taken, the oldest first */
    struct br_list unauthenticated_free;
    struct br_log_limit refusals; /* log lines about them */
    struct br_relay *relay;       /* NULL: no relaying (relay.h) */
    /* lost links, closed when the present batch of events is through (note 2) */
    struct br_link **deferred;
    uint32_t n_deferred, max_deferred;
    bool in_batch;
    struct br_random random; /* only with config.seed */
    /* the largest `order` of a transfer so far: transfers for requests of peers come after it */
    uint64_t newest;
    /* of the transfer that was submitted last, and when, ns */
    int32_t priority;
    uint64_t priority_at;
    /* ns; until then rails keep little in flight, as transfers of several priorities share them
     * (doc/design/rails.md, section 7) */
    uint64_t shared_until;
    uint64_t now; /* ns, of this pass */
    uint64_t last_timers;
    /* ns; a thread may sleep until then, as it was told (next_timer); 0: none does */
    uint64_t promised;
    /* a rail owes credits (br_rail_owes_credits()) since the last look at the timers */
    bool owes_credits;
    struct br_reached reached;
    int failed; /* 0, or the negative errno of what ended it */
    char message[320];
    /* failed, but links are still open: peers are being told; nothing may end yet */
    bool fail_due;
    uint64_t fail_at; /* then: they are closed at this time at the latest, ns; 0: not yet begun */
    bool leaving;
    struct br_worker_counters {
        uint64_t failed_handshakes, dropped_messages, copied_bytes, direct_bytes, mapped_bytes;
        uint64_t credit_stalls;                 /* pumps whose head of a queue had no credit */
        uint64_t slot_stalls;                   /* large receives that had to wait for a slot */
        uint64_t relayed_frames, relayed_bytes; /* passed on for others */
        uint64_t relay_stalls; /* times all of them had to wait for a buffer at the next host */
        uint64_t unreachable;  /* routes that broke here, or beyond */
        /* rails left out of a transfer because their device could make no remote key */
        uint64_t skipped_rails;
    } counters;
};

/* On success *worker is the caller's until br_worker_destroy(). *config is copied. -ENOMEM or
 * another errno with a message. */
int br_worker_create(const struct br_worker_config *config, struct br_worker **worker);
/* Closes links and devices; may block in the back ends. Transfers still posted are forgotten: their
 * memory is the caller's again. NULL is allowed. */
void br_worker_destroy(struct br_worker *worker);

/* Before br_worker_set_peer(). Opens a device (name as in br_device_config); *index is what
 * br_rail_config.device takes. Blocks as the back end does. -E2BIG, -ENOMEM, or the back end's
 * error, with a message. */
int br_worker_open_device(struct br_worker *worker, const struct br_transport_ops *ops,
                          const char *name, void *simulation, int *index);
/* Gives a peer its rails; the side with the larger rank connects. Transfers to a peer without rails
 * end at once (-EHOSTUNREACH), unless config.cube says how to relay: then only neighbours are set,
 * with one rail each. -EINVAL, -ENOMEM with a message. */
int br_worker_set_peer(struct br_worker *worker, int rank, const struct br_rail_config *rails,
                       int n_rails);

/* Are there rails to the peer, and do all of them begin at these devices (a bit each, by
 * br_device.index) as long as no rail is lost? false while the peer is reached by relaying alone.
 */
bool br_worker_uses_only(const struct br_worker *worker, int rank, uint32_t devices);

/* The bandwidth-delay product of all rails together, bytes: the most that each has delivered in a
 * round trip of late (br_rail.volume), for its least round trip. */
uint64_t br_worker_path_bytes(const struct br_worker *worker);

/* true when every rail of every peer has been up whose links are not made on demand. */
bool br_worker_connected(const struct br_worker *worker);
/* Writes into text[bytes] a few of the peers and rails that are not connected, each with its last
 * error. */
void br_worker_missing(const struct br_worker *worker, char *text, size_t bytes);

/* A collective operation begins here. Fails the worker when another rank has begun it with other
 * arguments. sequence: its number in the group, not cut to the tag's bits. check: the digest of the
 * arguments. call: the arguments in full; NULL: an error message names digests. */
void br_worker_begins(struct br_worker *worker, uint32_t group, uint64_t sequence, uint16_t check,
                      const struct br_call *call);
/* A collective that has begun is a part of the one with the tag `whole`, and its `call` is that of
 * the whole: errors name that one. */
void br_worker_is_part(struct br_worker *worker, uint32_t group, uint64_t sequence, uint64_t whole);
/* A collective that has begun waits outside the worker for `rank`: tells that rank, so that it
 * notices if it has begun another one. */
void br_worker_waits_for(struct br_worker *worker, int rank, uint32_t group, uint64_t sequence,
                         uint16_t check, const struct br_call *call);
/* A group ends: forgets its operations. */
void br_worker_forget_group(struct br_worker *worker, uint32_t group);
/* The numbers of a group are about to repeat: forgets its operations before `sequence`, but not
 * what other ranks have begun already. */
void br_worker_forget_before(struct br_worker *worker, uint32_t group, uint64_t sequence);

/* The unexpected messages point to point, one after the other in the order of their arrival, those
 * of one peer in the order in which they left it. *at: NULL before the first call. false: there are
 * no more. None may be received between two calls. */
bool br_worker_next_arrival(const struct br_worker *worker, const struct br_list **at,
                            struct br_arrival *arrival);
/* The one with this tag from this rank. false: it is not here. */
bool br_worker_find_arrival(const struct br_worker *worker, uint64_t tag, int rank,
                            struct br_arrival *arrival);
/* Has every message point to point arrived that the rank sent before the one with this sequence?
 * Else one is still on its way over another rail. */
bool br_worker_arrived_before(struct br_worker *worker, int rank, uint32_t sequence);
/* Is every numbered message point to point that was sent to the rank known to have arrived? Else
 * asks the rank; the answer comes in later passes. */
bool br_worker_all_arrived(struct br_worker *worker, int rank);
/* Copies the rank's unexpected messages out of the receive buffers where they hold so many that
 * further ones may not come. Allocates. Returns how many were copied. Fails the worker when there
 * is no memory. */
int br_worker_set_aside(struct br_worker *worker, int rank);

/* A small message, of a program or of a collective, to a rank with one rail leaves at once, if
 * nothing else waits to leave to it, without a transfer. false: it has to be sent as one. Devices
 * that are armed stay so; a pass is due (br_worker_is_due()) if the device must be polled for it to
 * leave. Where no memory is mapped this may be a cancellation point. priority: as
 * br_transfer.priority; it is not queued, but those in queues may be of others. */
bool br_worker_send_at_once(struct br_worker *worker, int rank, uint64_t tag, uint16_t check,
                            const void *memory, uint32_t length, int32_t priority);
/* Is there nothing in the way of such a message but that the rank, whose memory is mapped, has
 * given no credit for it? */
bool br_worker_lacks_credit(const struct br_worker *worker, int rank);

/* A small point-to-point message of a rank whose memory is mapped that goes from the receive buffer
 * to its place without a transfer. */
struct br_awaited {
    struct br_list node; /* in the peer's list; when it has come, in `ended` */
    uint64_t tag;
    int rank;
    uint32_t length;
    uint16_t check;
    bool came;
    void *memory;
    struct br_list *ended; /* where it is put when it has come; NULL: in no list */
};
enum br_received {
    BR_RECEIVED_NOT, /* nothing has happened: it has to be a transfer */
    BR_RECEIVED,     /* it was here */
    BR_RECEIVED_LATER,
};
/* Receives one that is here if its length and digest are those. One that is not here is awaited
 * from now on if the caller `waits`, until it has come or is taken out of its list; what comes with
 * another length or digest is kept as any other, for the transfer that its owner makes of it. None
 * is awaited if the rank is not near, if such a message is large, or if the rank may lack a credit,
 * which a transfer would ask for. */
enum br_received br_worker_receive(struct br_worker *worker, struct br_awaited *awaited,
                                   bool waits);
/* Looks at the device of its rank only. One message after the other is taken in until that one has
 * come, so that those behind it find their receives. now: the time, ns. Never blocks. */
void br_worker_look(struct br_worker *worker, const struct br_awaited *awaited, uint64_t now);
/* Does this rank map memory of ours, over a link that is up? */
bool br_worker_is_near(const struct br_worker *worker, int rank);

/* Both return how much was done; 0: nothing. now: the time, ns. They never block. */
int br_worker_poll(struct br_worker *worker, uint64_t now);
int br_worker_pump(struct br_worker *worker, uint64_t now);
/* A transfer has ended that was made here for a request of a peer (its owner is w->services). */
void br_onesided_ended(struct br_worker *w, struct br_transfer *t);
/* A request of small puts has left (its owner is w->puts). */
void br_put_batch_left(struct br_worker *w, struct br_transfer *request);
/* The next ended transfer, which is the caller's again, or NULL. */
static inline struct br_transfer *br_worker_done(struct br_worker *worker)
{
    struct br_list *node;

    while ((node = br_list_pop_front(&worker->done))) {
        struct br_transfer *t = br_container_of(node, struct br_transfer, node);

        if (t->owner == &worker->puts)
            br_put_batch_left(worker, t);
        else if (t->owner == &worker->services)
            br_onesided_ended(worker, t);
        else
            return t;
    }
    return NULL;
}

/* Is there something to pump? */
static inline bool br_worker_has_waiting(const struct br_worker *worker)
{
    return !br_list_empty(&worker->active) || !br_list_empty(&worker->blocked);
}

/* Is there something to pump or to flush, or a transfer that has ended? After a poll without an
 * event a timer may have made it so. */
static inline bool br_worker_is_due(const struct br_worker *worker)
{
    return br_worker_has_waiting(worker) || !br_list_empty(&worker->done) || worker->flush_due;
}

/* Ends the worker with an error (> 0) and a text for error messages. Its next polls tell all peers
 * by ABORT and close all links, which takes until the peers have answered, BR_ABORT_LINGER at most;
 * then fail_due is false. Of several calls the first one's error and text stay. */
void br_worker_fail(struct br_worker *worker, int error, const char *text);
/* Leaves in good order: BYE to all; br_worker_left() is true when all peers have said BYE too or
 * are gone. */
void br_worker_leave(struct br_worker *worker);
bool br_worker_left(const struct br_worker *worker);

/* The neighbours in a BCube that have not left and whose rail is down: bit level * (n - 1) + i for
 * neighbour i of a level (bcube/address.h). 0 without relaying, and where there are more than 64
 * neighbours. */
uint64_t br_worker_broken_links(const struct br_worker *worker);

/* ns for which the rail has waited for this, up to `now` (rail.c). */
uint64_t br_stall_time(const struct br_rail *rail, enum br_stall stall, uint64_t now);

/* Names the rows of all rails in config.trace, which must not be NULL, after the rails were set.
 * Not on the data path. */
void br_tracing_name(const struct br_worker *worker);

/* From now on a rank that maps memory gets at this region of ours without us (br_worker_shared()).
 * Returns false: not over its link, or not yet. */
bool br_worker_share(const struct br_worker *worker, int rank, const struct br_region *region);

/* Finds the rank's region `id` where this process reads and writes it by itself, and keeps it in
 * worker->reached if it can be found there again. Returns false: it does not, or not yet. */
bool br_worker_find_shared(struct br_worker *worker, int rank, uint32_t id,
                           struct br_shared *shared);

/* Where this process reads and writes [offset, offset + bytes) of the rank's region `id` by itself,
 * until the lock is given up; NULL: it cannot, or not yet. */
static inline void *br_worker_shared(struct br_worker *worker, int rank, uint32_t id,
                                     uint64_t offset, uint64_t bytes)
{
    const struct br_reached *reached = &worker->reached;
    struct br_shared shared;

    if (reached->peer == &worker->peers[rank] && reached->id == id &&
        reached->peer->state == BR_PEER_UP && !worker->failed &&
        reached->unshared == reached->device->unshared &&
        atomic_load_explicit(reached->shared.place, memory_order_acquire) == reached->shared.id) {
        shared.base = reached->shared.base;
        shared.bytes = reached->shared.bytes;
    } else if (!br_worker_find_shared(worker, rank, id, &shared)) {
        return NULL;
    }
    return offset <= shared.bytes && bytes <= shared.bytes - offset ? shared.base + offset : NULL;
}

#define BR_TIMER_PERIOD (1 * BR_MS) /* timers are looked at once a period at most */

/* When the next timer is due, or config.sleep_max is over, ns; UINT64_MAX: never. For the simulator
 * and for sleeping: a worker that is not polled until then does not count as starved
 * (doc/design/failures.md, section 4). */
uint64_t br_worker_next_timer(struct br_worker *worker);
/* Was a timer set for the next look at the timers, though a thread sleeps that was told a later
 * time? Then it is to be woken. */
static inline bool br_worker_timer_is_early(const struct br_worker *worker)
{
    return worker->owes_credits && worker->promised > worker->last_timers + BR_TIMER_PERIOD;
}
/* A time (ns) before which no timer is due, whatever happens meanwhile. Cheaper: it does not look
 * at the rails. */
uint64_t br_worker_no_timer_before(const struct br_worker *worker);

#endif
