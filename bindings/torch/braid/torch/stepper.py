# SPDX-License-Identifier: BSD-3-Clause
"""The optimizer of a session (session.py): its step() is the session's, which steps some of its parameters at a time."""
from __future__ import annotations

import contextlib
import sys
import types
from typing import Any, Callable, Dict, Iterable, List

import torch

from braid.torch.layers import Layer, Slot


class Stepper:
    """Takes an optimizer's step() over, until give_back()."""

    def __init__(self, optimizer: Any, layers: Iterable[Layer], step: Callable[[Any], Any]) -> None:
        """step: called with the closure, or None, in place of the optimizer's."""
        self.optimizer, self._layers = optimizer, list(layers)
        # A step that a script has put in place of the optimizer's is called as it is, for all parameters at once.
        self.has_own_step = _has_own_step(optimizer)
        self._settings: List[Dict[str, Any]] = []  # of the optimizer's groups at the last note()
        self._place()
        self._step_before = optimizer.__dict__.get("step")
        self.whole_step = optimizer.step  # of all parameters, with hooks, and with what schedulers have made of it
        kind = type(optimizer)
        # One layer's step is not a step of the optimizer to hooks and profilers.
        self._bare_step = kind.step.__wrapped__ if getattr(kind.step, "hooked", False) else kind.step

        def replacement(optimizer: Any, closure: Any = None) -> Any:
            optimizer._opt_called = True  # what a scheduler looks at
            return step(closure)

        replacement._wrapped_by_lr_sched = True  # type: ignore[attr-defined]  # it tells schedulers what their own wrapper would
        self._own_step = optimizer.step = types.MethodType(replacement, optimizer)  # a method, as schedulers look for its __func__

    def _place(self) -> None:
        """Notes where the optimizer has each parameter, and which others it has, by group."""
        groups = self.optimizer.param_groups
        at = {param: i for i, group in enumerate(groups) for param in group["params"]}
        for layer in self._layers:
            for slot in layer.slots:
                slot.at = at.pop(slot.param, -1)
        self._others: List[List[Any]] = [[] for _ in groups]
        for param, i in at.items():
            self._others[i].append(param)
        self._signature = self._sizes()

    def _sizes(self) -> List[int]:
        return [len(group["params"]) for group in self.optimizer.param_groups]

    def must_be_whole(self) -> bool:
        """Must the step be taken as one: do hooks look at it, or has a GradScaler set what it divides by?"""
        optimizer, everyone = self.optimizer, sys.modules[torch.optim.Optimizer.__module__]
        return hasattr(optimizer, "found_inf") or any(
            getattr(optimizer, f"_optimizer_step_{when}_hooks", None) or getattr(everyone, f"_global_optimizer_{when}_hooks", None) for when in ("pre", "post"))

    def note(self) -> None:
        """A step begins: notes the settings of the optimizer's groups, which a scheduler changes before all layers are stepped, and steps what is no layer's."""
        if self._sizes() != self._signature:
            self._place()
        self._settings = [{key: value.clone() if isinstance(value, torch.Tensor) else value for key, value in group.items() if key != "params"}
                          for group in self.optimizer.param_groups]
        if any(self._others):
            self._run(self._others)

    def step(self, slots: Iterable[Slot], name: str) -> None:
        """The optimizer steps these parameters, as far as it has them, with the settings of note(). name: what a profiler shows."""
        by_group: List[List[Any]] = [[] for _ in self._settings]
        for slot in slots:
            if slot.at >= 0:
                by_group[slot.at].append(slot.param)
        if not any(by_group):
            return
        if torch.autograd._profiler_enabled():
            with torch.autograd.profiler.record_function(f"braid: step of {name}"):
                self._run(by_group)
        else:
            self._run(by_group)

    def _run(self, params: List[List[Any]]) -> None:
        optimizer, groups = self.optimizer, self.optimizer.param_groups
        settings = [some for some, here in zip(self._settings, params) if here]
        optimizer.param_groups = ours = [dict(some, params=here) for some, here in zip(settings, filter(None, params))]
        try:
            # The forward pass that this comes before may be one of torch.autocast. State that is made here is used by later steps, too, which need not be in
            # inference mode.
            with torch.autocast(self._layers[0].slots[0].param.device.type, enabled=False), \
                    torch.inference_mode(False) if torch.is_inference_mode_enabled() else contextlib.nullcontext():
                self._bare_step(optimizer)
        finally:
            optimizer.param_groups = groups
        for group, some in zip(ours, settings):
            if len(group) != len(some) + 1 or any(group.get(key) is not value for key, value in some.items()):
                raise RuntimeError(f"braid.torch.Session: {type(optimizer).__name__}.step() changes its param_groups, so that it cannot be taken by layers: make the "
                                   "Session with overlap=False")

    def give_back(self) -> None:
        """step() is the optimizer's, unless somebody has wrapped ours."""
        if self.optimizer.__dict__.get("step") is not self._own_step:
            return
        if self._step_before is None:
            del self.optimizer.step
        else:
            self.optimizer.step = self._step_before


def _has_own_step(optimizer: Any) -> bool:
    """Has a script put another step() into this optimizer? Schedulers do, too, but theirs only counts calls."""
    step = optimizer.__dict__.get("step")
    function = getattr(step, "__func__", step)
    while getattr(function, "_wrapped_by_lr_sched", False) or getattr(function, "_with_counter", False):
        function = getattr(function, "__wrapped__", None)
    return function is not None and function is not type(optimizer).step
