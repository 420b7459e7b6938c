# SPDX-License-Identifier: BSD-3-Clause
# ranks: 2
# preload: torch._dynamo
"""What PyTorch builds on process groups, a short training script each: the same losses and weights with braid as with gloo, bit for bit."""
import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from both import both, compare, run, size
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import (PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B,
                                          ScheduleInterleavedZeroBubble, ScheduleLoopedBFS)
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel,
                                               parallelize_module)
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(nn.Module):
    """Two hidden layers; `branches` of them, of which rank and iteration choose the used ones."""

    def __init__(self, branches: int = 1):
        super().__init__()
        self.first = nn.Linear(10, 32)
        self.middle = nn.ModuleList(nn.Linear(32, 32) for _ in range(branches))
        self.last = nn.Linear(32, 4)

    def forward(self, x, branch: int = 0):
        return self.last(F.relu(self.middle[branch](F.relu(self.first(x)))))


def batch(iteration: int, rows: int = 8):
    """Inputs and targets of the rank, equal with every backend."""
    g = torch.Generator().manual_seed(100 * iteration + dist.get_rank())
    return torch.randn(rows, 10, generator=g), torch.randint(4, (rows,), generator=g)


def weights(module: nn.Module):
    """Parameters and buffers, whole where they are sharded."""
    whole = [w.full_tensor() if hasattr(w, "full_tensor") else w for w in module.state_dict().values()]
    return [w.detach().clone() for w in whole]


def train(model, optimizer, iterations: int = 4, **arguments):
    """Plain data-parallel training; returns losses and weights."""
    losses = []
    for i in range(iterations):
        x, y = batch(i)
        loss = F.cross_entropy(model(x, **arguments), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses, weights(model)


@pytest.mark.parametrize("options", [
    {},
    {"static_graph": True},
    {"gradient_as_bucket_view": True, "bucket_cap_mb": 0.001},  # a bucket a layer
    {"find_unused_parameters": True},
    {"bucket_cap_mb": 0.001, "init_sync": False},
], ids=lambda options: "-".join(options) or "plain")
def test_ddp(options):
    def script():
        model = DDP(Net(), **options)
        return train(model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9))
    both(script)


def test_ddp__unused_parameters_differ_between_ranks():
    def script():
        model = DDP(Net(branches=2), find_unused_parameters=True)
        return train(model, torch.optim.SGD(model.parameters(), 0.1), branch=dist.get_rank())
    both(script)


def test_ddp__accumulates_without_synchronizing():
    def script():
        model = DDP(Net())
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for i in range(3):
            with model.no_sync():
                F.cross_entropy(model(batch(2 * i)[0]), batch(2 * i)[1]).backward()
            F.cross_entropy(model(batch(2 * i + 1)[0]), batch(2 * i + 1)[1]).backward()
            optimizer.step()
            optimizer.zero_grad()
        return weights(model)
    both(script)


def test_ddp__buffers_of_rank_0_go_to_all():
    def script():
        torch.manual_seed(dist.get_rank())  # the constructor sends rank 0's weights
        model = DDP(nn.Sequential(nn.Linear(10, 16), nn.BatchNorm1d(16), nn.Linear(16, 4)))
        losses = train(model, torch.optim.SGD(model.parameters(), 0.1))
        model.train()(batch(9)[0])  # broadcasts before the forward pass
        mine = model.module[1].running_mean
        return losses, mine
    both(script)


def test_ddp__sparse_gradients():
    """Of an embedding: indices and values of all ranks."""
    def script():
        model = DDP(nn.Sequential(nn.EmbeddingBag(20, 10, sparse=True, mode="sum"), Net()))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for i in range(3):
            words = torch.randint(20, (8, 4), generator=torch.Generator().manual_seed(10 * i + dist.get_rank()))
            optimizer.zero_grad()
            F.cross_entropy(model(words), batch(i)[1]).backward()
            optimizer.step()
        return weights(model)
    both(script)


def test_ddp__uneven_inputs_join():
    def script():
        model = DDP(Net())
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
        with Join([model, optimizer]):
            for i in range(3 + 2 * dist.get_rank()):
                x, y = batch(i)
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
        return weights(model)
    both(script)


def test_ddp__joins_by_itself_and_hears_of_the_end():
    def script():
        model = DDP(Net())
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        steps = 0
        try:
            with model.join(throw_on_early_termination=True):
                for i in range(3 + 2 * dist.get_rank()):
                    F.cross_entropy(model(batch(i)[0]), batch(i)[1]).backward()
                    optimizer.step()
                    steps += 1
        except RuntimeError as error:
            assert "exhausted" in str(error)
        return steps
    both(script)


def test_ddp__hooks_of_torch():
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook, post_localSGD_hook

    def script():
        results = []
        for hook, state in [(default_hooks.allreduce_hook, None), (default_hooks.fp16_compress_hook, None),
                            (default_hooks.bf16_compress_hook, None),
                            (powerSGD_hook.powerSGD_hook, powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2)),
                            (post_localSGD_hook.post_localSGD_hook,
                             post_localSGD_hook.PostLocalSGDState(None, dist.group.WORLD, start_localSGD_iter=2))]:
            torch.manual_seed(3)
            model = DDP(Net())
            model.register_comm_hook(state, hook)
            results.append(train(model, torch.optim.SGD(model.parameters(), 0.1)))
        return results
    both(script)


def test_ddp__checks_of_debug_level_detail():
    """The wrapper of this level compares the calls of the ranks by a gloo group beside the group. PyTorch 2.15's DDP crashes in it over gloo itself
    (c10d::Logger takes the wrapper for the gloo group), so that gloo's weights are those without it."""
    def script():
        model = DDP(Net(branches=2), find_unused_parameters=True)
        return train(model, torch.optim.SGD(model.parameters(), 0.1))

    def checked():
        result = script()
        with pytest.raises(RuntimeError, match="(?s)Detected mismatch.*rank"):
            dist.all_reduce(torch.ones(3 + dist.get_rank()))
        return result
    expected = run("gloo", script)
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    try:
        compare(run("braid", checked), expected, rtol=0, atol=0)
    finally:
        dist.set_debug_level(dist.DebugLevel.OFF)


def test_ddp__other_groups_and_optimizers_in_the_backward_pass():
    """Functional optimizers step in the hook of a bucket, on the thread that ends its future."""
    def script():
        model = DDP(Net(), process_group=dist.new_group([0, 1]), gradient_as_bucket_view=True)
        model._register_fused_optim(torch.optim.SGD, 0.1, optim_params=list(model.parameters()))
        for i in range(3):
            F.cross_entropy(model(batch(i)[0]), batch(i)[1]).backward()
        return weights(model)
    both(script)


def test_zero_redundancy_optimizer():
    def script():
        model = DDP(Net())
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
        result = train(model, optimizer)
        optimizer.consolidate_state_dict(to=0)
        moments = optimizer.state_dict()["state"] if dist.get_rank() == 0 else {}
        return result, [moment["exp_avg"] for moment in moments.values()]
    both(script)


@pytest.mark.parametrize("options", [
    {},
    {"reshard_after_forward": False},
    {"mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)},
], ids=["plain", "weights_kept", "bfloat16"])
def test_fsdp2(options):
    def script():
        model = Net(branches=2)
        mesh = init_device_mesh("cpu", (size(),))
        for layer in [model.first, *model.middle, model.last]:
            fully_shard(layer, mesh=mesh, **options)
        fully_shard(model, mesh=mesh, **options)
        optimizer = torch.optim.Adam(model.parameters(), 0.01)
        losses, end = train(model, optimizer)
        return losses, end, nn.utils.clip_grad_norm_(model.parameters(), 1.0).full_tensor()
    both(script)


def test_tensor_parallel():
    """Megatron's split of an MLP, and of a norm by sequence."""
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 64), nn.Linear(64, 16)

        def forward(self, x):
            return self.down(F.gelu(self.up(self.norm(x))))

    def script():
        from torch.distributed.tensor import Replicate, Shard
        mesh = init_device_mesh("cpu", (size(),))
        results = []
        for sequence in (False, True):
            torch.manual_seed(2)
            block = Block()
            plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
            if sequence:
                plan = {"": PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Shard(1)), "norm": SequenceParallel(),
                        "up": ColwiseParallel(input_layouts=Shard(1)), "down": RowwiseParallel(output_layouts=Shard(1), use_local_output=False)}
            block = parallelize_module(block, mesh, plan)
            optimizer = torch.optim.SGD(block.parameters(), 0.1)
            for i in range(3):
                x = torch.randn(2, 6, 16, generator=torch.Generator().manual_seed(i))
                out = block(x)
                loss = (out.full_tensor() if sequence else out).square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                results.append(loss.detach())
            results.extend(weights(block))
        return results
    both(script)


@pytest.mark.parametrize("schedule", [ScheduleGPipe, Schedule1F1B, ScheduleInterleaved1F1B, ScheduleLoopedBFS, ScheduleInterleavedZeroBubble],
                         ids=lambda schedule: schedule.__name__[8:])
def test_pipeline(schedule):
    def script():
        several = schedule not in (ScheduleGPipe, Schedule1F1B)
        count = 2 * size() if several else size()
        stages = []
        for index in range(dist.get_rank(), count, size()):
            torch.manual_seed(index)
            stages.append(PipelineStage(nn.Sequential(nn.Linear(10, 10), nn.Tanh()), index, count, torch.device("cpu")))
        run = schedule(stages if several else stages[0], 4, loss_fn=F.mse_loss)
        parameters = [p for stage in stages for p in stage.submod.parameters()]
        optimizer = torch.optim.SGD(parameters, 0.1)
        losses = []
        for i in range(3):
            x, y = (torch.randn(8, 10, generator=torch.Generator().manual_seed(seed)) for seed in (i, i + 1000))
            mine = []
            if dist.get_rank() == 0:
                run.step(x)
            if dist.get_rank() == size() - 1:
                run.step(target=y, losses=mine)
            optimizer.step()
            optimizer.zero_grad()
            losses.extend(loss.detach() for loss in mine)
        return losses, [p.detach() for p in parameters]
    both(script)


def test_sync_batch_norm__wants_a_gpu():
    """torch refuses it on CPUs, whatever the backend: the list of doc/torch.md says so."""
    def script():
        model = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Linear(10, 4), nn.BatchNorm1d(4)))
        with pytest.raises((RuntimeError, ValueError)) as caught:
            DDP(model)(batch(0)[0])
        return str(caught.value)
    both(script)
