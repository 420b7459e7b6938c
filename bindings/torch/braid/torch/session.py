# SPDX-License-Identifier: BSD-3-Clause
"""Session: data-parallel training in which communication hides behind the next forward pass, too (doc/torch.md, "Session").

How it works. Each module with parameters of its own is a layer of a gradient session (braid/training.h), which merges layers as MG-WFBP does, sends
those first that the forward pass needs first as P3 does, and tries its plans on real iterations. What a script calls anyway drives it:

    loss.backward()     a hook on each parameter moves its gradient into the session's memory; a layer whose gradients are all there is on its way
    optimizer.step()    notes the settings of the optimizer's groups, as a scheduler changes them before they are used, and returns
    model(x)            before a module's forward its own layers are waited for and stepped, and those that have come with them in one all-reduce

State:  IDLE -> BACKWARD, with the first gradient -> TRAVELLING, behind the last -> PENDING, by optimizer.step() -> IDLE, when all layers are stepped.
Whatever needs gradients or weights earlier - reading a grad, state_dict(), an evaluation - waits for all of them, and the optimizer steps all at once.
Such waiting is this rank's own. What all ranks do together (braid_session_step(), which may plan anew) is done where all come by: at the end of a forward
pass of training, or with the first gradient of the next backward pass.

Threads: autograd's thread and the one that trains take turns, as loss.backward() waits. No other may use the model meanwhile.
"""
from __future__ import annotations

import contextlib
import warnings
import weakref
from typing import Any, Dict, Iterator, List, Optional, Sequence

import braid
import numpy
import torch
from torch.nn import Module

from braid.torch import comm as communicator
from braid.torch.layers import Layer, Slot, dtype_of, in_order, lay_out, layers_of, needs_of
from braid.torch.replicas import Buffers, compare, copy_from_root
from braid.torch.stepper import Stepper
from braid.torch.watch import Dependent, ModuleHook, travelling_of

IDLE, BACKWARD, TRAVELLING, PENDING = range(4)

def _second(slot: Slot) -> RuntimeError:
    return RuntimeError(f"braid.torch.Session: {slot.name} has a second gradient before optimizer.step(), and the first is on its way: all backward passes of an "
                        "iteration but the last go into `with session.no_sync():`. Behind an exception that has ended a backward pass a session cannot go on: free() "
                        "it, which ends the communicator, make the group anew and another Session")


class Session:
    """Trains `model` with `optimizer` in data parallel; the loop stays as it is:

        session = braid.torch.Session(model, optimizer)
        for x, y in batches:
            optimizer.zero_grad()
            loss_of(model(x), y).backward()
            optimizer.step()

    It takes the place of DistributedDataParallel. Gradients are averaged over the ranks. All ranks begin with rank 0's parameters and buffers. Collective; the
    model and the options are the same on all ranks.

    group: of torch.distributed, of the backend "braid"; default: all ranks. comm: a braid.Comm instead.
    policy: which gradients travel together, and which first (doc/training.md); "auto" tries several and keeps the fastest.
    overlap: False: optimizer.step() waits for all gradients and steps all layers itself, so nothing is hidden behind the forward pass, and weights may be
    read at any time. For optimizers that are not a function of each parameter alone, and for scripts that use weights in ways of their own. Default: True for
    the optimizers of torch.optim themselves, otherwise False, as nothing says of other classes what a step of a part of the parameters does; True says that
    it may be taken by layers, each with a call of step().
    broadcast_buffers: rank 0's buffers, as the running means of a batch normalisation, before each forward pass of training, as DistributedDataParallel does.
    dtype: in which gradients travel and are summed; default: the parameters', float32 if these have several.
    options: warmup, replan, bucket_bytes, a, b, algorithm, order, priority, as struct braid_session_options (braid/training.h).

    Weights are seen stepped by model(x), state_dict(), load_state_dict(), torch.save(model) and the next optimizer.step(); call synchronize() before they are used
    in any other way. Raises braid.Error where a rank is lost, within the communicator's timeout; after that only free() makes sense.
    """

    def __init__(self, model: Module, optimizer: Any, group: Any = None, *, comm: Any = None, policy: str = "auto", overlap: Optional[bool] = None,
                 broadcast_buffers: bool = True, dtype: Optional[torch.dtype] = None, **options: Any) -> None:
        if isinstance(optimizer, torch.optim.LBFGS) and overlap is not False:
            raise ValueError("braid.torch.Session: LBFGS needs all gradients several times a step; overlap=False waits for them")
        if comm is None:
            comm = communicator(group)
        if overlap is None:
            overlap = f"{type(optimizer).__module__}.".startswith("torch.optim.")
        self.comm, self._model = comm, model
        self._layers = layers_of(model)
        self._frozen = [(name, param) for name, param in model.named_parameters() if not param.requires_grad]
        self._dtype, self._options = dtype_of(self._layers, dtype), dict(options, policy=policy)
        compare(comm, model)
        copy_from_root(comm, model)
        self._buffers = Buffers(comm, model) if broadcast_buffers else None
        self._session: Any = None  # the braid.Session, from the first backward pass on
        self._groups: List[List[Layer]] = []  # layers that travel together
        self._state, self._pass = IDLE, 0
        self._sync, self._closed, self._queued = True, False, False
        self._owes_step = False  # braid_session_step() ends the iteration, but has not been called yet
        self._left = 0  # layers that are pending
        self._any_stale = False
        self._called: Dict[Module, None] = {}  # in the order of the first forward pass
        self._needs: Dict[Module, List[Layer]] = {}
        self._stepper = Stepper(optimizer, self._layers, self._step)
        self._overlap = overlap and not self._stepper.has_own_step
        self._install()
        self._dependent = Dependent(self)
        comm._dependents[self._dependent] = None

    # ---- hooks -----------------------------------------------------------------------------------

    def _install(self) -> None:
        self._removable: List[Any] = []
        self._nodes: List[Any] = []  # AccumulateGrad of PyTorch before 2.1: they hold the hooks
        for layer in self._layers:
            for slot in layer.slots:
                self._hook(slot)
        for module in self._model.modules() if self._overlap else []:
            if any(param.requires_grad for param in module.parameters()):
                self._removable.append(module.register_forward_pre_hook(ModuleHook(self, "_before")))
                # Ahead of those that read weights, as that of torch.nn.utils.weight_norm does.
                module._forward_pre_hooks.move_to_end(self._removable[-1].id, last=False)
                if hasattr(module, "register_state_dict_pre_hook"):
                    self._removable.append(module.register_state_dict_pre_hook(ModuleHook(self, "_read_all")))
                self._removable.append(module._register_load_state_dict_pre_hook(ModuleHook(self, "_read_all")))
        self._removable.append(self._model.register_forward_pre_hook(ModuleHook(self, "_before_all")))
        self._removable.append(self._model.register_forward_hook(ModuleHook(self, "_behind_all")))
        for name in "register_state_dict_pre_hook", "register_load_state_dict_pre_hook":
            if hasattr(self._stepper.optimizer, name):
                self._removable.append(getattr(self._stepper.optimizer, name)(ModuleHook(self, "_read_all")))

    def _hook(self, slot: Slot) -> None:
        weak, weak_slot = weakref.ref(self), weakref.ref(slot)  # the garbage collector does not see what hooks of parameters hold

        def arrived(*_: Any) -> None:
            session, slot = weak(), weak_slot()
            if session is not None and slot is not None:
                session._arrived(slot)

        if hasattr(slot.param, "register_post_accumulate_grad_hook"):
            self._removable.append(slot.param.register_post_accumulate_grad_hook(arrived))
        else:
            node = slot.param.expand_as(slot.param).grad_fn.next_functions[0][0]
            self._nodes.append(node)
            self._removable.append(node.register_hook(arrived))

    # ---- the backward pass -----------------------------------------------------------------------

    def _arrived(self, slot: Slot) -> None:
        """A parameter's gradient has been accumulated."""
        if self._closed:
            return
        if not self._sync:
            if slot.param.grad is slot.travelling:
                raise _second(slot)
            return
        if self._state != BACKWARD:
            self._begin_backward(slot)
        if not self._queued:
            torch.autograd.Variable._execution_engine.queue_callback(self._end_backward)
            self._queued = True
        layer = slot.layer
        if slot.seen == self._pass:
            raise _second(slot)
        if layer.stale:
            raise RuntimeError(f"braid.torch.Session: {slot.name} was used before it was stepped, as the forward of {layer.name} was not called this time; make the Session "
                               "with overlap=False, or call its synchronize() before the weights are used")
        self._move(slot)
        layer.missing -= 1
        if not layer.missing:
            self._send(layer)

    def _move(self, slot: Slot) -> None:
        """The gradient into the session's memory."""
        grad = slot.param.grad
        if grad is not slot.wire:
            slot.wire.copy_(grad.detach())
        slot.seen = self._pass
        slot.param.grad = slot.travelling

    def _send(self, layer: Layer, flags: Sequence[int] = ()) -> None:
        """flags: which parameters this rank has used; empty: all."""
        if flags:
            layer.flags.copy_(torch.tensor(flags))
        else:
            layer.flags.fill_(1)
        layer.sent = True
        if layer.flags.is_cuda:
            torch.cuda.current_stream(layer.flags.device).synchronize()  # the session reads it at once
        self._session.ready(layer.index)

    def _begin_backward(self, slot: Slot) -> None:
        if self._state == TRAVELLING:
            raise _second(slot)
        if self._session is None:
            self._create()
        self._finish_unvisited()
        if self._owes_step:
            self._end_iteration()
        self._pass += 1
        for layer in self._layers:
            layer.missing, layer.sent = len(layer.slots), False
        self._state, self._queued = BACKWARD, False

    def _create(self) -> None:
        """The first backward pass begins, and rank 0's forward pass has shown the order of the layers. Collective."""
        order = numpy.array([layer.index for layer in self._numbered()], "i4")
        self.comm.broadcast(order)
        self._layers = [self._layers[i] for i in order]
        spans = lay_out(self.comm, self._layers, self._dtype, travelling_of(self))
        self._session = self.comm.session(spans, names=[layer.name for layer in self._layers], type=str(self._dtype)[len("torch."):], reduction="avg", **self._options)
        self._replanned()

    def _numbered(self) -> List[Layer]:
        for index, layer in enumerate(self._layers):
            layer.index = index
        return in_order(self._layers, self._called)

    def _end_backward(self) -> None:
        """What has no gradient on this rank is told, so that others' can travel."""
        self._queued = False
        if self._state != BACKWARD or self._within_backward():
            return
        unused = False
        for layer in self._layers:
            if layer.sent:
                continue
            flags = []
            for slot in layer.slots:
                if slot.seen != self._pass and slot.param.grad is not None:  # of an earlier backward pass, which was not synchronized
                    self._move(slot)
                flags.append(int(slot.seen == self._pass))
            if any(flags):
                for slot, flag in zip(layer.slots, flags):
                    if not flag:
                        slot.wire.zero_()
                self._send(layer, flags)
            unused = unused or not layer.sent
            for slot, flag in zip(layer.slots, flags):
                if not flag:
                    slot.param.grad = slot.travelling
        if unused:
            self._session.unused()
        self._state, self._left = TRAVELLING, 0
        self._owes_step = True

    def _end_reentrant(self) -> None:
        """A forward pass begins: the backward pass is over, though its last gradients have come in one within it (use_reentrant=True), whose end is not its own."""
        if self._state == BACKWARD and not self._queued and not self._within_backward():
            self._end_backward()

    @staticmethod
    def _within_backward() -> bool:
        """Is this called from a backward pass, be it one around another, as of torch.utils.checkpoint(use_reentrant=True)?"""
        return hasattr(torch._C, "_current_autograd_node") and torch._C._current_autograd_node() is not None

    # ---- the step --------------------------------------------------------------------------------

    def _step(self, closure: Any) -> Any:
        """In place of optimizer.step()."""
        whole_step = self._stepper.whole_step
        if self._closed:
            return whole_step() if closure is None else whole_step(closure)
        for name, param in self._frozen:
            if param.requires_grad:
                raise RuntimeError(f"braid.torch.Session: {name} was frozen when the session was made, and is not now: free() this session and make another")
        if closure is not None and not self._overlap:
            return whole_step(lambda: self._closed_over(closure))
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._end_backward()
        if not self._steps_lazily():
            self._read()
            whole_step()
            return loss
        self._stepper.note()
        for layer in self._layers:
            layer.pending = True
        self._state, self._left = PENDING, len(self._layers)
        return loss

    def _closed_over(self, closure: Any) -> Any:
        """The closure's loss; the gradients that it has made are there, too."""
        with torch.enable_grad():
            loss = closure()
        self._read()
        return loss

    def _steps_lazily(self) -> bool:
        """May layers be stepped later? Not if something wants to see the optimizer's step, or the script has set a grad itself."""
        if not self._overlap or self._state != TRAVELLING or self._stepper.must_be_whole():
            return False
        return all(slot.param.grad is slot.travelling for layer in self._layers for slot in layer.slots)

    def _arrive(self, layer: Layer) -> List[Slot]:
        """Waits for a layer. Returns the parameters that have a gradient: those that any rank has used."""
        self._session.wait(layer.index)
        flags = layer.flags.tolist()
        used = layer.slots if min(flags) > 0 else [slot for slot, flag in zip(layer.slots, flags) if flag > 0]
        for slot in used:
            if slot.home is not slot.wire:
                slot.home.copy_(slot.wire)
        if len(used) < len(layer.slots):
            for slot, flag in zip(layer.slots, flags):
                if not flag > 0:
                    if slot.home is not slot.wire:
                        slot.home.zero_()  # who has asked for grad before, as clip_grad_norm_, reads it
                    if slot.param.grad is slot.travelling:
                        slot.param.grad = None  # as if there had been no communication
        return used

    def _apply(self, layers: List[Layer], first: Optional[Layer] = None) -> None:
        """Steps pending layers. first: the one whose forward pass is next, as the session learns by waiting for it last."""
        used = [slot for layer in layers for slot in self._arrive(layer)]
        if first is not None:
            self._session.wait(first.index)
        kept = []
        for slot in used:
            kept.append(slot.param.grad)
            slot.param.grad = slot.home
        self._stepper.step(used, f"{layers[0].name} to {layers[-1].name}" if len(layers) > 1 else layers[0].name)
        for slot, grad in zip(used, kept):
            if grad is not slot.travelling and grad is not slot.home:
                slot.param.grad = grad  # None since zero_grad(), which comes before the forward pass
        for layer in layers:
            layer.pending = False
        self._left -= len(layers)
        if not self._left:
            self._state = IDLE

    def _finish(self) -> None:
        """All pending layers are stepped, at once."""
        if self._state == PENDING:
            self._apply([layer for layer in self._layers if layer.pending])

    def _finish_unvisited(self) -> None:
        """Behind a forward pass: layers that are pending now have had no part in it, or else it has used their old weights."""
        if self._state == PENDING:
            self._any_stale = True
            for layer in self._layers:
                layer.stale = layer.pending
            self._finish()

    def _settle(self) -> None:
        """All gradients are there, and the parameters' own."""
        for layer in self._layers:
            for slot in self._arrive(layer):
                if slot.param.grad is slot.travelling:  # None: zero_grad()
                    slot.param.grad = slot.home
        self._state = IDLE

    def _end_iteration(self) -> None:
        """Collective, now and then: it may plan anew."""
        self._owes_step = False
        self._session.step()
        self._replanned()

    def _replanned(self) -> None:
        firsts = self._session.groups()
        self._groups = [self._layers[first:end] for first, end in zip(firsts, firsts[1:] + [len(self._layers)])]
        for number, group in enumerate(self._groups):
            for layer in group:
                layer.group = number

    # ---- the forward pass ------------------------------------------------------------------------

    def _before(self, module: Module, args: Any) -> None:
        if module not in self._called:
            self._called[module] = None
            self._needs = {}
        self._end_reentrant()
        if self._state == TRAVELLING:
            self._settle()
        elif not module.training or not torch.is_grad_enabled():
            self._finish()  # evaluation may take other ways, as a Transformer's does, which calls no forward of its linear layers
        elif self._owes_step and self._state != BACKWARD:
            for layer in self._needed(module):
                if layer.pending:
                    self._apply(self._come(layer), layer)
                elif layer.module is module:
                    self._session.wait(layer.index)  # it is there; the session learns that its forward pass begins
        if self._any_stale:
            for layer in self._needed(module):
                layer.stale = False

    def _come(self, layer: Layer) -> List[Layer]:
        """Waits for a layer. Returns the pending layers that have come by then: those that travelled with it, and those behind it. They are stepped by one call of the
        optimizer, whose cost does not depend on how much it steps: on a fast network one call an iteration is left."""
        self._session.wait(layer.index)
        come = []
        for group in self._groups[layer.group :]:
            some = [other for other in group if other.pending]
            if some and not self._session.test(some[0].index):
                break
            come += some
        return come

    def _needed(self, module: Module) -> List[Layer]:
        if not self._needs:
            self._needs = needs_of(self._model, self._layers, set(self._called))
        return self._needs[module]

    def _before_all(self, module: Module, args: Any) -> None:
        self._end_reentrant()
        if self._state == TRAVELLING:
            self._settle()
        if self._buffers and self._sync and module.training and torch.is_grad_enabled():
            self._buffers.copy_from_root()

    def _behind_all(self, module: Module, args: Any, output: Any) -> None:
        """The model's forward pass is over: nothing waits for the layers that it did not come to."""
        if not (module.training and torch.is_grad_enabled()) or self._state in (BACKWARD, TRAVELLING):
            return
        self._finish_unvisited()
        if self._owes_step:
            self._end_iteration()

    # ---- all at once -----------------------------------------------------------------------------

    def _read(self) -> None:
        """Somebody reads a gradient, or a weight."""
        if self._state == BACKWARD:
            if self._within_backward():
                raise RuntimeError("braid.torch.Session: a gradient, or the weights, are used within the backward pass, in which gradients are on their way; "
                                   "torch.Tensor.register_hook() sees the rank's own before they leave")
            self._end_backward()
        if self._state == PENDING:
            self._finish()
        elif self._state == TRAVELLING:
            self._settle()

    def _read_all(self, *_: Any) -> None:
        self._read()

    def synchronize(self) -> None:
        """All gradients have come, and all weights are stepped. Not collective: a rank may call it alone. Needed before weights are used other than by model(x) and
        state_dict(): compared, averaged, copied, printed."""
        self._read()

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes in here only add their gradients up; the next one behind it sends the sums. On all ranks alike."""
        self._sync, before = False, self._sync
        try:
            yield
        finally:
            self._sync = before

    def report(self) -> Any:
        """What was measured and predicted (braid.Session.report()); None before the first backward pass."""
        return self._session.report() if self._session else None

    def plan(self) -> List[List[str]]:
        """Names of the layers that travel together, in the order of the forward pass; empty before the first backward pass."""
        return [[layer.name for layer in group] for group in self._groups]

    def free(self) -> None:
        """Steps what is left, and gives model and optimizer back as they were. Does not raise again what has ended the communicator. Within a backward pass, as
        behind an exception that has ended it, it ends the communicator: the other ranks wait for gradients that will not come."""
        if self._closed:
            return
        self._closed = True
        self.comm._dependents.pop(self._dependent, None)
        for handle in self._removable:
            handle.remove()
        self._nodes.clear()
        if self._state == BACKWARD and not self.comm.error():
            self.comm.abort("braid.torch.Session: the session ended within a backward pass")
        with contextlib.suppress(braid.Error) if self.comm.error() else contextlib.nullcontext():
            try:
                if self._state != BACKWARD:
                    self._read()
            finally:
                self._give_back()
                if self._session is not None:
                    self._session.free()

    def _give_back(self) -> None:
        """No gradient is waited for any more, and optimizer.step() is the optimizer's."""
        self._state = IDLE
        for layer in self._layers:
            layer.pending = False
            for slot in layer.slots:
                if slot.travelling is not None and slot.param.grad is slot.travelling:
                    slot.param.grad = None  # it has not come
        self._stepper.give_back()

    def __del__(self) -> None:
        """Dropped without free(), and with it the model and the optimizer, which keep it as long as they live. What is under way ends with the communicator, as
        it would be waited for here, in whatever thread and at whatever moment the garbage is collected."""
        if getattr(self, "_dependent", None) is None or self._closed or self.comm._ending:
            return
        self.comm._dependents.pop(self._dependent, None)
        warnings.warn("braid.torch.Session: dropped with its model, and without free()", ResourceWarning)
        if self._session is not None and self._state == IDLE:
            with contextlib.suppress(braid.Error):  # of the communicator
                self._session.free()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is None:
            self.free()
