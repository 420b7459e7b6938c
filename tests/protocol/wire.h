/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A back end whose other end is the test: it sees every frame that the worker posts, and decides
 * what arrives, when a frame is SENT and when a link dies. Nothing travels by itself, and time
 * passes only when the test says so.
 *
 * Memory is exact: each message lies in a buffer of its own that dies when it is released, so that
 * ASan sees whoever reads behind it or too late. What the worker must never do (posting on a closed
 * link, frames over the limits, a buffer given back twice) ends the process.
 */
#ifndef BR_TESTS_PROTOCOL_WIRE_H
#define BR_TESTS_PROTOCOL_WIRE_H

#include "protocol/worker.h"

#define WIRE_RAILS  2
#define WIRE_FRAMES 512
#define WIRE_BATCH  8 /* events of one poll */

struct wire_link {
    struct br_link link;           /* first */
    struct br_list node;           /* the wire's links */
    struct br_list buffers;        /* held by the worker */
    bool closed;                   /* by the worker; the struct stays until the device is closed */
    struct br_handshake handshake; /* the test's side of it */
};

/* A remote key: what the test gives to the worker, and what the worker's device makes. */
struct wire_rkey {
    uint32_t rail, slot, serial, zero;
};

/* One posted frame. */
struct wire_frame {
    struct wire_link *link;
    struct br_frame frame;     /* inline_ and payload point to copies */
    struct br_message message; /* the inline area */
    uint8_t *payload;
    struct wire_rkey rkey; /* with caps.needs_rkey, of a DATA frame */
    bool alone, streamed;  /* the link's flags when the frame was posted */
    bool taken, sent;
};

struct wire {
    struct br_device device; /* first; set device.caps before it is opened */
    struct br_list links, events;
    struct wire_frame frames[WIRE_FRAMES];
    int n_frames;
    struct br_message inline_[WIRE_BATCH]; /* of the DATA events of the last poll */
    /* frames that post() still takes; negative: any number */
    int room;
    int buffers;      /* message buffers that the worker holds */
    int maps;         /* mappings that it has not given back */
    bool lost_maps;   /* what was mapped is gone when it is given back */
    int keys, made;   /* remote keys that it has not given back; in all */
    bool refuses;     /* makes no remote keys */
    uint64_t min_rtt; /* ns, br_link_facts.min_rtt of all links */
};

extern const struct br_transport_ops wire_ops;
/* Ends the process unless ok. */
void wire_check(bool ok, const char *what);

/* What happens at the other end; the worker sees it in its next poll. */
struct wire_link *wire_accept(struct wire *wire);
void wire_message(struct wire_link *link, const struct br_message *message, const void *payload,
                  uint32_t length);
void wire_handshake(struct wire_link *link, const void *bytes, size_t length);
void wire_placed(struct wire_link *link, uint32_t slot, uint32_t offset, const void *bytes,
                 uint32_t length, uint8_t flags);
/* The same as a mapping: bytes must stay until it is given back. */
void wire_mapped(struct wire_link *link, uint32_t slot, uint32_t offset, const void *bytes,
                 uint32_t length, uint8_t flags);
void wire_sent(struct wire_frame *frame);
void wire_sent_all(struct wire *wire);
void wire_fail(struct wire_link *link, int error, const char *text);

/* The first posted frame of the kind that was not taken yet; NULL: there is none. */
struct wire_frame *wire_take(struct wire_link *link, enum br_message_type type);
struct wire_frame *wire_take_placed(struct wire_link *link);
/* Forgets what was posted. */
void wire_forget(struct wire *wire);

#endif
