# SPDX-License-Identifier: BSD-3-Clause
"""Data-parallel training with PyTorch: torchrun --nproc-per-node 4 train_torch.py, with --backend gloo to compare, with --session for braid.torch.Session in
place of DistributedDataParallel. The data are made here: pictures of ten classes, each a pattern that is moved and covered with noise."""
import argparse
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import braid.torch  # makes the back end "braid" known

SIDE, CLASSES = 32, 10
PATTERNS = F.interpolate(torch.randn(CLASSES, 3, 8, 8, generator=torch.Generator().manual_seed(1)), SIDE, mode="bilinear")


def draw(count, random):
    """That many pictures and their classes."""
    classes = torch.randint(CLASSES, (count,), generator=random)
    moves = torch.randint(SIDE, (count, 2), generator=random).tolist()
    moved = torch.stack([PATTERNS[c].roll(move, (1, 2)) for c, move in zip(classes, moves)])
    return moved + torch.randn(moved.shape, generator=random), classes


def network():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 8 * 8, 256), nn.ReLU(), nn.Linear(256, CLASSES),
    )  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="braid")
    parser.add_argument("--session", action="store_true", help="braid.torch.Session in place of DistributedDataParallel")
    parser.add_argument("--iterations", type=int, default=300)
    parser.add_argument("--batch", type=int, default=16, help="pictures of a rank")
    options = parser.parse_args()
    dist.init_process_group(options.backend)
    rank = dist.get_rank()
    torch.manual_seed(0)  # the first weights are the same on all ranks
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    if options.session:
        session = braid.torch.Session(model, optimizer)
    else:
        model = DistributedDataParallel(model)
    random = torch.Generator().manual_seed(rank + 2)  # the pictures are not
    times = []
    for iteration in range(options.iterations):
        pictures, classes = draw(options.batch, random)
        begin = time.perf_counter()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(pictures), classes)
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - begin)
        if rank == 0 and (iteration + 1) % max(1, options.iterations // 6) == 0:
            print(f"iteration {iteration + 1}: loss {loss:.3f}", flush=True)
    if options.session:
        session.free()
    with torch.no_grad():
        pictures, classes = draw(500, random)
        right = (model(pictures).argmax(1) == classes).float().mean()
    dist.all_reduce(right)
    if rank == 0:
        how = "Session" if options.session else "DistributedDataParallel"
        middle = sorted(times[len(times) // 2 :])[len(times) // 4]
        print(f"{dist.get_world_size()} ranks, {options.backend}, {how}: {middle * 1e3:.2f} ms an iteration, {right / dist.get_world_size():.1%} right")
    dist.destroy_process_group()


main()
