/* SPDX-License-Identifier: BSD-3-Clause */
/* OpenMPI, MPICH and Intel MPI: compiled once with each one's mpicc. */
#include <mpi.h>
#include <stddef.h>

#include "loop.h"

static int collective(enum peer_collective which, const float *in, float *out, size_t elements)
{
    int count = (int)elements, rank;
    MPI_Comm all = MPI_COMM_WORLD;

    switch (which) {
    case PEER_BROADCAST:
        MPI_Comm_rank(all, &rank);
        return MPI_Bcast(rank ? out : (float *)in, count, MPI_FLOAT, 0, all);
    case PEER_REDUCE:
        return MPI_Reduce(in, out, count, MPI_FLOAT, MPI_SUM, 0, all);
    case PEER_ALLREDUCE:
        return MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, all);
    case PEER_ALLGATHER:
        return MPI_Allgather(in, count, MPI_FLOAT, out, count, MPI_FLOAT, all);
    case PEER_REDUCE_SCATTER:
        return MPI_Reduce_scatter_block(in, out, count, MPI_FLOAT, MPI_SUM, all);
    case PEER_ALLTOALL:
        return MPI_Alltoall(in, count, MPI_FLOAT, out, count, MPI_FLOAT, all);
    case PEER_SCATTER:
        return MPI_Scatter(in, count, MPI_FLOAT, out, count, MPI_FLOAT, 0, all);
    case PEER_GATHER:
        return MPI_Gather(in, count, MPI_FLOAT, out, count, MPI_FLOAT, 0, all);
    default:
        return MPI_Barrier(all);
    }
}

static int maximum(double *values, int count)
{
    return MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD) !=
           MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    struct peer peer = {.collective = collective, .maximum = maximum};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &peer.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &peer.size);
    int code = peer_measure(&peer, argc, argv);
    if (code)
        MPI_Abort(MPI_COMM_WORLD, code);
    MPI_Finalize();
    return 0;
}
