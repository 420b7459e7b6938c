# SPDX-License-Identifier: BSD-3-Clause
# ranks: 3
"""The backend "braid": every call of c10d in every form, futures, groups, errors. All ranks run the cases in one order."""
import contextlib
import datetime

import pytest
import torch
import torch.distributed as dist

import braid.torch

MOVED = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool,
         torch.complex64, torch.complex128]
ADDED = [t for t in MOVED if t is not torch.bool]


@pytest.fixture(scope="module", autouse=True)
def job():
    dist.init_process_group("braid")
    yield
    # The program ends without destroy_process_group(), as many do.


@pytest.fixture
def rank():
    return dist.get_rank()


@pytest.fixture
def size():
    return dist.get_world_size()


def own(rank, *shape, dtype=torch.float32):
    """What this rank gives: rank + 1, everywhere."""
    return torch.full(shape, rank + 1, dtype=dtype)


@contextlib.contextmanager
def raises(kind, *words):
    try:
        yield
    except kind as error:
        for word in words:
            assert word in str(error), (word, str(error))
        return
    raise AssertionError(f"no {kind.__name__}")


def equal(x, value):
    assert torch.equal(x, torch.full_like(x, value)), (x, value)


def test_all_reduce(rank, size):
    total = size * (size + 1) // 2
    for dtype in ADDED:
        x = own(rank, 2, 3, dtype=dtype)
        dist.all_reduce(x)
        equal(x, total)
    x = own(rank, 5)
    dist.all_reduce(x, dist.ReduceOp.AVG)
    equal(x, total / size)
    for op, value in ((dist.ReduceOp.MIN, 1), (dist.ReduceOp.MAX, size), (dist.ReduceOp.PRODUCT, 2 if size == 2 else 6)):
        x = own(rank, 5)
        dist.all_reduce(x, op)
        equal(x, value)
    for op, value in ((dist.ReduceOp.BAND, 0), (dist.ReduceOp.BOR, 3), (dist.ReduceOp.BXOR, 3 if size == 2 else 0)):
        x = own(rank, 5, dtype=torch.int32)
        dist.all_reduce(x, op)
        equal(x, value)
    x = torch.tensor([rank == 0, False, True])
    dist.all_reduce(x, dist.ReduceOp.MAX)
    assert x.tolist() == [True, False, True]
    dist.all_reduce(torch.empty(0))
    x = own(rank, 2, 3, 4, 5).to(memory_format=torch.channels_last)
    dist.all_reduce(x)
    equal(x, total)
    x = torch.tensor(float(rank))
    dist.all_reduce(x)
    equal(x, total - size)
    big = own(rank, 3_000_001)
    dist.all_reduce(big)
    equal(big, total)
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        x = own(rank, 4).to(dtype)
        dist.group.WORLD._get_backend(torch.device("cpu")).allreduce([x]).wait()
        equal(x.float(), total)


def test_sparse(rank, size):
    x = torch.sparse_coo_tensor([[rank, size]], [[1.0, 2.0], [3.0, 4.0]], (size + 1, 2))
    dist.all_reduce(x)
    want = torch.tensor([[1.0, 2.0]] * size + [[3.0 * size, 4.0 * size]])
    assert torch.equal(x.to_dense(), want), x
    x = torch.sparse_coo_tensor(torch.zeros(1, 2 if rank == 0 else 0, dtype=torch.int64), [1.0, 2.0] if rank == 0 else [], (3,))
    dist.all_reduce(x)
    assert x.to_dense().tolist() == [3, 0, 0]


def test_broadcast_and_reduce(rank, size):
    for root in range(size):
        for dtype in MOVED + [torch.float8_e4m3fnuz]:
            x = own(rank, 3).to(dtype)
            dist.broadcast(x, root)
            equal(x.float() if not dtype.is_complex else x, 1 if dtype is torch.bool else root + 1)
        x = own(rank, 7)
        dist.reduce(x, root)
        equal(x, size * (size + 1) / 2 if rank == root else rank + 1)


def test_all_gather(rank, size):
    out = [torch.zeros(2, 2) for _ in range(size)]  # tensors of their own
    dist.all_gather(out, own(rank, 2, 2))
    for r in range(size):
        equal(out[r], r + 1)
    flat = torch.zeros(size, 2, 2)  # views of one buffer
    dist.all_gather(list(flat.unbind()), own(rank, 2, 2))
    for r in range(size):
        equal(flat[r], r + 1)
    uneven = [torch.zeros(r + 1) for r in range(size)]
    dist.all_gather(uneven, own(rank, rank + 1))
    for r in range(size):
        equal(uneven[r], r + 1)
    dist.all_gather_into_tensor(flat, own(rank, 2, 2))
    equal(flat[-1], size)
    flat = torch.zeros(size, 2, 2)
    flat[rank] = rank + 1
    dist.all_gather_into_tensor(flat, flat[rank])  # in place
    equal(flat[-1], size)
    work = dist.all_gather(out, own(rank, 2, 2), async_op=True)
    value = work.get_future().wait()
    equal((value[0] if isinstance(value[0], torch.Tensor) else value[0][0]), 1)
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert [o["rank"] for o in objects] == list(range(size))


def test_reduce_scatter(rank, size):
    total = size * (size + 1) / 2
    out = torch.zeros(3)
    dist.reduce_scatter(out, [own(rank, 3) * (r + 1) for r in range(size)])
    equal(out, total * (rank + 1))
    out = torch.zeros(rank + 2)
    dist.reduce_scatter(out, [own(rank, r + 2) for r in range(size)])
    equal(out, total)
    out = torch.zeros(3)
    dist.reduce_scatter_tensor(out, own(rank, 3 * size), dist.ReduceOp.AVG)
    equal(out, total / size)


def test_gather_and_scatter(rank, size):
    for root in range(size):
        out = [torch.zeros(r + 1) for r in range(size)] if rank == root else None
        dist.gather(own(rank, rank + 1), out, root)
        for r, x in enumerate(out or []):
            equal(x, r + 1)
        x = torch.zeros(rank + 1)
        dist.scatter(x, [torch.full((r + 1,), r + 10.0) for r in range(size)] if rank == root else None, root)
        equal(x, rank + 10)


def test_all_to_all(rank, size):
    out = torch.zeros(size, 2)
    dist.all_to_all_single(out, own(rank, size, 2))
    for r in range(size):
        equal(out[r], r + 1)
    sends = [r + 1 for r in range(size)]  # rows to rank r
    out = torch.zeros(size * (rank + 1), 2)
    dist.all_to_all_single(out, own(rank, sum(sends), 2), [rank + 1] * size, sends)
    for r in range(size):
        equal(out[r * (rank + 1):(r + 1) * (rank + 1)], r + 1)
    outs = [torch.zeros(rank + 1) for _ in range(size)]
    dist.all_to_all(outs, [own(rank, r + 1) for r in range(size)])
    for r in range(size):
        equal(outs[r], r + 1)


def test_messages(rank, size):
    if rank == 0:
        for peer in range(1, size):
            dist.send(torch.arange(4.0) + peer, peer, tag=peer)
            dist.send(torch.arange(2.0), peer, tag=0)
    else:
        x, y = torch.zeros(2), torch.zeros(4)
        assert dist.recv(x, 0, tag=0) == 0
        assert dist.recv(y, 0, tag=rank) == 0
        assert torch.equal(y, torch.arange(4.0) + rank) and torch.equal(x, torch.arange(2.0))
    if rank == 0:  # of any source
        came = set()
        for _ in range(1, size):
            x = torch.zeros(3)
            peer = dist.recv(x, tag=5)
            equal(x, peer + 1)
            came.add(peer)
        assert came == set(range(1, size))
    else:
        dist.send(own(rank, 3), 0, tag=5)
    right, left = (rank + 1) % size, (rank - 1) % size
    out, back = torch.zeros(100_000), torch.zeros(1)
    operations = [dist.P2POp(dist.isend, own(rank, 100_000), right), dist.P2POp(dist.irecv, out, left),
                  dist.P2POp(dist.isend, own(rank, 1), left, tag=1), dist.P2POp(dist.irecv, back, right, tag=1)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    equal(out, left + 1)
    equal(back, right + 1)
    with raises(ValueError):
        dist.send(out, rank)


def test_coalesced(rank, size):
    total = size * (size + 1) / 2
    xs = [own(rank, n) for n in (1, 1000, 7)]
    with dist.distributed_c10d._coalescing_manager():
        for x in xs:
            dist.all_reduce(x)
    for x in xs:
        equal(x, total)
    outs = [torch.zeros(size * n) for n in (2, 3)]
    with dist.distributed_c10d._coalescing_manager(async_ops=True) as manager:
        for out, n in zip(outs, (2, 3)):
            dist.all_gather_into_tensor(out, own(rank, n))
    manager.wait()
    for out in outs:
        equal(out[-1:], size)
    outs = [torch.zeros(n) for n in (2, 3)]
    with dist.distributed_c10d._coalescing_manager():
        for out, n in zip(outs, (2, 3)):
            dist.reduce_scatter_tensor(out, own(rank, size * n))
    for out in outs:
        equal(out, total)
    x, lists = own(rank, 3), [torch.zeros(2) for _ in range(size)]
    with dist.distributed_c10d._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:  # of different kinds
        dist.broadcast(x, 1)
        dist.all_gather(lists, own(rank, 2))
    manager.wait()
    equal(x, 2)
    equal(lists[-1], size)


def test_many_outstanding(rank, size):
    x = torch.zeros(3000, 4)
    x[:] = rank + 1
    works = [dist.all_reduce(row, async_op=True) for row in x]
    for work in works[::7]:
        work.wait()
    for work in reversed(works):
        work.wait()
    equal(x, size * (size + 1) / 2)
    for _ in range(3000):  # nobody waits for these
        dist.all_reduce(torch.ones(5), async_op=True)
    works = [dist.all_reduce(own(rank, 1 << 20), async_op=True) for _ in range(4)]
    dist.barrier()  # what was called before it has ended
    assert all(work.is_completed() for work in works)


def test_futures(rank, size):
    total = size * (size + 1) / 2
    x = own(rank, 1000)
    work = dist.all_reduce(x, async_op=True)
    told = work.get_future().then(lambda future: future.value()[0].sum().item())
    assert told.wait() == total * 1000
    assert work.is_completed() and work.is_success() and work.exception() is None
    assert torch.equal(work.result()[0], x)
    equal(work.get_future().value()[0], total)

    def again(future):  # waits for another operation's future within a callback, as PowerSGD's hook does
        return dist.all_reduce(future.value()[0], async_op=True).get_future().wait()[0]

    chain = dist.all_reduce(own(rank, 3), async_op=True).get_future().then(again).then(lambda f: dist.all_reduce(f.value(), async_op=True).get_future().wait()[0])
    equal(chain.wait(), total * size * size)
    futures = [dist.all_reduce(own(rank, 10), async_op=True).get_future() for _ in range(500)]
    torch.futures.wait_all(futures)
    equal(futures[-1].value()[0], total)


def test_groups(rank, size):
    groups = [dist.new_group([r for r in range(size) if r != out]) for out in range(size)]
    alone = [dist.new_group([r]) for r in range(size)]
    for out, group in enumerate(groups):
        if rank != out:
            x = own(rank, 3)
            dist.all_reduce(x, group=group)
            equal(x, size * (size + 1) / 2 - (out + 1))
    x = own(rank, 3)
    group = alone[rank]
    dist.all_reduce(x, group=group)
    dist.broadcast(x, rank, group=group)
    out = [torch.zeros(3)]
    dist.all_gather(out, x, group=group)
    dist.reduce_scatter(x, out, group=group)
    dist.barrier(group=group)
    equal(x, rank + 1)
    named = dist.new_group(pg_options=braid.torch.Options(), timeout=datetime.timedelta(seconds=60))
    x = own(rank, 1)
    dist.all_reduce(x, group=named)
    equal(x, size * (size + 1) / 2)
    for group in groups[::-1] + [named] + alone:
        if group is not dist.GroupMember.NON_GROUP_MEMBER:
            dist.destroy_process_group(group)
    with raises(TypeError, "braid.torch.Options"):
        dist.new_group(pg_options=object())


def test_refused(rank, size):
    with raises(ValueError, "contiguous"):
        dist.all_gather_into_tensor(torch.zeros(size * 8), torch.zeros(4, 4)[:, ::2])
    with raises(ValueError, "PREMUL_SUM"):
        dist.all_reduce(torch.zeros(4), dist._make_nccl_premul_sum(2.0))
    with raises(ValueError, "BAND"):
        dist.all_reduce(torch.zeros(4), dist.ReduceOp.BAND)
    with raises(ValueError, "meta"):
        dist.group.WORLD._get_backend(torch.device("cpu")).allreduce([torch.zeros(4, device="meta")])
    with raises((ValueError, RuntimeError), "size"):
        dist.all_gather_into_tensor(torch.zeros(size * 2 + 1), torch.zeros(2))
    with raises(ValueError, "type"):
        dist.group.WORLD._get_backend(torch.device("cpu")).allgather([[torch.zeros(2, dtype=torch.int32)] * size], [torch.zeros(2)])
    with raises(RuntimeError, "equal"):
        dist.all_to_all_single(torch.zeros(size * 2 + 1), torch.zeros(size * 2 + 1))
    dist.barrier()


def test_comm(rank, size):
    comm = braid.torch.comm()
    assert comm is braid.torch.comm() and (comm.rank, comm.size) == (rank, size)
    a = comm.empty(10, "f4")
    a[:] = rank + 1
    comm.allreduce(a)
    assert a[0] == size * (size + 1) / 2
    del a
    comm.finalize()
    x = own(rank, 3)
    dist.all_reduce(x)  # the group goes on
    equal(x, size * (size + 1) / 2)
    group = dist.new_group()
    comm = braid.torch.comm(group)
    a = torch.from_numpy(comm.empty(10, "f4"))
    dist.destroy_process_group(group)
    a += 1  # its memory is there as long as the tensor
    equal(a, 1)
    x = dist.group.WORLD._get_backend(torch.device("cpu")).allocate_tensor(100, dtype=torch.float32, device=torch.device("cpu"))
    x.fill_(rank + 1)
    dist.all_reduce(x)
    equal(x, size * (size + 1) / 2)


def test_monitored_barrier(rank, size):
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=60))
    short = datetime.timedelta(milliseconds=300)
    if rank == 0:
        with raises(RuntimeError, "Rank 1 failed to pass monitoredBarrier" if size == 2 else "Ranks 1, 2 failed to pass monitoredBarrier"):
            dist.monitored_barrier(timeout=short, wait_all_ranks=True)
        for peer in range(1, size):
            dist.send(torch.zeros(1), peer)
    else:
        dist.recv(torch.zeros(1), 0)  # rank 0 has given up
        with raises(RuntimeError, f"Rank {rank} successfully reached monitoredBarrier"):
            dist.monitored_barrier(timeout=short)
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=60), wait_all_ranks=True)


def test_profiler(rank, size):
    with torch.autograd.profiler.profile() as profile:
        dist.all_reduce(own(rank, 3))
        dist.all_reduce(own(rank, 3), async_op=True).wait()
    assert len([e for e in profile.function_events if e.name == "braid:all_reduce"]) == 2, [e.name for e in profile.function_events]


def test_pending_at_the_end(rank, size):
    """Nothing waits for these, in a group that nobody destroys."""
    global kept
    kept = dist.new_group()
    dist.all_reduce(own(rank, 3), group=kept, async_op=True)

