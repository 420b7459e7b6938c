# SPDX-License-Identifier: BSD-3-Clause
"""braid for PyTorch: the backend "braid" of torch.distributed, registered by importing this module.

    import torch.distributed as dist, braid.torch
    dist.init_process_group("braid")

doc/torch.md has the rest.
"""
from __future__ import annotations

import atexit
import datetime
import os
import sys
from typing import Any, Dict, Optional

import torch
import torch.distributed as dist

import braid
from braid.comm import Comm, _say
from braid.torch import _native
from braid.torch._native import Options

# At the end of the program operations that are still under way get this long before their group is given up.
_GRACE = datetime.timedelta(seconds=2)
_comms: Dict[int, Comm] = {}  # that comm() has made and nobody has finalized, by the address of their communicator


def _create(of: Any, options: Any) -> Any:
    """What c10d calls for a new group; of: its DistributedBackendOptions, options: pg_options."""
    if options is not None and not isinstance(options, Options):
        raise TypeError(f"pg_options of a group of braid is a braid.torch.Options, not {type(options).__name__}")
    # DDP's buckets lie in memory that peers read in place, unless the program says otherwise.
    os.environ.setdefault("DDP_DISABLE_COMM_MEM", "0")
    return _native.create(of.store, of.group_rank, of.group_size, of.timeout, options)


def comm(group: Optional[Any] = None) -> Comm:
    """The braid.Comm over a process group's communicator: for sessions, parameter servers, priorities, empty() and all else of doc/python.md.

    group: None: the default group. The same object each time. Calls of both kinds, the group's and the Comm's, are collectives of one communicator: all
    ranks make them in one order. finalize() ends sessions and operations of the Comm, but leaves the process group as it is; the communicator of a process
    group that has been destroyed lives until its Comm is finalized and arrays of empty() are gone.
    """
    backend = (group or dist.group.WORLD)._get_backend(torch.device("cpu"))
    while hasattr(backend, "wrapped_pg"):  # TORCH_DISTRIBUTED_DEBUG=DETAIL
        backend = backend.wrapped_pg
    hold = _native.hold(backend)
    found = _comms.get(hold.address)
    if found is not None and not found._ending:
        hold.release()
    else:
        found = _comms[hold.address] = Comm.borrowed(hold.address, hold.release)
    return found


@atexit.register
def _at_exit() -> None:
    """Programs may end without destroy_process_group(), and without close() of parameter servers. These end before their communicator, though arrays still
    lie in their memory: nobody reads those any more. Behind an exception they wait for nobody, and the others hear what it was."""
    error = getattr(sys, "last_value", None)
    for borrowed in list(_comms.values()):
        known = error is not None or borrowed._ending or borrowed.error() is not None  # the program has heard what is wrong
        try:
            if error is not None and borrowed._dependents:
                borrowed.abort(f"{type(error).__name__}: {error}")
            borrowed.finalize()
        except Exception:  # of one of its parts; the others end all the same
            pass
        for dependent in list(borrowed._dependents):
            failed = dependent._let_go(at_exit=True)
            if failed and not known:
                _say(borrowed, failed)
    _native.close_all(_GRACE)


if not hasattr(dist.Backend, "BRAID"):  # else _braid_torch.autoload() has registered it, and its creator calls this one; some versions of torch refuse a second
    dist.Backend.register_backend("braid", _create, extended_api=True, devices=["cpu", "cuda"])

from braid.torch.fsdp import FSDPPlan, fsdp_hook  # noqa: E402, these need comm()
from braid.torch.hooks import DDPState, ddp_hook  # noqa: E402
from braid.torch.session import Session  # noqa: E402
from braid.torch.ssd import SSD  # noqa: E402
from braid.torch.timeline import merge_traces, trace  # noqa: E402
from braid.torch.urgency import priority  # noqa: E402

__all__ = ["DDPState", "FSDPPlan", "Options", "SSD", "Session", "comm", "ddp_hook", "fsdp_hook", "merge_traces", "priority", "trace"]
