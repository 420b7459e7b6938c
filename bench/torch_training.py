# SPDX-License-Identifier: BSD-3-Clause
"""torch_training.py OUT [options]: one rank of a job that trains the networks of torch_models.py in several ways by turns, in one process, so that what one way
meets the next one meets a moment later. Rank 0 writes OUT/results.json and, for `braid plan --model`, each network's layers and their times (OUT/*.csv)."""
import argparse
import inspect
import json
import os
import statistics
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch_models import MODELS

SEED, RATE, MOMENTUM = 1, 0.01, 0.9


class Way:
    """Of training: a model, its loss and its optimizer."""

    def iterate(self, inputs, targets):
        self.optimizer.zero_grad()
        self.loss(self.model(inputs), targets).backward()
        self.optimizer.step()

    def settle(self, iterate):
        """Iterations that are not counted: DistributedDataParallel makes its buckets anew behind the first, fully_shard() learns the order of the blocks."""
        for _ in range(3):
            iterate()
        return 3

    def finish(self):
        pass


class DDP(Way):
    """DistributedDataParallel, with torch's own reduction or braid's communication hook."""

    def __init__(self, model, loss, group, bucket_bytes, state=None):
        # each rank keeps the statistics of its own batch normalisation, as with Session
        buffers = "forward_sync_buffers" if "forward_sync_buffers" in inspect.signature(DistributedDataParallel).parameters else "broadcast_buffers"
        self.model = DistributedDataParallel(
            model, process_group=group, bucket_cap_mb=bucket_bytes / 2**20, gradient_as_bucket_view=True, **{buffers: False}
        )
        if state is not None:
            import braid.torch

            self.model.register_comm_hook(state, braid.torch.ddp_hook)
        self.optimizer = torch.optim.SGD(model.parameters(), RATE, MOMENTUM)
        self.loss = loss


class Session(Way):
    """braid.torch.Session: plans from what it measures, and tries plans on real iterations."""

    def __init__(self, model, loss, group, bucket_bytes):
        import braid.torch

        self.model, self.loss = model, loss
        self.optimizer = torch.optim.SGD(model.parameters(), RATE, MOMENTUM)
        self.session = braid.torch.Session(model, self.optimizer, group=group, bucket_bytes=bucket_bytes, broadcast_buffers=False)

    def settle(self, iterate):
        """Until it has planned and tried."""
        done = 0
        while done < 8 or self.session.report().trying:
            iterate()
            done += 1
        return done

    def finish(self):
        self.session.synchronize()


class FSDP(Way):
    """fully_shard() of each block of the network and of what is left, with torch's own order of collectives or braid's hook."""

    def __init__(self, model, loss, group, hook=False):
        from torch.distributed.device_mesh import DeviceMesh
        from torch.distributed.fsdp import fully_shard

        mesh = DeviceMesh.from_group(group, "cpu")
        for block in getattr(model, "layers", model):
            if any(True for _ in block.parameters()):
                fully_shard(block, mesh=mesh)
        self.model, self.loss = fully_shard(model, mesh=mesh), loss
        self.optimizer = torch.optim.SGD(model.parameters(), RATE, MOMENTUM)
        if hook:
            import braid.torch

            braid.torch.fsdp_hook(model, self.optimizer)


def ways_of(names, groups):
    """name -> a function (model, loss, bucket_bytes) that makes the way."""
    known = {
        "gloo": lambda *given: DDP(given[0], given[1], groups["gloo"], given[2]),
        "ddp": lambda *given: DDP(given[0], given[1], groups["braid"], given[2]),
        "hook": lambda *given: DDP(given[0], given[1], groups["braid"], given[2], hook_state(groups["braid"], None)),
        "bf16": lambda *given: DDP(given[0], given[1], groups["braid"], given[2], hook_state(groups["braid"], "bf16")),
        "session": lambda *given: Session(given[0], given[1], groups["session"], given[2]),
        "fsdp-gloo": lambda *given: FSDP(given[0], given[1], groups["gloo"]),
        "fsdp": lambda *given: FSDP(given[0], given[1], groups["braid"]),
        "fsdp-hook": lambda *given: FSDP(given[0], given[1], groups["braid"], hook=True),
    }
    return {name: known[name] for name in names}


def hook_state(group, compress):
    import braid.torch

    return braid.torch.DDPState(group, compress)


class Layers:
    """The modules of a network that have weights of their own, in the order of the forward pass, and when each pass came to them."""

    def __init__(self, model, loss):
        self.model, self.loss = model, loss
        self.order, self.starts, self.ready, self.marks = [], {}, {}, []
        owned = set()
        for name, module in model.named_modules():
            own = [p for p in module.parameters(recurse=False) if id(p) not in owned]
            owned.update(id(p) for p in own)
            if own:
                self.marks.append(module.register_forward_pre_hook(lambda *_, name=name, module=module, own=own: self.enter(name, module, own)))
                for parameter in own:
                    self.marks.append(parameter.register_post_accumulate_grad_hook(lambda _, name=name: self.ready.__setitem__(name, time.perf_counter())))

    def enter(self, name, module, own):
        self.starts[name] = time.perf_counter()
        if not any(name == known for known, *_ in self.order):
            self.order.append((name, type(module).__name__, sum(p.numel() for p in own)))

    def measure(self, draw, batch, passes):
        """[(name, kind, weights, forward s, backward s)]: medians of passes without communication."""
        forward, backward = [], []
        for _ in range(passes):
            self.model.zero_grad()
            value = self.loss(self.model(draw[0]), draw[1])
            end = time.perf_counter()
            value.backward()
            names = [name for name, *_ in self.order]
            starts = [self.starts[name] for name in names] + [end]
            forward.append([b - a for a, b in zip(starts, starts[1:])])
            ends = [end]
            for name in reversed(names):
                ends.append(max(ends[-1], self.ready[name]))
            backward.append([b - a for a, b in zip(ends, ends[1:])][::-1])
        middle = [[statistics.median(column) for column in zip(*rows)] for rows in (forward, backward)]
        return [(*layer, f, b) for layer, f, b in zip(self.order, *middle)]

    def remove(self):
        for mark in self.marks:
            mark.remove()


def write_layers(path, title, layers):
    """The table of layers and their times that `braid plan --model TABLE --times TIMES` reads."""
    with open(path + ".csv", "w") as table:
        table.write(f"# {title}\nlayer,name,kind,parameters,forward_multiply_adds\n")
        table.writelines(f"{i},{name or 'model'},{kind},{weights},0\n" for i, (name, kind, weights, _, _) in enumerate(layers, 1))
    with open(path + ".times.csv", "w") as times:
        times.write("layer,forward_us,backward_us\n")
        times.writelines(f"{i},{forward * 1e6:.1f},{backward * 1e6:.1f}\n" for i, (*_, forward, backward) in enumerate(layers, 1))


def cost_line(group, sizes):
    """a and b of a + b M, s and s a byte, of all-reduces one behind the other: least squares of the relative errors."""
    points = []
    for size in sizes:
        tensor, times = torch.zeros(size // 4), []
        for turn in range(5):
            begin = time.perf_counter()
            for _ in range(2):
                dist.all_reduce(tensor, group=group)
            times.append((time.perf_counter() - begin) / 2)
        points.append((size, statistics.median(times[1:])))
    w, m, t = [1 / t**2 for _, t in points], [m for m, _ in points], [t for _, t in points]
    mean_m, mean_t = sum(a * b for a, b in zip(w, m)) / sum(w), sum(a * b for a, b in zip(w, t)) / sum(w)
    b = sum(a * (x - mean_m) * (y - mean_t) for a, x, y in zip(w, m, t)) / sum(a * (x - mean_m) ** 2 for a, x in zip(w, m))
    return max(0.0, mean_t - b * mean_m), b


def agreed(value, op=dist.ReduceOp.MAX):
    """The same number on all ranks."""
    tensor = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(tensor, op=op)
    return float(tensor)


def batch_for(layers, draw, ratio, communication, largest):
    """The batch whose passes take `ratio` of the time that the gradients take, and what its layers take."""
    batch = 4
    for _ in range(2):
        dist.barrier()
        times = layers.measure(draw(batch), batch, 3)
        compute = agreed(sum(forward + backward for *_, forward, backward in times))
        batch = min(largest, max(1, round(batch * ratio * communication / compute)))
    dist.barrier()
    return batch, layers.measure(draw(batch), batch, 5)


def train(name, ratio, ways, lines, options):
    torch.manual_seed(SEED)
    model, draw, loss = MODELS[name]()
    count = sum(p.numel() for p in model.parameters())
    first = next(iter(lines))
    communication = agreed(lines[first][0] + lines[first][1] * 4 * count)  # each rank has measured its own
    layers = Layers(model, loss)
    batch, times = batch_for(layers, draw, ratio, communication, options.largest)
    layers.remove()
    made = {}
    for way, make in ways.items():
        torch.manual_seed(SEED)
        made[way] = make(MODELS[name]()[0], loss, options.bucket)
    torch.manual_seed(SEED + dist.get_rank())
    samples = draw(batch)
    settled = {way: it.settle(lambda it=it: it.iterate(*samples)) for way, it in made.items()}
    taken = {way: [] for way in made}
    for _ in range(options.rounds):
        for way, it in made.items():
            dist.barrier()
            starts = []
            for _ in range(options.iterations + 2):  # the first one begins without gradients of one before
                starts.append(time.perf_counter())
                it.iterate(*samples)
            taken[way] += [b - a for a, b in zip(starts[1:], starts[2:])]
            it.finish()
    compute = agreed(sum(forward + backward for *_, forward, backward in times))
    title = f"{name}, batch {batch}"
    if dist.get_rank() == 0:
        write_layers(os.path.join(options.out, f"{name}-{ratio}"), title, times)
    return {"model": name, "ratio": ratio, "batch": batch, "bytes": 4 * count, "compute_s": compute, "settled": settled, "iterations_s": taken}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--models", default="resnet vgg gpt lstm")
    parser.add_argument("--ratios", default="0.1 1", help="of computation over the time that the gradients take")
    parser.add_argument("--ways", default="gloo ddp hook bf16 session")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=4, help="of a way in a round that count")
    parser.add_argument("--bucket", type=int, default=500000, help="bytes of a bucket")
    parser.add_argument("--largest", type=int, default=64, help="batch")
    options = parser.parse_args()
    names = options.ways.split()
    dist.init_process_group("gloo", timeout=timedelta(seconds=120))
    groups = {"gloo": dist.group.WORLD}
    if names != ["gloo"]:
        import braid.torch  # noqa: F401 registers the back end

        groups.update(braid=dist.new_group(backend="braid"), session=dist.new_group(backend="braid"))
    backends = ["braid"] * (len(groups) > 1) + ["gloo"] * ("gloo" in names)
    lines = {backend: cost_line(groups[backend], (1 << 18, 1 << 20, 3 << 20)) for backend in backends}
    rows = []
    for name in options.models.split():
        for ratio in options.ratios.split():
            rows.append(train(name, float(ratio), ways_of(names, groups), lines, options))
            if dist.get_rank() == 0:
                with open(os.path.join(options.out, "results.json"), "w") as out:
                    json.dump({"ranks": dist.get_world_size(), "bucket": options.bucket, "lines": lines, "rows": rows}, out)
    dist.barrier()
    dist.destroy_process_group()


main()
