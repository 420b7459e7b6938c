# SPDX-License-Identifier: BSD-3-Clause
"""python.py braid|mpi4py BYTES...: all-reduces of float64 in place from Python, as bench/python_floor.c does them in C. One rank of a job.
For each size rank 0 prints it and the median of 31 batches, in microseconds a call."""
import statistics
import sys
import time

import numpy

BATCHES = 31


def measure(size, rank, empty, allreduce, barrier):
    calls = 500 if size <= 4096 else 20 if size <= 1 << 20 else 3
    x, times = empty(size // 8), []
    x[:] = 0
    for batch in range(-3, BATCHES):  # the first three warm up
        barrier()
        begin = time.perf_counter()
        for _ in range(calls):
            allreduce(x)
        if batch >= 0:
            times.append((time.perf_counter() - begin) / calls * 1e6)
    if rank == 0:
        print(f"{size} {statistics.median(times):.3f}", flush=True)


def main():
    sizes = [int(word) for word in sys.argv[2:]]
    if sys.argv[1] == "braid":
        import braid

        with braid.init() as comm:
            for size in sizes:
                measure(size, comm.rank, lambda n: comm.empty(n, "f8"), comm.allreduce, comm.barrier)
    else:
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        for size in sizes:
            measure(size, world.rank, lambda n: numpy.empty(n), lambda x: world.Allreduce(MPI.IN_PLACE, x), world.Barrier)


main()
