# SPDX-License-Identifier: BSD-3-Clause
# ranks: 2
"""What is refused, with which words, and that nothing has left then: both ranks go on."""
import errno

import braid
import numpy as np
import pytest


@pytest.mark.parametrize("x, kind, words", [
    (np.zeros((4, 4))[:, 1], ValueError, "contiguous"),
    (np.zeros((4, 4)).T, ValueError, "contiguous"),
    (np.broadcast_to(np.zeros(1), 4), ValueError, "contiguous"),
    (np.zeros(4, "O"), TypeError, "object"),
    (memoryview(np.zeros(4, "O")), TypeError, "objects"),
    (np.zeros(4, "M8[s]"), TypeError, "datetime"),
    (np.zeros(4, ">f4"), ValueError, "byte order"),
    (bytearray(8)[::-1] and memoryview(bytearray(8))[::2], ValueError, "one behind the other"),
    (b"abcd", TypeError, "bytes"),
    (memoryview(b"abcd"), ValueError, "read-only"),
    ([1, 2], TypeError, "list"),
    (None, TypeError, "None"),
    (3, TypeError, "int"),
], ids=lambda x: type(x).__name__ if not isinstance(x, type) else x.__name__)
def test_allreduce__of_what_is_no_buffer(comm, x, kind, words):
    with pytest.raises(kind, match=words):
        comm.allreduce(x)
    if x is not None:
        with pytest.raises(kind, match=words):
            comm.allreduce(np.zeros(4), x)


@pytest.mark.parametrize("x", [np.zeros(4, "O"), np.zeros(4, [("a", "i4"), ("b", "O")]), memoryview(np.zeros(4, "O"))], ids=["array", "struct", "view"])
def test_buffers__of_objects(comm, x):
    """Whatever the type does not matter for, addresses of objects are no values."""
    for call in lambda: comm.send(x, 1 - comm.rank), lambda: comm.recv(x, 1 - comm.rank), lambda: comm.allreduce(x, type="uint64"), lambda: comm.register(x):
        with pytest.raises(TypeError):
            call()


def test_types__float8_of_others():
    """The type of ml_dtypes that is called as braid's has infinities, and braid's has none."""
    from braid.buffer import DTYPES, TYPES

    class Dtype:
        isnative = True

        def __init__(self, name):
            self.name = name

    assert DTYPES[Dtype("float8_e4m3fn")] == TYPES["float8_e4m3"] and DTYPES[Dtype("float8_e5m2")] == TYPES["float8_e5m2"]
    with pytest.raises(TypeError, match="float8"):
        DTYPES[Dtype("float8_e4m3")]


def test_allreduce__read_only(comm):
    x = np.zeros(4)
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        comm.allreduce(x)
    comm.allreduce(x, np.empty(4))  # to be read it may be


def test_arguments(comm):
    x = np.zeros(4)
    for words, call in {
        "median.*sum": lambda: comm.allreduce(x, op="median"),
        "priorty.*priority": lambda: comm.allreduce(x, priorty=3),
        "float12.*float32": lambda: comm.allreduce(x, type="float12"),
        "another type": lambda: comm.allreduce(x, np.zeros(4, "f4")),
        "3 elements.*4": lambda: comm.allreduce(x, np.zeros(3)),
        "3 elements.*divide": lambda: comm.allgather(np.zeros(3)),
        "8 bytes.*bfloat16": lambda: comm.allreduce(x, type="bfloat16"),
        "persistent": lambda: comm.send(x, 1, persistent=True),
        "color": lambda: comm.split(-3),
    }.items():
        with pytest.raises((TypeError, ValueError), match=words):
            call()


def test_error__of_the_library(comm):
    with pytest.raises(braid.Error, match="root is 9") as caught:
        comm.broadcast(np.zeros(1), root=9)
    assert caught.value.errno == errno.EINVAL and isinstance(caught.value, OSError)
    with pytest.raises(braid.Error) as caught:
        comm.allreduce(np.zeros(1), timeout=-1)
    assert caught.value.errno == errno.EINVAL
    with pytest.raises(braid.Error, match="overlap"):
        x = np.zeros(5)
        comm.allreduce(x[1:], x[:-1])


def test_init__arguments():
    with pytest.raises(ValueError, match="rank and size"):
        braid.init(rank=1)
    with pytest.raises(TypeError, match="init_timeout"):
        braid.init(init_timout=3)
    with pytest.raises(braid.Error, match="pigeon"):
        braid.init(backend="pigeon")


def test_wait__longer_than_the_program_has(comm):
    x = np.zeros(1)
    if comm.rank == 0:
        h = comm.recv(x, 1, wait=False)
        with pytest.raises(braid.Error, match="still running") as caught:
            h.wait(timeout=0.15)
        assert caught.value.errno == errno.ETIMEDOUT and not h.test()
        comm.barrier()
        h.wait()
        assert x[0] == 5
        comm.send(x, 1)
    else:
        comm.barrier()
        comm.send(np.array([5.0]), 0)
        comm.recv(x, 0)


def test_abort__with_its_reason_on_all_ranks(comm):
    """The last test: no communicator is left."""
    assert comm.error() is None
    x = np.zeros(1)
    if comm.rank == 1:
        comm.recv(x, 0)  # the other rank has found no error, either
        comm.abort("the disk is full")
    with pytest.raises(braid.Error, match="the disk is full") as caught:
        if comm.rank == 0:
            comm.send(x, 1)
        comm.recv(x, 1 - comm.rank)
    assert caught.value.errno == errno.ECANCELED
    assert comm.error().errno == errno.ECANCELED
    comm.finalize()
    with pytest.raises(braid.Error):
        comm.allreduce(x)
    comm.finalize()  # again is nothing
