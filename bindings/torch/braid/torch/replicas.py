# SPDX-License-Identifier: BSD-3-Clause
"""Models of all ranks that are to be the same: compared, and made so by rank 0's."""
from __future__ import annotations

from typing import Any, List, Tuple

import numpy
import torch
from torch.nn import Module

# Of buffers, ahead of all gradients: the forward pass waits for them.
_URGENT = 1 << 30


def compare(comm: Any, model: Module) -> None:
    """Raises ValueError, on all ranks, if parameters or buffers differ in name, shape, type or whether they are frozen. Collective."""
    mine = "\n".join(f"{kind} {name}: {tuple(tensor.shape)}, {str(tensor.dtype)[6:]}{'' if tensor.requires_grad or kind == 'buffer' else ', frozen'}"
                     for kind, name, tensor in _named(model))
    length = numpy.array([len(mine.encode())], "i8")
    comm.broadcast(length)
    text = numpy.frombuffer(bytearray(mine.encode().ljust(int(length[0]), b"\0")[: int(length[0])]), "u1")
    comm.broadcast(text)
    root = bytes(text).decode()
    same = numpy.array([root == mine], "i4")
    comm.allreduce(same, op="min")
    if same[0]:
        return
    if root == mine:
        raise ValueError("braid.torch.Session: another rank's model differs from rank 0's; its message says where")
    theirs, ours = root.split("\n"), mine.split("\n")
    for a, b in zip(theirs + [""] * len(ours), ours + [""] * len(theirs)):
        if a != b:
            raise ValueError(f"braid.torch.Session: the models differ: rank 0 has {a or 'no more'}, rank {comm.rank} has {b or 'no more'}")


def _named(model: Module) -> List[Tuple[str, str, Any]]:
    return [("parameter", *named) for named in model.named_parameters()] + [("buffer", *named) for named in model.named_buffers()]


def _bytes(tensor: Any) -> Any:
    return tensor.reshape(-1).view(torch.uint8)


def copy_from_root(comm: Any, model: Module) -> None:
    """All ranks get rank 0's parameters and buffers. Collective."""
    with torch.no_grad():
        moves = []
        for _, _, tensor in _named(model):
            if tensor.numel():
                whole = tensor.detach().contiguous()
                moves.append((tensor.detach(), whole, comm.broadcast(_bytes(whole), wait=False)))
        for tensor, whole, operation in moves:
            operation.wait()
            if comm.rank and whole.data_ptr() != tensor.data_ptr():
                tensor.copy_(whole)


class Buffers:
    """A model's buffers, which rank 0 tells before each forward pass, as DistributedDataParallel has it: in one piece."""

    def __init__(self, comm: Any, model: Module) -> None:
        self._comm = comm
        self._names = [(module, name) for module in model.modules() for name, tensor in module.named_buffers(recurse=False) if tensor.numel()]
        sizes = [self._tensor(*at).numel() * self._tensor(*at).element_size() for at in self._names]
        starts = [0]
        for size in sizes:
            starts.append(starts[-1] + (size + 7 & ~7))  # aligned for every type
        if not self._names:
            return
        self._memory = comm.empty(starts[-1], "u1")
        flat = torch.from_numpy(self._memory)
        self._views = [flat[start : start + size].view(self._tensor(*at).dtype).view(self._tensor(*at).shape)
                       for at, start, size in zip(self._names, starts, sizes)]

    @staticmethod
    def _tensor(module: Module, name: str) -> Any:
        return module._buffers[name]

    def copy_from_root(self) -> None:
        """Collective."""
        if not self._names:
            return
        with torch.no_grad():
            if not self._comm.rank:
                for at, view in zip(self._names, self._views):
                    view.copy_(self._tensor(*at))
            self._comm.broadcast(self._memory, priority=_URGENT)
            if self._comm.rank:
                for at, view in zip(self._names, self._views):
                    self._tensor(*at).copy_(view)
