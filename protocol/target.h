/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of a GPU that a peer puts to or gets from: neither the worker's CPU nor most devices can
 * touch it. Whoever registers regions says where the bytes go instead, and takes them on from there
 * in its own time (collectives/gpu/onesided_target.c). The worker moves them as it moves all bytes
 * (onesided.c). The worker calls the hooks in this order:
 *
 *     put: begin(), bytes arrive in `memory`, store(), the answer leaves, done()
 *     get: begin(), bytes leave from `memory`, done()
 *
 * 1. begin() and store() return false when they cannot finish at once, and br_onesided_resume()
 *    tells the worker later: it waits for no GPU. Nothing is told to a worker that has failed
 *    meanwhile.
 * 2. A put is answered when its bytes stand in the GPU's memory. Rejected: an answer when they are
 *    in host memory of the target. Its program, told of them by its peer, would read older bytes.
 * 3. A get takes its READY when its bytes are in host memory. Until then the READY is kept as an
 *    early one (match.c, note 2), for the time of one copy.
 */
#ifndef BR_PROTOCOL_TARGET_H
#define BR_PROTOCOL_TARGET_H

#include <stdbool.h>
#include <stdint.h>

struct br_region;
struct br_worker;

struct br_target {
    /* filled in by the worker */
    int gpu;       /* on which the memory lies, as region_find() numbers it; 0: it is host memory */
    void *address; /* its address there */
    uint32_t bytes; /* <= BR_MAX_TRANSFER */
    int peer;       /* rank */
    bool arrives;   /* put; else get */
    bool carried;   /* put: the bytes came with the request, and the CPU copies them */
    /* from region_find(); done() gives it back by region_done() */
    struct br_region *owner;

    /* filled in by begin() */
    void *memory;             /* where bytes go to, or leave from */
    struct br_region *region; /* that it lies in, or NULL */
    void *staging;            /* the hooks' own */
};

struct br_target_hooks {
    /* Fills in `memory` and `region`. true: the memory may be used now, as it always may for a put.
     * false: br_onesided_resume() says so later, unless the worker fails before. */
    bool (*begin)(void *context, struct br_target *target);
    /* Put only: all bytes are in `memory`. true: they stand in the GPU's memory. false:
     * br_onesided_resume() says so later, unless the worker fails before. */
    bool (*store)(void *context, struct br_target *target);
    /* The worker and its devices do not touch `memory` any more and forget the target. Also called
     * for accesses that have not ended when the worker fails. */
    void (*done)(void *context, struct br_target *target);
};

/* Under the worker's lock: what begin() or store() could not do at once is done. Not to be called
 * after done(), nor when the worker has failed. */
void br_onesided_resume(struct br_worker *worker, struct br_target *target);

#endif
