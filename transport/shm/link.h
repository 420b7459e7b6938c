/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inside of the back end `shm`, shared by its files only.
 *
 *   device.c        operations table, open and close, accept, poll, sleeping
 *   link.c          a link's life: connect, handshake, packets, failure, close
 *   post.c          frames out: tickets, cells, the pipe, SENT
 *   receive.c       frames in: cells, message buffers, maps
 *   receive_data.c  how the bytes of a DATA frame arrive here
 *   mapping.c       segments: announced to peers, mapped from peers
 *   inbox.c         the shared memory of one direction
 *   pipe.c          whose the buffers are through which other payload goes
 *   socket.c        the socket that carries descriptors, wake-ups and the news of a peer's end
 *   address.c       which host, which name space, which socket
 *
 * Everything is called under the lock of the device's worker.
 */
#ifndef BR_TRANSPORT_SHM_LINK_H
#define BR_TRANSPORT_SHM_LINK_H

#include <sys/types.h>

#include "base/list.h"
#include "base/pool.h"
#include "base/ways.h"
#include "transport/shm/inbox.h"
#include "transport/shm/pipe.h"
#include "transport/shm/shm.h"
#include "transport/shm/socket.h"
#include "transport/transport.h"

#define BR_SHM_POLL_EVENTS 64
/* Moved by one poll of one link, so that a worker stays responsive. */
#define BR_SHM_POLL_BYTES (256u << 10)
/* Of a frame that is read directly: bytes that a reducer combines at a time. */
#define BR_SHM_PIECE (64u << 10)

struct br_shm_device {
    struct br_device base;
    const struct br_device_config *config;
    char socket_name[BR_SHM_SOCKET_NAME];
    uint64_t token; /* who reads our memory by our pid compares it; beside what never changes */
    int listener, epoll;
    struct br_shm_link **links; /* [config.max_links], NULL: free */
    uint32_t n_links, top;      /* in use; all used indexes are below top */
    uint32_t first;             /* polled first next time */
    /* links not open yet: their sockets are looked at in every poll */
    uint32_t n_connecting;
    uint64_t checked_at; /* when the sockets were last looked at */
    bool check_now;
    bool armed;                 /* since the latest poll(); then check_now is set, too */
    struct br_pool maps;        /* struct br_shm_map */
    struct br_list closed_maps; /* maps whose link is closed */
    uint32_t n_data;            /* DATA events of this poll */
    uint8_t inlines[BR_SHM_POLL_EVENTS][BR_FRAME_INLINE]; /* theirs */
    bool logged_full;                                     /* each downgrade is logged once */
    /* a piece of a frame that was read directly, until a slot's reducer has combined it */
    uint8_t piece[BR_SHM_PIECE];
};

/* A segment of a peer, mapped here. */
struct br_shm_mapping {
    const uint8_t *base;
    size_t bytes;
    uint32_t refs; /* one of the link's table, one of each map */
    bool writable; /* its owner shares it (mapping.c, note 5) */
};

/* A mapped arrival that the protocol still reads. */
struct br_shm_map {
    struct br_list node;      /* in link->maps or device->unacknowledged messages */
    struct br_shm_link *link; /* NULL: closed meanwhile */
    struct br_shm_mapping *mapping;
    uint32_t ticket;
};

enum br_shm_state {
    BR_SHM_DIALLING, /* the listener's queue was full: connect again */
    BR_SHM_GREETING, /* we connected and said HELLO */
    BR_SHM_GREETED,  /* we accepted and wait for HELLO */
    BR_SHM_CONFIRM,  /* we accepted, said HELLO and wait for CONFIRM */
    BR_SHM_OPEN,
    BR_SHM_FAILED,
};

/* A DATA frame of ours in flight. */
struct br_shm_posted {
    uint64_t cookie;
    const uint8_t *payload;
    uint32_t length;
    bool used;
    bool piping; /* not all of payload is in the pipe yet */
    bool fresh;  /* pages of the pipe came to exist for it: what it took says nothing of the way */
    struct br_ways_frame way;
    /* of the frame, should the peer not be able to read it directly */
    uint32_t slot, offset;
    uint8_t inline_[BR_FRAME_INLINE];
};

/* A message that the protocol holds. */
struct br_shm_message {
    uint8_t inline_[BR_FRAME_INLINE];
    bool held;
    bool fills;         /* its payload is in the buffer of its ticket */
    uint16_t brings;    /* 1 + ticket of ours that comes back with it (BR_SOURCE_KEPT); 0: none */
    uint8_t turn;       /* `fills`: which of its ticket's buffers */
    uint8_t unused[11]; /* 64 bytes in all: its ticket is a shift, and no division */
};

/* Where a message ticket of ours is. */
enum br_shm_ticket {
    BR_TICKET_FREE,
    BR_TICKET_OUT,
    BR_TICKET_BROUGHT, /* back, but the protocol holds the message in its buffer */
    BR_TICKET_WARM,    /* free, and our core has read its buffer last */
};

/* The DATA frame that is arriving: a private copy of its cell. */
struct br_shm_arriving {
    bool active, dropping;
    enum br_inbox_source source;
    uint32_t length, slot, offset, done;
    /* bytes that are moved at least: 1, or a granule where the slot's reducer takes them out of
     * the pipe or as they were read directly */
    uint32_t unit;
    uint64_t started; /* ns; 0: nobody measures */
    uint64_t address, token_address, token;
    uint32_t segment, segment_id;
    uint32_t ticket;
    uint8_t inline_[BR_FRAME_INLINE];
};

struct br_shm_link {
    struct br_link base;
    uint32_t index; /* in device->links */
    enum br_shm_state state;
    bool outgoing;
    bool report_open, report_closed; /* events that poll() owes */
    bool known;                      /* the caller has seen this link */
    bool peer_left;                  /* the socket has ended: messages that are here still count */
    int error;
    int socket;
    pid_t pid;
    uint64_t since; /* first seen by poll, for the deadline of an unauthenticated peer */
    char peer_socket[BR_SHM_SOCKET_NAME];
    /* whom of the peer to wake: BR_ASLEEP anyone, BR_STARVED only who lacks tickets */
    enum br_inbox_sleep wake_due;

    /* In. */
    struct br_inbox in;
    uint32_t in_position, return_position;
    struct br_shm_message *messages; /* [in.message_buffers] */
    uint32_t n_held;                 /* of these */
    uint32_t n_brought;              /* of the held ones: in buffers of our tickets */
    uint32_t kept;      /* 1 + ticket that is not returned yet (inbox.h, note 7); 0: none */
    uint32_t kept_turn; /* which of its buffers */
    struct br_shm_arriving arriving;
    struct br_shm_mapping *segments[BR_SHM_SEGMENTS];
    uint32_t segment_ids[BR_SHM_SEGMENTS];
    uint32_t found; /* number of the segment that br_shm_share() has found last */
    struct br_list maps;
    uint32_t n_maps;

    /* Out. */
    struct br_inbox out;
    uint32_t out_position, collect_position;
    uint32_t in_before; /* in_position when the last message was posted */
    uint16_t *free_messages;
    uint32_t n_free_messages;
    uint16_t free_data[BR_INBOX_DATA];
    uint32_t n_free_data;
    struct br_shm_posted posted[BR_INBOX_DATA]; /* by ticket - out.message_buffers */
    uint8_t *message_out;                       /* enum br_shm_ticket, by ticket */
    uint8_t *turns;           /* the buffer that was written last, by ticket (note 8) */
    uint32_t n_turns, turned; /* buffers of a ticket in use; payloads since there are so many */
    uint64_t *sent;           /* ring of cookies of messages, mask sent_mask */
    uint32_t sent_head, sent_tail, sent_mask;
    uint16_t piping[BR_INBOX_DATA]; /* ring of the tickets whose payload goes through the pipe */
    uint32_t piping_head, piping_tail, piping_done;
    uint64_t announced[BR_SHM_SEGMENTS]; /* region id + 1, 0: free */
    struct br_ways ways;                 /* of DATA frames */
    struct br_ways message_ways;         /* of payloads in a stream of messages (note 8) */
    uint32_t *reached;                   /* bytes of each buffer that such have been written to */
    uint32_t streamed;                   /* those that were not the first in their buffer */
    bool past;                           /* they are written past the caches now */

    struct br_pipe pipe; /* of both directions */

    /* br_shm_link_take_fd(). */
    struct {
        int fd; /* -1: free */
        uint32_t tag;
    } fds[BR_SHM_FDS];
};

static inline struct br_shm_device *br_shm_device(struct br_link *link)
{
    return (struct br_shm_device *)link->device;
}

/* link.c. */
int br_shm_link_connect(struct br_device *device, const struct br_address *address,
                        struct br_link **out);
void br_shm_link_close(struct br_link *link);
int br_shm_link_accept(struct br_shm_device *device, int fd); /* owns fd from here on */
void br_shm_link_redial(struct br_shm_link *link);
/* Reads the packets that have come; failures end up in the link. */
void br_shm_link_listen(struct br_shm_link *link);
/* The link is over: CLOSED will be reported with these words (or, not known to the caller yet, it
 * is dropped). */
void br_shm_link_fail(struct br_shm_link *link, int err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The peer sleeps: wakes it if that is for what was written (wake_due). */
void br_shm_link_wake_sleeper(struct br_shm_link *link);
/* Wakes the peer where something was written that it may sleep for. */
static inline void br_shm_link_wake_peer(struct br_shm_link *link)
{
    if (!link->wake_due || link->state != BR_SHM_OPEN)
        return;
    /* What we wrote comes before this load, what the peer checks comes after its store: one of us
     * sees the other. */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&link->out.header->sleep, memory_order_relaxed) != BR_AWAKE)
        br_shm_link_wake_sleeper(link);
    link->wake_due = BR_AWAKE;
}

/* post.c. */
int br_shm_send_init(struct br_shm_link *link); /* once link->out is attached; -ENOMEM */
int br_shm_post(struct br_link *link, const struct br_frame *frames, int n);
int br_shm_send_poll(struct br_shm_link *link, struct br_event *events, int max); /* SENT events */
/* has br_shm_send_poll() something to do? */
bool br_shm_send_pending(const struct br_shm_link *link);

/* receive.c. */
int br_shm_receive_poll(struct br_shm_link *link, struct br_event *events, int max);
bool br_shm_receive_pending(const struct br_shm_link *link);
int br_shm_release(struct br_device *device, struct br_link *link, void *buffer);

/* receive_data.c: goes on with link->arriving. 1: all there; 0: later; -EACCES: the kernel does not
 * let us read it; another -errno with a message. Takes what it moved off *budget. */
int br_shm_receive_data(struct br_shm_link *link, uint32_t *budget, struct br_event *event);
bool br_shm_receive_data_pending(const struct br_shm_link *link);

/* mapping.c. */
int br_shm_region_register(struct br_device *device, struct br_region *region);
void br_shm_region_release(struct br_device *device, struct br_region *region);
/* Number under which the peer knows region, announced now if need be; -EAGAIN: the socket is full
 * just now; another -errno: it goes from memory. */
int br_shm_announce(struct br_shm_link *link, const struct br_region *region);
int br_shm_segment_arrived(struct br_shm_link *link, uint32_t number, uint32_t id, int fd);
void br_shm_segment_gone(struct br_shm_link *link, uint32_t number);
/* The peer's segment `id`, whose announcement may still be in the socket; NULL: the peer has not
 * announced it. */
struct br_shm_mapping *br_shm_segment(struct br_shm_link *link, uint32_t number, uint32_t id);
void br_shm_mapping_put(struct br_shm_mapping *mapping);
int br_shm_share(struct br_link *link, const struct br_region *own, uint32_t id,
                 struct br_shared *theirs);
/* Of a region of ours, or of all (number BR_SHM_SEGMENTS): the peer finds it no more. */
void br_shm_share_no_more(struct br_shm_link *link, uint32_t number);

#endif
