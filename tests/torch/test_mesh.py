# SPDX-License-Identifier: BSD-3-Clause
# ranks: 4
# preload: torch._dynamo
"""Groups beside and within each other: device meshes, DTensor, checkpoints, point to point, objects, functional collectives; with braid as with gloo."""
import shutil
import tempfile

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.checkpoint as checkpoint
import torch.distributed.nn
import torch.nn.functional as F
from both import both, rank, size
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, loss_parallel, parallelize_module

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # 2.15 renames functions; these names are those of all versions


@pytest.fixture
def folder():
    """A folder that all ranks share, made by rank 0."""
    from both import rendezvous
    store = rendezvous()
    if rank() == 0:
        store.set("folder", tempfile.mkdtemp())
    path = store.get("folder").decode()
    yield path
    if store.add("done", 1) == size():
        store.set("read", "by all")
    if rank() == 0:
        store.wait(["read"])
        shutil.rmtree(path)


def ints(*shape: int, seed: int = 0) -> torch.Tensor:
    """Whole numbers as floats: their sums are exact in any order, so that they have to be equal bit for bit."""
    return torch.randint(-50, 50, shape, generator=torch.Generator().manual_seed(seed)).float()


def test_mesh__submeshes():
    def script():
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
        row, column = mesh["shard"].get_group(), mesh.get_group("replicate")
        x, y = (torch.tensor([float(dist.get_rank())]) for _ in range(2))
        dist.all_reduce(x, group=row)
        dist.all_reduce(y, group=column)
        flat = mesh._flatten("all").get_group()
        z = torch.ones(3) * dist.get_rank()
        dist.all_reduce(z, group=flat)
        assert dist.get_backend(row) == dist.get_backend()
        return mesh.get_coordinate(), x, y, z, dist.get_process_group_ranks(column)
    both(script)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        return self.down(F.relu(self.up(x)))


@pytest.mark.parametrize("how", ["fsdp", "hybrid_sharded", "fsdp_and_tensor_parallel"])
def test_fsdp2(how):
    def script():
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
        model = Block()
        part = dist.get_rank() // 2 if how == "fsdp_and_tensor_parallel" else dist.get_rank()
        if how == "fsdp":
            fully_shard(model)
        elif how == "hybrid_sharded":
            fully_shard(model, mesh=mesh)
        else:
            parallelize_module(model, mesh["model"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
            fully_shard(model, mesh=mesh["data"])
        optimizer = torch.optim.AdamW(model.parameters(), 0.01)
        losses = []
        for i in range(3):
            loss = model(ints(4, 16, seed=10 * i + part) / 50).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.detach())
        return losses, [p.full_tensor().detach() for p in model.parameters()]
    both(script, exact=False)


def test_dtensor__redistributes():
    def script():
        mesh = init_device_mesh("cpu", (2, 2))
        x = ints(6, 5)
        results = []
        whole = distribute_tensor(x, mesh, [Replicate(), Replicate()])
        for placements in ([Shard(0), Shard(1)], [Shard(1), Shard(1)], [Shard(0), Shard(0)], [Replicate(), Shard(0)], [Partial(), Shard(1)],
                           [Shard(1), Replicate()], [Shard(0), Shard(1)]):
            if Partial() in placements:
                part = DTensor.from_local(ints(6, 3 - mesh.get_local_rank(1), seed=dist.get_rank()), mesh, placements, shape=(6, 5), stride=(5, 1))
            else:
                part = whole.redistribute(mesh, placements)
            results += [part.to_local(), part.full_tensor()]
            results.append(part.redistribute(mesh, [Shard(1), Shard(0)]).to_local())
        product = distribute_tensor(x, mesh, [Shard(0), Replicate()]) @ distribute_tensor(ints(5, 7), mesh, [Replicate(), Shard(1)])
        total = distribute_tensor(x, mesh, [Shard(0), Shard(1)]).sum()
        return results, product.full_tensor(), total.full_tensor()
    both(script)


def test_dtensor__loss_parallel():
    def script():
        mesh = init_device_mesh("cpu", (size(),))
        logits = distribute_tensor(ints(6, 8) / 10, mesh, [Shard(1)]).requires_grad_()
        with loss_parallel():
            loss = F.cross_entropy(logits, torch.arange(6))
            loss.backward()
        return loss.detach().full_tensor(), logits.grad.full_tensor()
    both(script, exact=False)


def test_checkpoint__other_numbers_of_ranks(folder):
    """Saved by two ranks, loaded by three and by four."""
    def script():
        path = f"{folder}/{dist.get_backend()}"
        groups = {n: dist.new_group(range(n)) for n in (2, 3, 4)}
        weight = ints(7, 6)
        result = []
        if dist.get_rank() < 2:
            mesh = DeviceMesh.from_group(groups[2], "cpu", mesh=[0, 1])
            state = {"weight": distribute_tensor(weight, mesh, [Shard(0)]), "step": 9, "mine": ints(2, seed=dist.get_rank())}
            checkpoint.save(state, checkpoint_id=path, process_group=groups[2])
        dist.barrier()
        for n in (3, 4):
            if dist.get_rank() < n:
                mesh = DeviceMesh.from_group(groups[n], "cpu", mesh=list(range(n)))
                state = {"weight": distribute_tensor(torch.zeros(7, 6), mesh, [Shard(1 if n == 3 else 0)]), "step": 0}
                checkpoint.load(state, checkpoint_id=path, process_group=groups[n])
                assert torch.equal(state["weight"].full_tensor(), weight) and state["step"] == 9
                result.append(state["weight"].to_local())
        return result
    both(script)


def test_checkpoint__saved_in_the_background(folder):
    """Collectives of the thread that saves go on beside those of training, in a group of their own."""
    def script():
        saved = f"{folder}/{dist.get_backend()}"
        model = Block()
        fully_shard(model)
        kept = [p.full_tensor().detach().clone() for p in model.parameters()]
        future = checkpoint.async_save(model.state_dict(), checkpoint_id=saved, process_group=dist.new_group())
        optimizer = torch.optim.SGD(model.parameters(), 1.0)
        for i in range(3):
            model(ints(4, 16, seed=i)).sum().backward()
            optimizer.step()
        future.result()
        state = model.state_dict()
        checkpoint.load(state, checkpoint_id=saved)
        model.load_state_dict(state)
        for before, now in zip(kept, model.parameters()):
            assert torch.equal(before, now.full_tensor())
        return kept
    both(script)


def test_objects():
    def script():
        me, n = dist.get_rank(), dist.get_world_size()
        gathered, to_one, cast, scattered, sent = [None] * n, [None] * n if me == 1 else None, [f"from {me}", me], [None], [None]
        dist.all_gather_object(gathered, {"rank": me, "text": "x" * (me * 1000)})
        dist.gather_object(("rank", me), to_one, dst=1)
        dist.broadcast_object_list(cast, src=2)
        dist.scatter_object_list(scattered, [{"to": i} for i in range(n)] if me == 3 else None, src=3)
        if me == 0:
            dist.send_object_list(["a", 1], dst=3)
        elif me == 3:
            sent = [None, None]
            dist.recv_object_list(sent, src=0)
        return gathered, to_one, cast, scattered, sent
    both(script)


def test_point_to_point():
    def script():
        me, n = dist.get_rank(), dist.get_world_size()
        after, before = (me + 1) % n, (me - 1) % n
        one, two = torch.zeros(1000), torch.zeros(3, 4, dtype=torch.int64)
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, ints(1000, seed=me), after), dist.P2POp(dist.irecv, one, before),
                                        dist.P2POp(dist.isend, torch.full((3, 4), me), before, tag=7),
                                        dist.P2POp(dist.irecv, two, after, tag=7)])
        for work in works:
            work.wait()
        everyone, sources = torch.zeros(n - 1, 5), []
        if me == 0:
            for i in range(n - 1):
                sources.append(dist.recv(everyone[i]))
        else:
            dist.send(ints(5, seed=me), 0)
        return one, two, everyone.sum(0), sorted(sources)
    both(script)


def test_async_op_everywhere():
    def script():
        me, n = dist.get_rank(), dist.get_world_size()
        x = ints(4 * n, seed=me)
        rows = list(x.view(n, 4))
        largest, cast, to_one, exchanged = x.clone(), x.clone(), x.clone(), torch.zeros(4 * n)
        everyone, collected, listed = ([torch.zeros(4) for _ in range(n)] for _ in range(3))
        gathered, given, part, part_of_list = torch.zeros(4 * n * n), torch.zeros(4), torch.zeros(4), torch.zeros(4)
        works = [
            dist.all_reduce(largest, dist.ReduceOp.MAX, async_op=True),
            dist.broadcast(cast, 2, async_op=True),
            dist.reduce(to_one, 1, async_op=True),
            dist.all_gather(everyone, rows[0], async_op=True),
            dist.all_gather_into_tensor(gathered, x, async_op=True),
            dist.gather(rows[1], collected if me == 3 else None, 3, async_op=True),
            dist.scatter(given, rows if me == 0 else None, 0, async_op=True),
            dist.reduce_scatter(part_of_list, rows, async_op=True),
            dist.reduce_scatter_tensor(part, x, async_op=True),
            dist.all_to_all_single(exchanged, x, async_op=True),
            dist.barrier(async_op=True),
        ]
        if dist.get_backend() != "gloo":  # has no lists
            works.append(dist.all_to_all(listed, rows, async_op=True))
        futures = [work.get_future() for work in works[:2]]
        for work in reversed(works):  # in any order
            assert work.wait()
            assert dist.get_backend() == "gloo" or work.is_completed() and work.is_success()
        assert all(torch.equal(future.value()[0], out) for future, out in zip(futures, (largest, cast)))
        assert dist.get_backend() == "gloo" or torch.equal(torch.cat(listed), exchanged)
        return largest, cast, to_one if me == 1 else None, exchanged, everyone, collected, gathered, given, part, part_of_list
    both(script)


def test_nn__collectives_have_gradients():
    def script():
        me, n = dist.get_rank(), dist.get_world_size()
        x = ints(n, 3, seed=me).requires_grad_()
        outs = [dist.nn.all_reduce(x), dist.nn.broadcast(x, 1), *dist.nn.all_gather(x), dist.nn.reduce(x, 2),
                dist.nn.scatter([row.contiguous() for row in x], 0), dist.nn.reduce_scatter(torch.zeros(3), [row.contiguous() for row in x]),
                dist.nn.all_to_all_single(torch.zeros(n, 3), x), *dist.nn.gather(x, 1)]
        torch.cat([out.flatten() for out in outs]).dot(ints(sum(out.numel() for out in outs), seed=9)).backward()
        return x.grad
    both(script)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_functional_collectives(compiled):
    def step(x):
        group = dist.group.WORLD
        a = functional.all_reduce(x, "sum", group)
        b = functional.all_gather_tensor(a[:2] * 2, 0, group)
        c = functional.reduce_scatter_tensor(b, "sum", 0, group)
        d = functional.all_to_all_single(x, None, None, group)
        d = d + functional.permute_tensor(d.flatten(), [1, 2, 3, 0], group).view(d.shape)
        e = functional.all_reduce_coalesced([c + 1, d], "max", group)
        return functional.broadcast(e[0], 1, group) + functional.all_reduce(c, "avg", group), e[1]

    def script():
        x = ints(2 * dist.get_world_size(), 3, seed=dist.get_rank())
        if compiled:
            torch._dynamo.reset()
            return torch.compile(step, backend="aot_eager", fullgraph=True)(x)  # inductor would need a compiler and many seconds
        return step(x)
    both(script)


def test_new_group__all_pairs_within_each_other():
    def script():
        me, n = dist.get_rank(), dist.get_world_size()
        pairs = {(a, b): dist.new_group([a, b]) for a in range(n) for b in range(a + 1, n)}
        mine = {pair: ints(5, seed=me) for pair in pairs if me in pair}
        works = [dist.all_reduce(x, group=pairs[pair], async_op=True) for pair, x in mine.items()]
        for work in works:
            work.wait()
        row, _ = dist.new_subgroups(2)
        dist.all_reduce(mine[(me // 2 * 2, me // 2 * 2 + 1)], group=row)
        local, rows = dist.new_subgroups_by_enumeration([[0, 3], [1, 2]])
        cast = torch.tensor([me])
        dist.broadcast(cast, group=local, group_src=1)
        return mine, cast, len(rows)
    both(script)
