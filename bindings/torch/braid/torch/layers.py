# SPDX-License-Identifier: BSD-3-Clause
"""The layers of a model as a gradient session (braid/torch/session.py) has them, and the memory in which their gradients travel."""
from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Sequence, Set

import torch
from torch.nn import Module

_REAL = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


class Slot:
    """A parameter of a layer."""

    __slots__ = ("param", "name", "layer", "wire", "home", "travelling", "seen", "at", "__weakref__")

    def __init__(self, param: Any, name: str, layer: "Layer") -> None:
        self.param, self.name, self.layer = param, name, layer
        self.wire: Any = None  # view of the session's memory, in which the gradient travels
        self.home: Any = None  # what the parameter's grad is when it has come: the same, or another tensor where the parameter is of another type
        self.travelling: Any = None  # home, as the grad is until then: it waits when it is used
        self.seen = 0  # the backward pass in which it came last
        self.at = -1  # its group of the optimizer; -1: in none


class Layer:
    """A module with parameters of its own. A parameter that several modules share belongs to the first one."""

    __slots__ = ("index", "name", "module", "slots", "flags", "missing", "sent", "pending", "stale", "group")

    def __init__(self, name: str, module: Module) -> None:
        self.name, self.module = name or type(module).__name__, module
        self.slots: List[Slot] = []
        self.index = self.group = 0  # in the session; of the all-reduce that it travels with
        # An element for each parameter, which travels behind the gradients: 1 where this rank has used it, so that all know afterwards whether any has.
        self.flags: Any = None
        self.missing = 0  # parameters whose gradient has not come in this backward pass
        self.sent = True  # in this backward pass
        self.pending = False  # the optimizer has not stepped it yet
        self.stale = False  # it was stepped behind a forward pass that did not come to it

    @property
    def count(self) -> int:
        """Elements that travel."""
        return sum(slot.param.numel() for slot in self.slots) + len(self.slots)


def layers_of(model: Module) -> List[Layer]:
    """The layers in the order of model.modules(). Parameters that are frozen now have no part in it."""
    found, known = [], set()
    for prefix, module in model.named_modules():
        layer = Layer(prefix, module)
        for name, param in module.named_parameters(recurse=False):
            if param in known or not param.requires_grad:
                continue
            known.add(param)
            full = f"{prefix}.{name}" if prefix else name
            _check(module, param, full)
            if param.numel():
                layer.slots.append(Slot(param, full, layer))
        if layer.slots:
            found.append(layer)
    if not found:
        raise ValueError("braid.torch.Session: the model has no parameters that require a gradient")
    devices = {slot.param.device for layer in found for slot in layer.slots}
    if len(devices) > 1:
        raise ValueError(f"braid.torch.Session: the parameters lie on {', '.join(sorted(map(str, devices)))}; a session takes those of one device")
    return found


def _check(module: Module, param: Any, name: str) -> None:
    if getattr(module, "sparse", False):
        raise ValueError(f"braid.torch.Session: the gradient of {name} is sparse; make it dense: {type(module).__name__}(sparse=False)")
    if torch.nn.parameter.is_lazy(param):
        raise ValueError(f"braid.torch.Session: {name} has no shape yet; run a forward pass first")
    if hasattr(param, "device_mesh"):
        raise ValueError(f"braid.torch.Session: {name} is sharded (DTensor); a session is for models that each rank has in full")
    if param.dtype not in _REAL or param.layout != torch.strided:
        raise ValueError(f"braid.torch.Session: {name} is {param.dtype}, {param.layout}; a session takes dense {', '.join(str(t)[6:] for t in _REAL)}")


def dtype_of(layers: Iterable[Layer], wanted: Optional[torch.dtype]) -> torch.dtype:
    """In which type all gradients travel: the parameters' own, and where these have several, one that holds them all."""
    dtypes = {slot.param.dtype for layer in layers for slot in layer.slots}
    if wanted is not None:
        if wanted not in _REAL:
            raise ValueError(f"braid.torch.Session: dtype={wanted}; gradients travel as {', '.join(str(t)[6:] for t in _REAL)}")
        return wanted
    if len(dtypes) == 1:
        return dtypes.pop()
    return torch.float64 if torch.float64 in dtypes else torch.float32


def in_order(layers: Sequence[Layer], called: Iterable[Module]) -> List[Layer]:
    """The layers in the order of a forward pass; one that it did not come to follows the layer that the model has before it."""
    place = {module: i for i, module in enumerate(called)}
    keys, last = {}, -1
    for i, layer in enumerate(layers):
        last = place.get(layer.module, last)
        keys[layer] = (last, i)
    return sorted(layers, key=keys.__getitem__)


def lay_out(comm: Any, layers: Sequence[Layer], dtype: torch.dtype, travelling: Any) -> List[Any]:
    """Gives the layers memory, side by side in this order; returns each layer's, as the session takes it."""
    device, total = layers[0].slots[0].param.device, sum(layer.count for layer in layers)
    if device.type == "cpu":
        memory = torch.from_numpy(comm.empty(total * torch.empty(0, dtype=dtype).element_size(), "u1")).view(dtype)
    else:
        memory = torch.zeros(total, dtype=dtype, device=device)
    spans, at = [], 0
    for index, layer in enumerate(layers):
        layer.index = index
        span = memory[at : at + layer.count]
        at += layer.count
        spans.append(span)
        place = 0
        for slot in layer.slots:
            count = slot.param.numel()
            slot.wire = _shaped(span[place : place + count], slot.param)
            slot.home = slot.wire if slot.param.dtype == dtype else torch.zeros_like(slot.param, requires_grad=False)
            slot.travelling = slot.home.as_subclass(travelling)
            place += count
        layer.flags = span[place:]
    return spans


def _shaped(flat: Any, param: Any) -> Any:
    """A view with the parameter's shape, and strides where it is dense, so that copies go straight and optimizers find what they expect."""
    dense, expected = True, 1
    for stride, size in sorted(zip(param.stride(), param.shape)):
        if size > 1:
            dense, expected = dense and stride == expected, expected * size
    return flat.as_strided(param.shape, param.stride(), flat.storage_offset()) if dense else flat.view(param.shape)


def needs_of(model: Module, layers: Iterable[Layer], called: Set[Module]) -> Dict[Module, List[Layer]]:
    """Which layers must have been stepped when a module's forward begins: those of its own parameters, shared ones too, and those of modules below it that
    are not called themselves, as torch.nn.MultiheadAttention uses the weights of its out_proj. `called`: those whose forward was seen to be called."""
    parents: Dict[Module, List[Module]] = {}
    holders: Dict[Any, List[Module]] = {}
    for module in model.modules():
        for child in module.children():
            parents.setdefault(child, []).append(module)
        for param in module.parameters(recurse=False):
            holders.setdefault(param, []).append(module)
    needs: Dict[Module, Dict[Layer, None]] = {module: {} for module in called}
    for layer in layers:
        for holder in {module: None for slot in layer.slots for module in holders.get(slot.param, [layer.module])}:
            for module in _called_above(holder, parents, called) or called:
                needs[module][layer] = None
    return {module: list(found) for module, found in needs.items()}


def _called_above(module: Module, parents: Dict[Module, List[Module]], called: Set[Module]) -> Set[Module]:
    if module in called:
        return {module}
    return set().union(*(_called_above(parent, parents, called) for parent in parents.get(module, [])))
