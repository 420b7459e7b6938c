# SPDX-License-Identifier: BSD-3-Clause
# ranks: 2
# needs: /dev/nvidiactl
# environment: BRAID_GPU_REDUCE=auto
"""Tensors of CUDA devices on a real GPU, which both ranks use if there is no other: results of every call, the order of streams, training. What needs no
GPU is in test_gpu.py, on the fake driver. `./dev test --gpu` runs this with each of torch's allocators."""
import os
import time

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")
DEVICE = "cuda"
OLD = 7  # what no call below gives
BYTES = [8, 4096, 4104, 1 << 20, 64 << 20]
TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.complex64,
         torch.float8_e4m3fn]
SLEEP = 400_000_000  # cycles of the GPU: at least 0.2 s


@pytest.fixture(scope="module", autouse=True)
def group():
    import braid.torch  # noqa: F401

    torch.cuda.set_device(int(os.environ["RANK"]) % torch.cuda.device_count())
    dist.init_process_group("braid")
    for elements in 2, 1 << 20:  # the first call opens the GPU, which may wait for all streams
        dist.all_reduce(torch.ones(elements, device=DEVICE))
    torch.cuda.synchronize()
    yield
    dist.destroy_process_group()


def given(elements, dtype, rank=None):
    """A rank's values: small integers, whose sums every type has exactly."""
    return (torch.arange(elements, device=DEVICE) % 4 + (dist.get_rank() if rank is None else rank)).to(dtype)


def same(one, other):
    return torch.equal(one.view(torch.uint8), other.view(torch.uint8))


# ---- results ----


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_all_reduce(dtype):
    for size in BYTES:
        elements = size // dtype.itemsize
        expected = (given(elements, torch.float32, 0) + given(elements, torch.float32, 1)).to(dtype)
        for asynchronous in False, True:
            x = given(elements, dtype)
            work = dist.all_reduce(x, async_op=asynchronous)
            if asynchronous:
                work.wait()
            assert same(x, expected), f"{size} bytes"


@pytest.mark.parametrize("op, dtype, expected", [("AVG", torch.float32, 2.5), ("AVG", torch.bfloat16, 2.5), ("PRODUCT", torch.int32, 6), ("MIN", torch.float16, 2),
                                                 ("MAX", torch.int64, 3), ("BAND", torch.uint8, 2), ("BOR", torch.int32, 3), ("BXOR", torch.int16, 1)])
def test_all_reduce__operators(op, dtype, expected):
    for elements in 3, 100_000:
        x = torch.full((elements,), dist.get_rank() + 2, dtype=dtype, device=DEVICE)
        dist.all_reduce(x, getattr(dist.ReduceOp, op))
        assert torch.all(x == expected)


def test_all_reduce__truth_values():
    x = torch.tensor([False, dist.get_rank() == 0, dist.get_rank() == 1, True], device=DEVICE)
    dist.all_reduce(x)
    assert x.tolist() == [False, True, True, True]


def test_all_reduce__with_gaps():
    whole = torch.zeros(64, 64, device=DEVICE)
    part = whole[:, ::2]
    part.fill_(dist.get_rank() + 1)
    dist.all_reduce(part)
    assert torch.all(part == 3) and torch.all(whole[:, 1::2] == 0)
    turned = given(60, torch.float32).view(6, 10).t()
    dist.all_reduce(turned)
    assert torch.equal(turned, (given(60, torch.float32, 0) + given(60, torch.float32, 1)).view(6, 10).t())


@pytest.mark.parametrize("root", [0, 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.float8_e5m2], ids=str)
def test_broadcast(root, dtype):
    for size in BYTES:
        x = given(size // dtype.itemsize, dtype)
        dist.broadcast(x, root)
        assert same(x, given(size // dtype.itemsize, dtype, root))


@pytest.mark.parametrize("root", [0, 1])
def test_reduce(root):
    for size in BYTES:
        x = given(size // 4, torch.float32)
        dist.reduce(x, root)
        if dist.get_rank() == root:
            assert torch.equal(x, given(size // 4, torch.float32, 0) + given(size // 4, torch.float32, 1))


@pytest.mark.parametrize("asynchronous", [False, True], ids=["", "async"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bfloat16], ids=str)
def test_gathering_and_scattering(dtype, asynchronous):
    """all_gather_into_tensor, all_gather, reduce_scatter_tensor, reduce_scatter, all_to_all_single, all_to_all."""

    def call(function, *arguments):
        work = function(*arguments, async_op=asynchronous)
        if asynchronous:
            work.wait()

    rank = dist.get_rank()
    for size in BYTES:
        n = max(size // dtype.itemsize // 2, 1)
        mine, both = given(n, dtype), torch.cat([given(n, dtype, 0), given(n, dtype, 1)])
        y = torch.full((2 * n,), OLD, dtype=dtype, device=DEVICE)
        call(dist.all_gather_into_tensor, y, mine)
        assert torch.equal(y, both)
        ys = [torch.full_like(mine, OLD) for _ in range(2)]
        call(dist.all_gather, ys, mine)
        assert torch.equal(torch.cat(ys), both)
        all_of = given(2 * n, dtype)
        sums = (given(2 * n, dtype, 0) + given(2 * n, dtype, 1))[rank * n:(rank + 1) * n]
        y = torch.full((n,), OLD, dtype=dtype, device=DEVICE)
        call(dist.reduce_scatter_tensor, y, all_of)
        assert torch.equal(y, sums)
        y = torch.full((n,), OLD, dtype=dtype, device=DEVICE)
        call(dist.reduce_scatter, y, [part.clone() for part in all_of.chunk(2)])
        assert torch.equal(y, sums)
        exchanged = torch.cat([given(2 * n, dtype, peer)[rank * n:(rank + 1) * n] for peer in range(2)])
        y = torch.full((2 * n,), OLD, dtype=dtype, device=DEVICE)
        call(dist.all_to_all_single, y, all_of)
        assert torch.equal(y, exchanged)
        ys = [torch.full_like(mine, OLD) for _ in range(2)]
        call(dist.all_to_all, ys, [part.clone() for part in all_of.chunk(2)])
        assert torch.equal(torch.cat(ys), exchanged)


def test_all_to_all_single__uneven():
    mine, other = ([1, 3], [1, 2]) if dist.get_rank() == 0 else ([2, 4], [3, 4])  # elements that go out, and come in
    y = torch.full((sum(other),), OLD, device=DEVICE)
    dist.all_to_all_single(y, torch.arange(sum(mine), device=DEVICE) + 10 * dist.get_rank(), other, mine)
    assert y.tolist() == ([0, 10, 11] if dist.get_rank() == 0 else [1, 2, 3, 12, 13, 14, 15])


@pytest.mark.parametrize("root", [0, 1])
def test_gather_and_scatter(root):
    n, rank = 30_000, dist.get_rank()
    ys = [torch.full((n,), float(OLD), device=DEVICE) for _ in range(2)] if rank == root else None
    dist.gather(given(n, torch.float32), ys, dst=root)
    if rank == root:
        assert all(torch.equal(y, given(n, torch.float32, peer)) for peer, y in enumerate(ys))
    x = torch.full((n,), float(OLD), device=DEVICE)
    dist.scatter(x, [given(n, torch.float32, peer + 1) for peer in range(2)] if rank == root else None, src=root)
    assert torch.equal(x, given(n, torch.float32, rank + 1))


def test_coalesced():
    xs = [given(n, torch.float32) for n in (3, 1000, 300_000)]
    with dist._coalescing_manager(device=torch.device(DEVICE, torch.cuda.current_device()), async_ops=True) as manager:
        for x in xs:
            dist.all_reduce(x)
    manager.wait()
    for x in xs:
        assert torch.equal(x, given(x.numel(), torch.float32, 0) + given(x.numel(), torch.float32, 1))
    ys = [torch.full((2 * x.numel(),), float(OLD), device=DEVICE) for x in xs]
    with dist._coalescing_manager(device=torch.device(DEVICE, torch.cuda.current_device())):
        for x, y in zip(xs, ys):
            dist.all_gather_into_tensor(y, x)
    for x, y in zip(xs, ys):
        assert torch.equal(y, torch.cat([x, x]))


def test_objects():
    seen = [None, None]
    dist.all_gather_object(seen, {"rank": dist.get_rank()})
    assert seen == [{"rank": 0}, {"rank": 1}]


def test_messages():
    rank, peer = dist.get_rank(), 1 - dist.get_rank()
    for size in BYTES:
        x, y = given(size // 4, torch.float32), torch.full((size // 4,), float(OLD), device=DEVICE)
        if rank == 0:
            dist.send(x, 1)
            dist.recv(y, 1)
        else:
            dist.recv(y, 0)
            dist.send(x, 0)
        assert torch.equal(y, given(size // 4, torch.float32, peer))
        y.fill_(OLD)
        works = [dist.isend(x, peer, tag=3), dist.irecv(y, peer, tag=3)]
        for work in works:
            work.wait()
        assert torch.equal(y, given(size // 4, torch.float32, peer))
        y.fill_(OLD)
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, peer), dist.P2POp(dist.irecv, y, peer)]):
            work.wait()
        assert torch.equal(y, given(size // 4, torch.float32, peer))


def test_message_behind_a_kernel():
    x, y = torch.full((1000,), float(OLD), device=DEVICE), torch.full((1000,), float(OLD), device=DEVICE)
    torch.cuda._sleep(SLEEP)
    x.copy_(given(1000, torch.float32))
    works = [dist.isend(x, 1 - dist.get_rank()), dist.irecv(y, 1 - dist.get_rank())]
    for work in works:
        work.wait()
    assert torch.equal(y, given(1000, torch.float32, 1 - dist.get_rank()))


def test_other_groups():
    """A group of all, one of this rank alone, and the default one by turns."""
    more, alone = dist.new_group([0, 1]), [dist.new_group([0]), dist.new_group([1])][dist.get_rank()]
    for _ in range(10):
        x = torch.ones(50_000, device=DEVICE)
        dist.all_reduce(x)
        dist.all_reduce(x, group=alone)
        dist.all_reduce(x, group=more)
        assert torch.all(x == 4)
    dist.destroy_process_group(more)


# ---- order ----


def in_order(call, x, y, values):
    """Runs call(x, y) behind a kernel that takes its time and another one that writes the values into x. Returns what a kernel behind the call sees in y,
    whether the call came back before the stream was there, and seconds until then."""
    for attempt in range(2):  # the first loads kernels and takes memory, which may wait for the GPU
        x.fill_(OLD)
        y.fill_(OLD)
        dist.barrier()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        if attempt:
            torch.cuda._sleep(SLEEP)
        x.copy_(values)
        work = call(x, y)
        if work is not None:
            work.wait()
        seen = y.clone()
        took = time.perf_counter() - begin
        early = not torch.cuda.current_stream().query()
    return seen, early, took


@pytest.mark.parametrize("elements", [2, 1000, 1 << 20])
@pytest.mark.parametrize("asynchronous", [False, True], ids=["", "async"])
def test_order(elements, asynchronous):
    x, y = torch.empty(elements, device=DEVICE), torch.empty(2 * elements, device=DEVICE)
    values, rank = given(elements, torch.float32), dist.get_rank()
    ones = [given(elements, torch.float32, peer) for peer in range(2)]
    for name, call, in_place, expected in [
        ("all_reduce", lambda x, y: dist.all_reduce(x, async_op=asynchronous), True, ones[0] + ones[1]),
        ("broadcast", lambda x, y: dist.broadcast(x, 1, async_op=asynchronous), True, ones[1]),
        ("all_gather", lambda x, y: dist.all_gather_into_tensor(y, x, async_op=asynchronous), False, torch.cat(ones)),
        ("all_gather of a list", lambda x, y: dist.all_gather(list(y.chunk(2)), x, async_op=asynchronous), False, torch.cat(ones)),
        ("reduce_scatter", lambda x, y: dist.reduce_scatter_tensor(y[:elements // 2], x, async_op=asynchronous), False,
         (ones[0] + ones[1])[rank * (elements // 2):(rank + 1) * (elements // 2)]),
        ("all_to_all", lambda x, y: dist.all_to_all_single(y[:elements], x, async_op=asynchronous), False,
         torch.cat([one[rank * (elements // 2):(rank + 1) * (elements // 2)] for one in ones])),
    ]:
        seen, early, took = in_order(call, x, x if in_place else y, values)
        assert torch.equal(seen[:expected.numel()], expected), f"{name}: a kernel behind it does not see the result"
        assert early, f"{name}: waited for the stream, {took:.3f} s"


def test_many_behind_one_kernel():
    """Each depends on the one before."""
    x = torch.zeros(10_000, device=DEVICE)
    for _ in range(2):
        x.zero_()
        torch.cuda.synchronize()
        torch.cuda._sleep(SLEEP)
        for step in range(30):
            x.add_(dist.get_rank() + step)
            dist.all_reduce(x)
            x.div_(2)
        early = not torch.cuda.current_stream().query()
    assert torch.all(x == sum(0.5 + step for step in range(30)))
    assert early


def test_streams():
    """Operations in several streams at a time; the ranks call in one order."""
    streams = [torch.cuda.Stream() for _ in range(4)]
    xs = [torch.empty(1000 << (3 * i), device=DEVICE) for i in range(4)]
    torch.cuda.synchronize()
    for i, (stream, x) in enumerate(zip(streams, xs)):
        with torch.cuda.stream(stream):
            torch.cuda._sleep(SLEEP // 8)
            x.fill_(dist.get_rank() + i)
            dist.all_reduce(x)
            x.mul_(2)
    for i, (stream, x) in enumerate(zip(streams, xs)):
        with torch.cuda.stream(stream):
            seen = x.clone()
        stream.synchronize()
        assert torch.all(seen == 2 * (2 * i + 1))


def test_wait__of_another_stream():
    """wait() makes the stream wait that is current then, and not the host."""
    side, x = torch.cuda.Stream(), torch.zeros(1 << 20, device=DEVICE)
    for _ in range(2):
        torch.cuda.synchronize()
        torch.cuda._sleep(SLEEP)
        x.fill_(dist.get_rank() + 1)
        work = dist.all_reduce(x, async_op=True)
        with torch.cuda.stream(side):
            work.wait()
            seen = x.clone()
            early = not side.query()
        side.synchronize()
    assert torch.all(seen == 3)
    assert early


def test_end_is_told():
    """is_completed(), the future and its callbacks."""
    x, called = torch.empty(1000, device=DEVICE), []
    for _ in range(2):
        x.zero_()
        torch.cuda.synchronize()
        torch.cuda._sleep(SLEEP)
        x.fill_(dist.get_rank() + 1)
        work = dist.all_reduce(x, async_op=True)
        early = work.is_completed()
        future = work.get_future().then(lambda done: called.append(done.value()[0].clone()))
        future.wait()
        torch.cuda.synchronize()
        while not work.is_completed():
            time.sleep(0.001)
    assert not early
    assert torch.all(called[-1] == 3)


def test_barrier():
    """Ends behind the collectives before it, here in the stream."""
    x = torch.empty(1000, device=DEVICE)
    torch.cuda._sleep(SLEEP)
    x.fill_(dist.get_rank() + 1)
    work = dist.all_reduce(x, async_op=True)
    dist.barrier()
    torch.cuda.synchronize()
    assert work.is_completed() and torch.all(x == 3)


def test_memory_of_dropped_tensors():
    """Tensors that the program drops while their operation is in a stream: their memory serves others only behind it."""
    side, sums = torch.cuda.Stream(), []
    for i in range(20):
        with torch.cuda.stream(side):
            torch.cuda._sleep(SLEEP // 100)
            x = torch.full((250_000,), float(dist.get_rank() + i), device=DEVICE)
            y = torch.empty(500_000, device=DEVICE)
            dist.all_gather_into_tensor(y, x, async_op=True)
            del x
            sums.append(y.sum())
            del y
        for _ in range(3):
            torch.full((250_000,), 1e9, device=DEVICE)
    side.synchronize()
    assert [float(value) for value in sums] == [250_000.0 * (2 * i + 1) for i in range(20)]


def test_capture():
    """A graph would replay what braid has done once: a call in a captured stream is refused, and both go on."""
    x, y = torch.ones(1000, device=DEVICE), torch.ones(1000, device=DEVICE)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        y.add_(1)
        with pytest.raises(RuntimeError, match="captur"):
            dist.all_reduce(x)
        y.add_(1)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.all(y == 3)
    dist.all_reduce(x)
    assert torch.all(x == 2)


def test_capture__beside_an_operation():
    """What this process captures meanwhile is none of braid's business."""
    side, x, y = torch.cuda.Stream(), torch.zeros(1 << 20, device=DEVICE), torch.zeros(10, device=DEVICE)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(SLEEP)
        x.fill_(dist.get_rank() + 1)
        work = dist.all_reduce(x, async_op=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        y.add_(1)
    graph.replay()
    work.wait()
    torch.cuda.synchronize()
    assert torch.all(x == 3) and torch.all(y == 1)


# ---- braid's own interface ----


def test_comm():
    """The Python package's calls on CUDA tensors, which wait for the current stream."""
    import braid.torch

    comm, rank = braid.torch.comm(), dist.get_rank()
    for dtype in torch.float32, torch.bfloat16, torch.int64:
        for size in BYTES:
            elements = size // dtype.itemsize
            x = given(elements, dtype)
            comm.allreduce(x)
            assert torch.equal(x, given(elements, dtype, 0) + given(elements, dtype, 1)), f"{size} bytes of {dtype}"
    stream = torch.cuda.current_stream()
    x = torch.full((100_000,), float(OLD), device=DEVICE)
    torch.cuda._sleep(SLEEP // 4)
    x.fill_(rank + 1)
    comm.allreduce(x, stream=stream)
    assert torch.all(x.clone() == 3)
    x.fill_(rank + 1)
    if rank == 0:
        comm.send(x, 1)
    else:
        comm.recv(x, 0)
    assert torch.all(x == 1)
    # Each rank puts to the other's memory and gets from it.
    x, y = torch.full((300_000,), float(OLD), device=DEVICE), given(300_000, torch.float32)
    region = comm.register(x)
    keys = [None, None]
    dist.all_gather_object(keys, bytes(comm.key(x)))
    comm.put(y, braid.Key(keys[1 - rank]), 0)
    comm.barrier()
    assert torch.equal(x, given(300_000, torch.float32, 1 - rank))
    back = torch.zeros_like(y)
    comm.get(back, braid.Key(keys[1 - rank]), 0)
    assert torch.equal(back, y)
    comm.barrier()
    region.deregister()
    if torch.cuda.get_allocator_backend() == "native":  # memory of cudaMallocAsync is not shared
        assert comm.stats().gpu_peer_bytes > 0, comm.stats()


# ---- training ----


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.layers = nn.Sequential(nn.Linear(64, 300), nn.GELU(), nn.Linear(300, 1000), nn.GELU(), nn.Linear(1000, 300), nn.GELU(), nn.Linear(300, 10))

    def forward(self, x):
        return self.layers(x)


def batch(step, rank):
    return torch.randn(16, 64, generator=torch.Generator().manual_seed(10 * step + rank)).to(DEVICE)


def train(model, optimizer, loss, steps=12):
    for step in range(steps):
        optimizer.zero_grad()
        loss(model, step).backward()
        optimizer.step()
    return model


def of_mine(model, step):
    return model(batch(step, dist.get_rank())).square().mean()


def of_all(model, step):
    return model(torch.cat([batch(step, 0), batch(step, 1)])).square().mean()


def trained_alone():
    model = Net().to(DEVICE)
    return train(model, torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9), of_all)


def close(model, expected):
    for one, other in zip(model.parameters(), expected.parameters()):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("hooked", [False, True], ids=["", "hook"])
def test_ddp(hooked):
    import braid.torch

    model = DistributedDataParallel(Net().to(DEVICE), bucket_cap_mb=0.5)
    if hooked:
        model.register_comm_hook(braid.torch.DDPState(), braid.torch.ddp_hook)
    train(model, torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9), of_mine)
    close(model.module, trained_alone())


def test_ddp__half_the_bytes():
    import braid.torch

    model = DistributedDataParallel(Net().to(DEVICE), bucket_cap_mb=0.5)
    model.register_comm_hook(braid.torch.DDPState(compress="bf16"), braid.torch.ddp_hook)
    first = of_mine(model, 0).item()
    train(model, torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9), of_mine)
    assert of_mine(model, 0).item() < first / 2
    mine = torch.cat([p.detach().flatten() for p in model.parameters()])
    both = torch.empty(2 * mine.numel(), device=DEVICE)
    dist.all_gather_into_tensor(both, mine)
    assert torch.equal(*both.chunk(2))


def test_session():
    import braid.torch

    model = Net().to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    session = braid.torch.Session(model, optimizer)
    train(model, optimizer, of_mine)
    session.free()
    close(model, trained_alone())


@pytest.mark.parametrize("hooked", [False, True], ids=["", "hook"])
def test_fsdp(hooked):
    import braid.torch

    fsdp = pytest.importorskip("torch.distributed.fsdp")
    if not hasattr(fsdp, "fully_shard"):
        pytest.skip("fully_shard() is there from PyTorch 2.6 on")
    from torch.distributed.device_mesh import DeviceMesh

    mesh, model = DeviceMesh.from_group(dist.group.WORLD, "cuda"), Net().to(DEVICE)
    for layer in model.layers:
        if isinstance(layer, nn.Linear):
            fsdp.fully_shard(layer, mesh=mesh)
    fsdp.fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    if hooked:
        braid.torch.fsdp_hook(model, optimizer, prefetch=1)
    train(model, optimizer, of_mine)
    for one, other in zip(model.parameters(), trained_alone().parameters()):
        torch.testing.assert_close(one.full_tensor(), other, rtol=1e-3, atol=1e-5)
