# SPDX-License-Identifier: BSD-3-Clause
"""A communication hook of DistributedDataParallel: priorities by bucket, the average in braid, and gradients of half the size on the wire.

    ddp.register_comm_hook(braid.torch.DDPState(compress="bf16"), braid.torch.ddp_hook)
"""
from typing import Any, Dict, List, NamedTuple, Optional

import torch
import torch.distributed as dist

from braid.torch.urgency import memory, priority

_WIRE = {"bf16": torch.bfloat16, "fp16": torch.float16}


class _Bucket(NamedTuple):
    """What is kept of a bucket from one iteration to the next."""

    parameters: List[Any]  # as they lie in the bucket, one behind the other
    wire: Any  # the gradients as they travel
    residual: Any  # what rounding has left over, flat like the bucket; None without error feedback


class DDPState:
    """The state of `ddp_hook`, one for each DistributedDataParallel.

    group: whose ranks average; default: all. It is the process group that the DistributedDataParallel has.

    compress: None sends gradients as they are. "bf16" or "fp16" sends gradients of float32 and float64 rounded to bfloat16 or float16; others, as
    those of a model that is bfloat16 itself, stay as they are. A gradient beyond 65,504 is infinite in float16, as it is with torch's
    fp16_compress_hook.

    error_feedback: what rounding has taken from a gradient is added to the same parameter's next one (Seide et al. 2014, "1-bit stochastic
    gradient descent"; Karimireddy et al. 2019, "Error feedback fixes SignSGD"), so that over many iterations nothing is lost. It takes as
    much memory as the gradients. Not fed back are the roundings of the sum itself, one where an algorithm combines the values of all ranks in one
    step, one a hop otherwise (braid/types.h).

    priorities: a bucket that is ready later overtakes those under way: it belongs to the layers that the next forward pass needs first (P3).
    DistributedDataParallel itself waits for all buckets at the end of the backward pass, so this pays only beside other operations on the same network.

    Checkpoints. torch.save() of the state, as torch's documentation of communication hooks has it, or `state_dict()`. Residuals are this rank's own:
    save them on each rank, or lose no more than one rounding of each gradient. They are numbered in the order in which the first iteration of a process
    reduces the parameters, so the model and the arguments of DistributedDataParallel have to be the same when they are loaded.
    """

    def __init__(self, group: Any = None, compress: Optional[str] = None, *, error_feedback: bool = True, priorities: bool = True) -> None:
        if compress is not None and compress not in _WIRE:
            raise ValueError(f"compress is {compress!r}; there are {', '.join(map(repr, _WIRE))} and None")
        self.group, self.compress, self.error_feedback, self.priorities = group, compress, error_feedback, priorities
        self._buckets: Dict[int, _Bucket] = {}  # by index
        self._numbers: Dict[int, int] = {}  # of parameters, by id(); the buckets hold the parameters
        self._residuals: Dict[int, Any] = {}  # by number; of parameters that are in a bucket: views of its residual

    def state_dict(self) -> Dict[str, Any]:
        """What rounding has left over on this rank, and whose it is: its rank among all, as a state that is loaded does not know its group yet."""
        return {"rank": dist.get_rank(), "residuals": [self._residuals[number].clone() for number in sorted(self._residuals)]}

    def load_state_dict(self, saved: Dict[str, Any]) -> None:
        """Goes on with what `state_dict()` has saved. Residuals of another rank are passed over: its own would be counted twice."""
        self._buckets.clear()
        own = int(saved["rank"]) == dist.get_rank()
        self._residuals = dict(enumerate(saved["residuals"])) if own else {}

    def __getstate__(self) -> Dict[str, Any]:
        return {"compress": self.compress, "error_feedback": self.error_feedback, "priorities": self.priorities, **self.state_dict()}

    def __setstate__(self, saved: Dict[str, Any]) -> None:
        """A group cannot be saved: `group` is the default one afterwards, and can be set."""
        self.__init__(None, saved["compress"], error_feedback=saved["error_feedback"], priorities=saved["priorities"])  # type: ignore[misc]
        self.load_state_dict(saved)

    def _bucket(self, bucket: Any, buffer: Any) -> _Bucket:
        """What is kept of the bucket. DistributedDataParallel orders parameters into other buckets behind the first iteration: residuals move with them."""
        index, parameters = bucket.index(), bucket.parameters()
        known = self._buckets.get(index)
        if known is None or len(known.parameters) != len(parameters) or any(a is not b for a, b in zip(known.parameters, parameters)):
            wire = memory(self.group, buffer.numel(), _WIRE[self.compress], buffer.device)
            known = self._buckets[index] = _Bucket(parameters, wire, self._gather(parameters, buffer) if self.error_feedback else None)
        if bucket.is_last():
            for stale in [i for i in self._buckets if i > index]:
                del self._buckets[stale]
        return known

    def _gather(self, parameters: List[Any], buffer: Any) -> Any:
        """The residuals of these parameters one behind the other; zeros for those that have none."""
        if sum(parameter.numel() for parameter in parameters) != buffer.numel():
            raise RuntimeError("the parameters of the bucket do not fill it: this version of torch lays buckets out in another way. error_feedback=False does without")
        residual, at = torch.zeros_like(buffer), 0
        for parameter in parameters:
            number = self._numbers.setdefault(id(parameter), len(self._numbers))
            part = residual[at : at + parameter.numel()]
            before = self._residuals.get(number)
            if before is not None:
                if before.numel() != part.numel():
                    raise ValueError(f"the saved residual {number} has {before.numel()} elements, and the parameter {part.numel()}: it is of another model, "
                                     "or of other arguments of DistributedDataParallel")
                part.copy_(before)
            self._residuals[number] = part
            at += parameter.numel()
        return residual


def ddp_hook(state: DDPState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Averages a bucket's gradients over the ranks. To be given to DistributedDataParallel.register_comm_hook(), with a `DDPState`."""
    buffer = bucket.buffer()
    urgency = bucket.index() if state.priorities else 0
    if state.compress is None or buffer.dtype not in (torch.float32, torch.float64):
        return _average(buffer, state.group, urgency).then(lambda future: future.value()[0])
    _, wire, residual = state._bucket(bucket, buffer)
    if residual is not None:
        buffer.add_(residual)
    wire.copy_(buffer)
    if residual is not None:
        torch.sub(buffer, wire, out=residual)
        residual.nan_to_num_(0, 0, 0)  # behind an overflow, which the result shows
    return _average(wire, state.group, urgency).then(lambda future: buffer.copy_(future.value()[0]))


def _average(tensor: Any, group: Any, urgency: int) -> Any:
    """A future of a list with the tensor, which becomes the average."""
    with priority(urgency):
        return dist.all_reduce(tensor, dist.ReduceOp.AVG, group, async_op=True).get_future()
