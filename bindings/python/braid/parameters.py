# SPDX-License-Identifier: BSD-3-Clause
"""Parameter servers: the weights of a network live on servers (include/braid/parameters.h, doc/training.md)."""
from __future__ import annotations

import math
import weakref
from typing import TYPE_CHECKING, Any, Dict, Optional, Sequence

from braid import structs
from braid._braid import ffi, lib
from braid.buffer import TYPES, numpy, span
from braid.errors import Error, check, fail, last_error
from braid.session import shapes_of

if TYPE_CHECKING:
    from braid.comm import Comm

Report, _report = structs.tuple_of("ParametersReport", "braid_parameters_report", "What parameter servers have measured; include/braid/parameters.h has each field.")


class Parameters:
    """The layers' weights, float32, which servers update from all workers' gradients.

        for l in range(n): p.wait(l); ...forward with p.weight(l)...
        for l in reversed(range(n)): ...backward into p.gradient(l)...; p.push(l)

    options: method, local, rate, momentum, decay, drops, drop, warmup, steps, own, sync, local_rate, servers, slice_bytes, priority, in_order, iterations, as struct
    braid_parameters_options. Every rank is a worker. Arrays of weight() and gradient() lie in memory of the servers', so free() refuses while one
    of them is in use. One thread at a time uses it.
    """

    def __init__(self, comm: "Comm", layers: Sequence[Any], **options: Any) -> None:
        from braid.comm import interruptible

        given = not shapes_of(layers)
        self._shapes = [layer.shape if given else layer for layer in layers]
        structure, keep = ffi.new("struct braid_parameter_layer[]", len(layers)), []
        for layer, initial in zip(structure, layers):
            if not given:
                layer.count = initial if isinstance(initial, int) else math.prod(initial)
                continue
            address, layer.count, kind, held = span(initial, False)
            if kind != TYPES["float32"]:
                raise ValueError("parameter servers have float32 alone")
            layer.initial = ffi.cast("float *", address)
            keep.append(held)
        if options.get("servers") is not None:
            options["n_servers"] = len(options["servers"])
        settings, held = structs.new("braid_parameters_options", options)
        self._comm, self._views = comm, 0
        out = ffi.new("struct braid_parameters **")
        interruptible(lambda: check(lib.braid_parameters_create(comm._comm, structure, len(layers), settings, out)))
        self._parameters = out[0]
        comm._dependents[self] = None
        self._arrays: Dict[int, Any] = {}

    def _view(self, memory: Any, layer: int, written: bool) -> Any:
        """The array over memory of the servers'; the same memory has the same array."""
        if memory == ffi.NULL:
            fail(-22)
        address = int(ffi.cast("uintptr_t", memory))
        array = self._arrays.get(address)
        array = array() if array else None
        if array is None:
            shape = self._shapes[layer]
            count = shape if isinstance(shape, int) else math.prod(shape)
            self._views += 1
            self._comm._root._blocks += 1
            held = ffi.gc(memory, self._release)
            array = numpy.frombuffer(ffi.buffer(held, 4 * count), "f4").reshape(shape)
            array.flags.writeable = written
            self._arrays[address] = weakref.ref(array)
        return array

    def _release(self, memory: Any) -> None:
        """The last array over this memory is gone."""
        comm = self._comm
        self._views -= 1
        comm._root._blocks -= 1
        if comm._ending:
            self._let_go()
            comm._last()
            comm._root._last()

    def _let_go(self, at_exit: bool = False) -> Optional[Error]:
        """Behind the communicator's finalize(), which cannot end it while arrays lie in its memory: ends it if there are none. Returns the error of that."""
        if self._views and not at_exit:
            return None
        parameters, self._parameters = self._parameters, ffi.NULL
        self._comm._dependents.pop(self, None)
        rc = lib.braid_parameters_free(parameters)
        return last_error(rc) if rc else None

    def weight(self, layer: int) -> Any:
        """The layer's weights as this worker computes with them, a read-only array; to be read from wait() to push()."""
        return self._view(lib.braid_parameters_weight(self._parameters, layer), layer, False)

    def gradient(self, layer: int) -> Any:
        """Where the backward pass leaves the layer's gradient of this iteration; returns when no push reads it any more. Ask in each iteration."""
        return self._view(lib.braid_parameters_gradient(self._parameters, layer), layer, True)

    def wait(self, layer: int) -> None:
        """Returns when the layer's weights are those of the next forward pass."""
        check(lib.braid_parameters_wait(self._parameters, layer))

    def push(self, layer: int) -> None:
        """The gradient is written. Each layer once an iteration, from the last one to layer 0."""
        check(lib.braid_parameters_push(self._parameters, layer))

    def sync(self) -> None:
        """Between two iterations, collective: all workers' weights become the servers'."""
        check(lib.braid_parameters_sync(self._parameters))

    def set_rate(self, layer: int, rate: float, momentum: float = 0.0, decay: float = 0.0) -> None:
        """The layer's rate, momentum and decay from its next push on, in place of the options'. The same on all ranks, in the same iteration."""
        check(lib.braid_parameters_set_rate(self._parameters, layer, rate, momentum, decay))

    def velocity(self, layer: int) -> Any:
        """The layer's velocity on the servers (local SGD behind its warm-up: the mean of the workers'), a new array. Collective, between two iterations."""
        velocity = numpy.empty(self._shapes[layer], "f4")
        check(lib.braid_parameters_velocity(self._parameters, layer, ffi.from_buffer("float[]", velocity, require_writable=True)))
        return velocity

    def set_velocity(self, layer: int, velocity: Any) -> None:
        """Gives back what velocity() said, to parameters that go on with a saved state (option `iterations`): before the first push, the same on all ranks."""
        given = numpy.ascontiguousarray(velocity, "f4")
        shape = self._shapes[layer]
        if given.size != (shape if isinstance(shape, int) else math.prod(shape)):
            raise ValueError(f"layer {layer} has the shape {shape}, and the velocity {given.shape}")
        check(lib.braid_parameters_set_velocity(self._parameters, layer, ffi.from_buffer("float[]", given)))

    def report(self) -> Any:
        """What was measured, as a named tuple."""
        struct, _ = structs.new("braid_parameters_report")
        check(lib.braid_parameters_report(self._parameters, struct))
        return _report(struct)

    def free(self) -> None:
        """Waits for what is under way and ends it, collectively. BufferError: arrays of weight() or gradient() are still in use; copy what is to stay."""
        if self._views:
            raise BufferError(f"{self._views} arrays of weight() and gradient() are still in use, and their memory would go: delete them first")
        parameters, self._parameters = self._parameters, ffi.NULL
        self._comm._dependents.pop(self, None)
        check(lib.braid_parameters_free(parameters))
