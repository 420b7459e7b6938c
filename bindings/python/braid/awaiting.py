# SPDX-License-Identifier: BSD-3-Clause
"""`await operation`. braid's `done` counts up an event descriptor, from whatever thread and without the interpreter's lock (native.c); one thread of
this module reads it and asks the event loops to look at the operations that they wait for. An operation is looked at by its loop alone."""
from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Any, Dict, List, Tuple

from braid._braid import lib

if TYPE_CHECKING:
    from braid.op import Operation

_waiting: Dict[Any, List[Tuple["Operation", Any]]] = {}  # by event loop
_lock = threading.Lock()
_thread: Any = None


def _begin() -> None:
    """The thread, with the first operation that is awaited in a process."""
    global _thread
    if _thread is None:
        descriptor = lib.await_open()
        if descriptor < 0:
            raise OSError(-descriptor, os.strerror(-descriptor))
        _thread = threading.Thread(target=_tell, args=(descriptor,), name="braid await", daemon=True)
        _thread.start()


def _tell(descriptor: int) -> None:
    while True:
        os.read(descriptor, 8)
        for loop in list(_waiting):
            try:
                loop.call_soon_threadsafe(_look, loop)
            except RuntimeError:  # it has been closed
                _waiting.pop(loop, None)


def _look(loop: Any) -> None:
    """In the loop's thread: which of its operations have ended?"""
    waiting = _waiting.get(loop, [])  # stays where _tell() sees it: what ends meanwhile is looked at once more
    for entry in list(waiting):
        operation, future = entry
        try:
            if not future.done():  # cancelled: the operation goes on
                if operation._runs and not lib.op_has_ended(operation._completion):
                    continue
                future.set_result(operation.wait())
        except Exception as error:
            future.set_exception(error)
        waiting.remove(entry)
    if not waiting:
        _waiting.pop(loop, None)


def future_of(operation: "Operation") -> Any:
    """A future of the running loop that ends with the operation."""
    loop = asyncio.get_running_loop()
    with _lock:
        _begin()
    future = loop.create_future()
    _waiting.setdefault(loop, []).append((operation, future))
    # It may have ended before anybody was there to be told.
    _look(loop)
    return future


def _forget() -> None:
    global _thread
    _thread = None
    _waiting.clear()


os.register_at_fork(after_in_child=_forget)
