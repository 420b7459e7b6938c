/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two dimensions of parallelism: the ranks form a grid. A row holds one copy of a model, a piece on
 * each rank; the same pieces of all copies form a column, which sums the gradients of its piece.
 *
 *     cc grid.c -o grid $(pkg-config --cflags --libs braid)
 *     braid run -n 6 -- ./grid 3        (2 rows of 3)
 */
#include <stdio.h>
#include <stdlib.h>

#include <braid/braid.h>

#define COUNT 100000

/* Ends the program's work on the job, on all communicators: they are one family. */
static int give_up(struct braid_comm *comm, const char *what)
{
    fprintf(stderr, "rank %d: %s: %s\n", braid_rank(comm), what, braid_last_error());
    braid_comm_abort(comm, what);
    braid_finalize(comm);
    return 1;
}

int main(int argc, char **argv)
{
    int width = argc > 1 ? atoi(argv[1]) : 1;
    struct braid_comm *comm, *row, *column;

    if (braid_init(NULL, &comm)) {
        fprintf(stderr, "braid_init: %s\n", braid_last_error());
        return 1;
    }
    if (width < 1 || braid_size(comm) % width) {
        fprintf(stderr, "%d ranks do not fill rows of %d\n", braid_size(comm), width);
        braid_finalize(comm);
        return 1;
    }
    int rank = braid_rank(comm);

    /* Ranks of one color come together, ordered by key. All ranks make the same calls in the same
     * order. */
    if (braid_comm_split(comm, rank / width, rank, &row) ||
        braid_comm_split(comm, rank % width, rank, &column))
        return give_up(comm, "braid_comm_split");

    /* Memory is the family's: allocated with one communicator, used with any of them. */
    float *piece = braid_alloc(comm, COUNT * sizeof *piece), mine = 0,
          *all = malloc((size_t)width * sizeof *all);
    if (!piece || !all)
        return give_up(comm, "no memory");
    for (int i = 0; i < COUNT; i++)
        piece[i] = (float)(rank % width + 1);

    /* Down the columns the gradients are summed, along the rows the pieces' results come
     * together. */
    if (braid_allreduce(column, piece, piece, COUNT, BRAID_FLOAT32, BRAID_SUM, NULL, NULL))
        return give_up(comm, "braid_allreduce");
    mine = piece[COUNT - 1];
    if (braid_allgather(row, &mine, all, 1, BRAID_FLOAT32, NULL, NULL))
        return give_up(comm, "braid_allgather");

    int wrong = 0;
    for (int i = 0; i < width; i++)
        wrong += all[i] != (float)((i + 1) * braid_size(column));
    if (!rank)
        printf("%d rows of %d: %s\n", braid_size(column), braid_size(row),
               wrong ? "wrong" : "right");
    free(all);

    /* Collective over each; braid_finalize(comm) alone would do as well. */
    braid_finalize(column);
    braid_finalize(row);
    return braid_finalize(comm) || wrong;
}
