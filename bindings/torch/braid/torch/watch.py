# SPDX-License-Identifier: BSD-3-Clause
"""What watches a model for a session (session.py): gradients that are on their way, and hooks of modules."""
from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Optional

import torch

if TYPE_CHECKING:
    from braid.torch.session import Session

# What of a tensor says nothing of its elements, so that asking for it waits for nothing.
_OF_ITS_SHAPE = {getattr(torch.Tensor, name).__get__ for name in ("shape", "dtype", "device", "layout", "is_sparse", "is_cuda", "is_cpu", "ndim", "requires_grad",
                                                                 "grad_fn", "is_leaf", "is_meta", "is_quantized", "is_mkldnn", "is_nested")
                 if hasattr(torch.Tensor, name)}
_OF_ITS_SHAPE |= {getattr(torch.Tensor, name) for name in ("size", "dim", "numel", "stride", "is_floating_point", "is_complex", "is_contiguous", "__len__")}


def travelling_of(session: "Session") -> type:
    """The class of gradients that are on their way: whatever is done with one waits for all of them first."""

    class Travelling(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function not in _OF_ITS_SHAPE:
                session.synchronize()
            with torch._C.DisableTorchFunctionSubclass() if hasattr(torch._C, "DisableTorchFunctionSubclass") else torch._C.DisableTorchFunction():
                return function(*args, **(kwargs or {}))

    return Travelling


_compiler = getattr(torch, "compiler", None)
_is_compiling = getattr(_compiler, "is_compiling", lambda: True)


def _untraced(function: Any) -> Any:
    """torch.compile calls it between two graphs: traced, it would be done once and for all. Costs some us, so nobody else calls it."""
    return _compiler.disable(function) if hasattr(_compiler, "disable") else function


class Dependent:
    """What a Comm has of a session, which it ends before it leaves. It does not keep the session: that goes with the model."""

    _views = 0  # no arrays lie in memory that free() would give back

    def __init__(self, session: "Session") -> None:
        self._session = weakref.ref(session)

    def free(self) -> None:
        session = self._session()
        if session is not None:
            session.free()


class ModuleHook:
    """A method of the session as a hook of a module. A copy of the module has one without a session, which does nothing; so has one that is unpickled."""

    __slots__ = ("session", "method", "untraced")

    def __init__(self, session: Optional["Session"] = None, method: str = "") -> None:
        self.session, self.method = session, getattr(session, method) if session is not None else None
        self.untraced = _untraced(self.method) if session is not None else None

    def __call__(self, *args: Any) -> None:
        if self.method is not None:
            (self.untraced if _is_compiling() else self.method)(*args)

    def __deepcopy__(self, memo: Any) -> "ModuleHook":
        return ModuleHook()

    def __reduce__(self) -> Any:
        if self.session is not None:
            self.session.synchronize()  # torch.save(model) writes the parameters' elements behind everything else
        return (ModuleHook, ())
