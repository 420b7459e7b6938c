# SPDX-License-Identifier: BSD-3-Clause
"""The smallest program: every rank adds up the numbers of all ranks. It runs under any launcher that braid knows:

braid run -n 4 -- python3 hello.py
torchrun --nproc-per-node 4 hello.py
mpirun -n 4 python3 hello.py
mpiexec -n 4 python3 hello.py
srun -n 4 python3 hello.py
"""
import braid
import numpy

with braid.init() as comm:
    x = numpy.full(3, comm.rank + 1.0)
    comm.allreduce(x)
    print(f"rank {comm.rank} of {comm.size}: the sum is {x[0]:g}")
