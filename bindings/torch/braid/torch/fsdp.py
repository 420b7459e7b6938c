# SPDX-License-Identifier: BSD-3-Clause
"""FSDP2 (torch.distributed.fsdp.fully_shard) with braid: weights are gathered ahead of their use, the most urgent first, and gradients travel behind.

    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    braid.torch.fsdp_hook(model, optimizer)

On a CPU torch waits for every all-gather and reduce-scatter where it is called, so that nothing travels while the model computes. On GPUs torch has streams
for that, and what is added are priorities and memory.
"""
from __future__ import annotations

from typing import Any, Dict, List, Optional

import torch
import torch.distributed as dist

from braid.torch.urgency import Pool, priority


def _backward() -> int:
    """The number of the backward pass that runs in this thread, or -1."""
    return int(torch._C._current_graph_task_id())


def _weights(module: Any) -> List[Any]:
    """The groups of weights that travel as one each: torch's FSDPParamGroup. None where all weights are in modules below that are sharded themselves."""
    state = module._get_fsdp_state()
    found = state._fsdp_param_groups if hasattr(state, "_fsdp_param_groups") else [state._fsdp_param_group]
    return [weights for weights in found if weights is not None]


class _Comm:
    """What both collectives of a module have."""

    def __init__(self, plan: "FSDPPlan", number: int) -> None:
        self._plan, self._number = plan, number

    def allocate(self, size: Any, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """A flat buffer of a collective. Its group is known from the first call on; before that it is ordinary memory."""
        group = self._plan.group
        return torch.empty(*size, dtype=dtype, device=device) if group is None else self._plan.pool.take(group, int(size[0]), dtype, device)


class _Gather(_Comm):
    """The all-gather of a module's weights (AllGather of torch.distributed.fsdp)."""

    def __call__(self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: Any, async_op: bool = False) -> Any:
        """On a CPU always asynchronous: torch waits for the Work where it copies the weights to their parameters."""
        urgency = self._plan.gathers(self._number, group)
        with priority(urgency):
            return dist.all_gather_into_tensor(output_tensor, input_tensor, group, async_op=async_op or output_tensor.device.type == "cpu")


class _Scatter(_Comm):
    """The reduce-scatter of a module's gradients (ReduceScatter of torch.distributed.fsdp)."""

    def __call__(self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: Any, op: Any, async_op: bool = False) -> Any:
        """Where nobody looks at the numbers before the end of the backward pass, that is what waits for them. op AVG: torch divides nothing afterwards."""
        plan = self._plan
        lags = output_tensor.device.type == "cpu" and not async_op and op == dist.ReduceOp.AVG and plan.may_lag(self._number, output_tensor.dtype)
        with priority(-plan.place(self._number)):
            work = dist.reduce_scatter_tensor(output_tensor, input_tensor, op, group, async_op=async_op or lags)
        if not lags:
            return work
        plan.lags(work)
        return None


class FSDPPlan:
    """The result of `fsdp_hook`: which modules follow each other. `remove()` takes its hooks away."""

    def __init__(self, model: Any, optimizer: Any, prefetch: int) -> None:
        from torch.distributed.fsdp import FSDPModule

        if not hasattr(FSDPModule, "set_custom_all_gather"):
            raise NotImplementedError(f"fsdp_hook: PyTorch {torch.__version__} takes no all-gather of somebody else's (FSDPModule.set_custom_all_gather); later ones do")
        if not isinstance(model, FSDPModule):
            raise TypeError(f"fsdp_hook: a {type(model).__name__} is not sharded: give the model that fully_shard() has been applied to last")
        if prefetch < 0:
            raise ValueError(f"fsdp_hook: prefetch is {prefetch}; it is at least 0")
        self.group: Any = None  # of the collectives
        self.pool = Pool()  # their buffers
        self.order: List[int] = []  #: numbers of the modules, as they were used in the last forward pass
        self._prefetch = prefetch
        self._modules: List[Any] = []  # one for each group of weights that travels as one
        self._places: Dict[int, int] = {}  # in the order
        self._now: Optional[List[int]] = None  # the order of the forward pass that runs; None: none does
        self._versions: Optional[List[int]] = None  # of the weights that were gathered behind an optimizer's step
        self._scatters: List[Any] = []  # to be waited for at the end of the backward pass
        self._waiting_pass = -1  # its number
        self._handles = [model.register_forward_pre_hook(lambda *_: self._begin(), prepend=True)]
        numbers: Dict[int, int] = {}  # by id() of the state, which modules that are sharded together share
        for module in model.modules():
            if not isinstance(module, FSDPModule) or not _weights(module):
                continue
            number = numbers.setdefault(id(module._get_fsdp_state()), len(numbers))
            if number == len(self._modules):
                self._modules.append(module)
                module.set_custom_all_gather(_Gather(self, number))
                module.set_custom_reduce_scatter(_Scatter(self, number))
            self._handles.append(module.register_forward_pre_hook(lambda *_, number=number: self._use(number)))
        self._handles += [model.register_forward_hook(lambda *_: self._end()), model.register_load_state_dict_pre_hook(lambda *_: self._drop())]
        if optimizer is not None:
            self._handles.append(optimizer.register_step_post_hook(lambda *_: self._gather_ahead()))

    def remove(self) -> None:
        """Nothing is gathered ahead any more; the collectives stay braid's."""
        self._drop()
        for handle in self._handles:
            handle.remove()
        for module in self._modules:
            module.set_modules_to_forward_prefetch([])

    # ---- weights ---------------------------------------------------------------------------------

    def place(self, number: int) -> int:
        """Where in the forward pass the module is used; 0 is first. Before the first pass has ended: where in the model it is."""
        return self._places.get(number, number)

    def gathers(self, number: int, group: Any) -> int:
        """The module's weights are about to be gathered: how urgent that is. More urgent than any gradients, and what is used first most of all."""
        self.group = group
        return 1 + self.place(number) if _backward() >= 0 else len(self._modules) - self.place(number)

    def _begin(self) -> None:
        """The model's forward pass begins."""
        if self._versions is not None and self._versions != self._versions_now():
            self._drop()
        self._versions = None
        self._now = []

    def _versions_now(self) -> List[int]:
        """Numbers that grow when this rank's parts of the weights are written."""
        parts = [part.sharded_param for module in self._modules for weights in _weights(module) for part in weights.fsdp_params]
        return [number for part in parts for number in (part._version, part._local_tensor._version)]

    def _use(self, number: int) -> None:
        """A module's forward pass begins."""
        if self._now is not None and number not in self._now:  # None: what a checkpoint computes again in the backward pass
            self._now.append(number)

    def _end(self) -> None:
        """The model's forward pass has ended: the order is known."""
        order, self._now = self._now or [], None
        if order != self.order:
            self.order, self._places = order, {number: place for place, number in enumerate(order)}
            for place, number in enumerate(order):
                following = order[place + 1 : place + 1 + self._prefetch]
                self._modules[number].set_modules_to_forward_prefetch([self._modules[other] for other in following])

    def ahead(self) -> List[int]:
        """Numbers of the modules whose weights were gathered, or are on their way, and have not been used yet."""
        return [number for number, module in enumerate(self._modules) if any(weights._all_gather_result is not None for weights in _weights(module))]

    def _gather_ahead(self) -> None:
        """The optimizer has stepped: the weights that the next forward pass begins with may go. What another step has sent is too old."""
        self._drop()
        for number in self.order[: self._prefetch + 1]:
            self._modules[number].unshard(async_op=True)
        self._versions = self._versions_now()

    def _drop(self) -> None:
        """The weights are going to change: what was gathered before is not to be used. (At the end of a backward pass torch drops it.)"""
        for number in self.ahead():
            self._modules[number].unshard()  # waits
            self._modules[number].reshard()

    # ---- gradients -------------------------------------------------------------------------------

    def may_lag(self, number: int, dtype: torch.dtype) -> bool:
        """Whether torch just keeps the result of the module's reduce-scatter: adds it to nothing, casts it to nothing, sums it over no replicas and
        gives it to no hook before the backward pass has ended."""
        if _backward() < 0:  # nothing would wait for it
            return False
        try:
            (weights,) = _weights(self._modules[number])
            if weights._is_hsdp or weights._all_reduce_hook is not None:
                return False
            return all(
                parameter.sharded_param.grad is None
                and not parameter.offload_to_cpu
                and getattr(parameter, "sharded_grad_dtype", parameter.orig_dtype) == dtype
                and not getattr(parameter.sharded_param, "_post_accumulate_grad_hooks", None)
                for parameter in weights.fsdp_params)
        except AttributeError:  # a version of torch that keeps this elsewhere
            return False

    def lags(self, work: Any) -> None:
        """The end of this backward pass waits for the operation."""
        if _backward() != self._waiting_pass:
            self._waiting_pass = _backward()
            torch.autograd.Variable._execution_engine.queue_callback(self._wait)
        self._scatters.append(work)

    def _wait(self) -> None:
        works, self._scatters = self._scatters, []
        for work in works:
            work.wait()


def fsdp_hook(model: Any, optimizer: Any = None, *, prefetch: int = 1) -> FSDPPlan:
    """Has the collectives of a model that `fully_shard()` was applied to use braid as it is meant to be used. Call it once, with the outermost module,
    before the first forward pass, on all ranks.

    - While a module computes, the weights of the next `prefetch` modules are gathered, in the order in which the last forward pass used them. Weights of
      each module travel as one, as always with FSDP2. Each takes the memory of the module's whole weights while it is ahead. 0: none.
    - Gradients are reduce-scattered while the backward pass goes on, which waits for them at its end. (Where torch needs the result at once, the
      operation is waited for as without: with a reduce_dtype that is not the gradients', gradients that are accumulated in more than one
      synchronised pass, replicas (HSDP), all-reduce hooks and post-accumulate hooks.)
    - Priorities: weights before gradients; among weights what is used first, among gradients those of the layers that the next forward pass uses first.
    - Buffers are in memory of braid_alloc(), which ranks of a host read in place, and are kept: as much as was in use at once.
    - With `optimizer`, the first weights of the next forward pass are gathered as soon as its step() ends. What writes weights
      before that pass (another step, load_state_dict() of the model, operations in place, on all ranks) has them gathered anew; only writes through
      `.data` and past torch are not seen.

    Raises TypeError where the model is not sharded, ValueError for prefetch < 0. A model whose modules have several groups of weights
    (shard_placement_fn with several meshes) is refused by torch."""
    return FSDPPlan(model, optimizer, prefetch)
