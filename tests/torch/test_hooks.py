# SPDX-License-Identifier: BSD-3-Clause
"""braid.torch.ddp_hook against DistributedDataParallel with gloo, in groups of two and three of the ranks of one job."""
# ranks: 3
# preload: torch._dynamo
import contextlib
import io
import pickle
import threading
from typing import Any, Callable, List, Optional

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import braid.torch
from traced import traced

WIRES = {"bf16": torch.bfloat16, "fp16": torch.float16}


@pytest.fixture(scope="module", autouse=True)
def groups():
    """Process groups by backend and size."""
    dist.init_process_group("braid")
    yield {(backend, size): dist.new_group(list(range(size)), backend=backend) for backend in ("gloo", "braid") for size in (2, 3)}
    dist.destroy_process_group()


class Net(nn.Module):
    """Three layers that are used in another order than they are registered in, so that the buckets change behind the first iteration; and, with `side`,
    one that only some passes use."""

    def __init__(self, side: bool = False) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.third, self.first, self.second = nn.Linear(32, 4), nn.Linear(16, 48), nn.Linear(48, 32)
        if side:
            self.side = nn.Linear(48, 32)

    def forward(self, x: Any, sideways: bool = False) -> Any:
        x = self.first(x).tanh()
        return self.third((self.side if sideways else self.second)(x).tanh())


def wrap(group: Any, state: Optional[braid.torch.DDPState], hook: Callable = braid.torch.ddp_hook, side: bool = False, **arguments: Any) -> Any:
    """The net with small buckets, and with the hook where there is a state."""
    ddp = DistributedDataParallel(Net(side), process_group=group, bucket_cap_mb=0.005, find_unused_parameters=side, **arguments)
    if state is not None:
        ddp.register_comm_hook(state, hook)
    return ddp


def batch(step: int, rank: int) -> Any:
    return torch.randn(8, 16, generator=torch.Generator().manual_seed(100 * step + rank))


def plain(ddp: Any, step: int, rank: int) -> Any:
    loss = ddp(batch(step, rank)).square().mean()
    loss.backward()
    return loss.detach()


def accumulated(ddp: Any, step: int, rank: int) -> Any:
    """Three passes, of which only the last is synchronised."""
    for part in range(3):
        with ddp.no_sync() if part < 2 else contextlib.nullcontext():
            loss = plain(ddp, 3 * step + part, rank)
    return loss


def sideways(ddp: Any, step: int, rank: int) -> Any:
    """Some passes go another way: a layer is unused on all ranks, or on some."""
    loss = ddp(batch(step, rank), step % 3 == 1 or (step % 3 == 2 and rank == 0)).square().mean()
    loss.backward()
    return loss.detach()


def train(ddp: Any, backward: Callable[[Any, int, int], Any] = plain, steps: Any = range(10)) -> List[Any]:
    """The losses of the steps, and the weights at their end."""
    optimizer = torch.optim.SGD(ddp.parameters(), 0.1, momentum=0.9)
    losses = []
    for step in steps:
        losses.append(backward(ddp, step, dist.get_rank()))
        optimizer.step()
        optimizer.zero_grad()
    return [torch.stack(losses), *(parameter.detach().clone() for parameter in ddp.parameters())]


@pytest.mark.parametrize("backward, arguments", [(plain, {}), (plain, {"gradient_as_bucket_view": True}), (plain, {"static_graph": True}),
                                                 (accumulated, {}), (sideways, {"side": True})])
def test_same_as_gloo(groups, size, backward, arguments):
    """Two numbers have one sum, and half of it is exact; three may be added in another order."""
    expected = train(wrap(groups["gloo", size], None, **arguments), backward)
    results = train(wrap(groups["braid", size], braid.torch.DDPState(groups["braid", size]), **arguments), backward)
    torch.testing.assert_close(results, expected, **({"rtol": 0, "atol": 0} if size == 2 else {"rtol": 1e-4, "atol": 1e-6}))


@pytest.mark.parametrize("compress", WIRES)
@pytest.mark.parametrize("size, backward", [(2, plain), (3, plain), (2, accumulated), (2, sideways)], indirect=["size"])
def test_compressed(groups, size, backward, compress):
    """Training goes where it goes without compression."""
    group, side = groups["braid", size], backward is sideways
    expected = train(wrap(group, None, side=side), backward)
    results = train(wrap(group, braid.torch.DDPState(group, compress), side=side), backward)
    torch.testing.assert_close(results, expected, rtol=0.02, atol=2e-3)
    assert any(not torch.equal(a, b) for a, b in zip(results, expected)), "nothing was rounded"


def error_of_mean(group: Any, state: braid.torch.DDPState, steps: int, backward: Callable) -> float:
    """How far the mean of many averages is from the gradient, in units of the largest number of its parameter. The weights stay, and all ranks have one
    batch: then the average of what the ranks send, which are equal numbers, is exact."""
    alone, ddp = Net(), wrap(group, state)
    backward(DistributedDataParallel(alone, process_group=group), 0, 0)  # by braid's DDP: float32
    sums = [torch.zeros_like(parameter, dtype=torch.float64) for parameter in alone.parameters()]
    for _ in range(steps):
        backward(ddp, 0, 0)
        for total, parameter in zip(sums, ddp.module.parameters()):
            total += parameter.grad
        ddp.zero_grad()
    return max(float((total / steps - parameter.grad).abs().max() / parameter.grad.abs().max()) for total, parameter in zip(sums, alone.parameters()))


@pytest.mark.parametrize("compress", WIRES)
@pytest.mark.parametrize("size, backward", [(2, plain), (3, plain), (2, accumulated)], indirect=["size"])
def test_error_feedback(groups, size, backward, compress):
    """With it the error of the mean is that of one rounding by the number of steps, through the buckets' change behind the first; without it stays."""
    rounding, group = torch.finfo(WIRES[compress]).eps / 2, groups["braid", size]
    assert error_of_mean(group, braid.torch.DDPState(group, compress), 64, backward) < 2 * rounding / 64
    assert error_of_mean(group, braid.torch.DDPState(group, compress, error_feedback=False), 64, backward) > rounding / 4


def test_residuals_move_with_their_parameters(groups, size):
    """Behind the first iteration parameters lie in other buckets; what is left of each is added to the same one."""
    state, seen = braid.torch.DDPState(groups["braid", size], "bf16"), []

    def hook(state, bucket):
        seen[-1].append([parameter.shape for parameter in bucket.parameters()])
        return braid.torch.ddp_hook(state, bucket)

    ddp = wrap(groups["braid", size], state, hook)
    sent = [torch.zeros_like(parameter) for parameter in ddp.parameters()]
    for _ in range(3):
        seen.append([])
        plain(ddp, 0, 0)
        for total, parameter in zip(sent, ddp.parameters()):
            total += parameter.grad
        ddp.zero_grad()
    assert len(seen[1]) > 1 and seen[0] != seen[1], "the buckets have not changed: this tests nothing"
    alone = Net()
    alone(batch(0, 0)).square().mean().backward()
    for total, parameter in zip(sent, alone.parameters()):
        left_over = [part for part in state.state_dict()["residuals"] if part.numel() == parameter.numel()]
        assert len(left_over) == 1, "the net's parameters differ in size"
        torch.testing.assert_close(total.flatten() + left_over[0], 3 * parameter.grad.flatten(), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("by", ["pickle", "state_dict"])
def test_checkpoint(groups, size, by):
    """A run that goes on from a checkpoint is the run that was not interrupted, bit for bit; residuals of another rank are not taken."""
    group = groups["braid", size]
    state = braid.torch.DDPState(group, "bf16")
    ddp = wrap(group, state)
    train(ddp, steps=range(5))
    file = io.BytesIO()
    torch.save({"state": state if by == "pickle" else state.state_dict(), "weights": ddp.module.state_dict()}, file)
    expected = train(ddp, steps=range(5, 10))

    file.seek(0)
    saved = torch.load(file, weights_only=by == "state_dict")
    if by == "pickle":
        again = saved["state"]
        again.group = group
    else:
        again = braid.torch.DDPState(group, "bf16")
        again.load_state_dict(saved["state"])
    ddp = wrap(group, again)
    ddp.module.load_state_dict(saved["weights"])
    torch.testing.assert_close(train(ddp, steps=range(5, 10)), expected, rtol=0, atol=0)

    again.load_state_dict({**state.state_dict(), "rank": dist.get_rank() + 1})
    assert again.state_dict()["residuals"] == []


def test_checkpoint__of_a_part_of_the_ranks(groups):
    """Residuals come back to the rank that saved them, whose number in the group is another one."""
    group = dist.new_group([1, 2])
    if dist.get_rank() == 0:
        return
    state = braid.torch.DDPState(group, "bf16")
    plain(wrap(group, state), 0, 0)
    again = pickle.loads(pickle.dumps(state))
    again.group = group
    saved = state.state_dict()["residuals"]
    assert saved and any(part.any() for part in saved)
    torch.testing.assert_close(again.state_dict()["residuals"], saved, rtol=0, atol=0)


@pytest.mark.parametrize("size", [2], indirect=True)
def test_overflow_leaves_no_trace(groups, size):
    """Infinities and NaNs are shown to all, as a gradient scaler wants it, and are gone in the next iteration."""
    group = groups["braid", size]
    state = braid.torch.DDPState(group, "fp16")
    ddp = wrap(group, state)
    (ddp(batch(0, 0)) * 1e12).sum().backward()
    assert not all(torch.isfinite(parameter.grad).all() for parameter in ddp.parameters())
    ddp.zero_grad()
    plain(ddp, 0, 0)
    assert all(torch.isfinite(parameter.grad).all() for parameter in ddp.parameters())


@pytest.mark.parametrize("size", [2], indirect=True)
def test_other_types_stay(groups, size):
    """Gradients that are of 16 bits already travel as they are."""
    group = groups["braid", size]
    results = []
    for compress in (None, "fp16"):
        ddp = DistributedDataParallel(Net().bfloat16(), process_group=group)
        ddp.register_comm_hook(braid.torch.DDPState(group, compress), braid.torch.ddp_hook)
        ddp(batch(0, dist.get_rank()).bfloat16()).square().mean().backward()
        results.append([parameter.grad for parameter in ddp.parameters()])
    torch.testing.assert_close(*results, rtol=0, atol=0)


@pytest.mark.parametrize("compress, element, priorities", [(None, 4, True), ("bf16", 2, True), (None, 4, False)])
@pytest.mark.parametrize("size", [2, 3])
def test_priorities(size, tmp_path, compress, element, priorities):
    """What braid is given for each bucket: its size on the wire, and a priority that grows with its index, as the first layers are in the last bucket."""
    buckets, operations = [], []

    def hook(state, bucket):
        buckets.append((bucket.buffer().numel() * element, bucket.index() if priorities else 0))
        return braid.torch.ddp_hook(state, bucket)

    with traced(tmp_path, size, operations) as group:
        ddp = wrap(group, braid.torch.DDPState(group, compress, priorities=priorities), hook)
        for step in range(3):
            plain(ddp, step, dist.get_rank())
    assert len(set(buckets)) > 1
    assert [(found["bytes"], found["priority"]) for found in operations if found["name"] == "allreduce"][-len(buckets):] == buckets


@pytest.mark.parametrize("size", [3])
def test_priority_of_any_call(size, tmp_path):
    """A block of one priority, which ends with the block, also by an exception, and is this thread's alone."""
    operations = []
    with traced(tmp_path, size, operations) as group:
        with braid.torch.priority(5):
            dist.all_reduce(torch.ones(10), group=group)
            with contextlib.suppress(KeyError), braid.torch.priority(-3):
                dist.all_reduce(torch.ones(10), group=group)
                raise KeyError
            other = threading.Thread(target=lambda: dist.all_reduce(torch.ones(10), group=group))
            other.start()
            other.join()
            dist.broadcast(torch.ones(10), 0, group=group)
        dist.all_reduce(torch.ones(10), group=group)
    assert [found["priority"] for found in operations if found["name"] in ("allreduce", "broadcast")][-5:] == [5, -3, 0, 5, 0]


def test_arguments(groups):
    with pytest.raises(ValueError, match="fp8.*bf16"):
        braid.torch.DDPState(compress="fp8")
    state = braid.torch.DDPState(groups["braid", 3], "bf16")
    state.load_state_dict({"rank": dist.get_rank(), "residuals": [torch.zeros(7)] * 10})
    with pytest.raises(ValueError, match="7 elements.*another model"):
        plain(wrap(groups["braid", 3], state), 0, 0)
