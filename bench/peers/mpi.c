/* SPDX-License-Identifier: BSD-3-Clause */
/* OpenMPI and MPICH: compiled once with each one's mpicc. */
#include <mpi.h>
#include <stddef.h>

#include "loop.h"

static int allreduce(const float *in, float *out, size_t count)
{
    return MPI_Allreduce(in, out, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS;
}

static int maximum(double *values, int count)
{
    return MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD) !=
           MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    struct peer peer = {.allreduce = allreduce, .maximum = maximum};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &peer.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &peer.size);
    int code = peer_measure(&peer, argc, argv);
    if (code)
        MPI_Abort(MPI_COMM_WORLD, code);
    MPI_Finalize();
    return 0;
}
