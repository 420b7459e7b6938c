# SPDX-License-Identifier: BSD-3-Clause
"""torch_allreduce.py MILLISECONDS ROUNDS BACKENDS BYTES...: dist.all_reduce of float32 in place by each of the back ends (a comma list) by turns, in one job:
what one measures the others measure a moment later. One rank. Rank 0 prints "BYTES BACKEND MICROSECONDS", a call's mean, for each size, back end and round."""
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist


def calls_of(tensor, group, seconds, everybody):
    """How many calls take that long, the same number on all ranks."""
    calls = 1
    while True:
        begin = time.perf_counter()
        for _ in range(calls):
            dist.all_reduce(tensor, group=group)
        took = torch.tensor([time.perf_counter() - begin])
        dist.all_reduce(took, op=dist.ReduceOp.MAX, group=everybody)
        if took >= seconds / 4 or calls >= 100000:
            return max(1, int(calls * seconds / float(took)))
        calls *= 4


def check(group, elements):
    """That the back end sums at all: a wrong result is fast easily."""
    values = torch.full((elements,), float(dist.get_rank() + 1))
    dist.all_reduce(values, group=group)
    size = dist.get_world_size()
    assert (values == size * (size + 1) / 2).all()


def main():
    seconds, rounds, backends = float(sys.argv[1]) / 1e3, int(sys.argv[2]), sys.argv[3].split(",")
    if "braid" in backends:
        import braid.torch  # noqa: F401 registers the back end
    if "fake" in backends:  # torch's own, which does nothing: what the way through Python and torch costs by itself
        from torch.testing._internal.distributed import fake_pg  # noqa: F401
    dist.init_process_group("gloo", timeout=timedelta(seconds=120))
    everybody = dist.group.WORLD
    groups = {name: everybody if name == "gloo" else dist.new_group(backend=name) for name in backends}
    for size in (int(word) for word in sys.argv[4:]):
        tensor = torch.zeros(size // 4)
        for name, group in groups.items():
            if name != "fake":
                check(group, size // 4)
        calls = {name: calls_of(tensor, group, seconds, everybody) for name, group in groups.items()}
        for _ in range(rounds):
            for name, group in groups.items():
                dist.barrier(group=group)
                begin = time.perf_counter()
                for _ in range(calls[name]):
                    dist.all_reduce(tensor, group=group)
                if dist.get_rank() == 0:
                    print(f"{size} {name} {(time.perf_counter() - begin) / calls[name] * 1e6:.3f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


main()
