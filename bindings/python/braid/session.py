# SPDX-License-Identifier: BSD-3-Clause
"""Gradient sessions: all-reduces of gradients that hide behind the computation (include/braid/training.h, doc/training.md)."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, List, Sequence

from braid import structs
from braid._braid import ffi, lib
from braid.buffer import DTYPES, TYPE_NAMES, numpy, span
from braid.errors import check
from braid.op import SLICE_MS

if TYPE_CHECKING:
    from braid.comm import Comm

Report, _report = structs.tuple_of("Report", "braid_session_report", "What a session has measured and predicts; include/braid/training.h has each field.")


def shapes_of(layers: Sequence[Any]) -> bool:
    """Are these shapes (True), or arrays (False)? One kind for all."""
    kinds = {isinstance(layer, (int, tuple)) for layer in layers}
    if len(kinds) != 1:
        raise TypeError("layers: give the shapes of all layers, or arrays for all")
    return kinds.pop()


class Session:
    """The gradients of a network's layers, which the ranks add up while they compute.

        for l in range(n): session.wait(l); ...update and forward...
        session.step()
        for l in reversed(range(n)): ...backward into session.gradients[l]...; session.ready(l)

    options: policy, type, reduction, priority, warmup, replan, bucket_bytes, a, b, algorithm, order, as struct braid_session_options. names: of the layers, for messages and
    the timeline. Gradients whose shapes were given lie side
    by side, so that merged layers need no copy; arrays that were given are kept alive. One thread at a time uses a session.
    """

    _views = 0  # no arrays lie in memory that free() would give back

    def __init__(self, comm: "Comm", layers: Sequence[Any], names: Sequence[str] = (), **options: Any) -> None:
        from braid.comm import interruptible

        if shapes_of(layers):
            dtype = numpy.dtype(options.get("type", "float32"))
            sizes = [layer if isinstance(layer, int) else math.prod(layer) for layer in layers]
            memory, at = comm.empty(sum(sizes), dtype), 0
            self.gradients: List[Any] = []  #: of the layers, in the order of the forward pass
            for layer, size in zip(layers, sizes):
                self.gradients.append(memory[at : at + size].reshape(layer))
                at += size
        else:
            self.gradients = list(layers)
        spans = [span(gradient, True, options.get("type") if not shapes_of(layers) else None) for gradient in self.gradients]
        options.setdefault("type", TYPE_NAMES[spans[0][2]])
        structure = ffi.new("struct braid_layer[]", len(spans))
        for layer, (address, count, kind, _) in zip(structure, spans):
            if kind != spans[0][2]:
                raise ValueError("all gradients of a session have elements of one type")
            layer.gradient, layer.count = ffi.cast("void *", address), count
        settings, self._keep = structs.new("braid_session_options", options)
        self._comm, self._spans = comm, spans
        out = ffi.new("struct braid_session **")
        interruptible(lambda: check(lib.braid_session_create(comm._comm, structure, len(spans), settings, out)))
        self._session, self._done = out[0], ffi.new("int *")
        comm._dependents[self] = None
        for layer, name in enumerate(names):
            check(lib.braid_session_name(self._session, layer, name.encode()))

    def ready(self, layer: int) -> None:
        """The backward pass has written the layer's gradient: it is the session's until wait(layer) or step(). Does not wait."""
        check(lib.braid_gradient_ready(self._session, layer))

    def unused(self, layer: int = lib.BRAID_GRADIENT_REST) -> None:
        """This rank has no gradient of the layer in this iteration, and adds zeros; without a layer: of all that are not ready yet."""
        check(lib.braid_gradient_unused(self._session, layer))

    def wait(self, layer: int) -> None:
        """Returns when the layer's gradient is the sum over all ranks and belongs to the program again. Signal handlers run meanwhile."""
        done = self._done
        done[0] = 0
        while not done[0]:
            check(lib.braid_gradient_test(self._session, layer, SLICE_MS, done))

    def test(self, layer: int) -> bool:
        """Is it, by now? Does not wait."""
        check(lib.braid_gradient_test(self._session, layer, 0, self._done))
        return bool(self._done[0])

    def step(self) -> None:
        """Ends an iteration: waits for all gradients that nobody has waited for. Now and then it plans anew."""
        check(lib.braid_session_step(self._session))

    def report(self) -> Any:
        """What was measured since the last plan, and what was predicted, as a named tuple."""
        struct, _ = structs.new("braid_session_report")
        check(lib.braid_session_report(self._session, struct))
        return _report(struct)

    def groups(self) -> List[int]:
        """The first layer of each group of layers that travel together."""
        room = ffi.new("int[]", len(self._spans))
        return list(room[0 : check(lib.braid_session_groups(self._session, room, len(self._spans)))])

    def free(self) -> None:
        """Waits for what is under way and ends the session; the gradients stay."""
        session, self._session = self._session, ffi.NULL
        self._comm._dependents.pop(self, None)
        check(lib.braid_session_free(session))

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is None:
            self.free()
