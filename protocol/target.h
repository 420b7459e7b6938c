/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of a GPU that a peer puts to or gets from: neither the worker's CPU nor most devices can
 * touch it. Who registers regions says where the bytes go instead, and takes them on from there, in
 * its own time (collectives/gpu/onesided_target.c); the worker moves them as ever (onesided.c).
 *
 *     put:  target_begin(), bytes come into `memory`, target_store(), the answer leaves,
 * target_done() get:  target_begin(), bytes leave out of `memory`, target_done()
 *
 * 1. What begin() or store() cannot do at once it says is not through, and br_onesided_resume()
 *    later: the worker waits for no GPU. Nothing is said when the worker has failed meanwhile.
 * 2. So a put is answered when its bytes stand in the GPU's memory, as one to host memory is.
 *    Rejected: an answer when they are in host memory of the target. Its program, told of them by
 *    its peer, would read what stood there before.
 * 3. A get takes its READY in when its bytes are there. Until then that holds a credit, for the
 *    time of one copy.
 */
#ifndef BR_PROTOCOL_TARGET_H
#define BR_PROTOCOL_TARGET_H

#include <stdbool.h>
#include <stdint.h>

struct br_region;
struct br_worker;

struct br_target {
    /* the worker's */
    /* that the memory lies on, numbered as region_find() does; 0: it is host memory */
    int gpu;
    void *address;  /* its address there */
    uint32_t bytes; /* <= BR_MAX_TRANSFER */
    int peer;       /* rank */
    bool arrives;   /* put; else get */
    bool carried;   /* put: the bytes came with the request, and the CPU copies them */
    /* what region_find() gave: target_done() gives it back by region_done() */
    struct br_region *owner;

    /* what target_begin() gives */
    void *memory;             /* where bytes go to, or leave from */
    struct br_region *region; /* that it lies in, or NULL */
    void *staging;            /* its own */
};

struct br_target_hooks {
    /* memory may be used; for a put it always may. false: resume() comes, or the worker has
     * failed */
    bool (*begin)(void *context, struct br_target *target);
    /* put: all bytes are in memory. true: they stand on the GPU. false: resume() comes, or the
     * worker has failed */
    bool (*store)(void *context, struct br_target *target);
    /* The worker and its devices do not touch memory any more, and forget the target. Also without
     * an end, when the worker has failed. */
    void (*done)(void *context, struct br_target *target);
};

/* What begin() or store() did not do at once is done. The worker has not failed, and has not called
 * done(). */
void br_onesided_resume(struct br_worker *worker, struct br_target *target);

#endif
