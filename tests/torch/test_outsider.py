# SPDX-License-Identifier: BSD-3-Clause
"""Careless and hostile scripts: what they get is right, or an exception on every rank that says what to do, and never a hang or the end of the process."""
import datetime
import gc
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import braid.torch
import numpy
import pytest
import torch
import torch.distributed as dist
from forked import Failed, job

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch: of experimental types, of forks


def seconds(count: float) -> datetime.timedelta:
    return datetime.timedelta(seconds=count)


def fails(results, words: str) -> None:
    """Every rank ended with an exception that says one of the words, which | separates."""
    for rank, result in enumerate(results):
        assert isinstance(result, Failed) and any(word in result for word in words.split("|")), f"rank {rank}: {result}"


# ---- arguments -------------------------------------------------------------------------------------------------------------------------------

REFUSED = {
    "list_too_long": lambda rank: dist.all_gather([torch.zeros(3) for _ in range(3)], torch.ones(3)),
    "list_of_other_type": lambda rank: dist.all_gather([torch.zeros(3, dtype=torch.int32) for _ in range(2)], torch.ones(3)),
    "gathered_too_long": lambda rank: dist.all_gather_into_tensor(torch.zeros(7), torch.ones(3)),
    "gathered_of_other_type": lambda rank: dist.all_gather_into_tensor(torch.zeros(6, dtype=torch.float64), torch.ones(3)),
    "scattered_too_long": lambda rank: dist.reduce_scatter_tensor(torch.zeros(3), torch.ones(7)),
    "splits_too_long": lambda rank: dist.all_to_all_single(torch.zeros(4), torch.ones(4), [3, 3], [2, 2]),
    "splits_negative": lambda rank: dist.all_to_all_single(torch.zeros(4), torch.ones(4), [-1, 5], [-1, 5]),
    "root": lambda rank: dist.broadcast(torch.ones(3), 5),
    "peer": lambda rank: dist.send(torch.ones(3), 5),
    "tag": lambda rank: dist.send(torch.ones(3), 1 - rank, tag=2**40),
    "bits_of_floats": lambda rank: dist.all_reduce(torch.ones(3), dist.ReduceOp.BAND),
}


def test_arguments__are_refused_and_the_group_goes_on():
    def body(rank):
        for name, call in REFUSED.items():
            try:
                call(rank)
            except (RuntimeError, ValueError, TypeError, OverflowError):
                continue
            raise AssertionError(f"{name} was not refused")
        x = torch.ones(3)
        dist.all_reduce(x)
        return x.tolist()
    assert job(2, body) == [[2.0] * 3] * 2


# ---- tensors ---------------------------------------------------------------------------------------------------------------------------------

def test_tensors__of_no_elements_and_of_no_dimension():
    def body(rank):
        def none(): return torch.zeros(0, 3)
        dist.all_reduce(none())
        dist.broadcast(none(), 1)
        dist.reduce(none(), 1)
        dist.all_gather([none(), none()], none())
        dist.all_gather_into_tensor(none(), none())
        dist.reduce_scatter_tensor(none(), none())
        dist.all_to_all_single(none(), none())
        dist.gather(none(), [none(), none()] if rank == 0 else None)
        dist.scatter(none(), [none(), none()] if rank == 0 else None)
        (dist.send if rank == 0 else dist.recv)(none(), 1 - rank)
        got = torch.zeros(3 * rank)
        dist.all_to_all_single(got, torch.arange(3. * (1 - rank)), [3 * rank, 0], [0, 3 * (1 - rank)])
        x, y, rows, part = torch.tensor(1.5 + rank), torch.tensor(rank), torch.zeros(2), torch.tensor(0.)
        dist.all_reduce(x)
        dist.broadcast(y, 1)
        dist.all_gather_into_tensor(rows, torch.tensor(float(rank)))
        out = [torch.tensor(0.), torch.tensor(0.)]
        dist.all_gather(out, torch.tensor(float(rank)))
        dist.reduce_scatter(part, [torch.tensor(1.), torch.tensor(2.)])
        return got.tolist(), x.item(), y.item(), rows.tolist(), [o.item() for o in out], part.item()
    assert job(2, body) == [([], 4.0, 1, [0.0, 1.0], [0.0, 1.0], 2.0), ([0.0, 1.0, 2.0], 4.0, 1, [0.0, 1.0], [0.0, 1.0], 4.0)]


def test_tensors__with_gaps():
    """Slices and transposes, as gloo takes them. What lies in the gaps stays."""
    def body(rank):
        x, y, z = (torch.arange(12.).view(3, 4) + rank for _ in range(3))
        dist.all_reduce(x.t())
        dist.broadcast(y[:, ::2], 1)
        dist.reduce(z[:, 1:3], 0)
        w = torch.nn.Parameter(torch.ones(3, 4))
        work = dist.all_reduce(w.t(), async_op=True)
        future = work.get_future()
        future.wait()
        return x.tolist(), y.tolist(), z.tolist() if rank == 0 else None, w.tolist()
    start = torch.arange(12.).view(3, 4)
    cast, summed = start.clone(), start.clone()
    cast[:, ::2] += 1
    summed[:, 1:3] = 2 * start[:, 1:3] + 1
    total, twos = (2 * start + 1).tolist(), torch.full((3, 4), 2.).tolist()
    assert job(2, body) == [(total, cast.tolist(), summed.tolist(), twos), (total, (start + 1).tolist(), None, twos)]


def test_tensors__that_need_gradients_or_lie_in_each_other():
    def body(rank):
        p = torch.nn.Parameter(torch.full((3,), float(rank)))
        dist.all_reduce(p)
        dist.broadcast(p * 2, 1)
        rows = torch.zeros(2, 4)
        rows[rank] = rank + 1
        dist.all_gather_into_tensor(rows, rows[rank])
        for of_list in (False, True):
            other = torch.zeros(2, 4)
            other[1 - rank] = rank + 1  # lies where the other's comes to
            try:
                dist.all_gather(list(other), other[1 - rank]) if of_list else dist.all_gather_into_tensor(other, other[1 - rank])
            except RuntimeError as error:
                assert "overlap" in str(error)
            else:
                assert torch.equal(rows, other)
        ends = []
        for at in (rank, 1 - rank):
            whole = torch.arange(8.) + rank
            try:
                dist.reduce_scatter_tensor(whole[4 * at:4 * at + 4], whole)
                ends.append(whole[4 * at:4 * at + 4].tolist())
            except RuntimeError as error:
                assert "overlap" in str(error) and at != rank
        assert len(ends) == 1 or ends[0] == ends[1]
        exchanged = torch.arange(8.) + 10 * rank
        dist.all_to_all_single(exchanged, exchanged)
        return p.tolist(), rows.tolist(), ends[0], exchanged.tolist()
    rows = [[1.0] * 4, [2.0] * 4]
    assert job(2, body) == [([1.0] * 3, rows, [1.0, 3.0, 5.0, 7.0], [0.0, 1.0, 2.0, 3.0, 10.0, 11.0, 12.0, 13.0]),
                            ([1.0] * 3, rows, [9.0, 11.0, 13.0, 15.0], [4.0, 5.0, 6.0, 7.0, 14.0, 15.0, 16.0, 17.0])]


def test_tensors__with_gaps_in_lists():
    def body(rank):
        got, sums, given = torch.zeros(3, 2), torch.zeros(3), torch.arange(6.).view(3, 2) + rank
        dist.all_gather(list(got.unbind(1)), torch.arange(3.) + 10 * rank)
        dist.reduce_scatter(sums, list(given.unbind(1)))
        exchanged, gathered, part = torch.zeros(3, 2), torch.zeros(3, 2, 2), torch.zeros(3)
        dist.all_to_all(list(exchanged.unbind(1)), list(given.unbind(1)))
        dist.gather(torch.full((3, 2), float(rank)), list(gathered.unbind(1)) if rank == 0 else None)
        dist.scatter(part, list(given.unbind(1)) if rank == 0 else None)
        transposed = [torch.zeros(3, 2).t() for _ in range(2)]
        dist.all_gather(transposed, torch.arange(6.).view(2, 3) + rank)
        return got.tolist(), sums.tolist(), exchanged.tolist(), gathered.tolist() if rank == 0 else None, part.tolist(), [t.tolist() for t in transposed]
    got, rows = [[0.0, 10.0], [1.0, 11.0], [2.0, 12.0]], torch.arange(6.).view(2, 3)
    transposed = [rows.tolist(), (rows + 1).tolist()]
    gathered = [[[0.0] * 2, [1.0] * 2]] * 3
    assert job(2, body) == [(got, [1.0, 5.0, 9.0], [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], gathered, [0.0, 2.0, 4.0], transposed),
                            (got, [3.0, 7.0, 11.0], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], None, [1.0, 3.0, 5.0], transposed)]


# ---- ranks that disagree ---------------------------------------------------------------------------------------------------------------------

def _order(rank):
    def one(): dist.all_reduce(torch.ones(4))
    def other(): dist.broadcast(torch.ones(4), 0)
    for call in (one, other) if rank == 0 else (other, one):
        call()


DISAGREE = {
    "shapes": lambda rank: dist.all_reduce(torch.ones(3 + rank)),
    "long_shapes": lambda rank: dist.all_reduce(torch.ones(1_000_000 + rank)),
    "types": lambda rank: dist.all_reduce(torch.ones(4, dtype=(torch.float32, torch.int32)[rank])),
    "reductions": lambda rank: dist.all_reduce(torch.ones(4), (dist.ReduceOp.SUM, dist.ReduceOp.MAX)[rank]),
    "order": _order,
    "splits": lambda rank: dist.all_to_all_single(torch.zeros(4), torch.ones(4), [1 + rank, 3 - rank], [2, 2]),
}


@pytest.mark.parametrize("how", DISAGREE)
def test_ranks__disagree(how):
    fails(job(2, DISAGREE[how], timeout=200), "rank")  # they hear of it at once: what waits for the timeout counts as hanging before


# ---- order -----------------------------------------------------------------------------------------------------------------------------------

def test_barrier__does_not_wait_for_messages():
    """A receive may be posted long before its message is sent; gloo's barrier does not wait for it."""
    def body(rank):
        x, y, t = torch.zeros(3), torch.zeros(3), torch.ones(3)
        if rank == 0:
            works = [dist.irecv(x, 1), *dist.batch_isend_irecv([dist.P2POp(dist.irecv, y, 1)])]
        dist.barrier()
        dist.all_reduce(t)
        if rank == 1:
            dist.send(t, 0)
            dist.send(2 * t, 0)
            return t.tolist()
        for work in works:
            work.wait()
        return x.tolist(), y.tolist()
    assert job(2, body, timeout=200) == [([2.0] * 3, [4.0] * 3), [2.0] * 3]


def test_interrupt__of_a_sparse_sum():
    """Ctrl-C while the ranks tell each other what they have: what comes later goes nowhere that belongs to somebody else by then."""
    def body(rank):
        x = torch.sparse_coo_tensor([[rank]], [1.0], (4,))
        if rank == 1:
            dist.recv(torch.zeros(1), 0)
            return dist.all_reduce(x)
        try:
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            dist.all_reduce(x)
        except KeyboardInterrupt:
            pass
        blocks = [numpy.full(304, 7, numpy.uint8) for _ in range(32)]  # where the sizes of two ranks were
        dist.send(torch.ones(1), 1)
        try:
            dist.all_reduce(x)  # what the other is at by now is another part of the sum
        except RuntimeError:
            return all((block == 7).all() for block in blocks)
    assert job(2, body, timeout=20)[0] is True


@pytest.mark.parametrize("algorithm", ["ring", "halving"])
def test_algorithm__of_a_group(algorithm):
    """Is that of the collectives which such algorithms are of; all others are as without."""
    def body(rank):
        options = braid.torch.Options()
        options.algorithm = algorithm
        group = dist.new_group([0, 1], pg_options=options, timeout=seconds(60))
        x, y, z, exchanged, uneven = (torch.full((n,), rank + 1.) for n in (4, 4, 4, 2, 1 + rank))
        dist.barrier(group)
        dist.all_reduce(x, group=group)
        dist.broadcast(y, 0, group=group)
        dist.all_to_all_single(exchanged, exchanged.clone(), group=group)
        out = [torch.zeros(1), torch.zeros(2)]
        dist.all_gather(out, uneven, group=group)
        parts = [torch.zeros(4), torch.zeros(4)] if rank == 0 else None
        dist.gather(z, parts, group=group)
        dist.scatter(z, [z + 1, z + 2] if rank == 0 else None, group=group)
        with dist._coalescing_manager(group):
            dist.all_reduce(y, group=group)
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, x, 1 - rank, group), dist.P2POp(dist.irecv, z, 1 - rank, group)])
        for work in works:
            work.wait()
        dist.barrier(group)
        return x.tolist(), y.tolist(), z.tolist(), exchanged.tolist(), [o.tolist() for o in out], len(parts or [])
    same = [3.0] * 4, [2.0] * 4, [3.0] * 4, [1.0, 2.0], [[1.0], [2.0, 2.0]]
    assert job(2, body) == [(*same, 2), (*same, 0)]


# ---- many ------------------------------------------------------------------------------------------------------------------------------------

def test_works__thousands_under_way_and_dropped():
    def body(rank):
        kept = [torch.full((10,), float(i)) for i in range(3000)]
        for x in kept:
            dist.all_reduce(x, async_op=True)
            dist.all_reduce(torch.ones(100), async_op=True)  # nobody keeps the tensor
        dist.barrier()
        assert all((x == 2 * i).all() for i, x in enumerate(kept))
        works = [dist.barrier(async_op=True) for _ in range(1000)]
        return all(work.wait() for work in reversed(works))
    assert job(2, body) == [True, True]


def held():
    """File descriptors, threads and resident KiB of this process."""
    gc.collect()
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), int(status["VmRSS"].split()[0])


def test_groups__made_and_destroyed_200_times():
    def body(rank):
        def turns(count):
            for _ in range(count):
                group = dist.new_group([0, 1])
                x = torch.ones(1000)
                dist.all_reduce(x, group=group)
                dist.all_reduce(x, group=group, async_op=True)  # under way when the group goes
                dist.destroy_process_group(group)
        turns(20)
        before = held()
        turns(180)
        after = held()
        return before, after
    for before, after in job(2, body, limit=120):
        assert after[:2] == before[:2] and after[2] < before[2] + 8192, (before, after)


# ---- the environment -------------------------------------------------------------------------------------------------------------------------

def total(rank):
    x = torch.ones(3)
    dist.all_reduce(x)
    return x.tolist()


@pytest.mark.parametrize("name,value", [("BRAID_BACKEND", "carrier-pigeon"), ("BRAID_DEVICES", "nosuch0"),
                                        ("BRAID_PEER_TIMEOUT", "-1")])
def test_environment__wrong_settings_are_named(name, value):
    fails(job(2, total, **{name: value}), f"{name}|{value}")


def test_environment__of_launchers_does_not_count():
    """torch says rank and size; what a launcher of another job left in the environment is not asked."""
    stale = {"BRAID_RANK": "7", "BRAID_WORLD_SIZE": "9", "BRAID_LOCAL_RANK": "3", "BRAID_MASTER_ADDR": "192.0.2.1", "BRAID_PORT": "1",
             "PMIX_NAMESPACE": "x", "PMIX_RANK": "3", "PMI_FD": "99", "PMI_RANK": "3", "PMI_SIZE": "5", "SLURM_STEP_ID": "0", "SLURM_PROCID": "4",
             "SLURM_NTASKS": "8", "SLURM_STEP_NODELIST": "nowhere[1-4]", "SLURM_JOB_ID": "1", "OMPI_COMM_WORLD_RANK": "5", "RANK": "4",
             "WORLD_SIZE": "6", "MASTER_ADDR": "192.0.2.1", "MASTER_PORT": "1", "BRAID_SECRET": "of another job"}
    assert job(2, total, **stale) == [[2.0] * 3] * 2


def test_jobs__beside_each_other():
    """Two on one machine, each with a store of its own and no port in common."""
    results = {}

    def start(name):
        results[name] = job(2, total)
    threads = [threading.Thread(target=start, args=(name,)) for name in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(result == [[2.0] * 3] * 2 for result in results.values()), results


def test_store__of_an_earlier_attempt():
    """torchrun restarts ranks over the store of those that have died: what they left in it is not taken for the new job's."""
    agent = dist.TCPStore("127.0.0.1", 0, is_master=True)

    def attempt(late):
        def body(rank):
            if late and rank == 0:
                time.sleep(0.5)  # the other looks into the store first
            dist.init_process_group("braid", store=dist.TCPStore("127.0.0.1", agent.port), rank=rank, world_size=2, timeout=seconds(60))
            return total(rank)
        return job(2, body, initialize=False)
    assert attempt(False) == attempt(True) == [[2.0] * 3] * 2


MPI = """
import os, torch, torch.distributed as dist
import braid.torch
me, n = (int(os.environ["OMPI_COMM_WORLD_" + name]) for name in ("RANK", "SIZE"))
dist.init_process_group("braid", init_method=f"file://{os.environ['STORE']}", rank=me, world_size=n)
x = torch.ones(3)
dist.all_reduce(x)
print(f"sum {x[0]}\\n", end="")
dist.destroy_process_group()
"""


def test_mpirun(tmp_path):
    """Its PMIx server does not count either."""
    mpirun = shutil.which("mpirun.openmpi")
    if not mpirun:
        pytest.skip("apt-get install openmpi-bin")
    command = [mpirun, "--allow-run-as-root", "--oversubscribe", "-n", "2", "-x", f"STORE={tmp_path}/store", sys.executable, "-c", MPI]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0 and run.stdout.count("sum 2.0") == 2, run.stdout + run.stderr
