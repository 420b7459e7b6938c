# SPDX-License-Identifier: BSD-3-Clause
"""Memory that others reach: arrays of empty(), registered buffers, keys."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Optional, Tuple, Union

from braid._braid import ffi, lib
from braid.buffer import numpy, span
from braid.errors import check, fail

if TYPE_CHECKING:
    from braid.comm import Comm


class Key:
    """What another rank needs to put to and get from a region: plain data, bytes(key), to be sent there by any means; Key(data) makes it again."""

    __slots__ = ("_key",)

    def __init__(self, data: Any = None) -> None:
        self._key = ffi.new("struct braid_key *")
        if data is not None:
            if len(data) != ffi.sizeof("struct braid_key"):
                raise ValueError(f"a key has {ffi.sizeof('struct braid_key')} bytes, not {len(data)}")
            ffi.memmove(self._key, bytes(data), len(data))

    def __bytes__(self) -> bytes:
        return bytes(ffi.buffer(self._key))

    @property
    def bytes(self) -> int:
        """Size of the region."""
        return self._key.bytes

    @property
    def rank(self) -> int:
        """Its owner, in the communicator of braid.init()."""
        return self._key.rank

    def __repr__(self) -> str:
        return f"<braid.Key of {self.bytes} bytes of rank {self.rank}>"


class Region:
    """A registered buffer, which it keeps alive; `key` is for other ranks. To be given back by deregister(), or as a context manager."""

    def __init__(self, comm: "Comm", x: Any) -> None:
        address, count, kind, self._keep = span(x, True, None)
        from braid.buffer import SIZES

        self._comm, self._region = comm, ffi.new("struct braid_region **")
        memory = ffi.cast("void *", address)
        check(lib.braid_register(comm._comm, memory, count * SIZES[kind], self._region))
        self.key = key_of(comm, memory)

    def deregister(self) -> None:
        """Nobody puts or gets any more. Error with EBUSY: an operation uses it."""
        if self._region is not None:
            check(lib.braid_deregister(self._region[0]))
            self._region = self._keep = None

    def __enter__(self) -> "Region":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.deregister()


def key_of(comm: "Comm", memory: Any) -> Key:
    key = Key()
    check(lib.braid_key(comm._comm, memory, key._key))
    return key


def allocate(comm: "Comm", shape: Union[int, Tuple[int, ...]], dtype: Any) -> Any:
    """Comm.empty(). The array's base keeps the communicator, and gives the memory back when the last array over it is gone."""
    if numpy is None:
        raise ImportError("Comm.empty() makes numpy arrays, and numpy is not installed")
    dtype = numpy.dtype(dtype)
    count = shape if isinstance(shape, int) else math.prod(shape)
    memory = lib.braid_alloc(comm._comm, max(1, count * dtype.itemsize))
    if memory == ffi.NULL:
        fail(-12)
    root = comm._root

    def release(memory: Any, root: "Comm" = root) -> None:
        root._release(memory)

    root._blocks += 1
    owner = ffi.gc(memory, release, count * dtype.itemsize)
    return numpy.frombuffer(ffi.buffer(owner, max(1, count * dtype.itemsize)), dtype, count).reshape(shape)
