/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the simulator share; no other file includes it. doc/design/simulator.md has the
 * design notes. One thread calls everything, and nothing blocks. Times are virtual, in ns. */
#ifndef BR_TRANSPORT_SIM_INTERNAL_H
#define BR_TRANSPORT_SIM_INTERNAL_H

#include "base/list.h"
#include "base/random.h"
#include "transport/backends.h"
#include "transport/sim/sim.h"

enum br_sim_step_kind {
    BR_SIM_AT_SWITCH, /* The first bytes of a packet have reached the switch. */
    BR_SIM_ARRIVE,    /* A packet has arrived as a whole at the receiver. */
    BR_SIM_ACKED,     /* The acknowledgement has arrived at the sender. */
    BR_SIM_RESEND,    /* A packet or its acknowledgement was lost, and the sender's timer fires. */
    BR_SIM_LEFT,      /* The last byte has left the sender (early_sent). */
    BR_SIM_FAULT,
};

enum br_sim_verdict { BR_SIM_OK, BR_SIM_REFUSED };

/* What happens at a time. */
struct br_sim_step {
    uint64_t at;
    uint64_t since;  /* When the packet or acknowledgement was put on the wire. */
    uint64_t tx_end; /* BR_SIM_AT_SWITCH: when the last byte leaves the sender. */
    struct br_sim_frame *frame;
    uint32_t fault;        /* BR_SIM_FAULT: the index in sim->faults. */
    uint8_t kind, verdict; /* enum br_sim_step_kind, enum br_sim_verdict. */
    bool duplicate;        /* An extra copy of a packet, which is not sent again when it is lost. */
};

/* An entry of the event heap; at equal times the order of insertion decides. */
struct br_sim_key {
    uint64_t at;
    uint64_t order_place; /* the number of the insertion, above the place of the step in `steps` */
};
#define BR_SIM_PLACE_BITS 28

#define BR_SIM_FRONT 32u /* A power of two. */

/* Each entry has four below it, which are one cache line: a simulation of many hosts has more steps
 * on the heap than a cache holds, and what a pop costs is the lines that it looks at. */
struct br_sim_heap {
    /* The steps that come next, in their order, from front[front_head % BR_SIM_FRONT] on; all on
     * the heap come later. So what they will look at can be fetched while others run. */
    struct br_sim_next {
        struct br_sim_step step;
        uint64_t order; /* The number of its insertion. */
    } front[BR_SIM_FRONT];
    uint32_t front_head, front_count;
    /* [capacity] the entries; those from `count` on have the places that are free. They begin at
     * the fourth entry of `memory`, which is aligned. */
    struct br_sim_key *keys, *memory;
    struct br_sim_step *steps; /* [capacity] */
    uint32_t count, capacity;
    uint64_t order;
};

struct br_sim_switch {
    bool down;
    uint64_t broken_until; /* Packets put on the wire before this time are lost. */
};

struct br_sim_port {
    struct br_sim_host *host;
    struct br_sim_switch *switch_; /* NULL when it has no cable. */
    uint64_t bits_per_second, latency;
    uint64_t tx_free; /* When the wire to the switch is idle again. */
    uint64_t rx_free; /* When the switch's output port to this port is idle again. */
    bool down;
    uint64_t broken_until;
    struct br_list devices; /* The open devices: one for each worker. */
    char name[BR_DEVICE_NAME];
};

struct br_sim_host {
    struct br_sim *sim;
    struct br_list ready; /* In sim->ready until br_sim_take_ready() returns it. */
    struct br_sim_port *ports;
    int number, n_ports;
    bool dead;   /* No code of this host runs any more. */
    bool silent; /* It is dead, and its kernel does not answer either. */
    int64_t clock_offset;
    int64_t drift_ppb;
};

struct br_sim_path {
    int a, b, port;
    bool down;
    uint64_t broken_until;
};

struct br_sim {
    struct br_sim_config config;
    struct br_random random;
    uint64_t now;
    struct br_sim_heap heap;
    struct br_sim_host **hosts;
    struct br_sim_switch **switches;
    struct br_sim_path *paths;
    struct br_sim_fault *faults;
    uint32_t n_hosts, n_switches, n_paths, n_faults;
    struct br_list ready;
    struct br_list connections;
    struct br_list free_frames, free_notes;
    uint32_t next_device, next_connection;
    uint64_t hash;
    struct br_sim_counters counters;
};

struct br_sim_device {
    struct br_device base;
    struct br_sim *sim;
    struct br_sim_port *port;
    struct br_list node; /* In port->devices. */
    uint32_t number;     /* Unique in the simulator; in the device's address. */
    struct br_list links;
    uint32_t n_links;
    struct br_list ready; /* Links that have notes. */
    /* The notes of the last poll(), whose inline bytes the caller may still read. */
    struct br_list reported;
    struct br_list maps;
    struct br_list free_buffers; /* For messages of any of the links. */
    struct br_sim_rkey *rkeys;   /* By slot index, owned; NULL when the device needs none. */
    uint32_t n_rkeys_made;       /* How many remote keys were made so far. */
};

/* What a device keeps of a slot that has a remote key. */
struct br_sim_rkey {
    uint32_t serial; /* The serial number in the key; 0 for no key. */
    uint32_t slot;   /* The number of the slot. */
};

struct br_sim_rkey_wire {
    uint32_t magic, device, slot, serial;
};
static_assert(sizeof(struct br_sim_rkey_wire) == BR_RKEY_BYTES, "fills a remote key");

/* Both ends of what a link_connect() has begun; lives as long as a link or a packet needs it. */
struct br_sim_connection {
    struct br_sim *sim;
    struct br_sim_port *port[2]; /* Port 0 connects, port 1 accepts. */
    struct br_sim_link *link[2]; /* NULL before the link is made and after it is closed. */
    uint32_t number;
    uint32_t target; /* The number of the device that is to accept. */
    uint32_t references;
    bool accepted;
    struct br_list node;
};

/* An event on its way to poll(). */
struct br_sim_note {
    struct br_list node;
    struct br_event event;
    uint8_t inline_[BR_FRAME_INLINE];
};

#define BR_SIM_SHARED 8 /* Regions that one end of a link can share. */

enum br_sim_link_state { BR_SIM_CONNECTING, BR_SIM_OPEN, BR_SIM_FAILED };

struct br_sim_link {
    struct br_link base;
    struct br_sim_connection *connection;
    int end; /* Its index in connection->link. */
    enum br_sim_link_state state;
    struct br_list node;     /* In device->links. */
    struct br_list in_ready; /* In device->ready. */
    struct br_list notes;    /* Events for poll(). */
    struct br_list flying;   /* Frames that are posted and not acknowledged. */
    /* Frames that were received and cannot be delivered yet, by sequence number. */
    struct br_list waiting;
    uint32_t n_flying;
    uint64_t tx_sequence;
    /* The numbers of the next frames that are kept in order: of all frames, or on unordered links
     * of the messages. */
    uint64_t tx_order, rx_order;
    struct br_list held_buffers;
    uint32_t n_held;
    struct br_sim_note closed; /* The last event, kept here so that it needs no memory. */
    /* Regions of this end that the other one finds; NULL: a free place. */
    const struct br_region *shared[BR_SIM_SHARED];
};

enum br_sim_frame_kind { BR_SIM_DATA, BR_SIM_CONNECT, BR_SIM_CLOSE };

/* What one end sends to the other: a posted frame, or the beginning or the end of a connection. */
struct br_sim_frame {
    struct br_sim_connection *connection;
    uint32_t references; /* Steps on the heap, `flying`, `waiting` and a map have one each. */
    uint32_t tries;
    uint8_t kind, from; /* enum br_sim_frame_kind, and the end that sends. */
    bool delivered;     /* Written, dropped or mapped; BR_SIM_CONNECT: accepted or refused. */
    bool acked, waits, mapped;
    bool early;          /* SENT is reported when it has left the sender. */
    struct br_list node; /* In `flying` of the sender, or in sim->free_frames. */
    uint64_t sequence, sent_at;
    struct br_frame_header header;
    uint64_t order, cookie;
    const uint8_t *payload;       /* The sender's memory, or `copy`. */
    uint8_t *copy;                /* Owned; NULL for none. */
    struct br_list waiting_node;  /* In `waiting` of the receiver. */
    struct br_sim_rkey_wire rkey; /* DATA to a device that needs remote keys. */
};

struct br_sim_buffer {
    struct br_list node;
    uint8_t inline_[BR_FRAME_INLINE];
    uint8_t payload[];
};

/* What a slot's mapped frames show: the whole transfer in one piece, as a mapping of the sender's
 * memory would. */
struct br_sim_view {
    const struct br_sim_link *link;
    uint32_t slot, references;
    uint8_t bytes[];
};

struct br_sim_map {
    struct br_list node; /* of the device */
    struct br_sim_frame *frame;
    struct br_sim_view *view;
};

/* heap.c */
int br_sim_heap_push(struct br_sim_heap *heap, const struct br_sim_step *step);
bool br_sim_heap_pop(struct br_sim_heap *heap, struct br_sim_step *out);
/* Fetches into the cache what the next steps will look at: of many hosts nothing is there when its
 * turn comes. */
void br_sim_heap_fetch(struct br_sim *sim);

/* network.c */
void br_sim_trace(struct br_sim *sim, const char *fact, const struct br_sim_frame *frame);
void br_sim_trace_bytes(struct br_sim *sim, const void *bytes, size_t n);
void br_sim_trace_number(struct br_sim *sim, const char *fact, uint64_t number);

/* fault.c */
bool br_sim_path_broken(struct br_sim *sim, const struct br_sim_port *a,
                        const struct br_sim_port *b, uint64_t since);
bool br_sim_port_broken(const struct br_sim_port *port, uint64_t since);
void br_sim_run_fault(struct br_sim *sim, const struct br_sim_fault *fault);

/* packet.c: a frame's way over the network */
struct br_sim_frame *br_sim_frame_new(struct br_sim_connection *connection, int from, int kind);
/* Gives one reference back. */
void br_sim_frame_drop(struct br_sim_frame *frame);
void br_sim_frame_send(struct br_sim_frame *frame);
void br_sim_frame_answer(struct br_sim_frame *frame, enum br_sim_verdict verdict);
void br_sim_run_step(struct br_sim *sim, const struct br_sim_step *step);

/* link.c: the life of a link */
void br_sim_link_fail(struct br_sim_link *link, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void br_sim_link_open(struct br_sim_link *link, enum br_event_kind kind);
int br_sim_link_connect(struct br_device *base, const struct br_address *address,
                        struct br_link **out);
void br_sim_link_close(struct br_link *base);
enum br_sim_verdict br_sim_link_accept(struct br_sim_frame *frame);
void br_sim_link_ready(struct br_sim_link *link);
struct br_sim_note *br_sim_link_note(struct br_sim_link *link, enum br_event_kind kind);
void br_sim_connection_drop(struct br_sim_connection *connection);

/* rkey.c: remote keys */
/* Prepares the table of a device. Returns 0, or -ENOMEM with a message. */
int br_sim_rkeys_open(struct br_sim_device *device);
void br_sim_rkeys_close(struct br_sim_device *device);
int br_sim_rkey(struct br_device *base, struct br_slot *slot, uint8_t token[BR_RKEY_BYTES]);
/* Checks the remote key of a frame that is posted. Returns 0, or -EINVAL with a message. */
int br_sim_rkey_post(struct br_sim_link *link, const struct br_frame *frame);
/* Checks the remote key of a frame that has arrived. */
int br_sim_rkey_check(struct br_sim_link *link, const struct br_sim_frame *frame);

/* receive.c: what happens to a frame that has arrived */
void br_sim_receive(struct br_sim_link *link, struct br_sim_frame *frame);
int br_sim_release(struct br_device *base, struct br_link *link, void *buffer);

#endif
