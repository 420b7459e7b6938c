# SPDX-License-Identifier: BSD-3-Clause
# ranks: 2
# environment: FAKE_CUDA=thread
"""Tensors of CUDA devices, on the fake driver (fake_device.cpp): each collective is submitted in the current stream, behind a kernel that has not begun; the
program goes on at once, and a kernel behind it in the stream sees the result."""
import os
import threading

import pytest
import torch
import torch.distributed as dist

os.environ["BRAID_CUDA_LIBRARY"] = os.environ["BRAID_FAKE_CUDA"]
torch.ops.load_library(os.environ["BRAID_FAKE_DEVICE"])
torch.cuda.get_device_capability = lambda device=None: (8, 0)  # broadcast() asks
gpu = torch.ops.fake_device
OLD = -7


@pytest.fixture(scope="module", autouse=True)
def group():
    import braid.torch  # noqa: F401

    dist.init_process_group("braid")
    yield
    dist.destroy_process_group()


def behind(call, given, result=None):
    """Runs call(x, y) in the stream, where x gets the values `given` only when the gate opens; y is x, or has as many elements as `result` says.
    Returns what a kernel behind the call sees in y."""
    written, x = gpu.make(given), gpu.make(torch.full_like(given, OLD))
    y = x if result is None else gpu.make(torch.full((result,), OLD, dtype=given.dtype))
    seen = gpu.make(torch.full_like(gpu.peek(y), OLD))
    gpu.later(x, written)
    work = call(x, y)
    if work is not None:
        work.wait()  # of the stream, not of this thread
    gpu.copy(seen, y)
    assert torch.all(gpu.peek(seen) == OLD), "the stream did not wait"
    gpu.open()
    gpu.synchronize()
    return gpu.peek(seen)


@pytest.mark.parametrize("asynchronous", [False, True], ids=["", "async"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
def test_all_reduce(dtype, asynchronous):
    given = torch.arange(1000).to(dtype) % 64 + dist.get_rank()
    seen = behind(lambda x, _: dist.all_reduce(x, async_op=asynchronous), given)
    assert torch.equal(seen, (torch.arange(1000).to(dtype) % 64) * 2 + 1)


def test_all_reduce__average():
    seen = behind(lambda x, _: dist.all_reduce(x, dist.ReduceOp.AVG), torch.full((10,), 4.0 * dist.get_rank()))
    assert torch.equal(seen, torch.full((10,), 2.0))


@pytest.mark.parametrize("root", [0, 1])
def test_broadcast(root):
    assert torch.all(behind(lambda x, _: dist.broadcast(x, root), torch.full((7,), dist.get_rank() + 1.0)) == root + 1)


@pytest.mark.parametrize("root", [0, 1])
def test_reduce(root):
    seen = behind(lambda x, _: dist.reduce(x, root), torch.full((7,), dist.get_rank() + 1.0))
    assert dist.get_rank() != root or torch.all(seen == 3)


def test_all_gather_into_tensor():
    seen = behind(lambda x, y: dist.all_gather_into_tensor(y, x), torch.full((5,), dist.get_rank() + 1), 10)
    assert seen.tolist() == [1] * 5 + [2] * 5


def test_reduce_scatter_tensor():
    seen = behind(lambda x, y: dist.reduce_scatter_tensor(y, x), torch.arange(10) * (dist.get_rank() + 1), 5)
    assert seen.tolist() == [3 * (5 * dist.get_rank() + i) for i in range(5)]


def test_all_to_all_single():
    seen = behind(lambda x, y: dist.all_to_all_single(y, x), torch.arange(4) + 10 * dist.get_rank(), 4)
    assert seen.tolist() == ([0, 1, 10, 11] if dist.get_rank() == 0 else [2, 3, 12, 13])


def test_all_to_all_single__uneven():
    mine, other = ([1, 3], [1, 2]) if dist.get_rank() == 0 else ([2, 4], [3, 4])  # elements that go out, and come in
    seen = behind(lambda x, y: dist.all_to_all_single(y, x, other, mine), torch.arange(sum(mine)) + 10 * dist.get_rank(), sum(other))
    assert seen.tolist() == ([0, 10, 11] if dist.get_rank() == 0 else [1, 2, 3, 12, 13, 14, 15])


@pytest.mark.parametrize("milliseconds", [0, 20])
@pytest.mark.parametrize("uneven", [0, 2])
def test_lists(milliseconds, uneven):
    """Of tensors that lie apart, with copies behind the operation in the stream; also where the operation has ended while these are being submitted."""
    rank = dist.get_rank()
    n, sizes = 3 + uneven * rank, [3, 3 + uneven]  # elements of this rank's tensor, and of each rank's

    def make(rank, sizes):
        return [gpu.make(torch.arange(size) + 100 * rank + 10 * peer) for peer, size in enumerate(sizes)]

    def values(sender, receiver, size):
        return (torch.arange(size) + 100 * sender + 10 * receiver).tolist()

    def check(ys, expected):
        gpu.synchronize()
        assert [gpu.peek(y).tolist() for y in ys] == expected

    gpu.slow(milliseconds)
    try:
        y = make(7, sizes)
        dist.all_gather(y, make(rank, [n])[0])
        check(y, [values(peer, 0, sizes[peer]) for peer in range(2)])
        y = make(7, [n])
        dist.reduce_scatter(y[0], make(rank, sizes))
        check(y, [[2 * i + 100 + 20 * rank for i in range(n)]])
        y = make(7, [n, n])
        dist.all_to_all(y, make(rank, sizes))
        check(y, [values(peer, rank, n) for peer in range(2)])
        y = make(7, sizes) if rank == 1 else None
        dist.gather(make(rank, [n])[0], y, dst=1)
        check(y or [], [values(peer, 0, sizes[peer]) for peer in range(2)] if rank == 1 else [])
        y = make(7, [n])
        dist.scatter(y[0], make(rank, sizes) if rank == 0 else None, src=0)
        check(y, [values(0, rank, n)])
    finally:
        gpu.slow(0)


@pytest.mark.parametrize("milliseconds", [0, 20])
def test_all_reduce__with_gaps(milliseconds):
    whole = gpu.make(torch.arange(24).view(4, 6) + dist.get_rank())
    gpu.slow(milliseconds)
    try:
        dist.all_reduce(whole[:, ::2])
    finally:
        gpu.slow(0)
    gpu.synchronize()
    before = torch.arange(24).view(4, 6) + dist.get_rank()
    before[:, ::2] = 2 * torch.arange(24).view(4, 6)[:, ::2] + 1
    assert torch.equal(gpu.peek(whole), before)


def test_the_end_is_known_without_the_stream():
    """is_completed() and the future of an asynchronous call end when the stream has passed it, and not before."""
    x = gpu.make(torch.ones(3))
    gpu.later(gpu.make(torch.ones(3)), x)
    work = dist.all_reduce(x, async_op=True)
    gpu.open()
    gpu.synchronize()
    assert gpu.peek(x).tolist() == [2, 2, 2]
    work.get_future().wait()


class Of:
    """The tensor's memory by __cuda_array_interface__, of a producer whose stream is the current one."""

    def __init__(self, tensor):
        self.tensor = tensor
        self.__cuda_array_interface__ = {**tensor.__cuda_array_interface__, "version": 3, "stream": gpu.handle()}


class CurrentStream:
    cuda_stream = property(lambda self: gpu.handle())

    def synchronize(self):
        gpu.synchronize()


@pytest.mark.parametrize("how", ["plain", "interface", "out", "sendrecv", "persistent", "stream"])
def test_comm(how, monkeypatch):
    """braid's own calls wait for the stream in which the memory may still be written, but for those in a stream."""
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: CurrentStream())
    import braid.torch

    comm, rank = braid.torch.comm(), dist.get_rank()
    for dtype in torch.float32, torch.bfloat16:
        written, x = gpu.make(torch.full((50,), rank + 1, dtype=dtype)), gpu.make(torch.full((50,), OLD, dtype=dtype))
        y, expected = x, 3
        if how == "persistent":
            operation = comm.allreduce(x, persistent=True)
        gpu.later(x, written)
        opener = threading.Timer(60 if how == "stream" else 0.2, gpu.open)
        opener.start()
        if how == "plain":
            comm.allreduce(x)
        elif how == "interface" and dtype == torch.float32:
            comm.allreduce(Of(x))
        elif how == "interface":
            comm.allreduce(Of(x.view(torch.int16)), type="bfloat16")
        elif how == "out":
            y = gpu.make(torch.full((50,), OLD, dtype=dtype))
            comm.allreduce(x, y, wait=False).wait()
        elif how == "sendrecv":
            y, expected = gpu.make(torch.full((50,), OLD, dtype=dtype)), 2 - rank
            sent = comm.send(x, 1 - rank, wait=False)
            comm.recv(y, 1 - rank)
            sent.wait()
        elif how == "persistent":
            operation.start().wait()
            operation.free()
        else:
            comm.allreduce(x, stream=torch.cuda.current_stream(x.device))
            assert opener.is_alive(), "the call has waited for the stream"
            opener.cancel()
            gpu.open()
            gpu.synchronize()
        assert torch.all(gpu.peek(y) == expected)
        opener.join()


def test_send_and_recv():
    x = gpu.make(torch.full((6,), dist.get_rank() + 1.0))
    gpu.synchronize()
    if dist.get_rank() == 0:
        dist.send(x, 1)
        dist.recv(x, 1)
    else:
        y = gpu.make(torch.zeros(6))
        dist.recv(y, 0)
        dist.send(x, 0)
        gpu.synchronize()
        assert torch.all(gpu.peek(y) == 1)
    gpu.synchronize()
    assert torch.all(gpu.peek(x) == 2)
