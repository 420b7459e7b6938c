/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The storm: a whole job of ranks in virtual time, everything of which is drawn from one seed.
 *
 * 1. A plan (draw.c) is a network, the settings of workers and engines, a program of calls that is
 *    the same on all ranks, and what goes wrong when. It is calm when nothing in it can end the
 *    job: then every call must succeed.
 * 2. A run (run.c) steps the ranks, each of which submits its calls in the order of the program,
 *    with pauses and at most so many at once, and looks at every call when it has ended (calls.c):
 *    right result, or a typed error with a message, in time. Afterwards everything must have been
 *    given back (settle.c).
 * 3. When a call has ended, its memory is the user's: it is overwritten at once. A frame that still
 *    reads it shows as a wrong result elsewhere, one that still writes it shows at the end of the
 *    run.
 * 4. The first thing that is wrong ends the run; its message stay in storm.wrong.
 */
#ifndef BR_TESTS_SIM_STORM_H
#define BR_TESTS_SIM_STORM_H

#include "base/random.h"
#include "collectives/engine/engine.h"
#include "transport/sim/sim.h"

#define STORM_RANKS  16
#define STORM_CALLS  24
#define STORM_FAULTS 24
#define STORM_STALLS 4
#define STORM_COMMS  4

/* A communicator; number 0 has all ranks. */
struct storm_comm {
    uint32_t number;
    int n, ranks[STORM_RANKS]; /* of the job, in its order */
};

/* One line of the program. Both ends of a message are one call; a put or get concerns `from`
 * alone. */
struct storm_call {
    enum br_operation_kind kind;
    enum br_collective collective;
    char algorithm[16];
    size_t count;
    enum braid_type type;
    enum braid_reduction reduction;
    bool in_place;
    bool uneven;        /* blocks of different sizes (case.h) */
    bool stale_key;     /* put, get: to be refused */
    int comm;           /* that a collective or message is of */
    int root, from, to; /* root: rank in it; from, to: in the job */
    int32_t priority;
    uint32_t tag;
    uint64_t offset; /* put, get: in the region of `to` */
    uint64_t timeout;
    bool last; /* the barrier behind all puts and gets */
    int again; /* start of an earlier call once more, with its memory; -1: a new one */
};

struct storm_stall { /* a rank gets no turn, as if stopped */
    int rank;
    uint64_t at, until;
};

struct storm_plan {
    uint64_t seed;
    int n, rails;         /* rails: to each peer; in a cube the levels */
    struct br_bcube cube; /* hosts 0: everybody is linked with everybody */
    bool calm;
    /* each rank leaves when its own program has ended, the others may still work */
    bool leaves_early;
    bool crowded; /* many small messages ahead of ranks that wait for something else */
    struct br_sim_config network;
    struct br_worker_config worker;
    struct br_engine_config engine;
    struct storm_call calls[STORM_CALLS];
    int n_calls, window[STORM_RANKS]; /* calls under way, of each rank */
    struct storm_comm comms[STORM_COMMS];
    uint64_t pause; /* between two calls of a rank, at most */
    size_t region_bytes;
    /* times count from when all are connected, or from the start */
    struct br_sim_fault faults[STORM_FAULTS];
    int n_faults;
    bool faults_from_start;
    struct storm_stall stalls[STORM_STALLS];
    int n_stalls;
    int aborter; /* rank that gives up at abort_at; -1: none */
    uint64_t abort_at;
};

enum storm_part_state { STORM_IDLE, STORM_RUNNING, STORM_ENDED };

/* A rank's part in a call. */
struct storm_part {
    struct br_operation op;
    enum storm_part_state state;
    /* guard, what is sent, guard, what is received, guard; of this call, or NULL: of call->again */
    uint8_t *block;
    size_t bytes;
    size_t sizes[4 * STORM_RANKS]; /* uneven: counts and offsets of both buffers, n entries each */
    uint8_t overwritten;           /* with this, after the last end */
    bool put_overwritten;          /* put: the place in the other rank's region, too */
    uint64_t added;                /* fetch-and-add: times it has ended well */
};

struct storm_rank {
    struct br_worker *worker;
    struct br_engine *engine;
    struct br_region region; /* what others put and get, guards included */
    int region_uses;
    uint64_t next_order, next_sequence[STORM_COMMS];
    struct br_group groups[STORM_COMMS]; /* 0: the engine's own, not this one */
    struct br_list ended;                /* operations that nobody has looked at yet */
    int next_call, outstanding;
    uint64_t may_submit; /* virtual time */
    uint64_t wake;       /* virtual time of the next turn */
    bool left;           /* it has begun to leave */
    bool due, refused;   /* refused: the communicator has failed, it submits nothing more */
};

struct storm {
    const struct storm_plan *plan;
    struct br_sim *sim;
    struct br_random random;
    struct storm_rank ranks[STORM_RANKS];
    struct storm_part parts[STORM_CALLS][STORM_RANKS];
    int notified[STORM_CALLS];   /* how often a put has notified its target */
    uint8_t *first[STORM_CALLS]; /* a right result, where all ranks must have the same bits */
    uint64_t zero;               /* virtual time from which faults and stalls count */
    uint64_t hash;               /* of what the calls ended with */
    bool trace;
    char wrong[900];
};

struct storm_result {
    uint64_t hash;
    int ended, failed; /* calls of ranks */
    uint64_t virtual_ns;
    char wrong[900]; /* "": all is as it should be */
};

/* draw.c */
void storm_draw(uint64_t seed, struct storm_plan *plan);
void storm_show(const struct storm_plan *plan);

/* comms.c */
void storm_draw_comms(struct storm_plan *plan);
void storm_show_comms(const struct storm_plan *plan);
bool storm_open_comms(struct storm *s, int rank);
void storm_close_comms(struct storm_rank *rank);
int storm_rank_in(const struct storm_comm *comm, int rank); /* -1: it is not in it */

/* world.c: opens and closes everything */
bool storm_open(struct storm *s);
void storm_close(struct storm *s);

/* run.c */
void storm_run(const struct storm_plan *plan, bool trace, struct storm_result *result);
/* One turn of everybody who has something to do, then on to the next event, or to `until` if that
 * is earlier. */
bool storm_advance(struct storm *s, uint64_t until);
bool storm_gone(const struct storm *s, int rank);

/* calls.c: memory and results */
bool storm_takes_part(const struct storm_plan *plan, int call, int rank);
/* the part that owns the block */
struct storm_part *storm_memory_of(struct storm *s, int call, int rank);
void storm_prepare(struct storm *s, int call, int rank);
void storm_look(struct storm *s, int call, int rank); /* after its end; overwrites the memory */
void storm_look_again(struct storm *s);               /* at the end: nobody has written since */
void storm_fill_region(struct storm *s, int rank);
void storm_name_call(const struct storm *s, int call, char *text, size_t bytes);

/* settle.c: what must be true when all is over */
void storm_settle(struct storm *s);

/* The first one stays. Returns false. */
bool storm_wrong(struct storm *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A line of the trace. */
void storm_say(const struct storm *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static inline uint64_t storm_mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a ^ b * 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull;

    x = (x ^ x >> 29) * 0x94d049bb133111ebull;
    return x ^ x >> 32;
}

#endif
