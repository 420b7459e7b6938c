# SPDX-License-Identifier: BSD-3-Clause
"""Jobs that begin or end badly: ranks that do not come, that leave in the midst of the training, that are killed, that disagree; and torchrun, which starts
all of them again. Whatever one rank does, the others hear of it in words long before the deadline, and end."""
import datetime
import gc
import os
import re
import signal
import subprocess
import sys
import time
import warnings
import weakref

import pytest
import torch
import torch._dynamo  # noqa: F401  an optimizer loads it, which takes longer than all else: once, and not in each rank
import torch.distributed as dist
from torch import nn

import braid.torch
from forked import job

PATIENCE = 120  # seconds after which a rank counts as hanging; the deadlines of the groups here are longer


# ---- ranks that do not come ----------------------------------------------------------------------


def joins(store, rank, size, seconds):
    """What a rank of a new group hears."""
    try:
        dist.init_process_group("braid", init_method=f"file://{store}", rank=rank, world_size=size, timeout=datetime.timedelta(seconds=seconds))
    except dist.DistBackendError as error:
        return str(error)


@pytest.mark.parametrize("comes", [0, 1])
def test_init__a_rank_never_comes(comes, tmp_path):
    said = job(2, lambda rank: joins(tmp_path / "store", rank, 2, 2) if rank == comes else "away", initialize=False)
    assert said[1 - comes] == "away" and "braid" in said[comes], said
    assert ("rank 1 of 2" if comes == 0 else "rank 0 has not begun within 2000 ms") in said[comes], said


@pytest.mark.parametrize("late", [0, 1])
def test_init__a_rank_comes_late(late, tmp_path):
    """Rank 1 waits for the id of the job, or rank 0 in braid_init()."""
    def meet(rank):
        if rank == late:
            while not (tmp_path / "waits").exists():
                time.sleep(0.01)
            time.sleep(0.5)  # most of the time the other one is there by then
        (tmp_path / "waits").touch()
        said = joins(tmp_path / "store", rank, 2, 600)
        x = torch.ones(1)
        dist.all_reduce(x)
        return said, x.item()

    assert job(2, meet, limit=PATIENCE, initialize=False) == [(None, 2), (None, 2)]


def test_init__one_deadline_for_everything(tmp_path):
    """Rank 1 of 3 waits for the id of the job for most of its time, and has the rest, not as much once more, to wait for rank 2, which never comes: so its
    time ends before that of rank 0, which began later. On a machine that lets it stand still for as long as the difference: once more, with more time."""
    def ends(seconds, folder):
        def meet(rank):
            if rank == 0:
                while not (folder / "waits").exists():
                    time.sleep(0.01)
                time.sleep(seconds * 0.75)
            (folder / "waits").touch()
            return rank == 2 or (joins(folder / "store", rank, 3, seconds), time.monotonic())

        folder.mkdir()
        (_, first), (said, second), _ = job(3, meet, limit=PATIENCE, initialize=False)
        assert "rank 2 of 3" in said or "rank 0 has not begun" in said, said
        return second < first and "rank 2 of 3" in said

    assert any(ends(seconds, tmp_path / str(seconds)) for seconds in (2, 6, 18))


# ---- ranks that leave the training ---------------------------------------------------------------


def training(kind):
    """A model, its optimizer, and what the rank trains with."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 10))
    if kind == "SSD":
        optimizer = braid.torch.SSD(model.parameters(), lr=0.1, k=2, warmup=2)
        return model, optimizer, optimizer
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, optimizer, braid.torch.Session(model, optimizer)


def iterate(model, optimizer):
    optimizer.zero_grad()
    model(torch.randn(4, 10)).sum().backward()
    optimizer.step()


def says_to(path):
    """Where this process's standard error goes from here on."""
    sys.stderr = open(path, "w", buffering=1)  # not pytest's
    os.dup2(sys.stderr.fileno(), 2)


def leave_by_sys_exit():
    sys.exit()


def leave_by_exception():
    raise ZeroDivisionError("of this rank")


def leave_by_os_exit():
    os._exit(5)


@pytest.mark.parametrize("leave, words", [(leave_by_sys_exit, {"Session": "rank 1 has left the job", "SSD": "rank 1 has ended its training after 5 iterations"}),
                                          (leave_by_exception, {"Session": "rank 1.*ZeroDivisionError: of this rank", "SSD": "rank 1.*ZeroDivisionError: of this rank"}),
                                          (leave_by_os_exit, {"Session": "rank 1 is lost", "SSD": "rank 1 is lost"})])
@pytest.mark.parametrize("kind", ["Session", "SSD"])
def test_training__a_rank_leaves(kind, leave, words, tmp_path):
    """Nothing is closed on any rank."""
    def train(rank):
        says_to(tmp_path / f"said.{rank}")
        model, optimizer, _ = training(kind)
        try:
            for i in range(1000000):
                iterate(model, optimizer)
                if rank == 1 and i == 4:
                    leave()
        except braid.Error as error:
            return str(error)

    heard, left = job(2, train, timeout=600, limit=PATIENCE, leaves=True)
    assert re.search(words[kind], heard), (heard, left)
    assert left == {leave_by_sys_exit: "SystemExit: ", leave_by_exception: "ZeroDivisionError: of this rank", leave_by_os_exit: 5}[leave]
    said = (tmp_path / "said.1").read_text()
    assert ("rank 1 leaves the job" in said and "iterations" in said) == (leave is leave_by_sys_exit and kind == "SSD"), said
    assert "Traceback" not in (tmp_path / "said.0").read_text() + said


@pytest.mark.parametrize("kind", ["Session", "SSD"])
def test_training__all_ranks_leave(kind, tmp_path):
    """Behind as many iterations, without closing anything: nobody complains, however late the others are."""
    def train(rank):
        says_to(tmp_path / f"said.{rank}")
        model, optimizer, trained = training(kind)
        for i in range(6):
            if i == 5 and rank == 1:
                time.sleep(0.2)
            iterate(model, optimizer)

    assert job(2, train, timeout=600, limit=PATIENCE, leaves=True) == [None, None]
    said = (tmp_path / "said.0").read_text() + (tmp_path / "said.1").read_text()
    assert "braid" not in said and "Traceback" not in said, said  # other packages may have something to say at the end


@pytest.mark.parametrize("kind, stays", [("Session", 0), ("SSD", 1)])
def test_training__is_dropped(kind, stays):
    """Model, optimizer and session go together, and say what was forgotten. Parameter servers stay until the group ends, as that takes all ranks."""
    def drop(rank):
        model, optimizer, trained = training(kind)
        for _ in range(3):
            iterate(model, optimizer)
        (trained.sync if kind == "SSD" else trained.synchronize)()
        gone = [weakref.ref(thing) for thing in (model, optimizer, trained)]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            del model, optimizer, trained
            gc.collect()
        comm, x = braid.torch.comm(), torch.ones(1)
        dist.all_reduce(x)
        stayed = len(comm._dependents)
        comm.finalize()
        return [str(warning.message) for warning in caught if warning.category is ResourceWarning], [ref() is None for ref in gone], stayed, x.item()

    for said, gone, stayed, total in job(2, drop, limit=PATIENCE):
        assert len(said) == 1 and kind in said[0] and ("close()" if kind == "SSD" else "free()") in said[0], said
        assert all(gone) and stayed == stays and total == 2


def test_session__a_rank_raises_in_the_backward_pass():
    """Its gradients that are missing do not count as zeros."""
    def train(rank):
        model, optimizer, session = training("Session")

        def fail(*_):
            if rank == 1 and session._pass == 4:
                raise ValueError("of this rank")

        model[0].weight.register_hook(fail)
        try:
            for _ in range(6):
                iterate(model, optimizer)
            session.synchronize()
        except (braid.Error, ValueError) as error:
            return str(error)
        finally:
            session.free()
            assert optimizer.step.__func__ is torch.optim.SGD.step and session._state == 0

    ended = job(2, train, timeout=600, limit=PATIENCE)
    assert "within a backward pass" in ended[0] and ended[1] == "of this rank", ended


# ---- ranks that are killed -----------------------------------------------------------------------


def test_kill__in_an_all_reduce():
    """kill -9 of rank 2 while all-reduces run: the others get an exception that names it long before the deadline, and leave in peace."""
    def reduce(rank):
        x = torch.ones(1 << 20)
        try:
            for i in range(1000000):
                if rank == 2 and i == 5:
                    dist.all_reduce(x, async_op=True)
                    os.kill(os.getpid(), signal.SIGKILL)
                dist.all_reduce(x)
        except dist.DistBackendError as error:
            said = str(error)
        try:
            dist.all_reduce(x)
        except RuntimeError as error:
            return said, str(error)

    *ended, killed = job(3, reduce, timeout=600, limit=PATIENCE)
    assert killed == -signal.SIGKILL
    for said, again in ended:
        assert "rank 2" in said and "rank 2" in again, ended


@pytest.mark.parametrize("kind", ["Session", "SSD"])
def test_kill__in_a_backward_pass(kind):
    def train(rank):
        model, optimizer, trained = training(kind)
        passes = []

        def die(*_):
            passes.append(1)
            if rank == 1 and len(passes) == 5:
                os.kill(os.getpid(), signal.SIGKILL)

        model[2].weight.register_hook(die)
        try:
            while True:
                iterate(model, optimizer)
        except braid.Error as error:
            said = str(error)
        try:
            (trained.close if kind == "SSD" else trained.free)()
        except braid.Error as error:
            return said, len(passes), str(error)
        return said, len(passes), "" if kind == "SSD" else said

    (said, passes, closed), killed = job(2, train, timeout=600, limit=PATIENCE)
    assert killed == -signal.SIGKILL
    # a pass behind, as servers wait for pushes alone; two ahead, with steps of 2
    assert "rank 1" in said and "rank 1" in closed and passes in (4, 5, 6, 7), (said, passes, closed)


# ---- ranks that disagree, and that are started again ---------------------------------------------


def test_debug_detail__and_exit_without_destroy(tmp_path):
    """TORCH_DISTRIBUTED_DEBUG=DETAIL finds calls that do not fit each other before they reach the network. The program ends as it is, at once."""
    def disagree(rank):
        dist.set_debug_level_from_env()
        joins(tmp_path / "store", rank, 2, 600)
        x = torch.ones(4)
        dist.all_reduce(x)
        assert torch.all(x == 2)
        try:
            if rank == 0:
                dist.all_reduce(torch.ones(4))
            else:
                dist.broadcast(torch.ones(4), 0)
        except RuntimeError as error:
            said = str(error)
        dist.all_reduce(torch.ones(1 << 16), async_op=True)
        return said

    for said in job(2, disagree, limit=PATIENCE, initialize=False, leaves=True, TORCH_DISTRIBUTED_DEBUG="DETAIL"):
        assert "mismatch" in said and "ALLREDUCE" in said and "BROADCAST" in said, said


def test_torchrun__starts_again(tmp_path):
    """Rank 1 of the first attempt dies in training; all ranks of the second one find each other anew."""
    script = tmp_path / "train.py"
    script.write_text("""
import os
import torch, torch.distributed as dist
import braid.torch
dist.init_process_group("braid")
for _ in range(10):
    x = torch.ones(1000)
    dist.all_reduce(x)
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    if dist.get_rank() == 1:
        os._exit(3)
    dist.all_reduce(x)
print(f"attempt {os.environ['TORCHELASTIC_RESTART_COUNT']} sum {x.sum().item()}", flush=True)  # in one piece: ranks share the output
dist.destroy_process_group()
""")
    done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "1", "--monitor-interval",
                           "0.1", str(script)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("attempt 1 sum 2000.0") == 2, done.stdout
