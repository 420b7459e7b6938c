# SPDX-License-Identifier: BSD-3-Clause
"""Messages between two ranks, and memory of others."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, NamedTuple, Optional

from braid import structs
from braid._braid import ffi, lib
from braid.buffer import SIGNALS, span
from braid.collectives import Form, Options, settings
from braid.errors import check
from braid.memory import Key, Region, key_of
from braid.op import SLICE_MS, Operation

if TYPE_CHECKING:
    from typing_extensions import Unpack

_PUT_NOTIFY, _PUT_SIGNAL, _FLUSH = Form("put_notify"), Form("put_signal"), Form("flush")
_RECV_ANY, _RECV_CLAIMED = Form("recv_any"), Form("recv_claimed")
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


class Received(NamedTuple):
    """A message, as a receive or a probe finds it."""

    bytes: int  #: its length
    peer: int  #: its sender
    tag: int


class Notification(NamedTuple):
    """What another rank's put_notify() has brought."""

    value: int
    peer: int  #: who has put


class Claimed:
    """A message that claim() has taken: recv() alone can receive it, and must."""

    def __init__(self, comm: Any, struct: Any) -> None:
        self._comm, self._struct = comm, struct
        self.message = _received(struct)  #: what it is

    def recv(self, x: Any, **options: "Unpack[MessageOptions]") -> Optional[Operation]:
        """Receives it into x, which has as many bytes."""
        address, size, keep = _bytes(x, True)
        if size != self._struct.bytes:
            raise ValueError(f"the message has {self._struct.bytes} bytes, and the buffer {size}")
        return self._comm._run(_RECV_CLAIMED, (address, self._struct), (keep, self._struct), **options)


def _received(struct: Any) -> Received:
    return Received(struct.bytes, struct.peer, struct.tag)


def _matching(tag: Optional[int], options: Dict[str, Any]) -> Dict[str, Any]:
    """Options for a message of this tag; None: of any."""
    return {**options, "tag_ignore": lib.BRAID_ANY_TAG} if tag is None else {**options, "tag": tag}


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

    def recv_any(self, x: Any, peer: Optional[int] = None, *, tag: Optional[int] = None, **options: "Unpack[MessageOptions]") -> Any:
        """Receives one message of at most the bytes of x, from any rank and of any tag, or from this one, of this one; what it was, as Received. With
        wait=False that is what the Operation's wait() returns. Error with EMSGSIZE: it is longer, and still there."""
        address, size, keep = _bytes(x, True)
        struct, _ = structs.new("braid_received")
        arguments = address, size, lib.BRAID_ANY_SOURCE if peer is None else peer
        return self._run(_RECV_ANY, arguments, (keep, struct), behind=(struct,), value=lambda: _received(struct), **_matching(tag, options))

    def probe(self, peer: Optional[int] = None, *, tag: Optional[int] = None, timeout: Optional[float] = 0) -> Optional[Received]:
        """The message that recv_any() would get, or None: there is none. timeout: seconds to wait for one; None: until one comes."""
        struct = self._look(lib.braid_probe, peer, tag, timeout)
        return _received(struct) if struct is not None else None

    def claim(self, peer: Optional[int] = None, *, tag: Optional[int] = None, timeout: Optional[float] = 0) -> Optional[Claimed]:
        """The same, and takes the message out: no other thread gets it. To be received by recv() of what it returns."""
        struct = self._look(lib.braid_claim, peer, tag, timeout)
        return Claimed(self, struct) if struct is not None else None

    def _look(self, function: Any, peer: Optional[int], tag: Optional[int], timeout: Optional[float]) -> Any:
        struct, _ = structs.new("braid_received")
        source = lib.BRAID_ANY_SOURCE if peer is None else peer
        found = self._sliced(lambda ms, found: function(self._comm, source, settings(_matching(tag, {})), ms, found, struct), timeout)
        return struct if found else None

    @staticmethod
    def _sliced(call: Callable[[int, Any], int], timeout: Optional[float]) -> bool:
        """Has it found something? In slices, so that signals are heard."""
        found, left = ffi.new("int *"), None if timeout is None else max(0, round(timeout * 1000))
        while True:
            ms = SLICE_MS if left is None else min(SLICE_MS, left)
            check(call(ms, found))
            if left is not None:
                left -= ms
            if found[0] or (left is not None and left <= 0):
                return bool(found[0])

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

    def put_notify(self, x: Any, key: Key, offset: int = 0, *, value: int, **options: "Unpack[MessageOptions]") -> Optional[Operation]:
        """put(), and once all bytes stand there the target's notification() gets the value, exactly once."""
        address, size, keep = _bytes(x, False)
        return self._run(_PUT_NOTIFY, (address, size, key._key, offset, value), (keep, key), **options)

    def notification(self, timeout: Optional[float] = 0) -> Optional[Notification]:
        """Takes the oldest notification that has come, or None: there is none. timeout: seconds to wait for one; None: until one comes."""
        struct, _ = structs.new("braid_notification")
        found = self._sliced(lambda ms, found: lib.braid_notification(self._comm, ms, found, struct), timeout)
        return Notification(struct.value, struct.peer) if found else None

    def put_signal(self, x: Any, key: Key, offset: int = 0, *, signal: Key, signal_offset: int = 0, value: int = 1, how: str = "add",
                   **options: "Unpack[MessageOptions]") -> Optional[Operation]:
        """put(), and once all bytes stand there the 64-bit number at byte `signal_offset` of the region `signal` changes: how "add" or "set"."""
        address, size, keep = _bytes(x, False)
        arguments = address, size, key._key, offset, signal._key, signal_offset, SIGNALS[how], value % 2**64
        return self._run(_PUT_SIGNAL, arguments, (keep, key, signal), **options)

    def flush(self, peer: Optional[int] = None, **options: "Unpack[MessageOptions]") -> Optional[Operation]:
        """Ends when every put, get and atomic to this peer, or to any, that was submitted before has ended."""
        return self._run(_FLUSH, (lib.BRAID_ANY_SOURCE if peer is None else peer,), None, **options)

    def get(self, x: Any, key: Key, offset: int = 0, **options: "Unpack[MessageOptions]") -> Optional[Operation]:
        """Reads the remote region, from byte `offset` on, into x."""
        address, size, keep = _bytes(x, True)
        return self._run(_GET, (address, size, key._key, offset), (keep, key), **options)

    def fetch_add(self, key: Key, offset: int, value: int, **options: "Unpack[MessageOptions]") -> Any:
        """Adds value to the 64-bit number at byte `offset` of the remote region, modulo 2^64, exactly once and atomically; what stood there before."""
        before = ffi.new("uint64_t *")
        return self._run(_FETCH_ADD, (int(ffi.cast("uintptr_t", before)), value % 2**64, key._key, offset), (before, key), value=lambda: before[0], **options)

    def compare_swap(self, key: Key, offset: int, compare: int, value: int, **options: "Unpack[MessageOptions]") -> Any:
        """Writes value there if `compare` stands there; what stood there before."""
        before = ffi.new("uint64_t *")
        return self._run(_COMPARE_SWAP, (int(ffi.cast("uintptr_t", before)), compare % 2**64, value % 2**64, key._key, offset), (before, key), value=lambda: before[0], **options)
