/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters of a running job: what braid.h's braid_stats(), braid_peer_stats() and
 * braid_rail_stats() fill in.
 *
 * Each counter is defined once, in the tables below: X(name, kind, help). From them come the fields
 * of the structs, the JSON and the Prometheus metrics of `braid top`, and a test holds doc/stats.md
 * against them. Every field of them is a uint64_t.
 *
 *     COUNTER   only grows, from braid_init() on
 *     GAUGE     how it is now
 *
 * Names say the unit: _bytes, _ns (nanoseconds), _packets; without one it is a number of times or
 * things.
 */
#ifndef BRAID_STATS_H
#define BRAID_STATS_H

#include <stddef.h>
#include <stdint.h>

/* A link to one peer, over all its connections. tx: sent by this rank, rx: received by it. */
#define BRAID_RAIL_FIELDS(X)                                                                       \
    X(up, GAUGE, "1: connected")                                                                   \
    X(tx_bytes, COUNTER, "payload handed to the back end, what had to go again included")          \
    X(rx_bytes, COUNTER, "payload arrived")                                                        \
    X(tx_frames, COUNTER, "frames of slices handed to the back end")                               \
    X(rx_frames, COUNTER, "frames of slices arrived")                                              \
    X(tx_messages, COUNTER,                                                                        \
      "messages handed to the back end: small transfers, requests, acknowledgements")              \
    X(rx_messages, COUNTER, "messages arrived")                                                    \
    X(resent_slices, COUNTER, "slices that had to go again because this rail was lost under them") \
    X(resent_packets, COUNTER,                                                                     \
      "packets sent again: by the kernel's TCP, or by the datagram protocol; 0 elsewhere")         \
    X(stalled_window_ns, COUNTER,                                                                  \
      "time in which something waited because the in-flight window was full: the link is busy")    \
    X(stalled_full_ns, COUNTER,                                                                    \
      "time in which something waited because the back end took no more frames")                   \
    X(stalled_credit_ns, COUNTER,                                                                  \
      "time in which messages waited for a credit: the peer has not taken earlier ones")           \
    X(failures, COUNTER, "times the connection was lost")                                          \
    X(reconnects, COUNTER, "times the connection came back after a loss")                          \
    X(in_flight_bytes, GAUGE,                                                                      \
      "payload posted and not known to have arrived; 0 where posting moves no bytes")              \
    X(window_bytes, GAUGE,                                                                         \
      "bound of that, the in-flight window: the time to drain it is the preemption latency")       \
    X(bytes_per_second, GAUGE, "rate while the window was used up, 0 until known")                 \
    X(min_rtt_ns, GAUGE, "least round trip that the back end or ACKs show, 0 until known")

/* A peer: what its rails share. Queues hold transfers that wait to leave, by the priority of their
 * operation. */
#define BRAID_PEER_FIELDS(X)                                                                       \
    X(queued_high, GAUGE, "transfers in the queue with a priority above 0")                        \
    X(queued_normal, GAUGE, "transfers in the queue with priority 0")                              \
    X(queued_low, GAUGE, "transfers in the queue with a priority below 0")                         \
    X(queued_bytes, GAUGE, "payload of these that has not left yet")                               \
    X(ready_messages, COUNTER, "large transfers for which the peer has said READY")                \
    X(ready_wait_ns, COUNTER,                                                                      \
      "time from their submission to READY, summed over transfers: the receiver was late")

/* Ways that are not taken though they would be faster, or safer: how often that was found out in
 * this process. */
#define BRAID_DOWNGRADES(X)                                                                        \
    X(downgrade_io_uring, COUNTER, "the kernel gives no io_uring: plain system calls")             \
    X(downgrade_gso, COUNTER, "the NIC cannot send several UDP packets as one: one by one")        \
    X(downgrade_receive_buffer, COUNTER, "net.core.rmem_max is small: UDP packets may be dropped") \
    X(downgrade_device_binding, COUNTER,                                                           \
      "frames cannot be bound to their NIC: they go where the routes lead")                        \
    X(downgrade_rdma, COUNTER, "RDMA devices stay unused because not every rank has them: TCP")    \
    X(downgrade_dmabuf, COUNTER, "no dma-buf for memory of a GPU: the peer-memory module")         \
    X(downgrade_gpu_staging, COUNTER, "GPU memory goes through host memory: no NIC reaches it")    \
    X(downgrade_gpu_direct, COUNTER,                                                               \
      "a NIC does not reach memory of a GPU, or some of it: host memory")                          \
    X(downgrade_gpu_pinning, COUNTER, "host memory cannot be pinned for a GPU: its copies block")  \
    X(downgrade_gpu_reduction, COUNTER, "values of a GPU cannot be combined there: on the CPU")    \
    X(downgrade_gpu_sharing, COUNTER,                                                              \
      "GPU memory of other processes cannot be mapped: host memory")                               \
    X(downgrade_receive_queue, COUNTER,                                                            \
      "the RDMA receive queue is shorter than wanted: senders may wait")                           \
    X(downgrade_bounce, COUNTER,                                                                   \
      "memory cannot be pinned: a copy through buffers of the RDMA device")                        \
    X(downgrade_mapping, COUNTER,                                                                  \
      "more regions in use with a peer of this host than can be mapped: a copy")                   \
    X(downgrade_direct_reads, COUNTER,                                                             \
      "a rank of this host cannot read another one's memory: a copy more")

/* A rank: the communicator's operations, and the sums and other counters of everything that this
 * process has of the job. */
#define BRAID_RANK_FIELDS(X)                                                                       \
    X(operations, COUNTER, "operations ended well")                                                \
    X(failed_operations, COUNTER, "operations ended with an error")                                \
    X(shm_operations, COUNTER, "small collectives through the shared memory of the host")          \
    X(outstanding, GAUGE, "operations submitted and not ended")                                    \
    X(tx_bytes, COUNTER, "payload handed to the back ends, over all rails")                        \
    X(rx_bytes, COUNTER, "payload arrived, over all rails")                                        \
    X(copied_bytes, COUNTER,                                                                       \
      "payload copied in user space besides the one copy that places it: eager, staging and what " \
      "tcp reads ahead")                                                                           \
    X(direct_bytes, COUNTER,                                                                       \
      "payload that arrived straight in its destination, without a copy through a buffer")         \
    X(mapped_bytes, COUNTER,                                                                       \
      "payload read in the peer's memory, not copied at all; or copied there or from there by a "  \
      "put or a get within its call, or from there by an alltoall, a scatter, a gather or, of "    \
      "two ranks, an allgather, a broadcast or a reduce")                                          \
    X(relayed_frames, COUNTER, "frames passed on for other ranks")                                 \
    X(relayed_bytes, COUNTER, "payload of these")                                                  \
    X(relay_stalls, COUNTER,                                                                       \
      "times frames on their way had to wait for a buffer at the next host")                       \
    X(unreachable, COUNTER, "routes that broke here, or beyond")                                   \
    X(slot_stalls, COUNTER,                                                                        \
      "large receives that had to wait because all places for arriving transfers were taken")      \
    X(slots_waiting, GAUGE, "of these, now")                                                       \
    X(failed_handshakes, COUNTER,                                                                  \
      "links refused: no proof of the secret, malformed or timed-out handshake, another version, " \
      "no room for one more")                                                                      \
    X(dropped_frames, COUNTER, "malformed or stale frames")                                        \
    X(invalid_packets, COUNTER, "datagrams that were damaged or for no link")                      \
    X(system_calls, COUNTER, "system calls of the back ends")                                      \
    X(tx_packets, COUNTER,                                                                         \
      "packets of the datagram protocol (udp, dpdk) sent, acknowledgements included")              \
    X(rx_packets, COUNTER, "packets of the datagram protocol received, acknowledgements included") \
    X(late_allocations, COUNTER, "pools that had to grow after braid_init()")                      \
    X(skipped_rails, COUNTER,                                                                      \
      "rails left out of a transfer because their device could make no remote key for it")         \
    X(registrations, COUNTER,                                                                      \
      "of memory with NICs that want it (verbs); stands still once all buffers are known")         \
    X(pinned_bytes, GAUGE, "registered with NICs, over all of them")                               \
    X(unregistered, COUNTER,                                                                       \
      "uses of buffers that went with a copy because they could not be registered")                \
    X(gpu_to_host_bytes, COUNTER,                                                                  \
      "payload copied from GPUs into host memory, on its way to NICs or the CPU")                  \
    X(host_to_gpu_bytes, COUNTER, "payload copied from host memory into GPUs")                     \
    X(nic_from_gpu_bytes, COUNTER, "payload that NICs read in memory of GPUs themselves")          \
    X(nic_to_gpu_bytes, COUNTER, "payload that NICs wrote there themselves")                       \
    X(gpu_reduced_bytes, COUNTER, "results of collectives that were combined on GPUs")             \
    X(gpu_peer_bytes, COUNTER,                                                                     \
      "bytes that GPUs of this process read in GPU memory of other processes of this host")        \
    X(progress_calls, COUNTER, "calls of the progress loop")                                       \
    X(busy_ns, COUNTER, "time in calls of the progress loop that found something to do")           \
    X(idle_ns, COUNTER, "time in calls of the progress loop that found nothing to do: spinning")   \
    X(asleep_ns, COUNTER, "time asleep in the descriptors of devices, over all threads")           \
    X(process_cpu_ns, COUNTER, "CPU time of the whole process")                                    \
    BRAID_DOWNGRADES(X)

#define BRAID_FIELD_(name, kind, help) uint64_t name;

struct braid_rail_stats {
    size_t struct_size; /* sizeof, or 0: as of version 1.0 (braid.h) */
    /* rank in the communicator; number of the rail; of the network it is on, 0 in a mesh */
    int peer, rail, level;
    char device[48]; /* back end and device of this rank: "tcp:eth0" */
    BRAID_RAIL_FIELDS(BRAID_FIELD_)
};

struct braid_peer_stats {
    size_t struct_size; /* sizeof, or 0: as of version 1.0 (braid.h) */
    int peer;           /* rank in the communicator */
    BRAID_PEER_FIELDS(BRAID_FIELD_)
};

struct braid_stats {
    size_t struct_size; /* sizeof, or 0: as of version 1.0 (braid.h) */
    BRAID_RANK_FIELDS(BRAID_FIELD_)
};

#endif
