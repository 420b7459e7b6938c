/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The smallest whole program: every rank contributes an array, every rank gets the sum.
 *
 *     cc allreduce.c -o allreduce $(pkg-config --cflags --libs braid)
 *     braid run -n 4 -- ./allreduce
 *
 * Started alone it is a job of one rank.
 */
#include <stdio.h>

#include <braid/braid.h>

#define COUNT 1000000

/* Ends the program's work on the job: the other ranks' calls end with an error that names this
 * one. */
static int give_up(struct braid_comm *comm, const char *what)
{
    fprintf(stderr, "rank %d: %s: %s\n", braid_rank(comm), what, braid_last_error());
    braid_comm_abort(comm, what);
    braid_finalize(comm);
    return 1;
}

int main(void)
{
    struct braid_comm *comm;

    /* Rank, size and where to meet come from the environment, as braid run or torchrun set them. */
    if (braid_init(NULL, &comm)) {
        fprintf(stderr, "braid_init: %s\n", braid_last_error());
        return 1;
    }
    int rank = braid_rank(comm), size = braid_size(comm);

    /* Any memory works; this kind is read in place by the ranks of the same host. */
    float *gradient = braid_alloc(comm, COUNT * sizeof *gradient);
    if (!gradient)
        return give_up(comm, "braid_alloc");
    for (int i = 0; i < COUNT; i++)
        gradient[i] = (float)(rank + i % 100);

    /* Start it, do something else, wait for it. With NULL in place of &op the call itself waits. */
    struct braid_op *op;
    struct braid_options options = {.priority = 1};
    if (braid_allreduce(comm, gradient, gradient, COUNT, BRAID_FLOAT32, BRAID_SUM, &options, &op))
        return give_up(comm, "braid_allreduce");
    if (braid_wait(op, -1))
        return give_up(comm, "braid_wait");

    /* Sums of small whole numbers are exact in float32. */
    for (int i = 0; i < COUNT; i++) {
        float expected = (float)(size * (size - 1) / 2 + size * (i % 100));
        if (gradient[i] != expected) {
            fprintf(stderr, "rank %d: element %d is %g, must be %g\n", rank, i, (double)gradient[i],
                    (double)expected);
            braid_finalize(comm);
            return 1;
        }
    }
    if (rank == 0)
        printf("%d rank%s summed %d numbers; all are right\n", size, size == 1 ? "" : "s", COUNT);
    if (braid_finalize(comm)) {
        fprintf(stderr, "rank %d: braid_finalize: %s\n", rank, braid_last_error());
        return 1;
    }
    return 0;
}
