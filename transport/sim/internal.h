/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the simulator share; nobody else includes it. See sim.h for the design
 * notes. */
#ifndef BR_TRANSPORT_SIM_INTERNAL_H
#define BR_TRANSPORT_SIM_INTERNAL_H

#include "base/list.h"
#include "base/random.h"
#include "transport/backends.h"
#include "transport/sim/sim.h"

enum br_sim_step_kind {
    BR_SIM_AT_SWITCH, /* a packet's front has reached the switch */
    BR_SIM_ARRIVE,    /* a packet is complete at the receiver */
    BR_SIM_ACKED,     /* the acknowledgement is back at the sender */
    BR_SIM_RESEND,    /* a packet or its acknowledgement was lost and the sender's timer fires */
    BR_SIM_LEFT,      /* the last byte has left the sender (early_sent) */
    BR_SIM_FAULT,
};

enum br_sim_verdict { BR_SIM_OK, BR_SIM_REFUSED };

/* One entry of the event heap; at equal times the order of insertion decides. */
struct br_sim_step {
    uint64_t at, order;
    uint64_t since;  /* packets and acknowledgements: when they were put on the wire */
    uint64_t tx_end; /* AT_SWITCH: when the last byte leaves the sender */
    struct br_sim_frame *frame;
    uint32_t fault; /* FAULT: index */
    uint8_t kind, verdict;
    bool duplicate; /* an extra copy: its loss matters to nobody */
};

struct br_sim_heap {
    struct br_sim_step *steps;
    uint32_t count, capacity;
    uint64_t order;
};

struct br_sim_switch {
    bool down;
    uint64_t broken_until; /* packets put on the wire before this are lost */
};

struct br_sim_port {
    struct br_sim_host *host;
    struct br_sim_switch *switch_; /* NULL: no cable */
    char name[BR_DEVICE_NAME];
    uint64_t bits_per_second, latency;
    uint64_t tx_free; /* when the wire to the switch is idle again */
    uint64_t rx_free; /* when the switch's output port towards us is */
    bool down;
    uint64_t broken_until;
    struct br_list devices; /* a device a worker */
};

struct br_sim_host {
    struct br_sim *sim;
    struct br_list ready; /* in sim->ready while it has events nobody knows of */
    struct br_sim_port *ports;
    int number, n_ports;
    bool dead;   /* no code of this host runs any more */
    bool silent; /* dead, and nothing answers */
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
    struct br_list node; /* of port->devices */
    uint32_t number;     /* unique in the simulator, in the address */
    struct br_list links;
    uint32_t n_links;
    struct br_list ready; /* links with notes, served in turn */
    /* notes of the last poll(): their inline bytes are still being read */
    struct br_list reported;
    struct br_list maps;
    struct br_sim_rkey *rkeys; /* by slot index; NULL: needs none */
    uint32_t n_rkeys_made;     /* made so far */
};

/* What a device knows of a slot that has a token. */
struct br_sim_rkey {
    uint32_t serial; /* in the token; 0: none */
    uint32_t slot;   /* number */
};

struct br_sim_rkey_wire {
    uint32_t magic, device, slot, serial;
};
static_assert(sizeof(struct br_sim_rkey_wire) == BR_RKEY_BYTES, "fills a remote key");

/* Both ends of what a link_connect() has begun; lives as long as a link or a packet needs it. */
struct br_sim_connection {
    struct br_list node;
    struct br_sim_port *port[2]; /* 0 connects, 1 accepts */
    struct br_sim_link *link[2]; /* NULL: not there yet, or closed */
    uint32_t number;
    uint32_t target; /* device that is meant to accept */
    uint32_t references;
    bool accepted;
};

/* An event on its way to poll(). */
struct br_sim_note {
    struct br_list node;
    struct br_event event;
    uint8_t inline_[BR_FRAME_INLINE];
};

enum br_sim_link_state { BR_SIM_CONNECTING, BR_SIM_OPEN, BR_SIM_FAILED };

struct br_sim_link {
    struct br_link base;
    struct br_sim_connection *connection;
    int end;
    enum br_sim_link_state state;
    struct br_list node;       /* of device->links */
    struct br_list in_ready;   /* of device->ready */
    struct br_list notes;      /* events for poll() */
    struct br_sim_note closed; /* the last one; its own so that it never lacks memory */
    struct br_list flying;     /* frames posted and not acknowledged */
    /* frames received that cannot be delivered yet, in order of sequence */
    struct br_list waiting;
    uint32_t n_flying;
    uint64_t tx_sequence;
    /* of the next frame that keeps its order: all, or on unordered links the messages */
    uint64_t tx_order, rx_order;
    struct br_list free_buffers, held_buffers;
    uint32_t n_held;
};

enum br_sim_frame_kind { BR_SIM_DATA, BR_SIM_CONNECT, BR_SIM_CLOSE };

/* What one end sends to the other: a posted frame, or the beginning or the end of a connection. */
struct br_sim_frame {
    struct br_list node;         /* of the sender's flying, or of sim->free_frames */
    struct br_list waiting_node; /* of the receiver's waiting */
    struct br_sim_connection *connection;
    struct br_frame_header header;
    struct br_sim_rkey_wire rkey; /* DATA to a device that needs it */
    const uint8_t *payload;       /* the sender's memory, or `copy` */
    uint8_t *copy;                /* owned; NULL: none */
    uint64_t sequence, order, cookie, sent_at;
    uint32_t references; /* steps on the heap, flying, waiting, a map */
    uint32_t tries;
    uint8_t kind, from; /* from: which end sends */
    bool delivered;     /* placed, dropped or mapped; CONNECT: decided */
    bool acked, waits, mapped;
    bool early; /* SENT when it has left */
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

/* network.c */
int br_sim_heap_push(struct br_sim_heap *heap, const struct br_sim_step *step);
bool br_sim_heap_pop(struct br_sim_heap *heap, struct br_sim_step *out);

/* trace.c */
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
void br_sim_frame_drop(struct br_sim_frame *frame); /* one reference less */
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
struct br_sim_note *br_sim_link_note(struct br_sim_link *link, enum br_event_kind kind);
void br_sim_connection_drop(struct br_sim_connection *connection);

/* rkey.c: remote keys */
int br_sim_rkeys_open(struct br_sim_device *device); /* -ENOMEM with a message */
void br_sim_rkeys_close(struct br_sim_device *device);
int br_sim_rkey_make(struct br_device *base, struct br_slot *slot, uint8_t token[BR_RKEY_BYTES]);
void br_sim_rkey_release(struct br_device *base, struct br_slot *slot);
/* 0, or -EINVAL with a message */
int br_sim_rkey_post(struct br_sim_link *link, const struct br_frame *frame);
int br_sim_rkey_check(struct br_sim_link *link, const struct br_sim_frame *frame); /* on arrival */

/* receive.c: what happens to a frame that has arrived */
void br_sim_receive(struct br_sim_link *link, struct br_sim_frame *frame);
void br_sim_message_release(struct br_link *base, void *buffer);
int br_sim_map_release(struct br_device *base, uint64_t map_handle);

#endif
