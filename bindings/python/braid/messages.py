# SPDX-License-Identifier: BSD-3-Clause
"""Messages between two ranks, and memory of others."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from braid._braid import ffi
from braid.buffer import SIZES, span
from braid.collectives import Form, Options
from braid.memory import Key, Region, key_of
from braid.op import Operation

if TYPE_CHECKING:
    from typing_extensions import Unpack

_SEND, _RECV, _PUT, _GET = Form("send"), Form("recv"), Form("put"), Form("get")
_FETCH_ADD, _COMPARE_SWAP = Form("fetch_add"), Form("compare_swap")


class MessageOptions(Options, total=False):
    """What a message takes besides."""

    wait: bool  #: False: returns an Operation at once
    tag: int  #: messages match by (peer, tag), in order within a tag


def _bytes(x: Any, written: bool) -> Any:
    """(address, bytes, what keeps it): of a message the type does not matter."""
    address, count, _, keep = span(x, written, "uint8")
    return address, count, keep


class Messages:
    """Any buffer is a message, whatever the type of its elements; both sides give as many bytes."""

    _comm: Any

    def send(self, x: Any, peer: int, **options: "Unpack[MessageOptions]") -> Optional[Operation]:
        """Sends x to the rank `peer`, whose recv() has the same tag. Ends when x may be used again."""
        address, size, keep = _bytes(x, False)
        return self._run(_SEND, (address, size, peer), keep, **options)

    def recv(self, x: Any, peer: int, **options: "Unpack[MessageOptions]") -> Optional[Operation]:
        """Receives into x, all of it, from the rank `peer`."""
        address, size, keep = _bytes(x, True)
        return self._run(_RECV, (address, size, peer), keep, **options)

    def register(self, x: Any) -> Region:
        """Memory that other ranks put to and get from; arrays of empty() need no registration."""
        return Region(self, x)

    def key(self, x: Any) -> Key:
        """The key of the registered buffer, or array of empty(), that x lies in. Offsets count from the start of that."""
        return key_of(self, ffi.cast("void *", _bytes(x, False)[0]))

    def put(self, x: Any, key: Key, offset: int = 0, **options: "Unpack[MessageOptions]") -> Optional[Operation]:
        """Writes x to the remote region, from byte `offset` on; ends when it stands there."""
        address, size, keep = _bytes(x, False)
        return self._run(_PUT, (address, size, key._key, offset), (keep, key), **options)

    def get(self, x: Any, key: Key, offset: int = 0, **options: "Unpack[MessageOptions]") -> Optional[Operation]:
        """Reads the remote region, from byte `offset` on, into x."""
        address, size, keep = _bytes(x, True)
        return self._run(_GET, (address, size, key._key, offset), (keep, key), **options)

    def fetch_add(self, key: Key, offset: int, value: int, **options: "Unpack[Options]") -> int:
        """Adds value to the 64-bit number at byte `offset` of the remote region, modulo 2^64, exactly once and atomically; what stood there before."""
        before = ffi.new("uint64_t *")
        self._run(_FETCH_ADD, (int(ffi.cast("uintptr_t", before)), value % 2**64, key._key, offset), (before, key), **options)
        return before[0]

    def compare_swap(self, key: Key, offset: int, compare: int, value: int, **options: "Unpack[Options]") -> int:
        """Writes value there if `compare` stands there; what stood there before."""
        before = ffi.new("uint64_t *")
        self._run(_COMPARE_SWAP, (int(ffi.cast("uintptr_t", before)), compare % 2**64, value % 2**64, key._key, offset), (before, key), **options)
        return before[0]
