/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The contract of a back end.
 *
 * A back end delivers each posted frame exactly once into the memory that the receiver named, or
 * its link fails.
 *
 * Only probe, device_open and device_close may block. A device belongs to one worker, and all calls
 * on it and its links are made under that worker's lock, from any thread. There are no up-calls:
 * poll() returns everything that happens. After link_close() returns, no byte is written to any
 * slot through that link (the fence). A malformed frame fails its link with a message, never the
 * process.
 *
 * The numbered notes, about order, remote keys, reducing on receive and memory of GPUs, are in
 * doc/design/back_ends.md.
 */
#ifndef BR_TRANSPORT_TRANSPORT_H
#define BR_TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "transport/frame.h"
#include "transport/slot.h"

#define BR_ADDRESS_BYTES 120 /* of a back end's own address, opaque above transport/ */
#define BR_DEVICE_NAME   48

/* Where a peer's device can be reached; published through the bootstrap store. */
struct br_address {
    uint16_t bytes;
    uint8_t data[BR_ADDRESS_BYTES];
};

struct br_caps {
    uint32_t max_frame;      /* payload bytes of a DATA frame, at most */
    uint32_t max_message;    /* payload bytes of a MESSAGE beyond the inline part, at most */
    bool ordered;            /* frames of a link arrive in the order posted */
    bool sent_means_arrived; /* SENT comes only after the bytes stand in the receiver's place */
    bool zero_copy_send;     /* no copy of payload in user space on the way out */
    /* the peers' memory is mapped, so they are on this host: may report mapped arrivals for slots
     * with may_map */
    bool maps;
    bool reduces; /* applies a slot's reducer itself (note 9) */
    bool pins;    /* region_register pins memory and costs: worth keeping (cache.h) */
    /* takes regions of GPUs' memory, if gpu_trial says so of the GPU (note 11) */
    bool gpu;
    /* DATA frames need a remote key (note 8). Implies sent_means_placed, excludes maps */
    bool needs_rkey;
    bool window_free; /* posting moves no bytes (descriptors): rails need no in-flight window */
};

/* What probe() found: one NIC (or the one pseudo device of shm). */
struct br_device_info {
    char name[BR_DEVICE_NAME]; /* what the user writes in BRAID_DEVICES: eth0, lo, shm0 */
    /* one line for `braid info`: address, rate, chosen features, in words */
    char detail[96];
    char why_not[408];        /* "" when usable; else why not and the command that mends it */
    int numa_node;            /* -1 unknown */
    uint64_t bits_per_second; /* link rate; 0 unknown */
    bool loopback;
    bool software; /* an RDMA device without hardware: `auto` takes it only by its name */
};

struct br_region;

/* Ownership: the caller keeps the struct alive while the device is open. */
struct br_device_config {
    /* a br_device_info.name, an IP address where that makes sense, NULL: any */
    const char *name;
    int level;                   /* rail index, for words and logs */
    struct br_slot_table *slots; /* the worker's; read in poll() */
    uint32_t message_bytes;      /* payload bytes of one message receive buffer */
    /* receive buffers per link: the peer never has more messages outstanding. One that sends more
     * waits until one is released (nothing is lost), or its link fails with a message */
    uint32_t message_buffers;
    /* ns; a silent link is not given up sooner (the protocol has its own clock for that); 0: no
     * wish */
    uint64_t patience;
    /* frames leave and arrive through the device's own NIC, whatever routes the host has; without
     * meaning for loopback */
    bool own_nic_only;
    uint32_t max_links; /* links open at once, incoming ones that are not yet known included */
    uint32_t gid;       /* verbs: 1 + the GID index that the inventory names; 0: none */
    /* sim: the struct br_sim and the host number come through this; else NULL */
    void *simulation;
};

struct br_device;
struct br_link;

/* A frame to post. Ownership: payload memory stays readable until SENT (or until the link is
 * closed); inline_ is copied by post(). */
struct br_frame {
    enum br_frame_kind kind;
    const void *payload; /* may be NULL when length is 0 */
    uint32_t length;
    uint32_t slot;       /* DATA: the receiver's slot number */
    uint32_t offset;     /* DATA: from the start of the transfer; on the granule grid */
    const uint8_t *rkey; /* DATA with caps.needs_place: the slot's token, BR_RKEY_BYTES; copied by
                          * post(). Else NULL */
    struct br_region *region; /* region that payload lies in, or NULL: plain memory */
    const uint8_t *inline_;   /* BR_FRAME_INLINE bytes for the header; NULL: zeros */
    uint64_t cookie;          /* comes back in SENT */
    /* DATA: larger is more urgent; a hint for what has queues of its own */
    int32_t priority;
};

enum br_event_kind {
    BR_EVENT_ACCEPTED,  /* `link` is new, made by a remote connect; usable now */
    BR_EVENT_CONNECTED, /* link_connect() has come through; usable now */
    BR_EVENT_CLOSED,    /* `link` has failed or the peer closed it: `error`, words by
                           br_link_message(). The caller still owns the link and must link_close() it;
                           no further event of it follows */
    /* The frame posted with `cookie` needs its memory no more. */
    BR_EVENT_SENT,
    /* inline_, payload, length; valid until message_release(link, buffer). */
    BR_EVENT_MESSAGE,
    /* `length` bytes at `offset` of `slot` have arrived (or are readable through `mapped`). Also
     * reported for a stale frame (br_slot_expect: -ESTALE), whose bytes were dropped: the protocol
     * accounts for it. */
    BR_EVENT_DATA,
};

struct br_event {
    enum br_event_kind kind;
    int error; /* CLOSED: negative errno */
    struct br_link *link;
    uint64_t cookie;       /* SENT */
    uint32_t slot, offset; /* DATA */
    /* DATA: nobody expected the frame when it came, its bytes were dropped and its numbers are
     * not checked; slot may have come to life since */
    bool stale;
    uint32_t length; /* MESSAGE: payload bytes beyond inline_; DATA */
    /* MESSAGE and DATA: BR_FRAME_INLINE bytes; valid as the buffer / until the next poll() */
    const uint8_t *inline_;
    const uint8_t *payload; /* MESSAGE */
    void *buffer;           /* MESSAGE: handle for message_release(); every MESSAGE event has one */
    /* DATA: not NULL: the bytes were not copied; read them here until map_release() */
    const uint8_t *mapped;
    uint64_t map_handle; /* for map_release() */
};

/* Registered memory, one per span and process; each back end keeps its key in keys[]. */
struct br_region {
    void *base;
    size_t bytes;
    /* memfd behind memory from braid_alloc(), whose offset 0 is base; -1 for other memory */
    int segment_fd;
    uint32_t id;                     /* unique in this process, never reused */
    void *keys[BR_SLOT_DEVICES];     /* by br_device slot index: see br_device.index */
    const struct br_region_gpu *gpu; /* NULL: host memory. The owner's */
};

/* Memory of a GPU: base is its address there, which the CPU cannot read. The descriptor is open
 * until all devices have registered the region. */
struct br_region_gpu {
    int dmabuf;             /* of the dma-buf that the memory lies in; -1: the driver gives none */
    uint64_t dmabuf_offset; /* of base in it */
    uint32_t devices;       /* that have keys, a bit each by br_device.index */
};

/* First member of every back end's device. */
struct br_device {
    const struct br_transport_ops *ops;
    const struct br_device_config *config;
    struct br_caps caps;
    char name[BR_DEVICE_NAME];
    int index; /* place in the worker's device array, set by the caller after open */
    struct br_device_counters {
        uint64_t tx_frames, tx_bytes, rx_frames, rx_bytes; /* bytes: payload */
        /* payload copied in user space besides placing it */
        uint64_t tx_copied_bytes, rx_copied_bytes;
        uint64_t rx_mapped_bytes;  /* handed over without any copy */
        uint64_t rx_reduced_bytes; /* combined where they lay (caps.combines) */
        /* memory regions registered with the NIC so far */
        uint64_t registrations;
        uint64_t pinned_bytes; /* of those that are registered now */
        /* payload that the device read and wrote in GPUs' memory */
        uint64_t tx_gpu_bytes, rx_gpu_bytes;
        uint64_t system_calls;
        uint64_t bad_frames;    /* malformed, each failed its link */
        uint64_t refused_links; /* incoming links dropped for max_links */
        /* datagrams that were damaged, none of ours, or for no link: dropped */
        uint64_t invalid_packets;
        /* datagrams of all kinds; 0 where they are not of our making */
        uint64_t tx_packets, rx_packets;
    } counters;
    /* for log lines that an unauthenticated peer can cause (base/log.h) */
    struct br_log_limit peer_lines;
};

/* First member of every back end's link. */
struct br_link {
    struct br_device *device;
    void *owner; /* for the protocol; the back end never touches it */
    /* set by the protocol when the peer has proved itself. Before, a back end that unauthenticated
     * peers can reach fails the link on a DATA frame (-EPROTO: slot numbers can be guessed), and
     * reports one frame of the link a poll, so that what follows the last proof finds this set */
    bool authenticated;
    char message[160];  /* why it failed, set before CLOSED is reported */
    char peer_name[64]; /* remote address in words, for logs */
};

/* What a back end is, for those who choose one and its devices. */
struct br_transport_traits {
    /* connects ranks of one host only, through shared memory; there are no devices to name */
    bool within_host;
    bool rdma; /* its devices are RDMA devices: the name of one is not that of its interface */
    /* a device belongs to one process, and the kernel has no interface for it */
    bool owns_device;
};

struct br_transport_ops {
    const char *name;
    struct br_transport_traits traits;

    /* Fills out[0..max): every device of this kind on the host, also unusable ones (why_not).
     * Returns how many, or -errno. May block briefly. Called by `braid info` and by the choice of
     * devices. */
    int (*probe)(struct br_device_info *out, int max);

    /* Opens and starts to listen. On success *out belongs to the caller until device_close(). On
     * failure nothing is left behind and words name the device. May block. */
    int (*device_open)(const struct br_device_config *config, struct br_device **out);
    /* Closes all links still open, fences them, frees everything. May block. */
    void (*device_close)(struct br_device *device);
    /* Where peers connect to. -ENOBUFS never: addresses fit by construction. */
    int (*device_address)(struct br_device *device, struct br_address *out);

    /* Makes region usable by this device (keys); -ENOMEM with the memlock hint. Not on the data
     * path. */
    int (*region_register)(struct br_device *device, struct br_region *region);
    /* No slot whose place lies in it has a token any more, and no frame from it is under way, or
     * all links are closed. */
    void (*region_release)(struct br_device *device, struct br_region *region);

    /*
     * caps.gpu only: has the device copy `bytes` from offset `from` of a GPU's memory to offset
     * `to`, by itself, as if to a peer. On resources of its own, so config need not be that of an
     * open device. The region has no keys before and after. 0: it has, the memory being known by
     * its dma-buf; 1: by the peer-memory module; -errno with a message: it cannot. Blocks, up to a
     * second or two; any thread.
     */
    int (*gpu_check)(const struct br_device_config *config, struct br_region *region, size_t from,
                     size_t to, size_t bytes);

    /*
     * caps.needs_place only. Makes the token of a slot: what the device at the other end must know
     * to write there. Called before the slot's number leaves, at most once until place_release().
     * slot->base, length and region say where; without a region it is any memory of the user's, and
     * the back end finds a way (keys of its own, or buffers from which it copies to slot->base
     * before it reports DATA). On the data path: no system call in the steady state. 0, or -errno
     * with a message: this device cannot, and the transfer's frames come over other rails, if there
     * are any: else the communicator fails. So it is not for a pool that is empty for a moment:
     * whoever has a slot must get a place, as the transfers that would make room may wait for this
     * very one.
     */
    int (*rkey_make)(struct br_device *device, struct br_slot *slot, uint8_t token[BR_RKEY_BYTES]);
    /* The token of the slot's present number is void. Once for each token made, while slot->base
     * and region still are what they were; before region_release(). device_close() releases those
     * that are left. */
    void (*rkey_release)(struct br_device *device, struct br_slot *slot);

    /* Starts to connect; *out is the caller's at once and CONNECTED or CLOSED follows. Words on
     * -errno; -EMFILE: max_links are open. */
    int (*link_connect)(struct br_device *device, const struct br_address *address,
                        struct br_link **out);
    /*
     * Fences and frees the link (note 5) and the message buffers that are still held. Frames on
     * their way may be lost, also those that were SENT unless caps.sent_means_placed: say goodbye
     * first. SENT events of its frames do not come any more. Maps that are still held through it
     * stay readable until map_release().
     */
    void (*link_close)(struct br_link *link);

    /* Packets of this link that had to be sent again, so far: by the back end, or by the kernel for
     * it. 0 where nobody knows. For counters: may cost a system call. */
    uint64_t (*link_resent)(struct br_link *link);

    /* The least round trip of a packet of this link, ns, as far as the back end knows of one that
     * waited for no queue of ours; 0 where nobody knows. May cost a system call. */
    uint64_t (*link_min_rtt)(struct br_link *link);

    /*
     * Takes frames[0..n) for sending in this order; returns how many it took (0: full, try after
     * the next poll), or -errno when the link has failed (CLOSED follows or has been reported).
     * Every taken frame yields one SENT. Frames may stay here until the next poll(), so that one
     * call to the kernel carries many.
     */
    int (*post)(struct br_link *link, const struct br_frame *frames, int n);

    /* Up to max events; never blocks. `now` is the caller's clock, in ns (the only clock a back end
     * should use). */
    int (*poll)(struct br_device *device, uint64_t now, struct br_event *events, int max);

    /* Before sleeping: a file descriptor that becomes readable when poll() has something to do, or
     * -EAGAIN: there is something right now, or -EOPNOTSUPP: this device must be polled. The
     * descriptor belongs to the device. */
    int (*wait)(struct br_device *device);
    /* Awake again: undoes what wait() armed. */
    void (*wake)(struct br_device *device);

    void (*message_release)(struct br_link *link, void *buffer);
    /*
     * The mapping of one DATA event is no longer read; the sender's SENT may now come. Valid also
     * after its link has been closed; the device must still be open. 0, or -ECONNRESET with a
     * message: the link was closed meanwhile on either side, so the sender may have changed the
     * bytes while they were read: what was made of them must not be used.
     */
    int (*map_release)(struct br_device *device, uint64_t map_handle);
};

/* The table of back ends (transport/table.c): completed with defaults. NULL: no such name, or not
 * built in. */
const struct br_transport_ops *br_transport_get(const char *name);
/* What the back end of this name is; nothing of all this where br_transport_get() gives NULL. */
struct br_transport_traits br_transport_traits(const char *name);
/* Is there a back end of this name that a user can choose, in this build or another? */
bool br_transport_known(const char *name);
/* The i-th back end, NULL behind the last. */
const struct br_transport_ops *br_transport_at(int i);

#endif
