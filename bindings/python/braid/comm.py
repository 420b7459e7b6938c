# SPDX-License-Identifier: BSD-3-Clause
"""Communicators: the ranks of a job, from init() to finalize()."""
from __future__ import annotations

import atexit
import errno
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Set, Tuple, TypeVar, Union

from braid import structs
from braid._braid import ffi, lib
from braid.buffer import SIZES, TYPE_NAMES, TYPES, Reduction, numpy
from braid.collectives import Collectives
from braid.errors import Error, check, fail, last_error
from braid.memory import allocate
from braid.messages import Messages
from braid.op import SLICE_MS
from braid.vectors import Vectors

if TYPE_CHECKING:
    from braid.parameters import Parameters
    from braid.session import Session

Stats, _stats = structs.tuple_of("Stats", "braid_stats", "Counters of this rank; include/braid/stats.h has the meaning of each.")
Rail, _rail = structs.tuple_of("Rail", "braid_rail_stats", "Counters of a link to a peer; include/braid/stats.h has the meaning of each.")
Peer, _peer = structs.tuple_of("Peer", "braid_peer_stats", "Queues towards a peer; include/braid/stats.h has the meaning of each.")

_open: Set["Comm"] = set()  # what init() has made and nobody has finalized
Result = TypeVar("Result")


def interruptible(call: Callable[[], Result]) -> Result:
    """What a call that may block for long returns, or raises. Only the main thread hears signals, so it waits, in slices, for a thread that calls.
    After a KeyboardInterrupt that thread stays in its call until that ends, with nobody to take the result."""
    if threading.current_thread() is not threading.main_thread():
        return call()
    result: List[Any] = []
    ended = threading.Event()

    def run() -> None:
        try:
            result.append((call(), None))
        except BaseException as error:  # raised again by who waits
            result.append((None, error))
        ended.set()

    threading.Thread(target=run, name="braid call", daemon=True).start()
    while not ended.wait(SLICE_MS / 1000):
        pass
    value, error = result[0]
    if error is not None:
        raise error
    return value


def _dtype_name(kind: int) -> str:
    """numpy's name of a type; bytes where it has none."""
    name = TYPE_NAMES[kind]
    return f"V{SIZES[kind]}" if name.startswith(("bfloat", "float8")) else name


class Comm(Collectives, Vectors, Messages):
    """A group of ranks, and this process's rank in it. braid.init() makes the first one, split() others.

    Collectives are called by all ranks of it, in the same order. A buffer is a numpy array, or anything else that braid/buffer.py takes. With wait=False an
    operation returns an Operation at once; else it returns when it has ended. Any thread may call, and other threads run while one waits.

    It lives until finalize(), at the latest until the program ends. `with braid.init() as comm:` leaves the job in good order, and after an
    exception tells the other ranks what it was.
    """

    def __init__(self, handle: Any, parent: Optional["Comm"] = None, leave: Optional[Callable[[], None]] = None) -> None:
        self._comm = handle
        self._leave = leave
        self._root: Comm = parent._root if parent else self
        self._held: set = set()  # operations that run, or are persistent; they keep their buffers
        self._reductions: List[Reduction] = []
        self._raised: Optional[BaseException] = None  # the first exception of a reduction's function
        self._dependents: Dict[Any, None] = {}  # sessions and parameter servers, in the order in which all ranks made them
        self._blocks = 0  # of the first communicator: pieces of memory, of empty() and parameter servers, that arrays lie in
        self._ending = False
        self.rank: int = lib.braid_rank(handle)  #: of this process, from 0
        self.size: int = lib.braid_size(handle)  #: how many ranks there are
        if not parent:
            _open.add(self)

    # ---- life ------------------------------------------------------------------------------------

    @classmethod
    def borrowed(cls, address: int, leave: Callable[[], None]) -> "Comm":
        """A Comm over a communicator that other C code in this process has made and will end: address is its struct braid_comm *. finalize() does not end
        it but calls leave(), once nothing of this Comm's is in use any more: sessions, operations, arrays of empty(). It must live until then."""
        return cls(ffi.cast("struct braid_comm *", address), leave=leave)

    def finalize(self) -> None:
        """Leaves the job, as braid_finalize() does: ends sessions, waits for operations that are under way, raises the first error. Again: nothing.

        Of a communicator of split() it is collective. Memory of empty() and of parameter servers in which arrays still lie stays until the last of them
        is gone, and only then do the other ranks see that this one has left.
        """
        if self._ending:
            return
        if lib.group_is_open():
            raise Error(errno.EINVAL, "finalize: not within `with braid.group():`, whose operations run at its end")
        if lib.braid_rank(self._comm) == -errno.EDEADLK:  # in the function of a reduction: operations are under way, which keep their buffers
            fail(-errno.EDEADLK)
        first: Optional[Exception] = None
        dependents = list(self._dependents)
        for end in [d.free for d in dependents if not d._views] + [o.wait for o in self._held]:
            try:
                end()
            except Exception as error:
                first = first or error
        self._ending = True
        self._handle, self._comm = self._comm, ffi.NULL
        _open.discard(self)
        for operation in list(self._held):  # persistent, or recorded by another thread's group, which does not start it any more
            lib.braid_op_free(operation._handle)
            operation._freed()
        _late.add(self)
        for dependent in list(self._dependents):  # whose arrays are gone by now
            dependent._let_go()
        rc = self._last()
        if rc and not first:
            first = last_error(rc)
        if first:
            raise first

    def _last(self) -> int:
        """Leaves the job if that was asked for and no array lies in memory that would go."""
        if self not in _late or self._dependents or (self is self._root and self._blocks):
            return 0
        _late.discard(self)
        if self._leave:
            self._leave()
            return 0
        return lib.braid_finalize(self._handle)

    def _release(self, memory: Any) -> None:
        """The last array over a piece of memory is gone."""
        self._blocks -= 1
        if not self._ending:
            lib.braid_free(self._comm, memory)  # EBUSY: a peer is at it; finalize() frees it
        self._last()

    def abort(self, reason: str = "") -> None:
        """Ends every operation of the whole job with ECANCELED, here and at all peers, and tells them the reason. Does not wait."""
        check(lib.braid_comm_abort(self._comm, reason.encode()))

    def error(self) -> Optional[Error]:
        """What has ended the communicator; None: it is well. Does not wait."""
        rc = lib.braid_comm_error(self._comm)
        return last_error(rc) if rc else None

    def split(self, color: Optional[int], key: int = 0) -> Optional["Comm"]:
        """A communicator of all ranks with this color, ordered by key, then by rank. Collective. With color None this rank is in none, and gets None."""
        def call() -> Any:
            out = ffi.new("struct braid_comm **")
            check(lib.braid_comm_split(self._comm, lib.BRAID_UNDEFINED if color is None else color, key, out))
            return out[0]

        if color is not None and color < 0:
            raise ValueError(f"color is {color}; it is at least 0, or None")
        handle = interruptible(call)
        return Comm(handle, self) if handle != ffi.NULL else None

    def group(self, ranks: Sequence[int], tag: int = 0) -> "Comm":
        """A communicator of these ranks, which alone call this, with the same list and tag; rank i of it is ranks[i]."""
        def call() -> Any:
            out = ffi.new("struct braid_comm **")
            check(lib.braid_comm_group(self._comm, list(ranks), len(ranks), tag, out))
            return out[0]

        return Comm(interruptible(call), self)

    def __enter__(self) -> "Comm":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is None:
            self.finalize()
        elif not self._ending:
            _leave(self, error)

    def __reduce__(self) -> Any:
        raise TypeError("a communicator cannot be pickled: it belongs to its process")

    def __repr__(self) -> str:
        return f"<braid.Comm rank {self.rank} of {self.size}{', finalized' if self._ending else ''}>"

    # ---- memory ----------------------------------------------------------------------------------

    def empty(self, shape: Union[int, Tuple[int, ...]], dtype: Any = "f4") -> Any:
        """A numpy array, of zeros, in memory that peers of this host read in place and NICs reach without a copy. It keeps the communicator."""
        return allocate(self, shape, dtype)

    # ---- training --------------------------------------------------------------------------------

    def session(self, layers: Sequence[Any], **options: Any) -> "Session":
        """A gradient session (braid.Session). layers: in the order of the forward pass, the gradients' arrays, or their shapes. Collective."""
        from braid.session import Session

        return Session(self, layers, **options)

    def parameters(self, layers: Sequence[Any], **options: Any) -> "Parameters":
        """Parameter servers (braid.Parameters). layers: the first weights, float32, read on rank 0, or their shapes. Collective."""
        from braid.parameters import Parameters

        return Parameters(self, layers, **options)

    # ---- reductions of the program's own ---------------------------------------------------------

    def reduction(self, function: Any, commutative: bool = True) -> Reduction:
        """A reduction to be given as op=. function(a, b) combines arrays, b[:] = a combined with b, where a is of lower ranks; or the address of a C
        function as include/braid/reduction.h has it. It may run in any thread, and the job stands still meanwhile. On all ranks, in the same order.

        An exception of the function ends the communicator: operations of this rank raise it when they end, and other ranks' end with ECANCELED and its words.
        Those that have ended by then may have a wrong result there."""
        def call(context: Any, a: Any, b: Any, count: int, kind: int) -> None:
            dtype = numpy.dtype(_dtype_name(kind))
            given = numpy.frombuffer(ffi.buffer(a, count * SIZES[kind]), dtype)
            given.flags.writeable = False
            function(given, numpy.frombuffer(ffi.buffer(b, count * SIZES[kind]), dtype))

        def failed(kind: Any, error: BaseException, trace: Any) -> None:
            self._raised = self._raised or error
            lib.reduction_raised()

        if isinstance(function, int):
            held = ffi.cast("braid_reduce_function *", function)
        elif numpy is None:
            raise ImportError("the function of a reduction is given numpy arrays, and numpy is not installed")
        else:
            held = ffi.callback("braid_reduce_function", call, onerror=failed)
        out = ffi.new("enum braid_reduction *")
        check(lib.braid_reduction_create(self._comm, held, ffi.NULL, commutative, out))
        made = Reduction(int(out[0]), held)
        self._reductions.append(made)
        return made

    def free_reduction(self, reduction: Reduction) -> None:
        """Forgets it; operations that were submitted with it are not touched."""
        check(lib.braid_reduction_free(self._comm, reduction.number))

    def fileno(self) -> int:
        """A descriptor that becomes readable when an operation has ended, for event loops of the program's own; braid_comm_fd() says how. The same each time."""
        return check(lib.braid_comm_fd(self._comm))

    # ---- insight ---------------------------------------------------------------------------------

    def stats(self) -> Any:
        """Counters of this rank, as a named tuple: comm.stats().tx_bytes."""
        struct, _ = structs.new("braid_stats")
        check(lib.braid_stats(self._comm, struct))
        return _stats(struct)

    def rails(self) -> List[Any]:
        """Counters of every link to every peer, as named tuples."""
        return structs.rows(lib.braid_rail_stats, self._comm, "braid_rail_stats", _rail)

    def peers(self) -> List[Any]:
        """What waits for each peer, as named tuples."""
        return structs.rows(lib.braid_peer_stats, self._comm, "braid_peer_stats", _peer)

    def name_job(self, name: str) -> None:
        """What people call the job, in `braid top`: up to 63 bytes of UTF-8."""
        check(lib.braid_job_name(self._comm, name.encode()))

    def trace_start(self, file: str) -> str:
        """Records the timeline (doc/trace.md) until trace_stop(), in a file of this rank, whose name is returned: `file`, in which %r is the rank; or the
        one that BRAID_TRACE or an earlier call has opened. Not collective."""
        path = ffi.new("char[4096]")
        check(lib.braid_trace_start(self._comm, os.fsencode(file), path, len(path)))
        return os.fsdecode(ffi.string(path))

    def trace_stop(self) -> None:
        """Ends that. Behind it the file has all that was recorded."""
        check(lib.braid_trace_stop(self._comm))

    def algorithm(self, collective: str, count: int, type: str = "float32") -> str:
        """The algorithm that a collective of that many elements would use or used last: comm.algorithm("allreduce", 1000)."""
        name = lib.braid_algorithm(self._comm, collective.encode(), count, TYPES[type])
        if name == ffi.NULL:
            raise last_error(-22)
        return ffi.string(name).decode()


_late: Set[Comm] = set()  # finalized, but arrays still lie in their memory


def create_id() -> bytes:
    """The id of a new job, in the process that will be its rank 0: to be carried to the others by any means, as a secret, and given to init(id=)."""
    made = ffi.new("struct braid_id *")
    check(lib.braid_id_create(made))
    return bytes(ffi.buffer(made))


def free_id(id: bytes) -> None:
    """Ends an id that create_id() has made here and init() has not been given."""
    check(lib.braid_id_free(_id(id)))


def _id(id: bytes) -> Any:
    made = ffi.new("struct braid_id *")
    if len(id) != ffi.sizeof(made[0]):
        raise ValueError(f"an id has {ffi.sizeof(made[0])} bytes, not {len(id)}")
    ffi.memmove(made, bytes(id), len(id))
    return made


def _id_by_mpi(mpi: Any) -> bytes:
    """One id for all ranks of a communicator of mpi4py. Where rank 0 has none the others get zeros, which init() refuses."""
    buffer = bytearray(ffi.sizeof("struct braid_id"))
    try:
        if mpi.Get_rank() == 0:
            buffer[:] = create_id()
    finally:
        mpi.Bcast(buffer, root=0)
    return bytes(buffer)


def init(*, id: Optional[bytes] = None, rank: Optional[int] = None, size: Optional[int] = None, mpi: Any = None, **config: Any) -> Comm:
    """Joins the job: finds the other ranks and connects to them. Collective.

    id: of create_id() on rank 0, with rank and size. mpi: a communicator of mpi4py, whose ranks and size they are then.

    Under `braid run`, torchrun, mpirun, mpiexec and srun without arguments: everything comes from the environment. The keyword arguments are the fields of
    struct braid_config (include/braid/braid.h), times in seconds: master_addr, master_port, secret, backend, devices, topology, rails, init_timeout, timeout, ...
    """
    if (rank is None) != (size is None):
        raise ValueError("rank and size belong together: give both, or none of them")
    if mpi is not None:
        if id is not None or rank is not None:
            raise ValueError("mpi= says rank, size and id: give none of them besides")
        id, rank, size = _id_by_mpi(mpi), mpi.Get_rank(), mpi.Get_size()

    def call() -> Any:
        settings, keep = structs.new("braid_config", {"rank": rank, "size": size, **config})
        held = _id(id) if id is not None else ffi.NULL
        settings.id = held
        out = ffi.new("struct braid_comm **")
        check(lib.braid_init(settings, out))
        del keep, held
        return out[0]

    return Comm(interruptible(call))


def _leave(comm: Comm, error: Any) -> None:
    """Leaves the job because of an exception, which goes on and says more than any error here."""
    for end in (lambda: comm.abort(f"{type(error).__name__}: {error}"), comm.finalize):
        try:
            end()
        except Exception:
            pass


def _say(comm: Comm, error: Any) -> None:
    """An error at the end of the program, where nobody can hear an exception."""
    print(f"braid: rank {comm.rank} leaves the job: {error}", file=sys.stderr)


@atexit.register
def _at_exit() -> None:
    """Leaves all jobs in good order, or says that an exception has ended the program."""
    error = getattr(sys, "last_value", None)
    for comm in list(_open):
        if error is not None:
            _leave(comm, error)
            continue
        try:
            comm.finalize()
        except Exception as failure:
            _say(comm, failure)
    for comm in sorted(_late, key=lambda comm: comm is comm._root):  # parts before the whole; nobody reads the arrays any more
        for dependent in list(comm._dependents):
            failed = dependent._let_go(at_exit=True)
            if failed and error is None:
                _say(comm, failed)
        comm._root._blocks = 0
        comm._last()


def _forget() -> None:
    """A child of fork() has no part in its parent's jobs."""
    _open.clear()
    _late.clear()


os.register_at_fork(after_in_child=_forget)
