/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every message and every limit of the protocol. Fixed width, little-endian, versioned; doc/wire.md
 * specifies the same with test vectors. What a back end must know of a frame is in
 * transport/frame.h; the messages of the handshake and of the store have a header each.
 *
 * 1. A message rides in a MESSAGE frame: its first 48 bytes (struct br_message) in the frame
 *    header, the rest (data of an eager transfer, the text of an abort) as the frame's payload.
 * 2. Numbered messages (EAGER, READY, PUT, GET, ATOMIC, ANNOUNCE, PUT_DONE, PUTS) arrive once and
 * hold one receive buffer of their link each until the receiver has released them. An EAGER or
 * ANNOUNCE may have to wait there for its receive, and needs a credit. All others are dealt with at
 * once.
 * 3. `sequence` numbers the numbered messages of one sender to one peer over all rails, so that the
 *    receiver knows what it has when messages of a lost rail are sent again. Messages of one link
 *    arrive in order and are counted by both ends: the sender forgets its copies when ACK says that
 *    they have arrived.
 * 4. `tag` names one transfer; both ends derive it (enum br_tag_class).
 */
#ifndef BR_PROTOCOL_MESSAGE_H
#define BR_PROTOCOL_MESSAGE_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "transport/frame.h"
#include "transport/slot.h"

/* Negotiated in the handshake. Changes with anything below, but for messages that a rank may ignore
 * which does not know them, as it drops unknown types: IDLE. */
#define BR_PROTOCOL_VERSION 15u

/* Limits. Others that the peers negotiate are in the handshake. */
#define BR_MAX_RANKS 65536u
/* Of which a rank is a member at a time; number 0: all ranks of the job. */
#define BR_MAX_GROUPS 1024u
/* Collectives of a group before their numbers in tags come again. */
#define BR_OPERATIONS (1u << 20)
#define BR_MAX_RAILS  8u  /* to one peer */
#define BR_UNRELEASED 64u /* numbered messages of a link that may be unreleased */
#define BR_CREDITS    60u /* of these, such as may come before their receive (rails.md, section 4) */
/* Payload bytes of unreleased messages from which on such a message waits as well, so that of large
 * ones few buffers are in use, which stay in the caches (rails.md, section 4). */
#define BR_CREDIT_BYTES (512u << 10)
#define BR_CREDIT_UNIT  256u /* payload counts as a multiple of so many bytes there */
/* receive buffers of a link; the rest for messages without a number */
#define BR_MESSAGE_BUFFERS (BR_UNRELEASED + 8u)
#define BR_RELAY_HOPS      16u                  /* of a route through other hosts */
#define BR_RELAY_HOSTS     (BR_RELAY_HOPS + 1u) /* on it, both ends included */
/* of a relayed frame, unless a job's small messages or granules are larger */
#define BR_RELAY_PAYLOAD (16u << 10)
/* Bytes; longer sends and receives are cut by the layers above. */
#define BR_MAX_TRANSFER (16u << 20)
#define BR_MAX_EAGER    (64u << 10) /* upper bound of the eager limit */
/* the eager limit unless a job says another; where hosts pass on messages, that of a frame */
#define BR_EAGER_BYTES         (32u << 10)
#define BR_EAGER_BYTES_OF_CUBE BR_RELAY_PAYLOAD
#define BR_MAX_TEXT            240u                           /* text of ABORT */
#define BR_MAX_RKEYS           (BR_MAX_RAILS * BR_RKEY_BYTES) /* payload of READY */

enum br_message_type {
    /* payload: protocol/message_handshake.h; the only type before a link is ready */
    BR_MESSAGE_HANDSHAKE = 1,
    BR_MESSAGE_EAGER = 2, /* numbered: a whole small transfer */
    BR_MESSAGE_READY = 3, /* numbered: the memory of a large transfer is ready, in this slot */
    /* numbered: the payload goes to `offset` of a region; without payload: asks for a READY */
    BR_MESSAGE_PUT = 4,
    BR_MESSAGE_GET = 5,  /* numbered: asks to send `bytes` from there */
    BR_MESSAGE_DONE = 6, /* transfers (their slots) that have arrived completely */
    BR_MESSAGE_ACK = 7,  /* bytes and messages that have arrived on this link, messages released */
    BR_MESSAGE_PING = 8, /* answered by ACK and PONG; shows that the peer lives */
    BR_MESSAGE_PONG = 9,
    BR_MESSAGE_RAIL_DOWN = 10,   /* another rail is lost: fence it, then answer RAIL_FENCED */
    BR_MESSAGE_RAIL_FENCED = 11, /* nothing more will be written through that rail */
    BR_MESSAGE_ABORT = 12,       /* the communicator has failed; payload: a text that says why */
    BR_MESSAGE_BYE = 13,         /* the sender leaves in good order */
    /* struct br_message_relay: for another rank or from one, through hosts in between */
    BR_MESSAGE_RELAY = 14,
    BR_MESSAGE_RELAY_CREDIT = 15, /* buffers for relayed frames that are free again */
    BR_MESSAGE_WAITING = 16,      /* a transfer waits for its other end (waiting.c) */
    /* asks what became of a slot that a lost rail has carried (rkey.c) */
    BR_MESSAGE_RENEW = 17,
    /* numbered: changes 8 bytes of a region; payload: struct br_operands */
    BR_MESSAGE_ATOMIC = 18,
    /* numbered, point to point: a large message waits for its READY, for a receive that does not
     * know its sender, tag or length (body: struct br_body_waiting, of which `total`) */
    BR_MESSAGE_ANNOUNCE = 19,
    BR_MESSAGE_LEFT = 20, /* ranks that have left, to those who have no link to them (demand.c) */
    BR_MESSAGE_IDLE = 21, /* shall the links between the two ranks be shut? (idle.c) */
    /* numbered: puts of the receiver that have been carried out, in place of an answer to each */
    BR_MESSAGE_PUT_DONE = 22,
    /* numbered: several small puts; payload: a struct br_put_entry and the bytes of each */
    BR_MESSAGE_PUTS = 23,
};

/* Numbered ones stand first, but for those that came late. */
static inline bool br_message_is_numbered(uint8_t type)
{
    return (type >= BR_MESSAGE_EAGER && type <= BR_MESSAGE_GET) || type == BR_MESSAGE_ATOMIC ||
           type == BR_MESSAGE_ANNOUNCE || type == BR_MESSAGE_PUT_DONE || type == BR_MESSAGE_PUTS;
}

/* Bodies, 24 bytes each. */
struct br_body_ready {
    uint32_t slot; /* what the sender puts into the header of every DATA frame */
    /* 0, or the number that the slot had so far, about which the sender has asked */
    uint32_t renews;
    /* bytes of the whole message, point to point, or of the whole block, where a collective's ranks
     * do not know all of them; this may be a part. Else 0 */
    uint64_t total;
    uint64_t have; /* renews: bit i: slice i is complete; else 0 */
};

/* What carries out a collective. Ranks of one operation that differ in this never meet. */
enum br_call_by {
    BR_CALL_UNKNOWN, /* the call is not described */
    BR_CALL_ENGINE,  /* messages between the ranks */
    BR_CALL_SHARED,  /* memory that the ranks of a host share */
    BR_CALL_EITHER,  /* the ranks are about to find out (GPU memory of one host) */
    /* messages, as the ranks have found out: others may be at BR_CALL_EITHER still */
    BR_CALL_ASKED,
    BR_CALL_STREAM, /* the streams of the ranks, in the memory of their GPUs */
};

/* WAITING of a collective: the call that it is about, for the error message. */
struct br_call {
    uint32_t root; /* 0 where there is none */
    uint8_t collective, type, reduction;
    uint8_t by; /* enum br_call_by */
    uint64_t count;
};

struct br_body_waiting {
    uint64_t total;    /* point to point: as in READY; collective: elements of a block */
    uint32_t receives; /* 1: the transfer that waits is a receive, 0: a send, or none does */
    uint32_t root;     /* from here on: of a collective, as in struct br_call; else zero */
    uint8_t collective, type, reduction, by;
    uint32_t reserved;
};

struct br_body_onesided {
    uint64_t offset;    /* of the first byte in the region */
    uint64_t check;     /* braid_key.check */
    uint32_t region;    /* braid_key.id */
    uint32_t operation; /* ATOMIC: enum br_atomic; else zero */
};

enum br_atomic {
    BR_ATOMIC_ADD,  /* what stood there and the value, modulo 2^64 */
    BR_ATOMIC_SWAP, /* the value, if `compare` stood there */
    BR_ATOMIC_SET,  /* the value */
};

struct br_operands {
    uint64_t value, compare;
};

/* PUT with BR_PUT_NOTIFIES in `flags`: its payload begins with this, which happens at the target
 * once, when all bytes of the put stand there. */
struct br_notify {
    uint64_t value;
    uint64_t offset;    /* of the 64-bit number that changes, in the region */
    uint32_t region;    /* braid_key.id; 0: the target's program gets the value (notifications.h) */
    uint32_t operation; /* with a region: enum br_atomic, ADD or SET; else zero */
    uint32_t group;     /* without: the communicator of that program */
    uint32_t reserved;
};
#define BR_PUT_NOTIFIES 1u

/* The target's answer to a PUT, a GET or an ATOMIC. Of the first two only the status travels, and
 * for puts that have been carried out PUT_DONE. */
struct br_answer {
    int32_t status; /* 0 or a negative errno */
    uint32_t reserved;
    uint64_t before; /* ATOMIC: what stood there */
};
#define BR_ANSWER_BYTES 4u
static_assert(sizeof(struct br_notify) == 32, "wire format");
static_assert(sizeof(struct br_operands) == 16 && sizeof(struct br_answer) == 16, "wire format");

/* Bit i of word k: the put whose counter is 64 * k + i larger than that of the tag, which is the
 * tag of an answer. */
#define BR_PUTS_WORDS 3
#define BR_PUTS       (64u * BR_PUTS_WORDS)
struct br_body_put_done {
    uint64_t puts[BR_PUTS_WORDS];
};

/* The puts of PUTS have consecutive counters; the tag is that of the first one's request. Each has
 * its answer as a PUT has. */
#define BR_PUTS_OF_REQUEST 64u
struct br_body_puts {
    uint64_t check; /* braid_key.check of all of them */
    uint32_t count; /* 1 .. BR_PUTS_OF_REQUEST */
    uint32_t reserved[3];
};

/* Its bytes follow. */
struct br_put_entry {
    uint64_t offset; /* of the first byte in the region */
    uint32_t region; /* braid_key.id */
    uint32_t bytes;  /* not 0 */
};
static_assert(sizeof(struct br_put_entry) == 16, "wire format");

struct br_body_done {
    uint32_t slots[6]; /* 0: unused (slot numbers are never 0) */
};

struct br_body_ack {
    uint64_t bytes;    /* payload bytes of DATA frames arrived on this link, in all */
    uint32_t arrived;  /* numbered messages arrived on this link, in all (mod 2^32) */
    uint32_t released; /* numbered messages given back, in all (mod 2^32) */
    /* DATA bytes of the sender that await ACK on this link, at most its window */
    uint32_t ack_backlog;
    /* payload of those given back, each rounded up to BR_CREDIT_UNIT, in all (mod 2^32) */
    uint32_t released_bytes;
};

struct br_body_rail {
    uint32_t rail;        /* index of the lost rail */
    uint32_t incarnation; /* its connection number, from the handshake */
    uint32_t reserved[4];
};

struct br_body_bye {
    /* of the next numbered messages to this peer, first of those that are not point to point, then
     * of those that are: what it has sent, some of which may still be on its way. More may follow,
     * for puts, gets and atomics of the peer */
    uint32_t next[2];
    uint32_t reserved[4];
};

struct br_body_left {
    uint32_t ranks[6]; /* each plus one; 0: unused */
};

enum br_idle_kind {
    BR_IDLE_ASK = 1, /* the larger rank asks */
    BR_IDLE_OK,      /* the smaller one agrees, and says nothing more until it hears what follows */
    BR_IDLE_OFF,     /* no; from the larger one: all that it has asked up to this round is off */
};

struct br_body_idle {
    uint32_t kind;  /* enum br_idle_kind; unknown ones are ignored */
    uint32_t round; /* number of the ASK between the two ranks, from 1 (mod 2^32) */
    uint32_t reserved[4];
};

struct br_body_renew {
    uint32_t slot; /* as the READY said */
    /* 1: frames may be lost, another READY is wanted; 0: DONE may be lost. The answer is a READY or
     * a DONE */
    uint32_t lost;
    uint32_t reserved[4];
};

struct br_body_relay_credit {
    uint8_t n[BR_RELAY_HOPS]; /* [i]: buffers of class i + 1 */
    uint32_t reserved[2];
};

/* Why a communicator has failed, for those who only hear of it. */
enum br_abort_reason {
    BR_ABORT_CANCELED, /* braid_comm_abort(), and everything that is not below */
    BR_ABORT_LOST,     /* a rank or its last rail was lost */
    BR_ABORT_DEADLINE, /* an operation missed its deadline */
    BR_ABORT_DISAGREE, /* the ranks disagree about an operation, or one broke the protocol */
};

struct br_body_abort {
    uint32_t reason; /* enum br_abort_reason; unknown ones count as CANCELED */
    uint32_t reserved[5];
};

struct br_message {
    uint8_t type;  /* enum br_message_type */
    uint8_t flags; /* PUT: BR_PUT_NOTIFIES or 0; else zero */
    /* EAGER, READY, WAITING, ANNOUNCE: digest of the operation's arguments; differs where the ranks
     * disagree */
    uint16_t check;
    /* numbered: number to this peer over all rails, from 0; point to point has its own */
    uint32_t sequence;
    uint64_t tag; /* EAGER, READY, PUT, GET, ATOMIC, WAITING, ANNOUNCE, PUTS: the transfer */
    union {
        /* READY: bit i: the payload has a remote key for rail i, in the order of rails */
        uint32_t rkeys;
        struct { /* EAGER: as in ACK (mod 2^16), the latter in units of BR_CREDIT_UNIT */
            uint16_t released, released_units;
        };
        uint32_t none; /* else 0 */
    };
    uint32_t bytes; /* of the same: length of the transfer */
    union {
        /* EAGER of at most 24 bytes: the data; longer ones are the frame's payload */
        uint8_t data[24];
        struct br_body_ready ready;
        struct br_body_waiting waiting;
        struct br_body_onesided onesided;
        struct br_body_put_done put_done;
        struct br_body_puts puts;
        struct br_body_done done;
        struct br_body_ack ack;
        struct br_body_rail rail;
        struct br_body_bye bye;
        struct br_body_left left;
        struct br_body_idle idle;
        struct br_body_abort abort;
        struct br_body_relay_credit relay_back;
        struct br_body_renew renew;
    };
};
static_assert(sizeof(struct br_message) == BR_FRAME_INLINE,
              "a message fills the inline area of its frame");

#define BR_EAGER_INLINE 24u

enum br_relay_kind {
    BR_RELAY_OPEN = 1,    /* a route begins: hosts in between remember it */
    BR_RELAY_FRAME,       /* payload: a frame, its header of 64 bytes first */
    BR_RELAY_CLOSE,       /* the sender's end of the route is closed */
    BR_RELAY_UNREACHABLE, /* the route is broken: path[0] cannot reach rank `number` */
    BR_RELAY_REQUEST, /* path[0] has no rail to the last of the path, and asks it to connect; id is
                         0 */
};
#define BR_RELAY_KIND 0x7fu /* of `what`: the kind */
#define BR_RELAY_ACK  0x80u /* of `what`: send an ACK on this link now, as BR_DATA_ACK does */

/* A message of type RELAY, in place of struct br_message. Its payload counts in the rail's
 * window. */
struct br_message_relay {
    uint8_t type;  /* BR_MESSAGE_RELAY */
    uint8_t what;  /* kind and flag */
    uint8_t hosts; /* in path, both ends included */
    /* the receiver is path[at]; also the class of the buffer that the frame takes there */
    uint8_t at;
    int16_t priority;              /* larger is more urgent */
    uint16_t path[BR_RELAY_HOSTS]; /* ranks in the order of travel; 0 behind the last */
    uint32_t id;                   /* of the route: rank of its maker << 16 | number */
    /* FRAME with a MESSAGE in it: how many of those went before, on this route in this direction;
     * UNREACHABLE: a rank, or UINT32_MAX; else 0 */
    uint32_t number;
};
static_assert(sizeof(struct br_message_relay) == BR_FRAME_INLINE,
              "a message fills the inline area of its frame");

/* In the inline area of a DATA frame. */
enum br_data_flag {
    BR_DATA_ACK = 1, /* send an ACK on this link now: the sender's window depends on it */
    /* send DONE when the transfer is complete: the sender keeps its memory for a retry till then */
    BR_DATA_DONE = 2,
};

struct br_data_header {
    uint8_t flags;        /* enum br_data_flag */
    uint8_t reserved[47]; /* zero */
};
static_assert(sizeof(struct br_data_header) == BR_FRAME_INLINE, "fills the inline area");

/* Tags: bits 63..62 are the class, the others number the transfer within it. */
enum br_tag_class {
    /* group (10 bits), operation in it (20), fragment (16), k-th message between the two ranks
     * (16) */
    BR_TAG_COLLECTIVE = 0,
    BR_TAG_P2P = 2, /* group (10 bits), number within (group, peer, user tag) (20), user tag (32) */
    /* the requester's counter (59 bits), whether it is the larger rank (1), enum br_onesided_part
     * (2) */
    BR_TAG_ONESIDED = 3,
};

static inline enum br_tag_class br_tag_class(uint64_t tag)
{
    return tag >> 62 == 1 ? BR_TAG_COLLECTIVE : (enum br_tag_class)(tag >> 62);
}

static inline uint64_t br_tag_of_group(uint32_t group, uint64_t number)
{
    return (uint64_t)(group & 0x3ff) << 52 | (number & 0xfffff) << 32;
}

static inline uint64_t br_tag_collective(uint32_t group, uint64_t operation, uint32_t fragment,
                                         uint32_t k)
{
    return br_tag_of_group(group, operation) | (uint64_t)(fragment & 0xffff) << 16 | (k & 0xffff);
}

static inline uint32_t br_tag_group(uint64_t tag) /* of a collective or point to point */
{
    return (uint32_t)(tag >> 52) & 0x3ff;
}

static inline uint32_t br_tag_number(uint64_t tag) /* of the same, modulo BR_OPERATIONS */
{
    return (uint32_t)(tag >> 32) & 0xfffff;
}

static inline uint64_t br_tag_p2p(uint32_t group, uint64_t number, uint32_t user_tag)
{
    return (uint64_t)BR_TAG_P2P << 62 | br_tag_of_group(group, number) | user_tag;
}

/* A one-sided access is up to three transfers: the request itself, the data unless they come with
 * it, and the target's answer. */
enum br_onesided_part { BR_PART_REQUEST, BR_PART_DATA, BR_PART_STATUS };

/* counter: the requester's, with the bit that says whether it is the larger rank; without that bit
 * two ranks that access each other would use the same tags. */
static inline uint64_t br_tag_onesided(uint64_t counter, enum br_onesided_part part)
{
    return (uint64_t)BR_TAG_ONESIDED << 62 | (counter << 2 & ~(3ull << 62)) | (uint64_t)part;
}

/* The tag of the same part of the access that is the n-th behind that of this tag. */
static inline uint64_t br_tag_of_later(uint64_t tag, uint32_t n)
{
    return (uint64_t)BR_TAG_ONESIDED << 62 | ((tag + 8ull * n) & ~(3ull << 62));
}

static inline uint64_t br_tag_with_part(uint64_t tag, enum br_onesided_part part)
{
    return (tag & ~3ull) | (uint64_t)part;
}

#endif
