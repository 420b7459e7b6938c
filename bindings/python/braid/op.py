# SPDX-License-Identifier: BSD-3-Clause
"""Operations that are under way, and how a thread waits for one."""
from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any, Callable, Generator, Iterable, Optional

from braid._braid import ffi, lib
from braid.awaiting import future_of
from braid.buffer import waits_of
from braid.errors import Error, check, fail, last_error

if TYPE_CHECKING:
    from braid.comm import Comm

# The longest that Python hears no signal: handlers, Ctrl-C's among them, run between two slices of a wait.
SLICE_MS = 100
# What native.c returns; it says of each what it means.
RUNS, IN_GROUP, NESTED, RAISED, REFUSED = 1, 2, 3, 4, 1000


def wait_any(operations: Iterable["Operation"], timeout: Optional[float] = None) -> "Operation":
    """The first of these operations that has ended, well or not: its own wait() says, and returns at once. timeout as of Operation.wait()."""
    listed = list(operations)
    for operation in listed:
        if not operation._runs:
            return operation
    handles, index = ffi.new("struct braid_op *[]", [operation._handle for operation in listed]), ffi.new("size_t *")
    left = None if timeout is None else max(0, round(timeout * 1000))
    while True:
        ms = SLICE_MS if left is None else min(SLICE_MS, left)
        rc = lib.braid_wait_any(handles, len(listed), index, ms)
        if index[0] < len(listed):
            listed[index[0]]._ended(rc)
            return listed[index[0]]
        if rc != -errno.ETIMEDOUT:
            raise last_error(rc) if rc else ValueError("there is no operation to wait for")
        if left is not None:
            left -= ms
            if left <= 0:
                fail(rc)


class group:
    """`with braid.group():` records this thread's operations, all with wait=False, and submits them together at its end, in the order of the calls. They
    can be waited for then; within the group wait() raises Error with EINVAL, and a call that would block ValueError."""

    def __enter__(self) -> None:
        check(lib.group_start())

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        check(lib.group_end())


class Operation:
    """An operation that was submitted with wait=False, or prepared with persistent=True.

    It keeps its buffers and its communicator alive until it has ended, also if the program forgets it. Wait for it with wait() or with `await`, or
    ask with test(). A persistent one is begun by start(), each time, and given back by free() or with the communicator.
    """

    __slots__ = ("_comm", "_handle", "_completion", "_keep", "_value", "_persistent", "_runs", "_error", "_waits")

    def __init__(self, comm: "Comm", begun: Any, keep: Any, value: Optional[Callable[[], Any]] = None, persistent: bool = False) -> None:
        self._comm, self._handle, self._keep, self._value = comm, begun.op, keep, value
        self._completion = begun.completion if begun.completion != ffi.NULL else None
        self._persistent, self._runs = persistent, not persistent
        self._error: Optional[BaseException] = None
        self._waits = waits_of(keep) if persistent else ()  # before each start
        comm._held.add(self)

    def wait(self, timeout: Optional[float] = None) -> Any:
        """Returns when the operation has ended, what the call would have returned, and raises its error. timeout in seconds: after it Error with ETIMEDOUT, and the operation goes on;
        without it the operation's own deadline counts. Other threads run meanwhile, and signal handlers do. Waiting again returns at once."""
        left = None if timeout is None else max(0, round(timeout * 1000))
        while self._runs:
            ms = SLICE_MS if left is None else min(SLICE_MS, left)
            rc = lib.op_wait(self._handle, ms)
            if rc >= REFUSED:
                fail(REFUSED - rc)
            if rc != RUNS:
                self._ended(rc)
            elif left is not None:
                left -= ms
                if left <= 0:
                    fail(-errno.ETIMEDOUT)
        if self._error:
            raise self._error
        return self._value() if self._value else None

    def test(self) -> bool:
        """Has it ended? Raises its error if it ended with one. Does not wait."""
        if self._runs:
            rc = lib.op_test(self._handle)
            if rc == RUNS or rc >= REFUSED:
                return False
            self._ended(rc)
        if self._error:
            raise self._error
        return True

    def _ended(self, rc: int) -> None:
        self._error = last_error(rc) if rc < 0 else self._comm._reduced()
        self._runs = False
        if not self._persistent:
            self._freed()

    def _freed(self) -> None:
        if self._completion is not None:
            lib.op_forget(self._completion)
        self._handle = self._completion = self._keep = None
        self._waits = ()
        self._comm._held.discard(self)

    def start(self) -> "Operation":
        """Begins a persistent operation, which must not be running; returns it. Waits before, as calls do, for the streams of buffers on GPUs."""
        if not self._persistent or self._handle is None:
            raise ValueError("only an operation made with persistent=True, before its free(), can be started")
        for wait in self._waits:
            wait()
        before = self._runs
        if not before:
            lib.op_begins(self._completion)
        self._error, self._runs = None, True  # before the call, behind which a signal's handler may raise
        rc = lib.braid_start(self._handle)
        if rc < 0:
            self._runs = before
            fail(rc)
        return self

    def free(self) -> None:
        """Gives back a persistent operation; waits for its end first."""
        if not self._persistent:
            raise ValueError("an operation is given back by its end; only one made with persistent=True by free()")
        if self._handle is not None:
            try:
                self.wait()
            finally:
                if not self._runs:
                    check(lib.braid_op_free(self._handle))
                    self._freed()

    def __await__(self) -> Generator[Any, None, None]:
        """Waits without holding up the event loop."""
        return future_of(self).__await__()

    def __reduce__(self) -> Any:
        raise TypeError("an operation cannot be pickled")
