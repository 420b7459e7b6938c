# SPDX-License-Identifier: BSD-3-Clause
"""braid.torch.fsdp_hook against fully_shard() with gloo, in groups of two and three of the ranks of one job."""
# ranks: 3
# preload: torch._dynamo
from typing import Any, Callable, List

import pytest
import torch
import torch.distributed as dist
from torch import nn

import braid.torch
from braid.torch.urgency import Pool
from traced import traced

fsdp = pytest.importorskip("torch.distributed.fsdp")
if not hasattr(fsdp, "fully_shard"):
    pytest.skip("fully_shard() is there from PyTorch 2.6 on", allow_module_level=True)
from torch.distributed.device_mesh import DeviceMesh  # noqa: E402

MIXED = fsdp.MixedPrecisionPolicy(param_dtype=torch.bfloat16)
REDUCED = fsdp.MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)


@pytest.fixture(scope="module", autouse=True)
def meshes():
    """Device meshes by backend and size."""
    dist.init_process_group("braid")
    groups = {(backend, size): dist.new_group(list(range(size)), backend=backend) for backend in ("gloo", "braid") for size in (2, 3)}
    yield {key: DeviceMesh.from_group(group, "cpu") for key, group in groups.items() if dist.get_rank() < key[1]}
    dist.destroy_process_group()


class Net(nn.Module):
    """A head, which is registered first and used last, blocks, of which the second is not used with `skip`, and a layer in front of them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.head = nn.Linear(24, 5)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 24)) for _ in range(3))
        self.embed = nn.Linear(10, 24)

    def forward(self, x: Any, skip: bool = False) -> Any:
        x = self.embed(x)
        for i, block in enumerate(self.blocks):
            if not (skip and i == 1):
                x = x + block(x)
        return self.head(x)


def shard(mesh: Any, **arguments: Any) -> Any:
    net = Net()
    for module in (*net.blocks, net.head):
        fsdp.fully_shard(module, mesh=mesh, **arguments)
    return fsdp.fully_shard(net, mesh=mesh, **arguments)


def loss(net: Any, step: int, rank: int, *arguments: Any) -> Any:
    x = torch.randn(6, 10, generator=torch.Generator().manual_seed(100 * step + rank))
    found = net(x, *arguments).float().square().mean()
    found.backward()
    return found.detach()


def plain(net: Any, step: int) -> Any:
    return loss(net, step, dist.get_rank())


def accumulated(net: Any, step: int) -> Any:
    """Two passes, the gradients of the first kept whole."""
    net.set_requires_gradient_sync(False)
    loss(net, 2 * step, dist.get_rank())
    net.set_requires_gradient_sync(True)
    return loss(net, 2 * step + 1, dist.get_rank())


def added(net: Any, step: int) -> Any:
    """Two passes, both of which are reduced; the second is added to the shard."""
    loss(net, 2 * step, dist.get_rank())
    return loss(net, 2 * step + 1, dist.get_rank())


def skipping(net: Any, step: int) -> Any:
    """A block is left out in some steps: what was gathered ahead for it must not be used in the next one."""
    return loss(net, step, dist.get_rank(), step % 3 == 1)


def reloaded(net: Any, step: int) -> Any:
    """Weights change between two steps, behind the optimizer's."""
    if step == 5:
        net.load_state_dict({name: weight * 0.5 for name, weight in net.state_dict().items()})
    return loss(net, step, dist.get_rank())


def train(net: Any, optimizer: Any, backward: Callable[[Any, int], Any], steps: Any = range(10)) -> List[Any]:
    """The losses of the steps, and this rank's shards of the weights behind them."""
    losses = []
    for step in steps:
        losses.append(backward(net, step))
        optimizer.step()
        optimizer.zero_grad()
    return [torch.stack(losses), *(parameter.to_local().detach().clone() for parameter in net.parameters())]


def optimizer_of(net: Any) -> Any:
    return torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)


@pytest.mark.parametrize("size, backward, arguments", [
    *((size, *way) for size in (2, 3) for way in ((plain, {}), (plain, {"mp_policy": MIXED}), (accumulated, {}))),
    *((2, *way) for way in ((plain, {"mp_policy": REDUCED}), (plain, {"reshard_after_forward": False}), (added, {}), (skipping, {}), (reloaded, {})))],
    indirect=["size"])
def test_same_as_gloo(meshes, size, backward, arguments):
    """Two numbers have one sum; three may be added in another order, and rounded after each."""
    net = shard(meshes["gloo", size], **arguments)
    expected = train(net, optimizer_of(net), backward)
    net = shard(meshes["braid", size], **arguments)
    optimizer = optimizer_of(net)
    braid.torch.fsdp_hook(net, optimizer, prefetch=2)
    low = arguments.get("mp_policy") is not None
    torch.testing.assert_close(train(net, optimizer, backward), expected,
                               **({"rtol": 0, "atol": 0} if size == 2 else {"rtol": 0.05, "atol": 5e-3} if low else {"rtol": 1e-4, "atol": 1e-6}))


def twice(net: Any, optimizer: Any) -> None:
    """A second step, by the same gradients, before the forward pass."""
    optimizer.step()
    optimizer.step()


def scaled(net: Any, optimizer: Any) -> None:
    """Weights are written in place behind the step."""
    optimizer.step()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(0.5)


@pytest.mark.parametrize("change", [twice, scaled])
@pytest.mark.parametrize("size", [2], indirect=True)
def test_weights_that_change_behind_a_step(meshes, size, change):
    results = []
    for backend in ("gloo", "braid"):
        net = shard(meshes[backend, size])
        optimizer = optimizer_of(net)
        if backend == "braid":
            plan = braid.torch.fsdp_hook(net, optimizer)
        losses = []
        for step in range(4):
            losses.append(plain(net, step))
            change(net, optimizer)
            optimizer.zero_grad()
        results.append(losses)
    torch.testing.assert_close(*results, rtol=0, atol=0)
    assert plan.ahead()


@pytest.mark.parametrize("size", [2], indirect=True)
def test_checkpointed_activations(meshes, size):
    """Blocks that compute their activations again in the backward pass are not a new forward pass."""
    from torch.utils.checkpoint import checkpoint

    results = []
    for backend in ("gloo", "braid"):
        net = shard(meshes[backend, size])
        for block in net.blocks:
            block.forward = lambda x, inner=block.forward: checkpoint(inner, x, use_reentrant=False)
        optimizer = optimizer_of(net)
        if backend == "braid":
            plan = braid.torch.fsdp_hook(net, optimizer)
        results.append(train(net, optimizer, plain))
    torch.testing.assert_close(*results, rtol=0, atol=0)
    assert len(plan.order) == 5 == len(set(plan.order))


@pytest.mark.parametrize("size", [2], indirect=True)
def test_order(meshes, size):
    """The order is that of use: the model's own weights (embed's), the blocks, the head, which was registered first."""
    net = shard(meshes["braid", size])
    plan = braid.torch.fsdp_hook(net)
    loss(net, 0, dist.get_rank())
    numbers = {name: number for number, name in enumerate(name for name, module in net.named_modules() if isinstance(module, fsdp.FSDPModule))}
    assert plan.order == [numbers[name] for name in ("", "blocks.0", "blocks.1", "blocks.2", "head")]
    assert [plan.place(number) for number in plan.order] == list(range(5))


@pytest.mark.parametrize("size", [2], indirect=True)
def test_overlap(meshes, size):
    """The backward pass submits all reduce-scatters before it waits for one, and the forward pass has weights under way while a module computes."""
    net = shard(meshes["braid", size])
    plan = braid.torch.fsdp_hook(net)
    waits, ahead = [], []
    wait = plan._wait
    plan._wait = lambda: (waits.append(len(plan._scatters)), wait())
    loss(net, 0, dist.get_rank())
    net.blocks[0].register_forward_hook(lambda *_: ahead.append(plan.ahead()))
    loss(net, 1, dist.get_rank())
    assert waits[0] == 5, "gradients were waited for one by one"
    assert ahead == [[plan.order[2]]]
    assert not plan._scatters


@pytest.mark.parametrize("size", [3])
def test_priorities(size, tmp_path):
    """What braid is given: weights before gradients, in the order of use of the forward and of the backward pass; gradients of what is used first before others."""
    operations = []
    with traced(tmp_path, size, operations) as group:
        net = shard(DeviceMesh.from_group(group, "cpu"))
        optimizer = optimizer_of(net)
        braid.torch.fsdp_hook(net, optimizer)
        train(net, optimizer, plain, range(2))
    gathers = [found["priority"] for found in operations if found["name"] == "allgather"]
    scatters = [found["priority"] for found in operations if found["name"] == "reduce_scatter"]
    ahead = 2  # embed's and the first block's, behind each step of the optimizer
    forward, backward = [5, 4, 3, 2, 1], [5, 4, 3, 2]  # embed's stay from forward to backward, as those of every outermost module
    assert gathers[-11:] == [*forward, *backward, *forward[:ahead]]
    assert scatters[-5:] == [-4, -3, -2, -1, 0]


@pytest.mark.parametrize("size", [2], indirect=True)
def test_remove(meshes, size):
    net = shard(meshes["braid", size])
    plan = braid.torch.fsdp_hook(net)
    loss(net, 0, dist.get_rank())
    plan.remove()
    loss(net, 1, dist.get_rank())
    assert not plan.ahead() and len(plan.order) == 5


def test_arguments(meshes):
    with pytest.raises(TypeError, match="Net is not sharded"):
        braid.torch.fsdp_hook(Net())
    with pytest.raises(ValueError, match="prefetch is -1"):
        braid.torch.fsdp_hook(shard(meshes["braid", 3]), prefetch=-1)


class Memory:
    """A group whose backend has memory of its own, and counts the pieces."""

    pieces = 0

    def _get_backend(self, device: Any) -> Any:
        return self

    def supports_tensor_alloc(self, device: Any) -> bool:
        return True

    def allocate_tensor(self, count: int, dtype: Any, device: Any) -> Any:
        self.pieces += 1
        return torch.empty(count, dtype=dtype, device=device)


def test_pool():
    """A piece is used again when nothing is left over it, and not before."""
    memory, pool = Memory(), Pool()

    def take(count: int = 10) -> Any:
        return pool.take(memory, count, torch.float32, torch.device("cpu"))

    first = take()
    address, part = first.data_ptr(), first[3:].view(7, 1)
    del first
    second = take()
    assert second.data_ptr() != address and memory.pieces == 2, "given out while a part of it is in use"
    weight = nn.Parameter(torch.zeros(7, 1))
    weight.grad = part
    del part
    third = take()
    assert memory.pieces == 3, "given out while it is a gradient"
    weight.grad = None
    assert take().data_ptr() == address and memory.pieces == 3
    assert take(11).numel() == 11 and memory.pieces == 4
    del second, third
