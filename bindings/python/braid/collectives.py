# SPDX-License-Identifier: BSD-3-Clause
"""The collective operations of a communicator."""
from __future__ import annotations

import sys
from itertools import count as counter
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Tuple, TypedDict
from weakref import WeakKeyDictionary

from braid import structs
from braid._braid import ffi, lib
from braid.buffer import REDUCTIONS, SIZES, Span, span, stream_handle
from braid.errors import check
from braid.op import IN_GROUP, NESTED, RAISED, RUNS, SLICE_MS, Operation

if TYPE_CHECKING:
    from typing_extensions import Unpack

NULL = ffi.NULL


class Options(TypedDict, total=False):
    """What every operation takes, as struct braid_options of include/braid/braid.h."""

    priority: int  #: larger is more urgent; default 0
    algorithm: str  #: "ring", "direct", ...; the same on every rank
    order: str  #: "ranks": values are combined in the order of the ranks, the same bits whatever size and algorithm
    timeout: float  #: deadline in seconds, from submission; default: the communicator's
    all_on_gpu: int  #: allreduce with stream=: 1 promises that all ranks call it so, with memory of a GPU (include/braid/gpu.h)
    title: str  #: what the timeline (doc/trace.md) calls it; up to 63 letters


class CollectiveOptions(Options, total=False):
    """What a collective takes besides its buffers."""

    type: str  #: of the elements, for types that Python has not: "bfloat16" of an array of uint16
    wait: bool  #: False: returns an Operation at once
    persistent: bool  #: True: prepares an Operation that start() begins, as often as wanted
    stream: Any  #: a CUDA stream, in whose order it runs; returns at once. The buffers must live until the stream has passed. Without: the call waits for the streams of its buffers (buffer.py)


_settings: Dict[Any, Any] = {}  # structs of options, as programs use few different ones
_strings: Any = WeakKeyDictionary()  # what they point to, which lives as long as they do


def settings(options: Dict[str, Any], wait: bool = False) -> Any:
    """struct braid_options of keyword arguments, or NULL. wait: for an operation that the call waits for, for a slice of time."""
    if not options:
        return _WAIT if wait else NULL
    key = wait, *options.items()
    made = _settings.get(key)  # other threads may clear it meanwhile
    if made is None:
        made = _made(options, wait)
        if len(_settings) >= 256:
            _settings.clear()
        _settings[key] = made
    return made


def _made(options: Dict[str, Any], wait: bool) -> Any:
    made, strings = structs.new("braid_options", options)
    made.wait_ms = SLICE_MS if wait else 0
    _strings[made] = strings
    return made


_WAIT = _made({}, True)  # of a call without options
next_ticket = counter(1).__next__  # a number for each call, by which native.c knows what it has begun


class Form:
    """The functions of one kind of operation: plain, persistent, in a stream."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.call = getattr(lib, f"call_{name}")
        self.init = getattr(lib, f"call_{name}_init", None)
        self.on_stream = getattr(lib, f"call_{name}_on_stream", None)


_ALLREDUCE, _REDUCE_SCATTER, _ALLGATHER = Form("allreduce"), Form("reduce_scatter"), Form("allgather")
_BROADCAST, _REDUCE, _ALLTOALL = Form("broadcast"), Form("reduce"), Form("alltoall")
_SCAN, _EXSCAN = Form("scan"), Form("exscan")
_GATHER, _SCATTER, _BARRIER = Form("gather"), Form("scatter"), Form("barrier")
_call_allreduce = _ALLREDUCE.call


class Collectives:
    """Shapes are those of include/braid/braid.h. Where a call has two buffers, the second is written, and one given alone is both: its place in
    the longer buffer is that of the rank. Both have elements of one type. Nothing is copied that is not sent."""

    rank: int
    size: int
    _comm: Any
    _held: set
    _raised: Optional[BaseException]

    def allreduce(self, x: Any, out: Any = None, op: str = "sum", *, wait: bool = True, type: Optional[str] = None,
                  **options: "Unpack[CollectiveOptions]") -> Optional[Operation]:
        """out[i] = reduction over all ranks of x[i]; without out in place. op: "sum", "prod", "min", "max", "avg" and the others of types.h."""
        address, count, kind, keep = span(x, out is None, type, options)
        result = address
        if out is not None:
            result, *_ = found = span(out, True, type, options)
            agree(found, count, kind, "out")
            keep = keep, found[3]
        if wait and not options:
            ticket = next_ticket()
            try:
                rc = _call_allreduce(False, ticket, self._comm, address, result, count, kind, REDUCTIONS[op], _WAIT)
                return None if rc == 0 else self._finish(ticket, rc, True, keep)
            except BaseException:
                self._adopt(ticket, keep)
                raise
        return self._run(_ALLREDUCE, (address, result, count, kind, REDUCTIONS[op]), keep, wait=wait, **options)

    def reduce_scatter(self, x: Any, out: Any = None, op: str = "sum", *, type: Optional[str] = None,
                       **options: "Unpack[CollectiveOptions]") -> Optional[Operation]:
        """x: a block for each rank; out: this rank's block of the reduction. Without out it is left in x, at this rank's block."""
        whole = span(x, out is None, type, options)
        count, block = self._block(whole, "x")
        found = span(out, True, type, options) if out is not None else (block, count, whole[2], None)
        agree(found, count, whole[2], "out")
        return self._run(_REDUCE_SCATTER, (whole[0], found[0], count, whole[2], REDUCTIONS[op]), (whole[3], found[3]), **options)

    def allgather(self, x: Any, out: Any = None, *, type: Optional[str] = None, **options: "Unpack[CollectiveOptions]") -> Optional[Operation]:
        """out: the blocks x of all ranks, in their order. Without out x is that, with this rank's block in its place."""
        whole = span(x if out is None else out, True, type, options)
        count, block = self._block(whole, "out")
        found = span(x, False, type, options) if out is not None else (block, count, whole[2], None)
        agree(found, count, whole[2], "x")
        return self._run(_ALLGATHER, (found[0], whole[0], count, whole[2]), (whole[3], found[3]), **options)

    def broadcast(self, x: Any, out: Any = None, *, root: int = 0, type: Optional[str] = None,
                  **options: "Unpack[CollectiveOptions]") -> Optional[Operation]:
        """out, or without it x, becomes the x of root. x may be None where out is given and this rank is not root."""
        is_root = self.rank == root
        target = span(x if out is None else out, not (out is None and is_root), type, options)
        source = target
        if out is not None and is_root:
            source = span(x, False, type, options)
            agree(source, target[1], target[2], "x")
        return self._run(_BROADCAST, (source[0], target[0], target[1], target[2], root), (source[3], target[3]), **options)

    def reduce(self, x: Any, out: Any = None, op: str = "sum", *, root: int = 0, type: Optional[str] = None,
               **options: "Unpack[CollectiveOptions]") -> Optional[Operation]:
        """out on root, without it x there, becomes the reduction of all x; on other ranks out is not looked at."""
        is_root = self.rank == root
        address, count, kind, keep = span(x, is_root and out is None, type, options)
        result: Any = (address if is_root else 0, count, kind, None)
        if is_root and out is not None:
            result = span(out, True, type, options)
            agree(result, count, kind, "out")
        return self._run(_REDUCE, (address, result[0], count, kind, REDUCTIONS[op], root), (keep, result[3]), **options)

    def alltoall(self, x: Any, out: Any = None, *, type: Optional[str] = None, **options: "Unpack[CollectiveOptions]") -> Optional[Operation]:
        """x: block r for rank r; out, or without it x: block r from rank r."""
        source = span(x, out is None, type, options)
        count, _ = self._block(source, "x")
        target = source if out is None else span(out, True, type, options)
        agree(target, source[1], source[2], "out")
        return self._run(_ALLTOALL, (source[0], target[0], count, source[2]), (source[3], target[3]), **options)

    def gather(self, x: Any, out: Any = None, *, root: int = 0, type: Optional[str] = None,
               **options: "Unpack[CollectiveOptions]") -> Optional[Operation]:
        """out on root: the blocks x of all ranks. Without out x is that on root, with root's block in its place. Elsewhere out is not looked at."""
        if self.rank != root:
            address, count, kind, keep = span(x, False, type, options)
            return self._run(_GATHER, (address, 0, count, kind, root), keep, **options)
        whole = span(x if out is None else out, True, type, options)
        count, block = self._block(whole, "out")
        found = span(x, False, type, options) if out is not None else (block, count, whole[2], None)
        agree(found, count, whole[2], "x")
        return self._run(_GATHER, (found[0], whole[0], count, whole[2], root), (whole[3], found[3]), **options)

    def scatter(self, x: Any, out: Any = None, *, root: int = 0, type: Optional[str] = None,
                **options: "Unpack[CollectiveOptions]") -> Optional[Operation]:
        """x on root: block r for rank r; out: this rank's block. Without out root's stays where it is in x, and elsewhere x is what is written."""
        if self.rank != root:
            address, count, kind, keep = span(x if out is None else out, True, type, options)
            return self._run(_SCATTER, (0, address, count, kind, root), keep, **options)
        whole = span(x, False, type, options)
        count, block = self._block(whole, "x")
        found = span(out, True, type, options) if out is not None else (block, count, whole[2], None)
        agree(found, count, whole[2], "out")
        return self._run(_SCATTER, (whole[0], found[0], count, whole[2], root), (whole[3], found[3]), **options)

    def scan(self, x: Any, out: Any = None, op: str = "sum", *, type: Optional[str] = None,
             **options: "Unpack[CollectiveOptions]") -> Optional[Operation]:
        """out, or without it x, becomes the reduction of the x of ranks 0 to `rank`, in this order."""
        return self._prefix(_SCAN, x, out, op, type, options)

    def exscan(self, x: Any, out: Any = None, op: str = "sum", *, type: Optional[str] = None,
               **options: "Unpack[CollectiveOptions]") -> Optional[Operation]:
        """The same of ranks 0 to `rank` - 1; rank 0's out is not written."""
        return self._prefix(_EXSCAN, x, out, op, type, options)

    def _prefix(self, form: Form, x: Any, out: Any, op: str, type: Optional[str], options: Any) -> Optional[Operation]:
        address, count, kind, keep = span(x, out is None, type, options)
        found = (address, count, kind, None) if out is None else span(out, True, type, options)
        agree(found, count, kind, "out")
        return self._run(form, (address, found[0], count, kind, REDUCTIONS[op]), (keep, found[3]), **options)

    def barrier(self, **options: "Unpack[CollectiveOptions]") -> Optional[Operation]:
        """Ends on no rank before every rank has called it."""
        return self._run(_BARRIER, (), None, **options)

    # ---- how an operation runs --------------------------------------------------------------------

    def _run(self, form: Form, arguments: Tuple[Any, ...], keep: Any, behind: Tuple[Any, ...] = (), wait: bool = True, persistent: bool = False, stream: Any = None,
             value: Optional[Callable[[], Any]] = None, **options: Any) -> Any:
        """An operation of this form, in the way that was asked for. keep: what must live until it has ended. behind: arguments behind the options. value: what it returns then."""
        if stream is not None or persistent:
            function = form.init if stream is None else form.on_stream
            if function is None:
                raise TypeError(f"{form.name} has no form {'in a stream' if stream is not None else 'that is persistent'}")
            if stream is not None:
                check(function(False, 0, self._comm, *arguments, settings(options), stream_handle(stream)))
                return None
        ticket = next_ticket()
        try:
            if persistent:
                rc, wait = function(True, ticket, self._comm, *arguments, settings(options)), False
            else:
                rc = form.call(not wait, ticket, self._comm, *arguments, settings(options, wait), *behind)
            return self._finish(ticket, rc, wait, keep, value, persistent)
        except BaseException:
            self._adopt(ticket, keep, value, persistent)
            raise

    def _finish(self, ticket: int, rc: int, wait: bool, keep: Any, value: Optional[Callable[[], Any]] = None, persistent: bool = False) -> Any:
        """Behind call_NAME() of native.c: an error, the end, or an operation that goes on."""
        if rc == RUNS:
            operation = Operation(self, lib.op_begun(ticket), keep, value, persistent)
            lib.op_adopted(ticket)
            if len(self._held) >= 64:
                self._reap()
            return operation.wait() if wait else operation
        if rc == IN_GROUP:
            raise ValueError("in `with braid.group():` every call has wait=False: what it returns can be waited for behind the group")
        if rc == NESTED:
            raise RecursionError("too many calls have been interrupted by signal handlers that call braid, one in the other")
        if rc == RAISED:
            error = self._reduced()
            if error:
                raise error
        check(rc)
        return value() if value else None

    def _reduced(self) -> Optional[BaseException]:
        """An operation has ended: the exception of a reduction's function, if there was one. All ranks are told then, as the result is wrong."""
        if self._raised is not None:
            lib.braid_comm_abort(self._comm, f"a reduction raised {type(self._raised).__name__}: {self._raised}".encode())
        return self._raised

    def _adopt(self, ticket: int, keep: Any, value: Optional[Callable[[], Any]] = None, persistent: bool = False) -> None:
        """A call ends with an exception. If that is of a signal's handler, which runs as soon as native.c has returned, the operation goes on, and has to
        keep its buffers."""
        begun = lib.op_begun(ticket)
        if begun != NULL:
            if all(operation._handle != begun.op for operation in list(self._held)):  # it may have come so far
                Operation(self, begun, keep, value, persistent)
            lib.op_adopted(ticket)

    def _reap(self) -> None:
        """Lets go of operations that have ended and that the program has forgotten: nobody but _held, the list and the loop knows them."""
        for operation in list(self._held):
            if sys.getrefcount(operation) <= 4 and not operation._persistent:
                try:
                    operation.test()
                except Exception:
                    pass  # the communicator has failed, as its next call says

    def _block(self, whole: Span, what: str) -> Tuple[int, int]:
        """How many elements a rank's block of a buffer of all ranks has, and where this rank's begins."""
        if whole[1] % self.size:
            raise ValueError(f"{what} has {whole[1]} elements, which do not divide among {self.size} ranks")
        count = whole[1] // self.size
        return count, whole[0] + self.rank * count * SIZES[whole[2]]


def agree(found: Span, count: int, kind: int, what: str) -> None:
    """Has the other buffer elements of this type, and as many as it must?"""
    if found[2] != kind:
        raise ValueError(f"{what} has elements of another type than the other buffer")
    if found[1] != count:
        raise ValueError(f"{what} has {found[1]} elements, and must have {count}")
