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

/* The most work requests of one queue pair that are outstanding. */
#define BR_VERBS_DEPTH    128u
#define BR_VERBS_MESSAGES 0u  /* The lane of all SENDs. */
#define BR_VERBS_CHUNKS   256 /* The most allocations of receive buffers. */
#define BR_VERBS_RECENT   64u /* Entries of br_verbs_device.recent. */

/* For functions that are rarely called, to keep them out of those that each frame goes through. */
#define BR_VERBS_RARE __attribute__((noinline, cold))

struct br_verbs_link;

/* A receive buffer, apart from its memory, which is not touched when an RDMA write has used the
 * buffer up. It is in the shared receive queue, or in one of the lists named at `node`. */
struct br_verbs_buffer {
    struct br_list node; /* In device->receive.spare, device->lent, link->inbox or link->held. */
    struct br_frame_header *frame; /* The memory: a header, and the payload behind it. */
    uint32_t lkey;                 /* The NIC's key of the memory. */
    /* Bytes received, the header included; with `written`, bytes that were written. */
    uint32_t length;
    uint32_t imm; /* With `written`: the immediate, in host order. */
    bool written; /* An RDMA write has used the buffer up; nothing was written to the buffer. */
    uint8_t inline_[BR_FRAME_INLINE]; /* DATA: for br_event.inline_. */
};

/* The shared receive queue and its buffers. */
struct br_verbs_receive {
    struct ibv_srq *srq;
    uint32_t target; /* Buffers that the queue should have. */
    uint32_t posted; /* Buffers that it has, or that were filled and not polled yet. */
    /* Buffers posted since the limit event was armed, at which time the queue was full. */
    uint32_t refilled;
    uint32_t slack;        /* So many may be missing before the queue is filled up. */
    uint32_t total, max;   /* Buffers that are allocated, and the most that will be. */
    uint32_t buffer_bytes; /* Bytes from one buffer to the next. */
    uint32_t wire_bytes;   /* Bytes of a buffer that the NIC may fill: header and payload. */
    uint32_t lost;         /* Buffers that went with failed queue pairs. */
    uint32_t failures;     /* How often there was no memory for more buffers. */
    uint64_t next_try;     /* Memory is not allocated again before this time, ns. */
    bool armed;            /* The limit event of the queue is armed. */
    struct br_list spare;  /* Buffers that can be posted. */
    struct br_verbs_chunk {
        void *memory;                    /* Owned. */
        struct br_verbs_buffer *buffers; /* Owned. */
        struct ibv_mr *mr;
    } chunks[BR_VERBS_CHUNKS];
    int n_chunks;
};

/* A work request that was posted. */
struct br_verbs_entry {
    uint64_t cookie; /* br_frame.cookie. */
    uint32_t length; /* Bytes of payload. */
    void *copy;      /* A buffer of device->copies, or NULL. Given back when the request is done. */
    void *bounce;    /* A piece of device->tx, or NULL. Given back when the request is done. */
    bool reports;    /* It is the last work request of a frame: SENT is reported. */
    bool early;      /* SENT may be reported before it is done. */
};

/* One queue pair of a link: that of a priority class. */
struct br_verbs_lane {
    struct ibv_qp *qp; /* NULL before it is made. */
    uint64_t id; /* The number of its work requests without their count: br_verbs_lane_id(). */
    /* An RDMA write with immediate, of which each frame sets what is its own; it uses `sge`. */
    struct ibv_send_wr write;
    struct ibv_sge sge;
    struct br_verbs_entry entries[BR_VERBS_DEPTH]; /* By count modulo BR_VERBS_DEPTH. */
    /* How many work requests were posted, are done, and were looked at for SENT; modulo 2^32. */
    uint32_t posted, done, reported;
    /* `posted` may rise to this value before br_verbs_has_room() has to compute again. */
    uint32_t until;
    uint32_t unsignalled; /* Work requests since the last one that asks for a completion. */
};

/* A frame that is sent as several SENDs. */
struct br_verbs_pieces {
    struct br_frame frame; /* Its kind is 0 when there is none. Its inline_ points into `header`. */
    struct br_frame_header header;
    uint32_t sent; /* Bytes of its payload that were posted. */
};

enum br_verbs_link_state {
    BR_VLINK_CONNECTING, /* The hellos are being exchanged. */
    BR_VLINK_UP,
    BR_VLINK_FAILED,
};

/* A link; a block of device->links. */
struct br_verbs_link {
    struct br_link base;
    enum br_verbs_link_state state;
    int index;       /* In device->open. */
    uint32_t number; /* In device->links. */
    int error;       /* BR_VLINK_FAILED: a negative errno. */
    bool accepted;   /* The peer has made the link. */
    bool reported;   /* The caller knows of the state. */
    bool known;      /* The caller knows of the link. */
    bool hung_up;    /* The peer has ended the connection. */
    bool silent;     /* BR_VLINK_FAILED: what is in the inbox is not reported. */

    int fd;                      /* The TCP socket, or -1. */
    struct rdma_cm_id *id;       /* The connection of rdma_cm, or NULL. */
    uint64_t deadline;           /* When the exchange has to be complete, ns. */
    struct br_verbs_hello hello; /* The first hello_bytes of the peer's hello. */
    uint32_t hello_bytes;

    /* The number of the first packet of each lane; with rdma_cm, of each but the first. */
    uint32_t psn;
    uint32_t max_inline; /* The most bytes of a SEND that the work request itself can carry. */
    /* Bytes, header included, of the peer's receive buffers, or of this side's if smaller. */
    uint32_t piece_bytes;
    bool opened;    /* The peer may write, and was told so. */
    bool may_write; /* This side may write. */

    struct br_list ready;           /* In device->ready while it may have something to report. */
    struct br_list inbox, held;     /* Buffers that were received; those that the caller holds. */
    uint32_t n_inbox, n_held;       /* Their numbers. */
    struct br_frame_header partial; /* The header of a DATA frame that comes as several SENDs. */
    uint32_t partial_bytes;         /* Bytes of its payload that have come; 0 for no such frame. */
    struct br_verbs_pieces pieces;  /* The frame that is being sent as several SENDs. */
    struct br_verbs_lane lanes[];   /* device->classes.n lanes, the most urgent first. */
};

struct br_verbs_device {
    struct br_device base;
    const struct br_verbs_library *library;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_comp_channel *channel;
    uint8_t port; /* Counted from 1. */
    struct ibv_port_attr attr;
    struct ibv_device_attr limits;
    bool dead;           /* The device has failed and is not used any more. */
    struct br_gid *gids; /* The GID table of the port; owned. */
    struct br_gid_choice choice;

    union br_inet_address address; /* Where the device listens. */
    int listen_fd, epoll_fd;
    /* The event channel and the listener of rdma_cm; NULL when links connect over TCP. */
    struct br_verbs_cm {
        struct rdma_event_channel *channel;
        struct rdma_cm_id *listener;
    } cm;
    bool check_events;   /* The next poll looks at sockets and events. */
    uint64_t now;        /* The time of the last poll, ns. */
    uint64_t next_check; /* When a poll looks at sockets and events in any case, ns. */
    uint32_t n_polls;
    int n_exchanges; /* Links that are connecting. */
    int n_closed;    /* Links that are up and whose peers may not write yet. */

    struct br_pool links;        /* Blocks of br_verbs_link_bytes(). */
    struct br_verbs_link **open; /* The links in use: open[0..n_open). */
    int n_open;
    struct br_table numbers; /* The number of a queue pair -> its link; of all lanes. */
    /* Some entries of `numbers`, by number modulo BR_VERBS_RECENT; all zero for none. */
    struct br_verbs_recent {
        uint32_t qp_num;
        struct br_verbs_link *link;
    } recent[BR_VERBS_RECENT];
    struct br_list ready; /* Links that may have something to report. */
    struct br_list lent;  /* Buffers whose inline_ the caller may read until the next poll. */
    struct br_verbs_receive receive;
    struct br_verbs_registrar registrar;
    struct br_verbs_bounce tx, rx; /* For memory without keys: sent from, and received into. */
    struct br_pool copies;         /* Copies of messages that are being sent, with the header. */
    struct ibv_mr *copies_mr;      /* The keys of `copies`. */
    /* By slot index: the piece of rx that the slot's bytes arrive in, or NULL for none. */
    void **staging;
    int n_pushing;   /* Links with a frame that is being sent as several SENDs. */
    uint32_t depth;  /* The most outstanding work requests of a queue pair. */
    uint8_t timeout; /* Of queue pairs, in the unit of ibv_modify_qp(). */
    struct br_verbs_classes classes;
};

/*
 * All functions are called under the worker's lock, and none blocks, except
 * br_verbs_receive_init(), br_verbs_listen() and br_verbs_choose_gids(), which make system calls
 * that may. Those that return an int return 0, or a negative errno with a message, unless said
 * otherwise.
 */

/* Returns the device of a link. */
static inline struct br_verbs_device *br_verbs_device_of(const struct br_verbs_link *link)
{
    return (struct br_verbs_device *)link->base.device;
}

/* Returns the bytes of a link with its lanes. */
static inline size_t br_verbs_link_bytes(const struct br_verbs_device *device)
{
    return sizeof(struct br_verbs_link) + device->classes.n * sizeof(struct br_verbs_lane);
}

/* What is in the number of a work request, by which its completion finds the link: bit 63 (it was
 * posted on a link), the lane (7 bits), the link (24 bits), and the count (32 bits). */
struct br_verbs_work {
    uint32_t link, number;
    unsigned lane;
};

/* Returns the number of a lane's work requests, with the count 0. */
static inline uint64_t br_verbs_lane_id(uint32_t link, unsigned lane)
{
    return 1ull << 63 | (uint64_t)lane << 56 | (uint64_t)link << 32;
}

/* Reads the number of a work request. */
static inline struct br_verbs_work br_verbs_work_of(uint64_t id)
{
    return (struct br_verbs_work){.link = (uint32_t)(id >> 32) & 0xffffff,
                                  .number = (uint32_t)id,
                                  .lane = (unsigned)(id >> 56) & 0x7f};
}

/* Puts a link into device->ready, unless it is there. */
static inline void br_verbs_link_is_ready(struct br_verbs_link *link)
{
    if (br_list_empty(&link->ready))
        br_list_push_back(&br_verbs_device_of(link)->ready, &link->ready);
}

/* receive.c. Makes the shared receive queue and fills it. */
int br_verbs_receive_init(struct br_verbs_device *device);
/* Frees the queue and its buffers. Allowed when it was not made. */
void br_verbs_receive_destroy(struct br_verbs_device *device);
/* Returns whether the queue should be filled up now: when a buffer is missing if the poll is
 * `idle`, else when more than receive->slack are. */
static inline bool br_verbs_receive_is_short(const struct br_verbs_receive *receive, bool idle)
{
    return receive->posted + (idle ? 0 : receive->slack) < receive->target;
}
/* Moves all buffers of a list to receive.spare. */
static inline void br_verbs_receive_return(struct br_verbs_device *device, struct br_list *list)
{
    struct br_list *node;

    while ((node = br_list_pop_front(list)))
        br_list_push_back(&device->receive.spare, node);
}
/* Fills the queue up. When the NIC refuses a buffer, the device fails. */
void br_verbs_receive_refill(struct br_verbs_device *device);
/* Called at IBV_EVENT_SRQ_LIMIT_REACHED: counts the buffers that went with failed queue pairs, so
 * that they are replaced. */
void br_verbs_receive_limit(struct br_verbs_device *device);

/* link.c. Makes a link that is connecting, without queue pairs. Returns NULL with a message when
 * there is no room. The link belongs to the device until br_verbs_link_close(). */
struct br_verbs_link *br_verbs_link_make(struct br_verbs_device *device,
                                         const union br_inet_address *peer);
/* link_close() of br_transport_ops. */
void br_verbs_link_close(struct br_link *link);
/* Returns the link that has this queue pair, or NULL when the queue pair was destroyed. Looks into
 * device->numbers. */
BR_VERBS_RARE struct br_verbs_link *br_verbs_link_find(struct br_verbs_device *device,
                                                       uint32_t qp_num);
/* The same, which looks into device->recent first. */
static inline struct br_verbs_link *br_verbs_link_of(struct br_verbs_device *device,
                                                     uint32_t qp_num)
{
    const struct br_verbs_recent *recent = &device->recent[qp_num % BR_VERBS_RECENT];

    return recent->qp_num == qp_num ? recent->link : br_verbs_link_find(device, qp_num);
}
/* Fails a link. error: a negative errno. why: the reason, copied. CLOSED is reported after the
 * frames that have arrived before, or, if `silent`, without them. */
BR_VERBS_RARE void br_verbs_link_fail(struct br_verbs_link *link, int error, bool silent,
                                      const char *why);
/* Fails a link because of a work request that has failed, unless the peer has ended the
 * connection. */
void br_verbs_link_fail_by(struct br_verbs_link *link, const struct ibv_wc *wc);
/* Makes the queue pairs of a link, in the state INIT. */
int br_verbs_link_create(struct br_verbs_link *link);
/* Moves the queue pairs from INIT to RTS, by the peer's hello. */
int br_verbs_link_ready(struct br_verbs_link *link);
/* Ends the exchange of a link, which is up from then on. */
void br_verbs_link_up(struct br_verbs_link *link);
/* Ends the exchange of a link that could not be made. A link that the caller knows fails; one that
 * a peer has opened is logged and freed. error: a negative errno. */
void br_verbs_link_give_up(struct br_verbs_link *link, int error, const char *why);
/* Allows the peers that have authenticated themselves since the last call to write, and tells them
 * so. */
void br_verbs_open_links(struct br_verbs_device *device);

/* connect.c. Starts to listen. */
int br_verbs_listen(struct br_verbs_device *device);
/* link_connect() of br_transport_ops. */
int br_verbs_link_connect(struct br_device *device, const struct br_address *address,
                          struct br_link **out);
/* Accepts the connections that wait at listen_fd. */
void br_verbs_accept(struct br_verbs_device *device);
/* Goes on with the exchange of a link, or notices its end. events: those of epoll for link->fd. */
void br_verbs_socket_event(struct br_verbs_link *link, uint32_t events);
/* Ends the exchanges whose deadline has passed. */
void br_verbs_exchange_timers(struct br_verbs_device *device);
/* Writes where peers reach the device, which listens, and how they connect. */
void br_verbs_address(const struct br_verbs_device *device, struct br_address *out);

/* Fills in the hello of a link, except for the GIDs. */
void br_verbs_hello_fill(const struct br_verbs_link *link, struct br_verbs_hello *hello);

/* connect_cm.c: the same by rdma_cm. Starts to listen. */
int br_verbs_cm_listen(struct br_verbs_device *device);
/* Frees what br_verbs_cm_listen() has made. */
void br_verbs_cm_destroy(struct br_verbs_device *device);
/* Starts to connect a link to the device at `peer`. */
int br_verbs_cm_connect(struct br_verbs_link *link, const union br_inet_address *peer);
/* Takes all events of the channel. */
void br_verbs_cm_events(struct br_verbs_device *device);
/* Writes the attributes that rdma_cm gives for the first lane's queue pair, which it connects, to
 * *attr; the path to the peer is among them. */
int br_verbs_cm_path(struct br_verbs_link *link, struct ibv_qp_attr *attr);
/* Tells the peer that the link ends. Without effect on a link that is not up or has no `id`. */
void br_verbs_cm_disconnect(struct br_verbs_link *link);
/* Frees link->id. Without effect on a link that has none. */
void br_verbs_cm_close(struct br_verbs_link *link);

/* post.c. Gives back the copy and the bounce buffer of a work request that is done. */
void br_verbs_entry_release(struct br_verbs_device *device, struct br_verbs_entry *entry);
/* The same, without a call when it has neither. */
static inline void br_verbs_entry_done(struct br_verbs_device *device, struct br_verbs_entry *entry)
{
    if (entry->copy || entry->bounce)
        br_verbs_entry_release(device, entry);
}
/* Returns whether one more work request can be posted on a lane. */
bool br_verbs_has_room(const struct br_verbs_link *link, struct br_verbs_lane *lane);
/* post() of br_transport_ops. */
int br_verbs_post(struct br_link *link, const struct br_frame *frames, int n);
/* Posts what there is room for of the frame in link->pieces. */
void br_verbs_push(struct br_verbs_link *link);
/* For device_close(), which calls it until it returns false: returns true while a work request of a
 * link that is up is not done. */
bool br_verbs_flush(struct br_verbs_link *link);
/* Tells the peer that it may write. The first lane must have room. The link fails when the SEND
 * cannot be posted. */
void br_verbs_send_open(struct br_verbs_link *link);

/* poll.c. poll() of br_transport_ops. */
int br_verbs_poll(struct br_device *device, uint64_t now, struct br_event *events, int max);
/* Takes all completions from the queue to their links. */
void br_verbs_drain(struct br_verbs_device *device);
/* arm() and release() of br_transport_ops. */
int br_verbs_arm(struct br_device *device);
int br_verbs_release(struct br_device *device, struct br_link *link, void *buffer);

/* events.c. Takes all asynchronous events of the device. */
void br_verbs_events(struct br_verbs_device *device);
/* Marks the device as failed: its links fail, and new ones are refused. why: the reason, copied. */
void br_verbs_device_fail(struct br_verbs_device *device, const char *why);

/* rkey.c. rkey() of br_transport_ops. */
int br_verbs_rkey(struct br_device *device, struct br_slot *slot, uint8_t token[BR_RKEY_BYTES]);

/* device.c. Reads the GID table of the port and chooses from it. */
int br_verbs_choose_gids(struct br_verbs_device *device);

#endif
