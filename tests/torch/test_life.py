# SPDX-License-Identifier: BSD-3-Clause
# ranks: 2
# environment: BRAID_TIMEOUT=60
"""One process over the life of its groups: threads, fork, signals, deadlines, groups that are made again."""
import contextlib
import datetime
import itertools
import os
import signal
import tempfile
import threading
import time

import pytest
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

import braid.torch  # noqa: F401

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # 2.15 renames functions; these names are those of all versions
lives = itertools.count()


@pytest.fixture(autouse=True)
def group():
    """Every test has a default group of its own: as many lives of a process. Each has its own store, too: of one at MASTER_PORT a rank that is quick would
    still meet the last life's, which ends with rank 0's group."""
    store = os.path.join(tempfile.gettempdir(), f"braid_life_{os.environ['MASTER_PORT']}_{next(lives)}")
    dist.init_process_group("braid", init_method=f"file://{store}", rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]),
                            timeout=datetime.timedelta(seconds=60))
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def peer():
    return 1 - dist.get_rank()


@pytest.mark.parametrize("life", [1, 2])
def test_init__again_after_destroy(life):
    x = torch.full((10,), float(life))
    dist.all_reduce(x)
    assert torch.all(x == 2 * life)


class Squares(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        return torch.tensor([float(i * i)])


def test_fork__data_loaders_work_beside_it():
    """The workers are forked while an all-reduce is under way, and end while another is."""
    total = torch.zeros(1)
    flying = dist.all_reduce(torch.ones(1 << 20), async_op=True)
    for batch in DataLoader(Squares(), batch_size=8, num_workers=2):
        flying.wait()
        part = batch.sum(dim=0)
        dist.all_reduce(part)
        total += part
        flying = dist.all_reduce(torch.ones(1 << 16), async_op=True)
    flying.wait()
    assert total.item() == 2 * sum(i * i for i in range(64))


def test_fork__a_child_is_refused_and_the_parent_goes_on():
    x = torch.ones(4)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            dist.all_reduce(x)
        except RuntimeError as error:
            code = 0 if "fork" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    dist.all_reduce(x)
    assert torch.all(x == 2)


def test_threads__each_with_a_group():
    groups = [dist.new_group() for _ in range(4)]
    wrong = []

    def work(i):
        for _ in range(50):
            x = torch.full((100,), float(i + 1))
            dist.all_reduce(x, group=groups[i])
            if not torch.all(x == 2 * (i + 1)):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not wrong


def test_threads__one_waits_for_what_another_sends():
    """In one group: a thread that waits holds neither the interpreter nor the group."""
    parts = [torch.zeros(1) for _ in range(4)]
    threads = [threading.Thread(target=dist.recv, args=(part, peer()), kwargs={"tag": i}) for i, part in enumerate(parts)]
    for thread in threads:
        thread.start()
    for i in range(4):
        dist.send(torch.tensor([i + 1.0]), peer(), tag=i)
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert [part.item() for part in parts] == [1, 2, 3, 4]


def test_threads__many_wait_for_one():
    work = dist.all_reduce(torch.ones(1 << 21), async_op=True)
    threads = [threading.Thread(target=work.wait) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert work.is_completed()


def interrupt_main_thread(waits):
    """SIGINT for the main thread, which has said that it waits, once it sleeps."""
    waits.wait(60)
    for _ in range(6000):
        time.sleep(0.01)
        with open(f"/proc/self/task/{os.getpid()}/stat") as stat:  # its native_id is still that of the process that has forked this one
            if stat.read().rpartition(")")[2].split()[0] == "S":
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                return


def test_signals__ctrl_c_while_waiting():
    """Rank 0 waits for a message that comes only after its KeyboardInterrupt; the receive itself goes on."""
    x = torch.zeros(1)
    if dist.get_rank() == 0:
        work, waits = dist.irecv(x, 1), threading.Event()
        threading.Thread(target=interrupt_main_thread, args=(waits,)).start()
        with pytest.raises(KeyboardInterrupt):
            waits.set()
            work.wait()
        dist.barrier()
        work.wait()
        assert x[0] == 4
    else:
        dist.barrier()
        dist.send(torch.tensor([4.0]), 0)


def test_timeout__a_rank_that_does_not_call():
    """The exception comes at the group's timeout, and names who is missing. Only this group has failed."""
    late = dist.new_group(timeout=datetime.timedelta(seconds=60))  # which the ranks have for meeting, too
    dist.all_reduce(torch.ones(1), group=late)
    if dist.get_rank() == 0:
        dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=1), late)
        before = time.monotonic()
        work = dist.all_reduce(torch.ones(1), group=late, async_op=True)
        with pytest.raises(RuntimeError, match="rank 1"):
            work.wait()
        assert 1 <= time.monotonic() - before < 50
        assert work.is_completed() and not work.is_success()
        future = None
        with contextlib.suppress(RuntimeError):
            future = work.get_future()
            future.wait()
        assert future.done()
        with pytest.raises(RuntimeError, match="rank 1"):  # later calls say why
            dist.all_reduce(torch.ones(1), group=late)
    x = torch.ones(1)
    dist.all_reduce(x)
    assert x.item() == 2


def test_timeout__of_one_wait():
    x = torch.zeros(1)
    if dist.get_rank() == 0:
        work = dist.irecv(x, 1)
        with pytest.raises(RuntimeError, match="still runs"):
            work.wait(datetime.timedelta(milliseconds=50))
        dist.barrier()
        work.wait()  # which has not ended the receive
        assert x[0] == 4
    else:
        dist.barrier()
        dist.send(torch.tensor([4.0]), 0)


def test_destroy__copies_of_nobody_waits_for():
    """What follows an operation reads memory of the communicator's: it is done before that goes."""
    n = 1 << 20
    out = [torch.empty(n), torch.empty(n)]
    dist.all_gather(out, torch.full((n,), float(dist.get_rank())), async_op=True)
    dist.destroy_process_group()
    assert torch.all(out[0] == 0) and torch.all(out[1] == 1)


def test_destroy__while_threads_wait():
    """For messages that never come: they get the error of the deadline, and leave before the communicator goes."""
    late = dist.new_group(timeout=datetime.timedelta(seconds=60))
    dist.all_reduce(torch.ones(1), group=late)
    dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=1), late)
    works = [dist.irecv(torch.zeros(1), peer(), group=late, tag=tag) for tag in range(8)]
    said = []

    def wait(work):
        try:
            work.wait()
        except RuntimeError as error:
            said.append(str(error))

    threads = [threading.Thread(target=wait, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    dist.destroy_process_group(late)
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert len(said) == 8


def test_destroy__while_a_monitored_barrier_waits():
    """For rank 1, which has gone: rank 0's barrier ends with words, long before its deadline."""
    gone = dist.new_group(timeout=datetime.timedelta(seconds=60))
    dist.all_reduce(torch.ones(1), group=gone)
    said, waits = [], threading.Event()

    def wait():
        try:
            waits.set()
            dist.monitored_barrier(gone, timeout=datetime.timedelta(seconds=60))
        except (RuntimeError, ValueError) as error:
            said.append(str(error))

    thread = threading.Thread(target=wait)
    if dist.get_rank() == 0:
        thread.start()
        waits.wait(60)
        time.sleep(0.1)  # most of the time it is in the barrier by then; else it is refused
    before = time.monotonic()
    dist.destroy_process_group(gone)
    if dist.get_rank() == 0:
        thread.join(60)
        assert len(said) == 1 and time.monotonic() - before < 50, said


def test_coalesced__asked_for_while_the_outputs_are_released():
    """Tensors that only the operation holds go when it ends, in a thread that may need the interpreter's lock for that."""
    for _ in range(20):
        out = [torch.empty(100), torch.empty(100)]
        dist.distributed_c10d._get_default_group()._start_coalescing(torch.device("cpu"))
        dist.all_gather(out, torch.ones(100), async_op=True)
        work = dist.distributed_c10d._get_default_group()._end_coalescing(torch.device("cpu"))
        del out
        while not work.is_completed():
            pass
        work.wait()


def test_copies__of_calls_without_autograd():
    n = 1000
    parameters = [torch.nn.Parameter(torch.zeros(n)) for _ in range(2)]
    with torch.no_grad():
        dist.all_gather(parameters, torch.ones(n))
    assert all(torch.all(p == 1) and p.is_leaf for p in parameters)
    with torch.inference_mode():
        out = [torch.zeros(n), torch.zeros(n)]
        dist.all_gather(out, torch.ones(n))
        x = torch.ones(10, 20)
        dist.all_reduce(x.t())
    assert all(torch.all(o == 1) for o in out) and torch.all(x == 2)


def test_futures__of_many_calls_take_few_threads():
    futures = [dist.all_reduce(torch.ones(1), async_op=True).get_future() for _ in range(300)]
    for future in futures:
        future.wait()
    assert len(os.listdir("/proc/self/task")) < 100


def test_futures__callbacks_that_wait_for_each_other():
    """As many threads as that takes: each callback waits until all have begun."""
    n = 12
    together, begun = threading.Barrier(n), []

    def callback(future):
        together.wait(60)
        begun.append(future.value()[0].item())

    futures = [dist.irecv(torch.zeros(1), peer(), tag=i).get_future().then(callback) for i in range(n)]
    dist.barrier()  # before it no callback runs, for .then() would do so at once
    for i in range(n):
        dist.send(torch.full((1,), float(i)), peer(), tag=i)
    for future in futures:
        future.wait()
    assert sorted(begun) == list(range(n))
    x = torch.ones(1)
    dist.all_reduce(x, async_op=True).get_future().wait()  # and they serve on
    assert x.item() == 2
