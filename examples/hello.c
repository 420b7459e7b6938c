/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who is there: every rank says which it is and where, and all learn that everybody has come.
 *
 *     cc hello.c -o hello $(pkg-config --cflags --libs braid)
 *     braid run -n 4 -- ./hello
 *     mpirun -n 4 ./hello              Open MPI's, MPICH's or Intel MPI's
 *     srun -n 4 ./hello                with --mpi=pmix, pmi2 or none
 *     torchrun --nproc_per_node 4 --no_python ./hello
 */
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <braid/braid.h>

int main(void)
{
    struct braid_comm *comm;
    char host[256] = "";
    int64_t sum;

    /* Rank, size and where to meet: from whichever launcher has started this process. */
    if (braid_init(NULL, &comm)) {
        fprintf(stderr, "braid_init: %s\n", braid_last_error());
        return 1;
    }
    gethostname(host, sizeof host - 1);
    sum = braid_rank(comm) + 1;
    if (braid_allreduce(comm, &sum, &sum, 1, BRAID_INT64, BRAID_SUM, NULL, NULL)) {
        fprintf(stderr, "braid_allreduce: %s\n", braid_last_error());
        return 1;
    }
    printf("rank %d of %d on %s: 1 + ... + %d = %lld\n", braid_rank(comm), braid_size(comm), host,
           braid_size(comm), (long long)sum);
    return braid_finalize(comm) ? 1 : 0;
}
