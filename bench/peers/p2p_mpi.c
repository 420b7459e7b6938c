/* SPDX-License-Identifier: BSD-3-Clause */
/* OpenMPI, MPICH and Intel MPI: compiled once with each one's mpicc. */
#include <mpi.h>
#include <stdlib.h>

#include "p2p.h"

static int other; /* rank */
static MPI_Request requests[P2P_WINDOW];
static MPI_Win window;

static int send_one(const void *from, size_t bytes)
{
    return MPI_Send(from, (int)bytes, MPI_BYTE, other, 0, MPI_COMM_WORLD);
}

static int recv_one(void *into, size_t bytes)
{
    return MPI_Recv(into, (int)bytes, MPI_BYTE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static int start_send(int i, const void *from, size_t bytes)
{
    return MPI_Isend(from, (int)bytes, MPI_BYTE, other, 0, MPI_COMM_WORLD, &requests[i]);
}

static int start_recv(int i, void *into, size_t bytes)
{
    return MPI_Irecv(into, (int)bytes, MPI_BYTE, other, 0, MPI_COMM_WORLD, &requests[i]);
}

static int wait_for(int n)
{
    return MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
}

static int expose(size_t bytes)
{
    void *base;
    return MPI_Win_allocate((MPI_Aint)bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window) ||
           MPI_Win_lock_all(0, window);
}

static int put(int n, const void *from, size_t bytes)
{
    for (int i = 0; i < n; i++)
        if (MPI_Put(from, (int)bytes, MPI_BYTE, other, 0, (int)bytes, MPI_BYTE, window))
            return 1;
    return MPI_Win_flush(other, window);
}

static int get(int n, void *into, size_t bytes)
{
    for (int i = 0; i < n; i++)
        if (MPI_Get(into, (int)bytes, MPI_BYTE, other, 0, (int)bytes, MPI_BYTE, window))
            return 1;
    return MPI_Win_flush(other, window);
}

int main(int argc, char **argv)
{
    struct p2p_peer peer = {.memory = malloc,
                            .expose = expose,
                            .send = send_one,
                            .recv = recv_one,
                            .start_send = start_send,
                            .start_recv = start_recv,
                            .wait = wait_for,
                            .put = put,
                            .get = get};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &peer.rank);
    other = 1 - peer.rank;
    int code = p2p_measure(&peer, argc, argv);
    if (code)
        MPI_Abort(MPI_COMM_WORLD, code);
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
