/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a struct braid_parameters (braid/parameters.h) holds. The program's thread and the service
 * thread (service.c) share it without a lock; doc/design/parameters.md says who may touch what, and
 * why. The comments below name its sections.
 */
#ifndef BR_TRAINING_PARAMETERS_PARAMETERS_H
#define BR_TRAINING_PARAMETERS_PARAMETERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <braid/parameters.h>

#include "training/session/profiler.h"
#include "training/parameters/shard.h"
#include "training/parameters/update.h"

#define BR_PARAMETERS_TEXT 512
/* Iterations by which a worker may be ahead of its own server, of whose rates it must still know.
 */
#define BR_PARAMETERS_RATES 64u

enum br_parameters_method {
    BR_PARAMETERS_SSGD,
    BR_PARAMETERS_ASGD,
    BR_PARAMETERS_SSD,
    BR_PARAMETERS_LOCAL,
    BR_PARAMETERS_METHODS
};

enum br_parameters_state {
    BR_PARAMETERS_READY,   /* weights are valid; a delayed pull may be under way */
    BR_PARAMETERS_PUSHED,  /* our thread's: not looked at yet */
    BR_PARAMETERS_PULLING, /* our thread's: a pull that the next forward pass needs */
};

/* A layer on a worker. */
struct br_parameters_layer {
    size_t count;
    float *weight;
    float *gradients[2]; /* of even and odd iterations (section 6); the same but with ssd */
    float *pulled;       /* where pulls arrive; ssgd, asgd: `weight` */
    /* ssd: as in update.h; trades places with `pulled` when the next pull is posted */
    float *pre_weight;
    float *velocity; /* local */
    _Atomic int state;
    /* the iteration in which the program asked for the gradient's memory, counted from 1 */
    uint64_t requested;
    uint64_t iteration;                  /* in which it was handed over */
    bool pulling;                        /* receives of a pull are posted */
    char push_title[24], pull_title[24]; /* in the timeline */
    /* braid_parameters_set_rate(), the program's; and what counted in the last iterations, by their
     * number: written before the push, read by our thread. `latest` is asgd's, whose servers see
     * pushes of iterations that this rank has not reached */
    struct br_update_sgd next_rate;
    struct br_update_sgd rates[BR_PARAMETERS_RATES];
    _Atomic uint32_t latest;
};

struct br_parameters_slice;

/* A slice's receive from a worker, or its send to one. */
struct br_parameters_exchange {
    struct br_parameters_slice *slice;
    struct braid_op *op; /* NULL: none is under way */
    _Atomic bool ended;  /* written by whoever drives progress, before it sets the slice's bit */
};

/* A slice on its server. */
struct br_parameters_slice {
    const struct br_shard *shard;
    uint32_t number; /* of all slices: its tag */
    float *weight, *velocity;
    float *answer;        /* the copy that is sent; asgd: NULL */
    float **in;           /* [ranks] */
    const void **sources; /* [ranks] `in` for br_reduce() */
    /* [ranks] without op: has arrived, or asgd is answering */
    struct br_parameters_exchange *receives;
    struct br_parameters_exchange *sends; /* [ranks] */
    uint64_t *pushes;                     /* [ranks] asgd: that were applied */
    uint64_t round;                       /* that is being collected */
    _Atomic uint64_t applied;             /* pushes */
    _Atomic int sending;                  /* answers under way */
    /* its bit in p->due: set when an exchange has ended */
    _Atomic uint64_t *due;
    uint64_t due_bit;
};

/* What another rank says when it ends. */
struct br_parameters_shutdown {
    struct braid_parameters *parameters;
    /* of the receive; NULL: there is none any more, or it is this rank's own */
    struct braid_op *op;
    uint64_t iterations; /* after which it has ended; braid's until the receive has ended */
};

struct braid_parameters {
    struct braid_comm *comm; /* a duplicate of the caller's, so that tags are ours */
    enum br_parameters_method method;
    /* with defaults; `method`, `local` and `servers` are not used */
    struct braid_parameters_options options;
    uint64_t warmup;
    int rank, ranks;
    int *servers; /* ranks */
    int n_servers;
    uint32_t n;
    struct br_parameters_layer *layers; /* [n] */
    struct br_shards shards;
    struct braid_op **pulls; /* [shards.n] this worker's; NULL: none under way */
    /* the same, of even and odd iterations; the same but with ssd */
    struct braid_op **pushes[2];
    uint32_t n_pushes;                  /* of both, from pushes[0] on */
    struct br_parameters_slice *slices; /* [n_slices] by layer */
    uint32_t n_slices;
    _Atomic uint64_t *due; /* slices of which an exchange has ended, a bit each (section 8) */
    void **pointers;       /* that the slices' arrays are in */
    struct br_parameters_exchange *exchanges; /* the same */
    float *memory;                            /* all arrays of numbers */
    size_t used, size;                        /* elements of it */

    int next;           /* layer that is to be pushed next; -1: none, the iteration has ended */
    uint64_t iteration; /* of the next push */
    _Atomic int steps;  /* k; 0: not chosen yet */
    struct br_profiler profiler;            /* of the warm-up */
    struct br_layer *passes;                /* [n] that the profiler fills in */
    _Atomic uint64_t first_push, last_pull; /* ns, of an iteration of the warm-up */
    double communication;                   /* s, sum over the warm-up's iterations but the first */
    _Atomic uint64_t local_ns;              /* of local updates, in our thread, in all */
    struct braid_parameters_report report;

    struct br_parameters_shutdown *shutdowns; /* [ranks] */
    _Atomic uint64_t begun; /* iterations of this rank, the one under way counted in */
    /* the rank that has ended after the fewest iterations: iterations * ranks + rank; UINT64_MAX:
     * none has ended. Section 9 */
    _Atomic uint64_t first_shutdown;

    pthread_t thread;
    bool has_thread;
    _Atomic bool stop;
    /* what arrives is ignored: set by the program; seen by our thread */
    _Atomic bool ending, ended;
    _Atomic bool failing;
    _Atomic int failed; /* negative errno, written after `message` */
    char message[BR_PARAMETERS_TEXT];
};

/* rates.c: rate, momentum and decay of a layer in an iteration, the drops counted in. keep: of the
 * iteration that is about to be pushed. have_room: the server on this rank does not need any more
 * what keep will overwrite. */
struct br_update_sgd br_parameters_rate(const struct braid_parameters *p, uint32_t layer,
                                        uint64_t iteration);
void br_parameters_keep_rate(struct braid_parameters *p, uint32_t layer);
bool br_parameters_have_room(const struct braid_parameters *p, uint32_t layer);

/* push_pull.c: what happens in an iteration, or in a round; the same on all ranks. */
bool br_parameters_pushes(const struct braid_parameters *p, uint64_t iteration);
bool br_parameters_pulls(const struct braid_parameters *p, uint64_t iteration);
uint64_t br_parameters_rounds(const struct braid_parameters *p, uint64_t iterations);

/* Operations. br_parameters_reap() returns 1: the operation has ended well and *op is NULL; 0: it
 * has not ended; or an error with a message. */
int br_parameters_reap(struct braid_op **op);
/* exchange: the server's, which hears of the end; NULL: the worker asks. */
int br_parameters_send(struct braid_parameters *p, uint32_t slice, bool pull, uint64_t iteration,
                       const float *from, int peer, struct br_parameters_exchange *exchange,
                       struct braid_op **op);
int br_parameters_receive(struct braid_parameters *p, uint32_t slice, bool pull, float *to,
                          int peer, struct br_parameters_exchange *exchange, struct braid_op **op);

/* worker.c, our thread: all layers that were handed over. How much was done, or an error with
 * a message. */
int br_parameters_work(struct braid_parameters *p);
/* Slices of a layer are pushed from `from`; pushes: p->pushes[...]. */
int br_parameters_push_layer(struct braid_parameters *p, uint32_t layer, uint64_t iteration,
                             const float *from, struct braid_op **pushes);

/* server.c, our thread: the most urgent slice for which something can be done. */
int br_parameters_serve(struct braid_parameters *p);
/* Posts the receives, before there is a thread. */
int br_parameters_serve_start(struct braid_parameters *p);

/* parameters.c, ssd: the layer's weights are the servers', as behind a warm-up: the next local
 * updates start with a grad_sync of 0. */
void br_parameters_begin_delay(struct braid_parameters *p, uint32_t layer);

/* drain.c, between two iterations; `name` is the caller's. settle: what the workers have pushed has
 * reached this rank's server and is answered. drain: and nothing is under way any more on this
 * rank, but for receives of pushes that nobody has made: a delayed pull is dropped, so the weights
 * have to be fetched before training goes on. */
int br_parameters_settle(struct braid_parameters *p, const char *name);
int br_parameters_drain(struct braid_parameters *p, const char *name);

/* shutdown.c. start: posts the receives. say: this rank has done all that it does for the others,
 * and ends. finish: waits for the receives. check, program's and our thread: has a rank ended
 * before an iteration that this one has begun? Then the training fails, everywhere. */
int br_parameters_shutdown_start(struct braid_parameters *p);
int br_parameters_shutdown_say(struct braid_parameters *p);
int br_parameters_shutdown_finish(struct braid_parameters *p);
int br_parameters_shutdown_check(struct braid_parameters *p);

/* parameters.c: frees everything. drain.c: ends what is under way by force, then frees everything.
 * Both return rc and keep its message. */
int br_parameters_destroy(struct braid_parameters *p, int rc);
int br_parameters_give_up(struct braid_parameters *p, int rc);

/* service.c: our thread. */
int br_parameters_start(struct braid_parameters *p); /* -EAGAIN with a message */
void br_parameters_stop(struct braid_parameters *p);
void br_parameters_fail(struct braid_parameters *p,
                        int rc); /* with the message of this thread; the first counts */

#endif
