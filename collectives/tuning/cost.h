/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cost model: what a schedule takes by alpha, beta and gamma, from closed formulas, for
 * choosing an algorithm. tools/plan/timing.h has the exact answer. Pure; thread-safe.
 * doc/design/cost_model.md says what is counted.
 */
#ifndef BR_COLLECTIVES_TUNING_COST_H
#define BR_COLLECTIVES_TUNING_COST_H

#include "collectives/schedule/algorithm.h"
#include "collectives/tuning/cost_fit.h"
#include "collectives/tuning/topology.h"
#include "collectives/tuning/algorithm_config.h"

#define BR_COST_LEVELS        16
#define BR_COST_MACHINE_LEVEL BR_COST_LEVELS
#define BR_COST_MAX           1e9 /* of any figure: with all bytes of all ranks it stays finite */

struct br_cost_level {
    double alpha;    /* s, latency of a message */
    double overhead; /* s that a message occupies its ports besides its bytes */
    double beta;     /* s for a byte each way while all ranks send and receive */
    /* s for a byte while a rank sends or receives, but not both; at most beta. 0: as beta, as of a
     * link whose two directions do not take anything from each other. Less where a processor moves
     * the bytes of both, as those of a socket in the memory of one machine. */
    double one_way;
};

/* What a message takes of the cores that all ranks share, on each link that it goes over; 0: they
 * have enough, or it is not known. */
struct br_cost_machine {
    double overhead, beta; /* s, s for a byte: the reciprocal of what the whole machine can carry */
    double relayed_overhead, relayed_beta; /* of messages that somebody passes on */
};

/* What is added up, by the bytes of a number: reductions of different widths cost differently. */
enum br_cost_class {
    BR_COST_4_BYTES,
    BR_COST_8_BYTES,
    BR_COST_2_BYTES,
    BR_COST_1_BYTE,
    BR_COST_CLASSES
};

/* The measured times of a collective with one configuration, for blocks of float32 of these sizes,
 * ascending. */
#define BR_COST_POINTS   12
#define BR_COST_MEASURED 96
struct br_cost_measured {
    enum br_collective collective;
    uint32_t ranks;
    struct br_algorithm_config config;
    struct br_cost_fit fit; /* a and b of a + b * bytes, s and s/byte, through the points */
    uint32_t n_points;      /* at least 2 */
    double bytes[BR_COST_POINTS], seconds[BR_COST_POINTS];
};

struct br_cost_model {
    const struct br_topology *topology; /* borrowed; NULL: FLAT */
    /* borrowed; where they apply, the choice takes them instead of the formulas */
    const struct br_cost_measured *measured;
    uint32_t n_measured;
    /* how the engine cuts (schedule.h); 0: as it is best, into 1 to 64 fragments */
    size_t chunk_bytes;
    /* a longer message, not one in memory, waits until its receiver has said READY
     * (protocol/transfer.h); 0: none waits */
    size_t eager_bytes;
    uint32_t n_levels; /* 1 to BR_COST_LEVELS */
    struct br_cost_level levels[BR_COST_LEVELS];
    struct br_cost_machine machine;
    /* what was measured of a link between hosts when the job began: no collective without a root
     * takes less than by this. beta 0: it was not measured */
    struct br_cost_level link;
    double gamma;                   /* s for a byte of each source of a REDUCE after the first */
    double gammas[BR_COST_CLASSES]; /* the same by class; 0: as gamma */
    double copy;                    /* s for a byte of a COPY */
    /* the part of an overhead for which a message occupies its receiver, where that is less: while
     * a socket in the memory of one machine sends, it works for both ends. 0: all of it */
    double received;
    double relay; /* s by which each rank in between delays a relayed message, besides the links */
    bool serial;  /* one core moves a rank's bytes and adds them up: fragments overlap nothing */
    bool shared;  /* the same, and the figures of the levels do not have it in them */
    /* a message is read where it lies: who passes on what it has received has written it before */
    bool in_memory;
};

/* What connects the ranks, for the default figures: shared memory of one host, TCP between
 * processes of one machine, a network. */
enum br_cost_locality { BR_COST_HOST, BR_COST_MACHINE, BR_COST_NETWORK };

/* Fills the model with the default figures. rails: 1 to BR_COST_LEVELS; in a network they count as
 * rails of 10 Gb/s each. */
void br_cost_model_default(struct br_cost_model *model, enum br_cost_locality place,
                           uint32_t rails);

/* The same for a topology, which stays borrowed. place is for FLAT only, `rails` of equal rate are
 * for FLAT and between HOSTS. */
void br_cost_model_on(struct br_cost_model *model, const struct br_topology *topology,
                      enum br_cost_locality place, uint32_t rails);

/* Returns 0; or -EINVAL with a message when a figure is not a number, negative or above
 * BR_COST_MAX, or when there are too many levels or none. */
int br_cost_model_check(const struct br_cost_model *model);

/* gamma of a class, and the class of numbers of so many bytes. */
double br_cost_gamma(const struct br_cost_model *model, enum br_cost_class class);
static inline enum br_cost_class br_cost_class_of(size_t bytes)
{
    return bytes >= 8   ? BR_COST_8_BYTES
           : bytes == 2 ? BR_COST_2_BYTES
           : bytes == 1 ? BR_COST_1_BYTE
                        : BR_COST_4_BYTES;
}

/* Seconds for a byte one way. */
static inline double br_cost_one_way(const struct br_cost_level *level)
{
    return level->one_way > 0 ? level->one_way : level->beta;
}

/* The part of an overhead for which a message occupies its receiver. */
static inline double br_cost_received(const struct br_cost_model *model)
{
    return model->received > 0 ? model->received : 1;
}

/* What a message on a level, or on BR_LEVEL_ANY, costs. A level beyond n_levels counts as
 * BR_LEVEL_ANY. */
struct br_cost_level br_cost_message(const struct br_cost_model *model, uint8_t level);

/* br_topology_route() for a message of so many bytes: a message that a single relayed frame carries
 * takes one route. */
uint32_t br_cost_links(const struct br_topology *topology, uint32_t from, uint32_t to,
                       uint8_t level, double bytes, struct br_hop hops[BR_TOPOLOGY_HOPS]);

/* The latency of a message over the links of br_topology_route: that of the longest route. A host
 * in between passes on whole frames, so the last one of them is late by its own time on each
 * further link. */
double br_cost_latency(const struct br_cost_model *model, const struct br_hop *hops, uint32_t n,
                       double bytes);

/* Seconds for which READY of a message of so many bytes occupies the cores that all ranks share; 0:
 * the message needs none. */
double br_cost_of_ready(const struct br_cost_model *model, const struct br_hop *hop, double bytes);

/* Seconds from the receiver's being ready for a message of so many bytes until its sender knows,
 * for the links of the message; 0 where the sender does not wait for that. */
double br_cost_ready(const struct br_cost_model *model, const struct br_hop *hops, uint32_t n,
                     double bytes);

/* Seconds for which a message of so many bytes occupies one of these links while its ends send and
 * receive; and while they do only one of the two, at its sender's end or its receiver's. */
double br_cost_of_hop(const struct br_cost_model *model, const struct br_hop *hop, double bytes);
double br_cost_of_hop_one_way(const struct br_cost_model *model, const struct br_hop *hop,
                              double bytes, bool receiver);

/* Seconds for which all the links of a message, as br_topology_route says them, occupy the
 * machine. */
double br_cost_of_machine(const struct br_cost_model *model, const struct br_hop *hops, uint32_t n,
                          double bytes);

/* Where all ranks share few cores: for how long a message keeps the core of one end, by the time
 * that it takes of all cores together. */
double br_cost_of_end(const struct br_topology *topology, bool receiver);

/* The measured times that apply to a request; NULL: there are none. Borrowed from the model. */
const struct br_cost_measured *br_cost_measured_find(const struct br_cost_model *model,
                                                     const struct br_schedule_request *request);

/* Seconds for blocks of `bytes` bytes by measured times, interpolated between two points in the
 * logarithms, of less than the first as of that, which start-up takes; 0: they are more than the
 * last. */
double br_cost_measured_at(const struct br_cost_measured *measured, double bytes);

/* The parts of an estimate, in seconds. */
struct br_cost_parts {
    double total;
    double latency; /* alphas and overheads: what remains for empty messages */
    double port;    /* the busiest port is occupied */
    double cpu;     /* a rank computes */
    uint8_t level;  /* of the busiest port; BR_COST_MACHINE_LEVEL: the machine is what is busiest */
};

/* Estimates the seconds that a request takes for blocks of `bytes` bytes in `fragments` fragments,
 * by formula. rank and in_place of the request are ignored. Returns 0, or -EINVAL with the message
 * of br_algorithm_check(). */
int br_cost_estimate(const struct br_cost_model *model, const struct br_schedule_request *request,
                     double bytes, uint32_t fragments, double *seconds);

/* The same with its parts. */
int br_cost_explain(const struct br_cost_model *model, const struct br_schedule_request *request,
                    double bytes, uint32_t fragments, struct br_cost_parts *parts);

#endif
