# SPDX-License-Identifier: BSD-3-Clause
# ranks: 2
"""Messages, puts, gets, atomics; buffers of every kind."""
import array
import errno
import mmap
import pickle
import threading

import braid
import numpy as np
import pytest


@pytest.mark.parametrize("count", [1, 1000, 300000])
def test_send_recv(comm, count):
    peer = 1 - comm.rank
    out, back = np.full(count, comm.rank, "i4"), np.empty(count, "i4")
    h = comm.recv(back, peer, tag=7, wait=False)
    comm.send(out, peer, tag=7)
    h.wait()
    assert np.all(back == peer)


@pytest.mark.parametrize("make", [
    lambda: bytearray(64), lambda: memoryview(bytearray(64)), lambda: array.array("d", [0] * 8), lambda: mmap.mmap(-1, 64),
    lambda: np.zeros((2, 4)), lambda: np.zeros(64, "S1"),
], ids=["bytearray", "memoryview", "array", "mmap", "ndarray", "text"])
def test_buffers__of_every_kind(comm, make):
    x = make()
    if comm.rank == 0:
        np.frombuffer(x, "u1")[:] = np.arange(64)
        comm.send(x, 1)
        comm.send(bytes(memoryview(x).cast("B")) if not isinstance(x, mmap.mmap) else x[:], 1)
    else:
        comm.recv(x, 0)
        assert np.array_equal(np.frombuffer(x, "u1"), np.arange(64))
        comm.recv(x, 0)


def test_put_get_atomics(comm):
    memory = comm.empty(1024, "u8")
    mine, theirs = np.frombuffer(bytes(comm.key(memory)), "u1"), np.empty(32, "u1")
    h = comm.recv(theirs, 1 - comm.rank, wait=False)
    comm.send(mine, 1 - comm.rank)
    h.wait()
    key = braid.Key(theirs.tobytes())
    assert key.bytes >= 8192 and key.rank == 1 - comm.rank
    comm.put(np.full(10, comm.rank + 5, "u8"), key, offset=80)
    comm.barrier()
    assert np.all(memory[10:20] == 1 - comm.rank + 5) and memory[9] == 0 == memory[20]
    back = np.zeros(10, "u8")
    comm.get(back, key, 80)
    assert np.all(back == comm.rank + 5)
    assert comm.fetch_add(key, 0, 3) == 0
    assert comm.fetch_add(key, 0, -1) == 3
    assert comm.compare_swap(key, 0, 2, 2**64 - 1) == 2
    comm.barrier()
    assert memory[0] == 2**64 - 1


def test_register__keeps_and_gives_back(comm):
    x = np.zeros(5000)
    with comm.register(x) as region:
        assert region.key.bytes == x.nbytes
        assert bytes(comm.key(x)) == bytes(region.key)
    with pytest.raises(braid.Error):
        comm.key(x)
    with pytest.raises(ValueError):
        braid.Key(b"short")


def test_pickle__nothing(comm):
    for thing in comm, comm.barrier(wait=False):
        with pytest.raises(TypeError):
            pickle.dumps(thing)
    comm.barrier()


class Tensor:
    """What torch's tensors on the CPU offer: DLPack and no buffer."""

    def __init__(self, base):
        self.base = base

    def __dlpack__(self, stream=None):
        return self.base.__dlpack__()

    def __dlpack_device__(self):
        return self.base.__dlpack_device__()


def test_dlpack(comm):
    base = np.full((3, 4), comm.rank, "f4")
    comm.allreduce(Tensor(base))
    assert np.all(base == 1)
    comm.allreduce(Tensor(base[1]), op="max")
    with pytest.raises(ValueError, match="contiguous"):
        comm.allreduce(Tensor(base[:, 1]))


class Device:
    """An array by __cuda_array_interface__, whose memory may as well be the host's."""

    def __init__(self, base, **fields):
        self.__cuda_array_interface__ = {**base.__array_interface__, "version": 3, "strides": None, **fields}


def test_cuda_array_interface(comm):
    base = np.full(6, comm.rank + 1, "i8")
    comm.allreduce(Device(base))
    assert np.all(base == 3)
    strided = np.zeros((4, 4))[:, 0]
    for wrong in dict(strides=(16,)), dict(data=(base.ctypes.data, True)), dict(typestr=">i8"), dict(mask=base):
        with pytest.raises((TypeError, ValueError)):
            comm.allreduce(Device(base, **wrong))
    with pytest.raises(ValueError, match="contiguous"):
        comm.allreduce(Device(strided, strides=strided.strides))


def test_recv_any__who_what_and_how_long(comm):
    if comm.rank == 0:
        comm.send(np.arange(5, dtype="i4"), 1, tag=9)
        comm.send(np.arange(3, dtype="i4"), 1, tag=2)
        comm.send(b"four", 1, tag=4)
    else:
        x = np.zeros(10, "i4")
        assert comm.recv_any(x) == braid.Received(20, 0, 9) and x[4] == 4
        h = comm.recv_any(x, 0, tag=2, wait=False)
        assert h.wait() == (12, 0, 2)
        assert comm.probe(tag=77) is None
        assert comm.probe(timeout=None) == (4, 0, 4)
        claimed = comm.claim(tag=4, timeout=60)
        assert claimed.message.bytes == 4 and comm.probe() is None
        with pytest.raises(ValueError):
            claimed.recv(x)
        text = bytearray(4)
        claimed.recv(text)
        assert text == b"four"
    comm.barrier()


def test_init__from_one_blob(comm):
    """A second job of the same two processes, which knows nothing of the environment."""
    blob = bytearray(braid.create_id()) if comm.rank == 0 else bytearray(128)
    comm.broadcast(blob)
    with braid.init(id=bytes(blob), rank=comm.rank, size=2, backend="tcp") as other:
        x = np.ones(3)
        other.allreduce(x)
        assert np.all(x == 2)
    with pytest.raises(ValueError, match="128"):
        braid.init(id=b"short", rank=0, size=2)
    braid.free_id(braid.create_id())


def test_put__told_to_the_other_side(comm):
    memory = comm.empty(8, "u8")
    theirs = bytearray(32)
    h = comm.recv(theirs, 1 - comm.rank, wait=False)
    comm.send(bytes(comm.key(memory)), 1 - comm.rank)
    h.wait()
    key = braid.Key(theirs)
    comm.put_notify(np.array([7 + comm.rank], "u8"), key, 8, value=99)
    assert comm.notification(timeout=None) == (99, 1 - comm.rank) and memory[1] == 8 - comm.rank
    assert comm.notification() is None
    comm.put_signal(np.array([5], "u8"), key, 16, signal=key, signal_offset=24, value=2)
    comm.flush()
    comm.barrier()
    assert list(memory[2:4]) == [5, 2]


def test_wait_any__and_groups(comm):
    parts = [np.zeros(1) for _ in range(4)]
    with braid.group():
        receives = [comm.recv(part, 1 - comm.rank, tag=i, wait=False) for i, part in enumerate(parts)]
        sends = [comm.send(np.array([i + 1.0]), 1 - comm.rank, tag=i, wait=False) for i in range(3)]
    left = receives[:3]
    while left:
        left.remove(braid.wait_any(left))
    assert [part[0] for part in parts] == [1, 2, 3, 0]
    with pytest.raises(braid.Error):
        braid.wait_any(receives[3:], timeout=0.01)
    for h in sends:
        h.wait()
    comm.barrier()
    comm.send(np.array([4.0]), 1 - comm.rank, tag=3)
    assert braid.wait_any(receives[3:]) is receives[3] and parts[3][0] == 4
    assert comm.fileno() == comm.fileno()


def test_group__operations_wait_for_its_end(comm):
    """More than are held before what has ended is let go; nothing of them is, and none is given up, before they run."""
    peer, parts, gone = 1 - comm.rank, [np.zeros(1) for _ in range(100)], []
    with braid.group():
        for i, part in enumerate(parts):
            comm.send(np.array([i + 1.0]), peer, tag=i, wait=False)
            comm.recv(part, peer, tag=i, wait=False)
        h = comm.recv(np.zeros(1), peer, tag=100, wait=False)
        other = threading.Thread(target=lambda: (comm._reap(), gone.append(h.test())))
        other.start()
        other.join()
        assert gone == [False] and not h.test() and len(comm._held) >= 201
        with pytest.raises(braid.Error, match="not been started"):
            h.wait()
        with pytest.raises(braid.Error):
            comm.finalize()
        for call in lambda: comm.send(np.zeros(1), peer, tag=101), lambda: comm.allreduce(np.zeros(1)), comm.barrier:
            with pytest.raises(ValueError, match="wait=False"):
                call()
    comm.send(np.zeros(1), peer, tag=100)
    h.wait()
    comm.barrier()
    while any(part[0] == 0 for part in parts):
        comm._reap()
    assert [part[0] for part in parts] == list(range(1, 101))


def test_timeouts__of_the_past(comm):
    for timeout in -0.0004, -0.001, -5:
        assert comm.notification(timeout=timeout) is None and comm.probe(timeout=timeout) is None and comm.claim(timeout=timeout) is None


def test_options__of_many_threads(comm):
    """So many different ones that structs of options are made anew all the time."""
    from braid.collectives import settings
    from braid._braid import ffi

    wrong = []

    def work(first):
        for i in range(2000):
            name = f"algorithm{first}_{i % 300}"
            if ffi.string(settings({"algorithm": name, "priority": i % 7}).algorithm).decode() != name:
                wrong.append(name)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("wait", [True, False], ids=["blocking", "handle"])
def test_reduction__that_raises(comm, wait):
    """In a job of its own, which it ends: who has combined hears of the exception, the other one that the job is over."""
    blob = bytearray(braid.create_id()) if comm.rank == 0 else bytearray(128)
    comm.broadcast(blob)
    other = braid.init(id=bytes(blob), rank=comm.rank, size=2)

    def broken(a, b):
        with pytest.raises(braid.Error) as refused:
            other.finalize()
        assert refused.value.errno == errno.EDEADLK and not other._ending
        raise ZeroDivisionError("out of luck")

    mine = other.reduction(broken)
    with pytest.raises((ZeroDivisionError, braid.Error), match="out of luck") as caught:
        x = np.ones(4)
        h = other.allreduce(x, op=mine, wait=wait)
        if not wait:
            h.wait()
        other.barrier()
    raised = np.array([caught.type is ZeroDivisionError])
    comm.allreduce(raised, op="lor")
    assert raised[0] and other.error() is not None
    with pytest.raises(braid.Error):
        other.barrier()
    try:
        other.finalize()
    except braid.Error:
        pass


def test_reduction__without_numpy(comm, monkeypatch):
    monkeypatch.setattr("braid.comm.numpy", None)
    with pytest.raises(ImportError):
        comm.reduction(lambda a, b: None)
