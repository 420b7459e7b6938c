/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gradient sessions: all-reduces of gradients that hide behind the computation. A program declares
 * the layers of its network once and says when a gradient is there and when it is needed; the
 * session decides which gradients travel together and which goes first.
 *
 *     braid_session_create(comm, layers, n, NULL, &session);
 *     for (;;) {
 *         for (int l = 0; l < n; l++) {
 *             braid_gradient_wait(session, l);    the first time: nothing to wait for
 *             update(l), forward(l);
 *         }
 *         braid_session_step(session);
 *         for (int l = n - 1; l >= 0; l--) {
 *             backward(l);
 *             braid_gradient_ready(session, l);
 *         }
 *     }
 *     braid_session_free(session);
 *
 * A program that updates all weights at once calls braid_session_step() behind the backward pass
 * instead and needs no braid_gradient_wait(): the step waits for all gradients.
 *
 * Measured, then planned. The session times the program's passes between its own calls. When the
 * first iterations are over the ranks put their times together, measure what an all-reduce takes,
 * and plan; later they look again from time to time and plan anew when that is worth it. `auto`
 * with two ranks or more tries the plans of several policies on some iterations and keeps the
 * fastest until an iteration takes another time. doc/training.md has the policies.
 *
 * Order. Layers become ready in any order, on each rank in its own. An all-reduce starts when all
 * its layers are ready, and the all-reduces of an iteration start in the same order on all ranks,
 * those of the last layers first: one that is complete before its turn waits. So layers are best
 * declared in the order of the forward pass, as a backward pass comes to them from the last to the
 * first. Each layer must become ready in each iteration, or be named to braid_gradient_unused():
 * without it the others cannot travel, and wait and step say so.
 *
 * Threads. One thread at a time uses a session. Its operations are ordinary ones of the
 * communicator, which start inside braid_gradient_ready() and braid_gradient_unused(). Other
 * collective calls on this communicator come between braid_session_step() and the first layer that
 * is ready, or anywhere if layers become ready in the same order on all ranks; else they take
 * another communicator (braid_comm_split()). braid_session_create() and braid_session_step() are
 * collective calls.
 *
 * Errors are those of braid.h; after one that is not -EINVAL only braid_session_free() makes sense.
 */
#ifndef BRAID_TRAINING_H
#define BRAID_TRAINING_H

#include <braid/braid.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BRAID_SESSION_LAYERS   8192 /* of a session, at most */
#define BRAID_SESSION_POLICIES 7

struct braid_session;

/* The gradient of a layer. Layers count from 0 in the order of the forward pass. */
struct braid_layer {
    /* where the backward pass leaves it and the sum is found. NULL on all layers: the session
     * allocates them side by side, so that merged layers need no copy */
    void *gradient;
    size_t count; /* elements, at least 1; the same on all ranks */
};

/* Zero-initialise, then set what differs; all of it the same on all ranks. */
struct braid_session_options {
    size_t struct_size; /* sizeof, or 0: as of version 1.0 (braid.h) */
    const char *policy; /* layerwise | single | bucket | mgwfbp | optimal | p3 | auto; NULL: auto */
    enum braid_type type;
    enum braid_reduction reduction;
    int32_t priority; /* of the least urgent gradient; default 0 */
    /* iterations that are timed before the first plan; default 5. Until then `bucket`, unless the
     * policy needs no times */
    int warmup;
    /* iterations from one look at the times to the next; default 100; negative: plans once and for
     * all */
    int replan;
    size_t bucket_bytes; /* of the policy `bucket`; default 25 MiB */
    /* what an all-reduce of M bytes takes, a + b M: seconds, seconds a byte; both 0: by the job's
     * calibration (BRAID_CALIBRATION), else measured */
    double a, b;
    /*
     * of all all-reduces, as in struct braid_options; NULL: auto. A float sum's last bits depend on
     * the order in which ranks are added, which auto, ring, ... choose by where a number lies in
     * what travels together, hence by the policy; with `order` the bits are the same whatever the
     * policy
     */
    const char *algorithm;
    enum braid_order order; /* of all all-reduces, as in struct braid_options */
};

/* Collective; blocks until all ranks have called it. options may be NULL. Gradients may lie on GPUs
 * (braid.h). The gradients' memory must stay valid until braid_session_free(). -EINVAL; -EPROTO:
 * the ranks' layers or options differ; -ENOMEM. */
int braid_session_create(struct braid_comm *comm, const struct braid_layer *layers, int n,
                         const struct braid_session_options *options,
                         struct braid_session **session);

/* What people call the layer, in messages and, as the title of the all-reduce that it travels with,
 * in the timeline (BRAID_TRACE): at most the last 28 letters. The name is copied. -EINVAL: there is
 * no such layer; -ENOMEM. */
int braid_session_name(struct braid_session *session, int layer, const char *name);

/* The memory of a layer's gradient; NULL: there is no such layer. */
void *braid_gradient(struct braid_session *session, int layer);

/*
 * The backward pass has written a gradient: it is the session's until braid_gradient_wait() or
 * braid_session_step(), and the program must not write it meanwhile. Does not wait. Layers come in
 * any order, on each rank in its own. A layer that is used several times (shared weights, several
 * micro-batches) adds its gradients up in the program and is ready behind the last of them: each
 * layer once an iteration, the second time is -EINVAL with a message, whether or not its all-reduce
 * has begun.
 */
int braid_gradient_ready(struct braid_session *session, int layer);

/*
 * Instead of braid_gradient_ready(): this rank has no gradient of the layer in this iteration (a
 * branch that was not taken, an expert without tokens) and adds zeros, which the session writes;
 * BRAID_AVG counts the rank all the same. Other ranks may have a gradient of it: the sum is found
 * here, too. BRAID_GRADIENT_REST: all layers that are not ready yet, as behind a backward pass that
 * does not know which layers it used (find_unused_parameters of PyTorch's DistributedDataParallel).
 * Errors as of braid_gradient_ready().
 */
#define BRAID_GRADIENT_REST (-1)
int braid_gradient_unused(struct braid_session *session, int layer);

/*
 * Returns when the layer's gradient is the sum over all ranks and belongs to the program again. At
 * once when no layer has been made ready since the last step, or this one has been waited for.
 * -EINVAL with a message that names the layers: it, one that travels with it, or one whose
 * all-reduce goes first is not ready in this iteration, so it would never return. Where
 * braid_wait() is refused (in `done`, in an open group) it is, too; the session goes on.
 */
int braid_gradient_wait(struct braid_session *session, int layer);

/* The same for at most timeout_ms (0: does not wait; negative: until the end), for programs that
 * must look at something else now and then, as an interpreter at its signals. *done is 1, or 0
 * while the layer's all-reduce is under way, which is no error. */
int braid_gradient_test(struct braid_session *session, int layer, int timeout_ms, int *done);

/*
 * Ends an iteration: waits for all gradients that nobody has waited for. Once between two backward
 * passes; before the first one it does nothing. -EINVAL with a message that names them: some layers
 * are ready and others are not. Now and then it looks at the times and plans, which takes a few
 * milliseconds; the first time it measures, which takes some tens, on slow links up to some
 * seconds.
 */
int braid_session_step(struct braid_session *session);

/* What was measured since the last plan, or look, on this rank; what was predicted. Times in
 * seconds; 0: not known yet. Zero-initialise. */
struct braid_session_report {
    size_t struct_size;  /* sizeof, or 0: as of version 1.0 (braid.h) */
    uint64_t iterations; /* of the session */
    uint64_t plans;      /* how often it has planned anew; 0: warm-up */
    int groups;          /* all-reduces of an iteration */
    int urgent;          /* 1: gradients that the forward pass needs first overtake others */
    double a, b;         /* what an all-reduce of M bytes takes: a + b M */
    double iteration, predicted_iteration;
    double exposed, predicted_exposed; /* of an iteration: the program waits for gradients */
    /* into and out of a buffer in which merged gradients travel, all iterations */
    uint64_t copied_bytes;
    /* predicted iteration with layerwise, single, bucket, mgwfbp, optimal, p3, auto */
    double policies[BRAID_SESSION_POLICIES];
    /* what an iteration took by the plans of these, when `auto` last tried them; 0: not tried */
    double tried[BRAID_SESSION_POLICIES];
    /* iterations until it has, and keeps the fastest; 0: no trial. During a trial `iteration` is
     * the mean of the plans so far; just after, it is what the fastest took, and `exposed` is 0 */
    uint64_t trying;
};

int braid_session_report(struct braid_session *session, struct braid_session_report *report);

/* The first layer of each group, from layer 0 on, into first[0..max); returns how many groups there
 * are. */
int braid_session_groups(struct braid_session *session, int *first, int max);

/* Waits for what is under way, and frees; before braid_finalize(). NULL is allowed. Returns the
 * first error of what it waited for. */
int braid_session_free(struct braid_session *session);

#ifdef __cplusplus
}
#endif

#endif
