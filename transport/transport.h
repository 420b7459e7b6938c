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

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "transport/frame.h"
#include "transport/slot.h"

/* Bytes that a back end has for its own address, which only that back end can read. */
#define BR_ADDRESS_BYTES 120
/* Bytes of a device's name, the final zero included. */
#define BR_DEVICE_NAME 48

/* Where a device can be reached; published through the bootstrap store. */
struct br_address {
    /* Of a back end within one host: a number of the host, the same for two addresses exactly when
     * they can reach each other (transport/host.h). 0 for all other back ends. */
    uint64_t host;
    uint16_t bytes; /* that are used of data */
    uint8_t data[BR_ADDRESS_BYTES];
};

/* What a device can do. Set by device_open() and constant from then on. */
struct br_caps {
    uint32_t max_frame;   /* The most payload bytes of a DATA frame. */
    uint32_t max_message; /* The most payload bytes of a MESSAGE frame, without the inline part. */
    bool sent_means_arrived; /* SENT comes only after the bytes are in the receiver's memory. */
    /* The device maps the memory of its peers, which are therefore on this host. It may report
     * mapped arrivals (br_event.mapped) for slots with may_map, and shares regions (share()).
     * Posting moves only descriptors, so rails need no window of bytes in flight. */
    bool maps;
    /* The device applies a slot's reducer itself (doc/design/back_ends.md, note 9). */
    bool reduces;
    /* The NIC reads and writes memory by itself. DATA frames to this device need a remote key (note
     * 8), and region_register() pins memory, which takes long, so registrations are worth keeping
     * (cache.h). It may take memory of GPUs, too (note 11). Implies sent_means_arrived and excludes
     * maps. */
    bool needs_rkey;
    /* The device takes messages with br_frame.spare. */
    bool spares;
};

/* What probe() has found: one NIC, or the one pseudo device of shm. */
struct br_device_info {
    char name[BR_DEVICE_NAME]; /* What the user writes in BRAID_DEVICES: eth0, lo, shm0. */
    char detail[112];          /* Address, rate and chosen features, one line for `braid info`. */
    /* Empty when the device can be used; else the reason why not and the command that mends it. */
    char why_not[408];
    int numa_node;            /* The NUMA node of the device, or -1 when it is unknown. */
    uint64_t bits_per_second; /* The rate of the link in bit/s, or 0 when it is unknown. */
    bool loopback;            /* The device reaches this host only. */
    bool software; /* An RDMA device without hardware: BRAID_BACKEND=auto takes it only by name. */
};

struct br_region;

/* How to open a device. The caller keeps the struct, and what it points to, until the device is
 * closed. */
struct br_device_config {
    /* The name in br_device_info, or an IP address where the back end has such, or NULL for any
     * device. */
    const char *name;
    int level;                   /* The number of the rail, for messages and the log. */
    struct br_slot_table *slots; /* The slots of the worker, which poll() reads. */
    uint32_t message_bytes;      /* Payload bytes of one receive buffer for messages. */
    /* Receive buffers for messages of each link. When a peer has more messages outstanding than
     * that, either the sender waits until one is released and nothing is lost, or its link fails
     * with a message. */
    uint32_t message_buffers;
    /* A link from which nothing comes is kept for at least so many ns; the protocol has a timeout
     * of its own. 0 leaves the time to the back end. */
    uint64_t patience;
    /* Frames leave and arrive only through the NIC of this device, whatever routes the host has.
     * Without effect on a loopback device. */
    bool own_nic_only;
    /* It listens at any port, also where BRAID_PORT_RANGE names some: its only peer is itself. */
    bool any_port;
    /* Of a device with a thread (threaded/): for how long the thread polls without finding anything
     * before it sleeps, ns. */
    uint64_t thread_spin;
    /* The most links that are open at once, including incoming ones that have not been reported. */
    uint32_t max_links;
    /* verbs: 1 + the GID index that the inventory names, or 0 when it names none. */
    uint32_t gid;
    /* sim: what br_sim_device_config() has set; NULL for all other back ends. */
    void *simulation;
};

struct br_device;
struct br_link;

/* A frame to post. post() copies the struct, inline_ and rkey, and the payload of a MESSAGE to a
 * device with caps.maps. The caller keeps other payload readable and unchanged until SENT is
 * reported or the link has been closed; without a cookie until it knows otherwise that the frame
 * has arrived. */
struct br_frame {
    enum br_frame_kind kind;
    const void *payload; /* May be NULL when length is 0. */
    uint32_t length;     /* Bytes of payload. */
    uint32_t slot;       /* DATA: the number of the receiver's slot. */
    uint32_t offset; /* DATA: bytes from the start of the transfer, at the start of a granule. */
    /* DATA to a device with caps.needs_rkey: the remote key of the slot, BR_RKEY_BYTES. Else
     * NULL. */
    const uint8_t *rkey;
    struct br_region *region; /* The region that the payload lies in, or NULL when it is in none. */
    const uint8_t *inline_;   /* BR_FRAME_INLINE bytes for the header, or NULL for zeros. */
    /* MESSAGE to a device with caps.spares, or NULL: the payload is the caller's again when post()
     * returns. The device sends it at once, and what has not left it copies to this place of as
     * many bytes, which is kept until SENT in its stead. */
    void *spare;
    uint64_t cookie; /* The SENT event of this frame has it; 0: there is none. */
    /* DATA: a larger number is more urgent. A hint for back ends that have queues of their own. */
    int32_t priority;
    /* DATA: the payload stays readable and unchanged until the peer has confirmed that it has
     * arrived, or the link is closed, if that is later than SENT. The device may have it read there
     * until then, in place of a copy. */
    bool lasts;
};
/* Payload of fewer bytes is copied: there the pages cost as much as the copy. */
#define BR_LASTING_BYTES (64u << 10)

/* Fills in all of a header, as the frame is to travel. */
static inline void br_frame_header_fill(struct br_frame_header *header,
                                        const struct br_frame *frame)
{
    header->magic = BR_FRAME_MAGIC;
    header->version = BR_FRAME_VERSION;
    header->kind = (uint8_t)frame->kind;
    header->length = frame->length;
    header->slot = frame->slot;
    header->offset = frame->offset;
    if (frame->inline_)
        memcpy(header->inline_, frame->inline_, BR_FRAME_INLINE);
    else
        memset(header->inline_, 0, BR_FRAME_INLINE);
}

enum br_event_kind {
    /* A peer has made `link`, which can be used from now on. It belongs to the caller, which closes
     * it by link_close(). */
    BR_EVENT_ACCEPTED,
    /* The link that link_connect() began can be used from now on. */
    BR_EVENT_CONNECTED,
    /* `link` has failed with `error`, or the peer has closed it; link->message says why. It still
     * belongs to the caller, which has to call link_close(). No further event of it follows.
     * -ESHUTDOWN: the peer closed it, where a close is not what a process that dies leaves behind;
     * frames of the peer may be missing that it had posted before. */
    BR_EVENT_CLOSED,
    /* The payload of the frame that was posted with `cookie`, which is not 0, is not needed any
     * more. */
    BR_EVENT_SENT,
    /* A message has arrived: inline_, payload and length. They are valid until the caller gives
     * `buffer` back by release(). */
    BR_EVENT_MESSAGE,
    /* `length` bytes at `offset` of `slot` have arrived, or can be read at `mapped`. Also reported
     * for a frame that nobody expected any more, whose bytes were dropped: then `stale` is set or
     * br_slot_expect() returns -ESTALE. */
    BR_EVENT_DATA,
};

/* What poll() reports. A field belongs to the kinds of event that its comment names. */
struct br_event {
    enum br_event_kind kind;
    int error; /* CLOSED: a negative errno. */
    struct br_link *link;
    uint64_t cookie;       /* SENT: br_frame.cookie of the frame. */
    uint32_t slot, offset; /* DATA: those of the frame. */
    /* DATA: nobody expected the frame when it came. Its bytes were dropped and its numbers have not
     * been checked; a slot with this number may have come into use since. */
    bool stale;
    uint32_t length; /* MESSAGE: bytes of payload. DATA: bytes that have arrived. */
    /* MESSAGE and DATA: BR_FRAME_INLINE bytes from the header. Valid until release() for a
     * MESSAGE, until the next poll() for DATA. */
    const uint8_t *inline_;
    const uint8_t *payload; /* MESSAGE: the payload. */
    /* DATA: NULL, or the bytes were not copied and the caller reads them here until release(). */
    const uint8_t *mapped;
    /* What to give to release(). Of every MESSAGE, and of DATA with `mapped`. */
    void *buffer;
};

/* Registered memory; there is one region for each range of memory in a process. The caller of
 * region_register() owns it. */
struct br_region {
    void *base;
    size_t bytes;
    /* The memfd behind memory of braid_alloc(), whose offset 0 is base; -1 for other memory. */
    int segment_fd;
    uint32_t id;                 /* Unique in this process and never used again. */
    void *keys[BR_SLOT_DEVICES]; /* What each back end keeps of it, by br_device.index. */
    struct br_region_gpu *gpu;   /* NULL for host memory. Belongs to the owner of the region. */
};

/* Memory of a GPU: the region's base is its address on the GPU, which the CPU cannot read. The
 * owner keeps the descriptor open until all devices have registered the region. */
struct br_region_gpu {
    int dmabuf; /* The descriptor of the dma-buf with the memory; -1 when the driver gives none. */
    uint64_t dmabuf_offset; /* Bytes from the start of the dma-buf to the region's base. */
    uint32_t devices;       /* Which devices have keys: a bit each, by br_device.index. */
    /* Set by region_register(): NULL, or why the device knows the memory by its address, through a
     * peer-memory module of the kernel, and not by the dma-buf; a constant text. */
    const char *no_dmabuf;
};

/* A region of a peer, where this process reads and writes it by itself. */
struct br_shared {
    uint8_t *base;
    size_t bytes;
    /* It is shared as long as `id` stands here and br_device.unshared stays the same; NULL: only
     * share() tells. */
    const _Atomic uint64_t *place;
    uint64_t id;
};

/* A device; the first member of every back end's own struct. */
struct br_device {
    const struct br_transport_ops *ops;    /* Set by br_transport_open(). */
    const struct br_device_config *config; /* As given to device_open(). */
    struct br_caps caps;
    char name[BR_DEVICE_NAME];
    struct br_address address; /* What peers give to link_connect(). Set by device_open(). */
    int index; /* The device's number in the worker, which the caller sets after device_open(). */
    /* Frames were posted that leave in the next poll(). Set by post(), cleared by poll(). */
    bool unsent;
    /* Set by poll() of a device with a thread of its own (threaded/): more may have arrived than
     * poll() has reported, although that was less than `max`. */
    bool behind;
    /* Changes when something that share() has found at this end may be out of reach from now on. */
    uint32_t unshared;
    /* What has happened since device_open(). "Bytes" are bytes of payload. */
    struct br_device_counters {
        uint64_t tx_frames, tx_bytes, rx_frames, rx_bytes;
        /* Bytes copied in user space, without the copy into the receiver's memory. */
        uint64_t tx_copied_bytes, rx_copied_bytes;
        uint64_t rx_mapped_bytes;            /* Reported through br_event.mapped, without a copy. */
        uint64_t rx_reduced_bytes;           /* Given to a slot's reducer (caps.reduces). */
        uint64_t registrations;              /* Regions registered with the NIC. */
        uint64_t pinned_bytes;               /* Bytes of memory that are registered now. */
        uint64_t tx_gpu_bytes, rx_gpu_bytes; /* Read from and written to memory of GPUs. */
        uint64_t system_calls;
        uint64_t bad_frames;      /* Malformed frames, each of which has failed its link. */
        uint64_t refused_links;   /* Incoming: max_links were open, or another version came. */
        uint64_t invalid_packets; /* Datagrams dropped: damaged, not braid's, or of no link. */
        /* Datagrams of all kinds; 0 where the back end does not make datagrams itself. */
        uint64_t tx_packets, rx_packets;
    } counters;
    /* The limit for log lines that an unauthenticated peer can cause (base/log.h). */
    struct br_log_limit peer_lines;
};

/* What a back end knows of the path of a link; 0 is what it does not know. */
struct br_link_facts {
    uint64_t resent_packets; /* So far, by the back end or by the kernel. */
    /* The least round trip in ns of a packet that has waited in no queue of this process. */
    uint64_t min_rtt;
    /* Bytes/s that the path carried last, whenever the peer's process ran; 0: not known. */
    uint64_t delivery_rate;
};
/* How old the facts may be, ns, while poll() is called all the time. A back end that has to ask for
 * them asks about one link after the other: with more than 50 links of a device they may be 1 ms
 * older for each. Nobody calls poll() only for them, neither a worker that sleeps nor the thread of
 * a device (threaded/). */
#define BR_LINK_FACTS_AGE (100 * BR_MS)

/* A link between two devices; the first member of every back end's own struct. */
struct br_link {
    struct br_device *device;
    void *owner; /* For the protocol; the back end does not use it. */
    /* Set by the protocol when the peer has authenticated itself. Before that, a back end that
     * unauthenticated peers can reach fails the link on a DATA frame with -EPROTO, because slot
     * numbers can be guessed. It also reports at most one frame of the link in a poll, so that this
     * is set before it looks at the frame behind the last one of the authentication. */
    bool authenticated;
    /* Set by the protocol around a post() behind which it has nothing more to post: a back end that
     * gathers frames for its next poll() sends the frame now, if it can. */
    bool alone;
    /* Set by the protocol around a post() behind which it may have more: such a back end sends the
     * frame now, also one with a spare, if it is one of a stream, between which nobody waits. */
    bool streamed;
    /* Set by the back end, at any time: frames that last would be of use to it. */
    bool lends;
    /* Set by poll(): when it reports ACCEPTED, CONNECTED or CLOSED, and between that as
     * BR_LINK_FACTS_AGE says. */
    struct br_link_facts facts;
    char message[160];  /* Why the link has failed; set before CLOSED is reported. */
    char peer_name[64]; /* The peer's address as text, for the log. */
};

/* What a back end is like, for the choice of a back end and its devices. */
struct br_transport_traits {
    /* It connects only ranks of one host, through shared memory, and has no devices to name. */
    bool within_host;
    /* Its devices are RDMA devices, whose names are not those of their network interfaces. */
    bool rdma;
    /* A device belongs to one process, and the kernel has no interface for it. */
    bool owns_device;
    /* It makes its packets itself, and counts them (br_device_counters.tx_packets). */
    bool packets;
};

/* The functions of a back end. Unless said otherwise they do not block and are called under the
 * lock of the worker that has the device. Those that return an int return 0 or more for success and
 * a negative errno for failure. */
struct br_transport_ops {
    const char *name;
    struct br_transport_traits traits;

    /* Fills out[0..max) with the devices of this kind on the host, including those that cannot be
     * used (br_device_info.why_not). Returns their number, or a negative errno. May block for a
     * short time. Used by `braid info` and by the choice of devices. */
    int (*probe)(struct br_device_info *out, int max);

    /* Opens a device, which listens for links from then on. Returns 0, and *out belongs to the
     * caller until device_close(); or a negative errno with a message that names the device, and
     * nothing stays open. May block. */
    int (*device_open)(const struct br_device_config *config, struct br_device **out);
    /* Closes all links that are open, as link_close() does, and frees the device. May block. */
    void (*device_close)(struct br_device *device);

    /* Registers a region with this device and keeps its keys in region->keys. Returns 0 or a
     * negative errno with a message; that of -ENOMEM names the limit of locked memory;
     * -EOPNOTSUPP: the device takes no memory of GPUs. Not on the data path. */
    int (*region_register)(struct br_device *device, struct br_region *region);
    /* Undoes region_register(). Before this call, the remote keys of all slots whose memory lies in
     * the region are released and no frame from it is under way, or all links are closed. */
    void (*region_release)(struct br_device *device, struct br_region *region);

    /*
     * For devices with caps.needs_rkey: makes or ends the remote key of a slot, by which the
     * sender's device writes to the slot's memory.
     *
     * token not NULL: makes it. Called before the slot's number is sent to the peer, and once until
     * the key is ended. slot->base, length and region say which memory. When it lies in no region,
     * it may be any memory of the user's: the back end registers it, or receives into buffers of
     * its own and copies from there to slot->base before it reports DATA.
     *
     * On the data path: makes no system call in the steady state. Writes BR_RKEY_BYTES to `token`
     * and returns 0; or returns a negative errno with a message, and the frames of this transfer go
     * over other rails; the communicator fails when there are none. So it must not fail because a
     * pool is empty for a moment: the transfers that would give memory back may wait for this one.
     *
     * token NULL: makes the key of the slot's present number invalid, and returns 0. Called once
     * for each key, while slot->base and slot->region are still what they were, and before
     * region_release(). device_close() ends the keys that are left.
     */
    int (*rkey)(struct br_device *device, struct br_slot *slot, uint8_t token[BR_RKEY_BYTES]);

    /*
     * For devices with caps.maps: lets both ends of a link read and write a region in place
     * (doc/design/back_ends.md, note 12).
     *
     * own not NULL: the owner's end, with a region that is registered with the link's device. From
     * then on the other end finds it, until region_release() or until the link closes at either
     * end. Calling it again changes nothing. Returns 0; -EAGAIN or -ENOSPC: not yet, it may later;
     * or another negative errno: this region cannot be shared over this link.
     *
     * own NULL: the other end. Finds the peer's region with this id. Returns 0, fills all of
     * *theirs, and what that names may be read and written until the worker's lock is given up.
     * Where it gives a place, the device changes `unshared` whenever the region ceases to be
     * reachable in a way that the place does not show. Or a negative errno: it is not shared,
     * not any more, which shows at once, or not yet: it may take some polls to come. May be called
     * while a thread sleeps in what arm() has returned, which stays armed.
     *
     * On the data path: finding again what was found before makes no system call.
     */
    int (*share)(struct br_link *link, const struct br_region *own, uint32_t id,
                 struct br_shared *theirs);

    /* Starts to connect to a peer's device. Returns 0, and *out belongs to the caller at once; a
     * CONNECTED or CLOSED event follows. Or returns a negative errno with a message; -EMFILE when
     * max_links are open. */
    int (*link_connect)(struct br_device *device, const struct br_address *address,
                        struct br_link **out);
    /*
     * Closes a link, and frees it and the message buffers of it that were not released. When it
     * returns, no byte is written to any slot through the link, and none of its events is reported
     * any more, SENT included (doc/design/back_ends.md, note 5). Frames under way may be lost, also
     * those with a SENT event unless caps.sent_means_arrived; so the protocol takes leave of its
     * peer first. Mappings that came over the link stay readable until release().
     */
    void (*link_close)(struct br_link *link);

    /*
     * Takes frames[0..n) for sending, in this order. Returns how many it has taken, 0 when there is
     * no room before the next poll(), any of which may make some without an event; or a negative
     * errno when the link has failed, for which CLOSED has been reported or will be. Each frame
     * with a cookie that was taken yields one SENT event, unless the link fails. Frames may wait
     * until the next poll(), so that one system call carries many.
     */
    int (*post)(struct br_link *link, const struct br_frame *frames, int n);

    /* Receives, sends, and writes up to max events to events[]. now: the caller's clock in ns, the
     * only clock that a back end should use. Returns the number of events; a failure is an event
     * of a link, CLOSED. */
    int (*poll)(struct br_device *device, uint64_t now, struct br_event *events, int max);

    /* Called before the worker sleeps, any number of times. Returns a file descriptor that becomes
     * readable when poll() has something to do, and which belongs to the device; -EAGAIN when
     * poll() has something to do right now; or -EOPNOTSUPP when this device can only be polled. The
     * next poll() finds out by itself that nobody sleeps any more. */
    int (*arm)(struct br_device *device);

    /*
     * Gives back br_event.buffer of one event of the device.
     *
     * link: that of a MESSAGE, which must be open; returns 0. NULL for a mapping, which may outlive
     * its link: the sender gets its SENT event. Returns 0; or -ECONNRESET with a message when
     * either side has closed the link meanwhile: then the sender may have changed the bytes while
     * they were read, and what was computed from them must not be used.
     */
    int (*release)(struct br_device *device, struct br_link *link, void *buffer);
};

/* Opens a device as device_open() says. */
static inline int br_transport_open(const struct br_transport_ops *ops,
                                    const struct br_device_config *config, struct br_device **out)
{
    int rc = ops->device_open(config, out);

    if (!rc)
        (*out)->ops = ops;
    return rc;
}

/*
 * The table of the back ends in this build (transport/table.c), whose entries have a function in
 * place of each one that a back end lacks. These functions may be called from any thread and do not
 * block; what they return is constant.
 */

/* Returns the back end of this name, or NULL when this build has none. */
const struct br_transport_ops *br_transport_get(const char *name);
/* Returns the traits of the back end of this name; none is set where br_transport_get() returns
 * NULL. */
struct br_transport_traits br_transport_traits(const char *name);
/* Returns whether there is a back end of this name that a user can choose, in this build or in
 * another one. */
bool br_transport_known(const char *name);
/* Returns the back end that braid takes between hosts when the user has not named one: over RDMA
 * devices, or over the sockets of the kernel. NULL: this build has none. */
const struct br_transport_ops *br_transport_default(bool rdma);
/* Returns the back end whose devices are those of `ops` with a thread each, which makes their
 * system calls and moves their bytes (doc/design/progress.md, section 6); or NULL when they gain
 * nothing by that. The table has the same name and fulfils the same contract. */
const struct br_transport_ops *br_transport_threaded(const struct br_transport_ops *ops);
/* Returns back end number i, counted from 0, or NULL behind the last. */
const struct br_transport_ops *br_transport_at(int i);

#endif
