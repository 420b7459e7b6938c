# SPDX-License-Identifier: BSD-3-Clause
"""torch_cuda.py [SECONDS [all_reduce|train ...]]: PyTorch with CUDA tensors, by braid and by gloo in turns, in one job. One rank: start it as
`braid run -n 2 --no-prefix -- python3 bench/torch_cuda.py`, where the ranks use one GPU if there is no other (NCCL refuses that). Rank 0 prints a table of
medians: an all_reduce of each size, and steps of training of the networks of torch_models.py. SECONDS bounds all of it (default 60)."""
import os
import statistics
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from torch_models import MODELS

ROUNDS = 5
SIZES = [4 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20]
NETWORKS = {"resnet": (dict(width=64), 64), "gpt": (dict(width=512, depth=8, heads=8, length=128, words=8192), 16)}  # arguments, samples of a rank


def seconds_of(step, calls):
    """Of a call, its work on the GPU included."""
    dist.barrier()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(calls):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / calls


def agreed(value):
    """The largest of all ranks."""
    value = torch.tensor([float(value)])
    dist.all_reduce(value, op=dist.ReduceOp.MAX)
    return float(value)


def by_turns(steps, share):
    """Medians of each of the steps, in about `share` seconds."""
    first = {name: agreed(max(seconds_of(step, 3), 1e-6)) for name, step in steps.items()}
    calls = {name: max(1, min(100, int(share / ROUNDS / len(steps) / first[name]))) for name in steps}  # a stream takes all at once
    found = {name: [] for name in steps}
    for _ in range(ROUNDS):
        for name, step in steps.items():
            found[name].append(agreed(seconds_of(step, calls[name])))
    return {name: statistics.median(times) for name, times in found.items()}


def say(*words):
    if dist.get_rank() == 0:
        print(*words, flush=True)


def reducer(group, tensor, lone):
    """An all_reduce; lone: the host waits for each."""

    def step():
        dist.all_reduce(tensor, group=group)
        if lone:
            torch.cuda.synchronize()

    return step


def time_all_reduce(groups, seconds):
    comm = None
    if "braid" in groups:
        import braid.torch

        comm = braid.torch.comm(groups["braid"])
    say(f"{'all_reduce of bytes':>20} {'gloo us':>10} {'braid us':>10} {'alone gloo':>11} {'alone braid':>11} {'braid.Comm':>11}   (alone: the host waits for each call)")
    for size in SIZES:
        tensor = torch.zeros(size // 4, device="cuda")
        steps = {name: reducer(group, tensor, False) for name, group in groups.items()}
        steps.update({"alone " + name: reducer(group, tensor, True) for name, group in groups.items()})
        if comm:
            steps["Comm"] = lambda: comm.allreduce(tensor)
        took = by_turns(steps, seconds / len(SIZES))
        say(f"{size:>20}", *(f"{took.get(name, float('nan')) * 1e6:>{width}.1f}" for name, width in
                             [("gloo", 10), ("braid", 10), ("alone gloo", 11), ("alone braid", 11), ("Comm", 11)]))
    if comm:
        stats = comm.stats()
        say("braid.Comm:", ", ".join(f"{name} {getattr(stats, name)}" for name in stats._fields if "gpu" in name and getattr(stats, name)))


def trainer(group, name):
    arguments, samples = NETWORKS[name]
    torch.manual_seed(1)
    network, draw, loss = MODELS[name](**arguments)
    network = network.cuda()
    model = network if group is None else DistributedDataParallel(network, process_group=group)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    inputs, targets = (part.cuda() for part in draw(samples))

    def step():
        optimizer.zero_grad()
        loss(model(inputs), targets).backward()
        optimizer.step()

    return step, sum(p.numel() for p in network.parameters())


def time_training(groups, seconds):
    for network in NETWORKS:
        made = {name: trainer(group, network) for name, group in {"no exchange": None, **groups}.items()}
        took = by_turns({name: step for name, (step, _) in made.items()}, seconds / len(NETWORKS))
        say(f"training {network}, {made['no exchange'][1] / 1e6:.1f} million parameters, ms a step:", ", ".join(f"{name} {time * 1e3:.2f}" for name, time in took.items()))


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60
    what = sys.argv[2:] or ["all_reduce", "train"]
    torch.cuda.set_device(int(os.environ["RANK"]) % torch.cuda.device_count())
    dist.init_process_group("gloo", timeout=timedelta(seconds=120))
    import braid.torch  # noqa: F401 registers the back end

    groups = {"gloo": dist.group.WORLD, "braid": dist.new_group(backend="braid")}
    if "all_reduce" in what:
        time_all_reduce(groups, seconds / len(what))
    if "train" in what:
        time_training(groups, seconds / len(what))
    dist.barrier()
    dist.destroy_process_group()


main()
