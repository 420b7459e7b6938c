/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators of some of the ranks: two parts of one split, which share a number, and all ranks
 * in another order. What is drawn here comes from random numbers of its own, so that a seed stays
 * what it was but for its communicators. */
#include <stdio.h>
#include <stdlib.h>

#include "collectives/schedule/algorithm.h"
#include "storm.h"

#define SHARE 40 /* per cent of the seeds that have them */

int storm_rank_in(const struct storm_comm *comm, int rank)
{
    for (int i = 0; i < comm->n; i++)
        if (comm->ranks[i] == rank)
            return i;
    return -1;
}

static void shuffle(struct br_random *r, struct storm_comm *comm)
{
    for (int i = comm->n; i-- > 1;) {
        int other = (int)br_random_below(r, (uint64_t)i + 1), rank = comm->ranks[i];

        comm->ranks[i] = comm->ranks[other];
        comm->ranks[other] = rank;
    }
}

static void draw_comms(struct br_random *r, struct storm_plan *plan)
{
    struct storm_comm *all = &plan->comms[0], *same = &plan->comms[STORM_COMMS - 1];

    for (int i = 0; i < plan->n; i++) {
        int color = (int)br_random_below(r, STORM_COMMS - 1); /* 0: in no part */
        struct storm_comm *part = &plan->comms[color];

        all->ranks[all->n++] = i;
        same->ranks[same->n++] = i;
        if (color)
            part->ranks[part->n++] = i;
    }
    same->number = 2;
    for (int c = 1; c < STORM_COMMS; c++) {
        plan->comms[c].number = plan->comms[c].number ? plan->comms[c].number : 1;
        if (br_random_below(r, 2))
            shuffle(r, &plan->comms[c]);
    }
}

/* The call moves to another communicator, with what it says of ranks. */
static void move(struct storm_plan *plan, struct storm_call *call, int number)
{
    const struct storm_comm *comm = &plan->comms[number];
    struct br_schedule_request request = {.collective = call->collective, .n = (uint32_t)comm->n};

    if (comm->n < 2)
        return;
    call->comm = number;
    call->root %= comm->n;
    if (call->kind == BR_OPERATION_SEND) {
        int from = call->from % comm->n, to = call->to % comm->n;

        call->from = comm->ranks[from];
        call->to = comm->ranks[from == to ? (from + 1) % comm->n : to];
    }
    request.root = br_collective_rooted(call->collective) ? (uint32_t)call->root : 0;
    if (call->algorithm[0] &&
        (br_algorithm_find(call->algorithm, &request.algorithm) || br_algorithm_check(&request)))
        call->algorithm[0] = 0;
}

void storm_draw_comms(struct storm_plan *plan)
{
    struct br_random random;

    br_random_seed(&random, plan->seed ^ 0xc0335);
    draw_comms(&random, plan);
    if (br_random_below(&random, 100) >= SHARE)
        return;
    for (int i = 0; i < plan->n_calls; i++) {
        struct storm_call *call = &plan->calls[i];
        int number = (int)br_random_below(&random, STORM_COMMS), again = call->again;

        if (again >= 0) {
            *call = plan->calls[again];
            call->again = again;
        } else if (number && call->kind <= BR_OPERATION_RECV && !call->last) {
            move(plan, call, number);
        }
    }
}

void storm_show_comms(const struct storm_plan *plan)
{
    for (int c = 1; c < STORM_COMMS; c++) {
        fprintf(stderr, "# communicator %d (number %u):", c, plan->comms[c].number);
        for (int i = 0; i < plan->comms[c].n; i++)
            fprintf(stderr, " %d", plan->comms[c].ranks[i]);
        fputc('\n', stderr);
    }
}

bool storm_open_comms(struct storm *s, int rank)
{
    struct storm_rank *r = &s->ranks[rank];

    for (int c = 1; c < STORM_COMMS; c++) {
        const struct storm_comm *comm = &s->plan->comms[c];
        int own = storm_rank_in(comm, rank);

        if (own >= 0 && br_group_init(&r->groups[c], comm->number, own, comm->n, comm->ranks,
                                      &br_engine_all(r->engine)->model))
            return storm_wrong(s, "no memory for a communicator");
    }
    return true;
}

void storm_close_comms(struct storm_rank *rank)
{
    for (int c = 1; c < STORM_COMMS; c++)
        br_group_destroy(&rank->groups[c]);
}
