# SPDX-License-Identifier: BSD-3-Clause
"""What torch's collectives have no argument for: how urgent an operation is, and in whose memory its tensor lies."""
from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from braid.torch import _native


class priority:
    """`with braid.torch.priority(n):` operations that this thread submits to groups of braid have priority n: of those under way the larger is
    sent first, from the next frame on; outside it is 0. As braid_options.priority. May be nested. Need not be the same on every rank."""

    def __init__(self, urgency: int) -> None:
        self._urgency, self._before = urgency, 0

    def __enter__(self) -> None:
        self._before = _native.set_priority(self._urgency)

    def __exit__(self, *exception: Any) -> None:
        _native.set_priority(self._before)


def memory(group: Any, count: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """A tensor of `count` elements, not initialised; where the group's backend has memory of its own, in that (braid: of braid_alloc(), which
    peers of the host read in place)."""
    backend = (group or dist.group.WORLD)._get_backend(device)
    if getattr(backend, "supports_tensor_alloc", None) and backend.supports_tensor_alloc(device):
        return backend.allocate_tensor(count, dtype=dtype, device=device)
    return torch.empty(count, dtype=dtype, device=device)
