/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The back end verbs: RDMA NICs, reliable connections. A MESSAGE is a SEND into the shared receive
 * queue, DATA is an RDMA WRITE WITH IMMEDIATE to the address in the remote key (rkey.h). A device
 * has one completion queue; link_close() fences by destroying the queue pair and emptying that
 * queue.
 *
 * The numbered notes are in doc/design/verbs.md.
 */
#ifndef BR_TRANSPORT_VERBS_VERBS_H
#define BR_TRANSPORT_VERBS_VERBS_H

#include <netinet/in.h>

#include "base/list.h"
#include "base/pool.h"
#include "base/table.h"
#include "transport/inet.h"
#include "transport/transport.h"
#include "transport/verbs/bounce.h"
#include "transport/verbs/classes.h"
#include "transport/verbs/gid.h"
#include "transport/verbs/rkey.h"
#include "transport/verbs/library.h"
#include "transport/verbs/wire.h"

/* Work requests of one queue pair that may be outstanding, at most */
#define BR_VERBS_DEPTH    128u
#define BR_VERBS_MESSAGES 0u  /* the lane of all SENDs */
#define BR_VERBS_CHUNKS   256 /* pieces in which receive buffers are allocated, at most */
#define BR_VERBS_RECENT   64u /* queue pairs whose link is found without the table */

/* What hardly a frame comes through: kept out of the functions that all of them do. */
#define BR_VERBS_RARE __attribute__((noinline, cold))

struct br_verbs_link;

/* What we know of a receive buffer, apart from its memory, which a write leaves cold. In the shared
 * queue, or in one of the lists named at `node`. */
struct br_verbs_buffer {
    struct br_list node;           /* device->spare, device->lent, link->inbox, link->held */
    struct br_frame_header *frame; /* the NIC's; the payload behind it */
    uint32_t lkey;
    /* bytes received, the header included; written: of the place */
    uint32_t length;
    uint32_t imm;                     /* written: host order */
    bool written;                     /* an RDMA write; nothing came into this buffer */
    uint8_t inline_[BR_FRAME_INLINE]; /* of DATA */
};

/* The shared receive queue and its buffers. */
struct br_verbs_receive {
    struct ibv_srq *srq;
    uint32_t target;       /* buffers that ought to stand in the queue */
    uint32_t posted;       /* that do, or are filled and not polled yet */
    uint32_t refilled;     /* of them since the limit event was asked for, when it was full */
    uint32_t slack;        /* that may be missing before it is filled up */
    uint32_t total, max;   /* allocated, and at most */
    uint32_t buffer_bytes; /* of memory, from one to the next */
    uint32_t wire_bytes;   /* what the NIC may fill: header and payload */
    uint32_t lost;         /* note 4 */
    uint32_t failures;     /* times that there was no memory for more */
    uint64_t next_try;     /* ns: not before that */
    bool armed;            /* the limit event is asked for */
    struct br_list spare;
    struct br_verbs_chunk {
        void *memory;
        struct br_verbs_buffer *buffers;
        struct ibv_mr *mr;
    } chunks[BR_VERBS_CHUNKS];
    int n_chunks;
};

/* What was posted, in order. */
struct br_verbs_entry {
    uint64_t cookie;
    uint32_t length; /* payload */
    void *copy;      /* goes back to device->copies; NULL: none, or the work request is done */
    void *bounce;    /* goes back to device->tx; the same */
    bool reports;    /* yields a SENT: the last work request of a frame */
    bool early;      /* its memory is not needed any more */
};

/* One queue pair of a link: that of a priority class. */
struct br_verbs_lane {
    struct ibv_qp *qp; /* NULL: none yet */
    /* of its work requests, without the count: see struct br_verbs_work */
    uint64_t id;
    /* an RDMA write with immediate, but for what changes with each, as is `sge` */
    struct ibv_send_wr write;
    struct ibv_sge sge;
    struct br_verbs_entry entries[BR_VERBS_DEPTH];
    uint32_t posted, done, reported; /* free-running: done, reported <= posted */
    /* `posted` may rise to this before br_verbs_has_room() has to look */
    uint32_t until;
    uint32_t unsignalled; /* since the last that asks for a completion */
};

/* A frame that goes piece by piece. */
struct br_verbs_pieces {
    struct br_frame frame; /* kind 0: none. Its inline_ is `header`'s */
    struct br_frame_header header;
    uint32_t sent; /* payload bytes of it */
};

enum br_verbs_link_state {
    BR_VLINK_CONNECTING, /* the exchange is under way */
    BR_VLINK_UP,
    BR_VLINK_FAILED,
};

struct br_verbs_link {
    struct br_link base;
    enum br_verbs_link_state state;
    int index;       /* in device->open */
    uint32_t number; /* in device->links */
    int error;       /* FAILED: negative errno */
    bool accepted;   /* made by the peer */
    bool reported;   /* the caller knows of the state */
    bool known;      /* the caller knows of the link */
    bool hung_up;    /* the peer has ended the connection */
    bool silent;     /* FAILED: what still stands in the inbox is not to be reported */

    int fd;                /* TCP; -1: none */
    struct rdma_cm_id *id; /* rdma_cm; NULL: none */
    uint64_t deadline;
    struct br_verbs_hello hello; /* the peer's, as far as it has come */
    uint32_t hello_bytes;
    bool hello_sent;

    uint32_t psn; /* of the first packet of each lane; with rdma_cm, of all but the first */
    uint32_t max_inline;
    /* the peer's receive buffers, header included, or ours if they are smaller */
    uint32_t piece_bytes;
    bool opened;    /* the peer may write, and knows it */
    bool may_write; /* we may */

    struct br_list ready; /* in device->ready: has something to report, perhaps */
    struct br_list inbox, held;
    uint32_t n_inbox, n_held;
    struct br_frame_header partial; /* DATA in several SENDs: its header, */
    uint32_t partial_bytes;         /* and what of its payload has come; 0: none */
    struct br_verbs_pieces pieces;  /* on their way out */
    struct br_verbs_lane lanes[];   /* [device->classes.n], the most urgent first */
};

struct br_verbs_device {
    struct br_device base;
    const struct br_verbs_library *library;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_comp_channel *channel;
    uint8_t port;
    struct ibv_port_attr attr;
    struct ibv_device_attr limits;
    bool dead;           /* the device has failed for good */
    struct br_gid *gids; /* of the port */
    struct br_gid_choice choice;

    union br_inet_address address; /* where we listen */
    int listen_fd, epoll_fd;
    struct br_verbs_cm { /* all NULL: connections are made over TCP */
        struct rdma_event_channel *channel;
        struct rdma_cm_id *listener;
    } cm;
    bool check_events;   /* sockets and events are looked at in the next poll */
    uint64_t now;        /* of the last poll */
    uint64_t next_check; /* ns */
    uint32_t n_polls;
    int n_exchanges; /* links that are connecting */
    int n_closed;    /* links whose peer may not write yet */

    struct br_pool links;
    struct br_verbs_link **open; /* in use: [0..n_open) */
    int n_open;
    struct br_table numbers; /* qp_num -> link, of all lanes */
    struct br_verbs_recent { /* of these some, by qp_num % BR_VERBS_RECENT; empty: zero */
        uint32_t qp_num;
        struct br_verbs_link *link;
    } recent[BR_VERBS_RECENT];
    struct br_list ready;
    struct br_list lent; /* buffers whose inline bytes the caller may read until the next poll */
    struct br_verbs_receive receive;
    struct br_verbs_registrar registrar;
    struct br_verbs_bounce tx, rx; /* for memory without keys: sent from, received into */
    struct br_pool copies;         /* messages on their way out, header included */
    struct ibv_mr *copies_mr;
    void **staging;  /* by slot index: where in rx the slot's bytes arrive; NULL: in their place */
    int n_pushing;   /* links with a frame that goes in pieces */
    uint32_t depth;  /* work requests of a queue pair */
    uint8_t timeout; /* of queue pairs, as ibv_modify_qp counts it */
    struct br_verbs_classes classes;
};

static inline struct br_verbs_device *br_verbs_device_of(const struct br_verbs_link *link)
{
    return (struct br_verbs_device *)link->base.device;
}

static inline size_t br_verbs_link_bytes(const struct br_verbs_device *device)
{
    return sizeof(struct br_verbs_link) + device->classes.n * sizeof(struct br_verbs_lane);
}

/* The number of a work request says whose completion it is: bit 63 (it was posted on a link), lane
 * (7 bits), link (24), count. */
struct br_verbs_work {
    uint32_t link, number;
    unsigned lane;
};

static inline uint64_t br_verbs_lane_id(uint32_t link, unsigned lane)
{
    return 1ull << 63 | (uint64_t)lane << 56 | (uint64_t)link << 32;
}

static inline struct br_verbs_work br_verbs_work_of(uint64_t id)
{
    return (struct br_verbs_work){.link = (uint32_t)(id >> 32) & 0xffffff,
                                  .number = (uint32_t)id,
                                  .lane = (unsigned)(id >> 56) & 0x7f};
}

static inline void br_verbs_link_is_ready(struct br_verbs_link *link)
{
    if (br_list_empty(&link->ready))
        br_list_push_back(&br_verbs_device_of(link)->ready, &link->ready);
}

/* receive.c */
int br_verbs_receive_init(struct br_verbs_device *device);
void br_verbs_receive_destroy(struct br_verbs_device *device);
/* Is it to be filled up now? At once if there is time for it, else when more than a few buffers are
 * missing. */
static inline bool br_verbs_receive_is_short(const struct br_verbs_receive *receive, bool idle)
{
    return receive->posted + (idle ? 0 : receive->slack) < receive->target;
}
/* All buffers of a list. */
static inline void br_verbs_receive_return(struct br_verbs_device *device, struct br_list *list)
{
    struct br_list *node;

    while ((node = br_list_pop_front(list)))
        br_list_push_back(&device->receive.spare, node);
}
/* Fills the shared queue up; a device that takes no buffers is given up. */
void br_verbs_receive_refill(struct br_verbs_device *device);
/* The queue has fewer buffers than we thought: IBV_EVENT_SRQ_LIMIT_REACHED. */
void br_verbs_receive_limit(struct br_verbs_device *device);

/* link.c; all under the worker's lock, none blocks. */
struct br_verbs_link *br_verbs_link_make(struct br_verbs_device *device,
                                         /* NULL with a message */
                                         const union br_inet_address *peer);
void br_verbs_link_close(struct br_link *link);
/* Whose queue pair it is; NULL: one that has been destroyed. */
BR_VERBS_RARE struct br_verbs_link *br_verbs_link_find(struct br_verbs_device *device,
                                                       uint32_t qp_num);
static inline struct br_verbs_link *br_verbs_link_of(struct br_verbs_device *device,
                                                     uint32_t qp_num)
{
    const struct br_verbs_recent *recent = &device->recent[qp_num % BR_VERBS_RECENT];

    return recent->qp_num == qp_num ? recent->link : br_verbs_link_find(device, qp_num);
}
/* Lost: error is negative. CLOSED follows when what has arrived before is reported, or at once if
 * `silent`. */
BR_VERBS_RARE void br_verbs_link_fail(struct br_verbs_link *link, int error, bool silent,
                                      const char *why);
/* The same for a work request that has failed. */
void br_verbs_link_fail_by(struct br_verbs_link *link, const struct ibv_wc *wc);
/* Makes the queue pairs, in state INIT; or from there to RTS with the peer's hello. 0 or -errno
 * with a message. */
int br_verbs_link_create(struct br_verbs_link *link);
int br_verbs_link_ready(struct br_verbs_link *link);
/* The exchange has come through; or to nothing: our own is reported, an unauthenticated peer's is
 * not, and is gone after the call. */
void br_verbs_link_up(struct br_verbs_link *link);
void br_verbs_link_give_up(struct br_verbs_link *link, int error, const char *why);
/* Lets the peers of links that the protocol trusts by now write, and tells them. */
void br_verbs_open_links(struct br_verbs_device *device);

/* gpu_check.c */
int br_verbs_gpu_check(const struct br_device_config *config, struct br_region *region, size_t from,
                       size_t to, size_t bytes);

/* connect.c */
int br_verbs_listen(struct br_verbs_device *device);
int br_verbs_link_connect(struct br_device *device, const struct br_address *address,
                          struct br_link **out);
void br_verbs_accept(struct br_verbs_device *device);
void br_verbs_socket_event(struct br_verbs_link *link, uint32_t events);
/* Drops those whose exchange takes too long. */
void br_verbs_exchange_timers(struct br_verbs_device *device);
int br_verbs_address(struct br_device *device, struct br_address *out);

/* What a peer has to know, but for the GIDs. */
void br_verbs_hello_fill(const struct br_verbs_link *link, struct br_verbs_hello *hello);

/* connect_cm.c: the same by rdma_cm. 0 or -errno with a message. */
int br_verbs_cm_listen(struct br_verbs_device *device);
void br_verbs_cm_destroy(struct br_verbs_device *device);
int br_verbs_cm_connect(struct br_verbs_link *link, const union br_inet_address *peer);
void br_verbs_cm_events(struct br_verbs_device *device);
/* What rdma_cm knows of the way to the peer, and of the one queue pair that it connects: the first
 * lane's. */
int br_verbs_cm_path(struct br_verbs_link *link, struct ibv_qp_attr *attr);
/* Tells the peer; then frees what rdma_cm has of the link. Without effect on others. */
void br_verbs_cm_disconnect(struct br_verbs_link *link);
void br_verbs_cm_close(struct br_verbs_link *link);

/* post.c */
/* What a work request that is done has of the device's memory. */
void br_verbs_entry_release(struct br_verbs_device *device, struct br_verbs_entry *entry);
static inline void br_verbs_entry_done(struct br_verbs_device *device, struct br_verbs_entry *entry)
{
    if (entry->copy || entry->bounce)
        br_verbs_entry_release(device, entry);
}
/* For one work request more? */
bool br_verbs_has_room(const struct br_verbs_link *link, struct br_verbs_lane *lane);
int br_verbs_post(struct br_link *link, const struct br_frame *frames, int n);
/* The next pieces of a frame that goes piece by piece. */
void br_verbs_push(struct br_verbs_link *link);
/* For device_close(): true while something that was posted has not left. */
bool br_verbs_flush(struct br_verbs_link *link);
/* Tells the peer that it may write. There must be room; fails the link if it cannot be posted. */
void br_verbs_send_open(struct br_verbs_link *link);

/* poll.c */
int br_verbs_poll(struct br_device *device, uint64_t now, struct br_event *events, int max);
/* Takes all completions to their links. */
void br_verbs_drain(struct br_verbs_device *device);
int br_verbs_wait(struct br_device *device);
void br_verbs_wake(struct br_device *device);
void br_verbs_message_release(struct br_link *link, void *buffer);

/* events.c: asynchronous events of the device. */
void br_verbs_events(struct br_verbs_device *device);
/* It is given up for good: its links fail, new ones are refused. */
void br_verbs_device_fail(struct br_verbs_device *device, const char *why);

/* memory without and with keys: rkey.c */
int br_verbs_rkey_make(struct br_device *device, struct br_slot *slot,
                       uint8_t token[BR_RKEY_BYTES]);
void br_verbs_rkey_release(struct br_device *device, struct br_slot *slot);

/* device.c: chooses the GIDs anew. 0 or -errno with a message. */
int br_verbs_choose_gids(struct br_verbs_device *device);

#endif
