# SPDX-License-Identifier: BSD-3-Clause
"""SSD-SGD and local SGD as an optimizer: the weights live on parameter servers (include/braid/parameters.h, doc/torch.md)."""
from __future__ import annotations

import warnings
import weakref
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import numpy
import torch

import braid

MERGE = 12_500  # elements: smaller layers cost more in messages than they gain in overlap


class _Layer:
    """Parameters whose gradients travel together, all of one param group, side by side in a layer of the servers'."""

    def __init__(self, parameters: List[torch.Tensor], group: Dict[str, Any]) -> None:
        self.parameters, self.group = parameters, group
        self.missing = len(parameters)  # gradients of this iteration that are still to come
        self.rates: Tuple[float, ...] = ()  # that the servers know
        self.gradients: Dict[int, List[torch.Tensor]] = {}  # views of the servers' memory by its address: ssd has two places that take turns
        self.places: Optional[List[torch.Tensor]] = None  # of them, this iteration's

    def views(self, flat: Any) -> List[torch.Tensor]:
        """One for each parameter, over an array of the layer."""
        pieces = torch.from_numpy(flat).split([p.numel() for p in self.parameters])
        return [piece.view(p.shape) for piece, p in zip(pieces, self.parameters)]

    def flat(self, tensors: Sequence[torch.Tensor]) -> Any:
        return numpy.concatenate([t.detach().reshape(-1).numpy() for t in tensors])


class SSD(torch.optim.Optimizer):
    """Distributed SGD by parameter servers, which keep the weights and their momentum; each rank trains with its own batches.

        optimizer = braid.torch.SSD(model.parameters(), lr=0.1, momentum=0.9, k=4)
        for inputs, targets in batches:
            optimizer.zero_grad()
            loss_function(model(inputs), targets).backward()     # gradients are pushed as they come
            optimizer.step()                                     # the rest of them; then the weights of the next iteration are there
        optimizer.close()

    No DistributedDataParallel around the model: it would add the gradients up a second time.

    method, as in include/braid/parameters.h:
      "ssd"    SSD-SGD (arXiv:2012.05396): behind a warm-up of synchronous SGD gradients are pushed in every iteration and weights pulled in every k-th,
               which have the whole next iteration to arrive; in between a worker moves its own weights by GLU, its gradient and the servers' together
      "local"  local SGD: behind the warm-up each worker does momentum SGD alone, and every k iterations the weights become the mean of all
      "ssgd"   synchronous: the same as SGD by DistributedDataParallel
      "asgd"   asynchronous: a server applies each gradient when it comes

    lr, momentum and weight_decay are those of torch.optim.SGD, may differ between param groups, and reach the servers with the next iteration when a
    scheduler changes them; they must be the same on all ranks. k=None: chosen by the paper's time model at the end of the warm-up. warmup: iterations;
    the paper has 500. local: "glu", or "sgd" for the plain local update the paper compares with. own, sync, local_rate: a, b and loc_lr / lr of GLU;
    the defaults 2, 0.5 and 4 are what the paper found best. servers: how many ranks are servers, spread evenly, or a list of ranks; default all.
    group: the process group, of backend "braid"; or a braid.Comm. options: slice_bytes, priority, in_order of struct braid_parameters_options.

    overlap: gradients are pushed while the backward pass goes on; so clip or change them with overlap=False, where step() pushes them all (also where
    this torch has no register_post_accumulate_grad_hook). To accumulate over several backward passes run all but the last under no_sync(), as with
    DistributedDataParallel.

    All weights are rank 0's at first. From the first step() on they lie in the servers' memory, and only the servers change them: what writes
    weights, as load_state_dict() of a model, comes before the first step() or before load_state_dict() of the optimizer. Parameters that are frozen
    when the optimizer is made stay out. A parameter without a gradient counts as one with zeros, and momentum and decay go on.

    close(), sync(), consolidate_state_dict(), load_state_dict() and the first step() are collective. braid.Error: a rank is lost, and the words say
    which; after it only close() makes sense. TypeError, ValueError: parameters that the servers cannot have. One thread at a time.
    """

    def __init__(self, params: Any, lr: float = 0.01, *, k: Optional[int] = 4, method: str = "ssd", momentum: float = 0.0, weight_decay: float = 0.0,
                 warmup: int = 500, local: str = "glu", own: float = 2.0, sync: float = 0.5, local_rate: Optional[float] = None,
                 servers: Union[None, int, Sequence[int]] = None, group: Any = None, overlap: bool = True, **options: Any) -> None:
        if method not in ("ssd", "local", "ssgd", "asgd"):
            raise ValueError(f"there is no method {method!r}; there are ssd, local, ssgd, asgd")
        if k is not None and k < 1:
            raise ValueError(f"k is {k}; it must be 1 or more, or None")
        self._servers: Any = None  # braid.Parameters, from the first step() on
        self._closed = False
        self._comm = _comm(group)
        self._places = _ranks(servers, self._comm.size)
        if local == "glu":
            options.update(own=own, sync=sync, local_rate=4.0 if local_rate is None else local_rate)
        elif local_rate is not None:
            options.update(local_rate=local_rate)
        self._options = dict(options, method=method, local=local, servers=self._places, warmup=warmup or -1)
        self._order: List[torch.Tensor] = []  # in which gradients came in the first iteration
        self._arrived: Dict[torch.Tensor, None] = {}
        self._hooks: List[Any] = []
        self._pushing = True  # no_sync() is not at work
        self._consolidated = True
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay, iterations=0, k=k))
        self._check()
        for p in self._parameters():  # so that the first forward pass has them, too
            _broadcast(self._comm, p)
        if overlap and hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):
            weak = weakref.WeakMethod(self._ready)  # the garbage collector does not see what hooks of parameters hold

            def ready(p: torch.Tensor) -> None:
                method = weak()
                if method is not None:
                    method(p)

            self._hooks = [p.register_post_accumulate_grad_hook(ready) for p in self._parameters()]

    # ---- what the program calls ------------------------------------------------------------------

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Ends an iteration: pushes the gradients that have not been pushed, and returns when the weights of the next forward pass are there."""
        self._check_open()
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if self._servers is None:
            self._create()
            self._arrived.clear()
        for p in self._parameters():
            if p not in self._arrived:
                self._take(p)
        for number in range(len(self._layers)):
            self._servers.wait(number)
        for layer in self._layers:
            layer.missing, layer.places = len(layer.parameters), None
        self._next = len(self._layers) - 1
        self._arrived.clear()
        self._consolidated = False
        return loss

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes within it add up their gradients and push nothing."""
        pushing, self._pushing = self._pushing, False
        try:
            yield
        finally:
            self._pushing = pushing

    def sync(self) -> None:
        """Makes the weights of all ranks the same, the servers' (local SGD: the mean), to evaluate or to save the model. Collective, between iterations."""
        self._check_open()
        if self._servers is not None:
            self._servers.sync()

    def consolidate_state_dict(self) -> None:
        """sync(), and fetches the servers' state for state_dict(). Collective, between iterations, as that of ZeroRedundancyOptimizer."""
        self.sync()
        if self._servers is not None:
            report = self._servers.report()
            for number, layer in enumerate(self._layers):
                for p, velocity in zip(layer.parameters, layer.views(self._servers.velocity(number))):
                    self.state[p]["momentum_buffer"] = velocity.clone()
            for group in self.param_groups:
                group["iterations"], group["k"] = report.iterations, report.steps or group["k"]
        self._consolidated = True

    def state_dict(self) -> Dict[str, Any]:
        """As that of torch.optim.SGD, with `iterations` and `k` in the param groups; behind consolidate_state_dict(), on any rank."""
        if not self._consolidated:
            raise RuntimeError("the state lies on the parameter servers: call consolidate_state_dict() on all ranks before state_dict()")
        return super().state_dict()

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Goes on with a saved state, and with the weights that the model has now on rank 0. Collective; the same state on all ranks."""
        self._check_open()
        self._release()
        super().load_state_dict(state_dict)
        for group in self.param_groups:  # of an SGD's state
            group.setdefault("iterations", 0)
            group.setdefault("k", self.defaults["k"])
        self._consolidated = True

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        if self._servers is not None:
            raise RuntimeError("the parameter servers are at work: add param groups before the first step()")
        super().add_param_group(param_group)

    def report(self) -> Any:
        """What was measured, struct braid_parameters_report as a named tuple; None before the first step()."""
        return self._servers.report() if self._servers is not None else None

    def close(self) -> None:
        """Ends the servers, collectively; the weights stay where they are, in memory of their own. Again: nothing. BufferError: views of the weights
        that the program has made are still in use."""
        if self._closed:
            return
        self._release()
        for hook in self._hooks:
            hook.remove()
        self._closed = True

    def __del__(self) -> None:
        """Dropped without close(), which all ranks do together, and not when one of them collects its garbage."""
        if getattr(self, "_servers", None) is not None and not self._comm._ending:
            warnings.warn("braid.torch.SSD: dropped without close(): its parameter servers run on until the process group ends", ResourceWarning)

    def __enter__(self) -> "SSD":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is None:  # after an exception the others do not come to close()
            self.close()

    # ---- an iteration ----------------------------------------------------------------------------

    def _ready(self, p: torch.Tensor) -> None:
        """The backward pass has left its gradient in p.grad."""
        if not self._pushing:
            return
        if p in self._arrived:
            raise RuntimeError("a parameter has got a second gradient in this iteration, and the first is pushed: run all backward passes of an iteration "
                               "but the last one under no_sync(), or use overlap=False")
        if self._servers is not None:
            self._take(p)
            return
        self._order.append(p)
        self._arrived[p] = None

    def _take(self, p: torch.Tensor) -> None:
        """Copies a gradient to where its push reads it. Autograd's own would be no cheaper there: it adds to memory that was zeroed before."""
        number, place = self._where[p]
        layer = self._layers[number]
        if layer.places is None:
            layer.places = self._gradients(number)
        if p.grad is None:
            layer.places[place].zero_()
        elif p.grad.layout != torch.strided:
            raise TypeError("a parameter has a sparse gradient; parameter servers have dense ones: sparse=False")
        else:
            layer.places[place].copy_(p.grad)
        self._arrived[p] = None
        layer.missing -= 1
        while self._next >= 0 and not self._layers[self._next].missing:
            self._push(self._next)
            self._next -= 1

    def _gradients(self, number: int) -> List[torch.Tensor]:
        layer, flat = self._layers[number], self._servers.gradient(number)
        address = flat.__array_interface__["data"][0]
        if address not in layer.gradients:
            layer.gradients[address] = layer.views(flat)
        return layer.gradients[address]

    def _push(self, number: int) -> None:
        layer = self._layers[number]
        rates = tuple(float(layer.group[key]) for key in ("lr", "momentum", "weight_decay"))
        if rates != layer.rates:
            self._servers.set_rate(number, *rates)
            layer.rates = rates
        self._servers.push(number)

    # ---- the servers -----------------------------------------------------------------------------

    def _parameters(self) -> List[torch.Tensor]:
        return [p for group in self.param_groups for p in group["params"] if p in self._trained]

    def _check(self) -> None:
        """Refuses what the servers cannot have. Notes which parameters are trained."""
        self._trained: Dict[torch.Tensor, None] = {}
        seen: Dict[int, int] = {}
        for number, p in enumerate(p for group in self.param_groups for p in group["params"]):
            if not p.requires_grad or not p.numel():
                continue
            if p.dtype != torch.float32 or p.device.type != "cpu" or p.layout != torch.strided:
                raise TypeError(f"parameter {number} is {p.dtype} on {p.device}, {p.layout}; parameter servers keep dense torch.float32 in memory of the host")
            if seen.setdefault(p.data_ptr(), number) != number:
                raise ValueError(f"parameters {seen[p.data_ptr()]} and {number} share memory without being one; tie weights by one Parameter in both modules")
            self._trained[p] = None
        if not self._trained:
            raise ValueError("no parameter requires a gradient")

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the optimizer is closed")

    def _forward_order(self) -> List[torch.Tensor]:
        """Rank 0's: that of the first backward pass, turned round. Where it is not known, the order in which they were given."""
        given = self._parameters()
        numbers = {p: number for number, p in enumerate(given)}
        known = [numbers[p] for p in reversed(self._order) if p in numbers]
        order = numpy.array(sorted(set(range(len(given))) - set(known)) + known, "i8")
        self._comm.broadcast(order, root=0)
        return [given[number] for number in order]

    def _create(self) -> None:
        """Starts the servers, and moves the weights into their memory."""
        self._check()
        order = self._forward_order()
        self._order.clear()  # the next one is that of the first iteration behind load_state_dict()
        self._layers = _layers(order, self.param_groups)
        self._where = {p: (number, place) for number, layer in enumerate(self._layers) for place, p in enumerate(layer.parameters)}
        self._next = len(self._layers) - 1
        first = self.param_groups[0]
        self._servers = self._comm.parameters([layer.flat(layer.parameters) for layer in self._layers], **self._options, steps=first["k"] or 0,
                                              iterations=first["iterations"])
        self._move_in()
        for number, layer in enumerate(self._layers):
            momenta = [self.state[p].get("momentum_buffer") for p in layer.parameters]
            if any(m is not None for m in momenta):
                self._servers.set_velocity(number, layer.flat([torch.zeros_like(p) if m is None else m for p, m in zip(layer.parameters, momenta)]))

    def _move_in(self) -> None:
        """The parameters' memory becomes the servers'."""
        for number, layer in enumerate(self._layers):
            weight = self._servers.weight(number)
            weight.flags.writeable = True  # which torch asks for; only the servers write
            for p, view in zip(layer.parameters, layer.views(weight)):
                p.data = view

    def _release(self) -> None:
        """Ends the servers; the next step() starts them anew. After a BufferError they go on."""
        if self._servers is None:
            return
        with torch.no_grad():
            for p in self._where:
                p.data = p.data.clone()
        for layer in self._layers:
            layer.gradients, layer.places = {}, None
        try:
            self._servers.free()
        except BufferError:
            self._move_in()
            raise
        self._servers, self._layers, self._where = None, [], {}
        self._arrived.clear()


def _comm(group: Any) -> braid.Comm:
    if isinstance(group, braid.Comm):
        return group
    from braid.torch import comm

    return comm(group)


def _ranks(servers: Union[None, int, Sequence[int]], size: int) -> Optional[List[int]]:
    """The ranks that are servers; None: all."""
    if not isinstance(servers, int):
        return list(servers) if servers is not None else None
    if not 1 <= servers <= size:
        raise ValueError(f"servers is {servers}; the group has {size} ranks")
    return [i * size // servers for i in range(servers)]


def _broadcast(comm: braid.Comm, p: torch.Tensor) -> None:
    value = p.detach().contiguous()
    comm.broadcast(value.numpy(), root=0)
    if value.data_ptr() != p.data_ptr():
        p.detach().copy_(value)


def _layers(order: List[torch.Tensor], groups: List[Dict[str, Any]]) -> List[_Layer]:
    """Cuts parameters in the order of the forward pass into blocks of at least MERGE elements; each has a layer for each param group that is in it."""
    group_of = {p: group for group in groups for p in group["params"]}
    blocks: List[List[torch.Tensor]] = [[]]
    for p in order:
        if sum(q.numel() for q in blocks[-1]) >= MERGE:
            blocks.append([])
        blocks[-1].append(p)
    layers = []
    for block in blocks:
        for group in groups:
            members = [p for p in block if group_of[p] is group]
            if members:
                layers.append(_Layer(members, group))
    return layers
