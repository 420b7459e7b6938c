# SPDX-License-Identifier: BSD-3-Clause
"""What torch's collectives have no argument for: how urgent an operation is, and in whose memory its tensor lies."""
from __future__ import annotations

from typing import Any, Dict, List, Tuple

import torch
import torch.distributed as dist

from braid.torch import _native


class priority:
    """`with braid.torch.priority(n):` operations that this thread submits to groups of braid have priority n: of those under way the larger is
    sent first, from the next frame on. 0, as outside: the priority in the options that the group was made with, which are 0 by default. As
    braid_options.priority. May be nested. Need not be the same on every rank."""

    def __init__(self, urgency: int) -> None:
        self._urgency, self._before = urgency, 0

    def __enter__(self) -> None:
        self._before = _native.set_priority(self._urgency)

    def __exit__(self, *exception: Any) -> None:
        _native.set_priority(self._before)


def memory(group: Any, count: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """A tensor of `count` elements, not initialised; where the group's backend has memory of its own, in that (braid: of braid_alloc(), which
    peers of the host read in place)."""
    if has_memory(group, device):
        return (group or dist.group.WORLD)._get_backend(device).allocate_tensor(count, dtype=dtype, device=device)
    return torch.empty(count, dtype=dtype, device=device)


def has_memory(group: Any, device: torch.device) -> bool:
    """Whether the group's backend has memory of its own for tensors of the device."""
    backend = (group or dist.group.WORLD)._get_backend(device)
    return bool(hasattr(backend, "supports_tensor_alloc") and backend.supports_tensor_alloc(device))


class Pool:
    """Memory of a group's backend for tensors that come and go: peers map each piece once, when they first read it, so pieces are used again instead
    of being given back. A piece is free when no tensor is left over it. There are as many as have been in use at once."""

    def __init__(self) -> None:
        self._pieces: Dict[Tuple[int, torch.dtype], List[torch.Tensor]] = {}

    def take(self, group: Any, count: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """A flat tensor, not initialised."""
        if not has_memory(group, device) or not hasattr(torch._C, "_storage_Use_Count"):
            return torch.empty(count, dtype=dtype, device=device)
        pieces = self._pieces.setdefault((count, dtype), [])
        for piece in pieces:
            # Two uses: the piece itself, and the object that is asked.
            if torch._C._storage_Use_Count(piece.untyped_storage()._cdata) == 2:
                return piece.detach()
        pieces.append(memory(group, count, dtype, device))
        return pieces[-1].detach()
