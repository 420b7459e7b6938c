# SPDX-License-Identifier: BSD-3-Clause
# ranks: 2
"""Who keeps whom alive, threads, signals, fork, asyncio."""
import asyncio
import errno
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref

import braid
import numpy as np
import pytest


def test_empty__keeps_its_communicator(comm):
    child = comm.split(0)
    a = child.empty((3, 4), "i8")
    assert a.shape == (3, 4) and not a.any() and a.ctypes.data % 4096 == 0
    child.finalize()
    a += 1
    assert a.sum() == 12
    assert comm._blocks == 1
    view = a[1:, 2]
    del a
    gc.collect()
    assert comm._blocks == 1 and view.sum() == 2  # a view holds it as well
    del view
    gc.collect()
    assert comm._blocks == 0


def test_empty__outlives_finalize():
    """In a job of its own: the memory stays until the array is gone."""
    code = "import braid; c = braid.init(size=1, rank=0); a = c.empty(10); c.finalize(); a += 1; assert a.sum() == 10; del a; print('well')"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "well\n"


class Buffer(bytearray):
    pass


def test_operation__keeps_its_buffers_until_it_ends(comm):
    x = Buffer(64)
    gone = weakref.ref(x)
    if comm.rank == 0:
        comm.recv(x, 1, wait=False)  # nobody keeps the operation
        del x
        gc.collect()
        assert gone() is not None
        comm.barrier()
        comm.barrier()
        for _ in range(100):  # so many that what has ended is let go
            comm.barrier(wait=False).wait()
            comm.barrier(wait=False)
        comm.barrier()
        comm._reap()
        gc.collect()
        assert gone() is None
    else:
        comm.barrier()
        comm.send(bytes(64), 0)
        comm.barrier()
        for _ in range(200):
            comm.barrier()
        comm.barrier()


def test_bytearray__cannot_move_while_it_is_used(comm):
    x = bytearray(8)
    if comm.rank == 0:
        h = comm.recv(x, 1, wait=False)
        with pytest.raises(BufferError):
            x.extend(b"more")
        comm.barrier()
        h.wait()
        del h
        x.extend(b"more")
    else:
        comm.barrier()
        comm.send(x, 0)


def test_threads__wait_beside_each_other(comm):
    """One waits for a message that another, in the same process, causes: the lock of the interpreter was given up."""
    parts = [np.zeros(1) for _ in range(4)]
    peer = 1 - comm.rank
    threads = [threading.Thread(target=comm.recv, args=(part, peer), kwargs={"tag": i}) for i, part in enumerate(parts)]
    for thread in threads:
        thread.start()
    for i in range(4):
        comm.send(np.array([i + 1.0]), peer, tag=i)
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert [part[0] for part in parts] == [1, 2, 3, 4]


@pytest.mark.parametrize("after", [0.05, 0.3], ids=["first slice", "later"])  # of 100 ms
@pytest.mark.parametrize("call", [lambda comm, x: comm.recv(x, 1), lambda comm, x: comm.recv(x, 1, wait=False).wait()], ids=["blocking", "handle"])
def test_signals__ctrl_c_while_waiting(comm, call, after):
    """Rank 0 waits for a message that comes only after its KeyboardInterrupt; the operation goes on."""
    x = np.zeros(1)
    if comm.rank == 0:
        main = threading.get_ident()
        threading.Timer(after, signal.pthread_kill, (main, signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            call(comm, x)
        assert any(operation._keep is x for operation in comm._held)
        comm.barrier()
        while x[0] == 0:  # the receive is still posted, and its array lives
            time.sleep(0.001)
        assert x[0] == 4
    else:
        comm.barrier()
        comm.send(np.array([4.0]), 0)
    comm.barrier()


def test_signals__ctrl_c_in_an_allreduce(comm):
    """The call that is quickest where it does not wait keeps its array like any other."""
    x = np.ones(1)
    if comm.rank == 0:
        threading.Timer(0.05, signal.pthread_kill, (threading.get_ident(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            comm.allreduce(x)
        assert any(operation._keep is x for operation in comm._held)
        comm.send(x, 1)
    else:
        comm.recv(x, 0)
        comm.allreduce(x)
    comm.barrier()


@pytest.mark.parametrize("after", [0.05, 0.2], ids=["first slice", "later"])
def test_signals__a_handler_runs_while_waiting(comm, after):
    x, y, heard = np.zeros(1), np.zeros(1), []
    if comm.rank == 0:
        def handler(*_):
            heard.append(comm.recv(y, 1, tag=5, wait=False))  # goes on behind the handler
            comm.send(np.array([1.0]), 1)  # what rank 1 waits for before it sends

        before = signal.signal(signal.SIGUSR1, handler)
        threading.Timer(after, signal.pthread_kill, (threading.get_ident(), signal.SIGUSR1)).start()
        comm.recv(x, 1)
        signal.signal(signal.SIGUSR1, before)
        assert len(heard) == 1 and x[0] == 8
        comm.barrier()
        heard[0].wait()
        assert y[0] == 9
    else:
        comm.recv(x, 0)
        comm.send(np.array([8.0]), 0)
        comm.barrier()
        comm.send(np.array([9.0]), 0, tag=5)


def test_signals__ctrl_c_while_joining():
    code = "import braid; braid.init(rank=0, size=2, id=braid.create_id())"
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, start_new_session=True)
    while "braid call" not in "".join(open(f"/proc/{process.pid}/task/{task}/comm").read() for task in os.listdir(f"/proc/{process.pid}/task")) \
            and len(os.listdir(f"/proc/{process.pid}/task")) < 2:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in process.communicate(timeout=60)[1]


def test_fork__child_is_refused_and_parent_goes_on(comm):
    a = comm.empty(4)
    a[:] = 1
    child = os.fork()
    if child == 0:
        code = 1
        try:
            comm.allreduce(a)
        except braid.Error as error:
            code = 0 if error.errno == errno.EPERM and a.sum() == 4 else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    comm.allreduce(a)
    assert a.sum() == 4 * comm.size


def test_asyncio(comm):
    x, y = np.zeros(1), np.full(100000, comm.rank + 1, "f4")
    turns = []

    async def tick(until):
        while not until.is_set():
            turns.append(1)
            await asyncio.sleep(0.001)

    async def work():
        ended = asyncio.Event()
        ticker = asyncio.ensure_future(tick(ended))
        receive = comm.recv(x, 1 - comm.rank, wait=False)
        await asyncio.sleep(0.05)
        sum_ = comm.allreduce(y, wait=False)
        send = comm.send(np.array([3.0]), 1 - comm.rank, wait=False)
        await asyncio.gather(receive, sum_, send)
        ended.set()
        await ticker

    asyncio.run(work())
    assert x[0] == 3 and np.all(y == 3) and turns


def test_asyncio__more_than_threads_could_wait_for(comm):
    """64 receives, of which the last one that is sent comes first; two coroutines wait for each."""
    parts = [np.zeros(1) for _ in range(64)]

    async def work():
        receives = [comm.recv(part, 1 - comm.rank, tag=i, wait=False) for i, part in enumerate(parts)]

        async def twice(h):
            return await asyncio.gather(one(h), one(h))

        async def one(h):
            await h

        tasks = [asyncio.ensure_future(twice(h)) for h in receives]
        await asyncio.sleep(0)
        for i in reversed(range(64)):
            await comm.send(np.array([i + 1.0]), 1 - comm.rank, tag=i, wait=False)
            await tasks[i]

    asyncio.run(work())
    asyncio.run(asyncio.wait_for(waits(comm.barrier(wait=False)), 60))
    assert [part[0] for part in parts] == list(range(1, 65))


async def waits(h):
    await h


def test_asyncio__errors_come_through(comm):
    """The last test: no communicator is left."""
    async def work():
        h = comm.recv(np.zeros(1), 1 - comm.rank, wait=False, timeout=0.2)
        with pytest.raises(braid.Error) as caught:
            await h
        return caught.value.errno

    # whose deadline passes first tells the other
    assert asyncio.run(work()) in (errno.ETIMEDOUT, errno.ECANCELED, errno.ECONNRESET)
