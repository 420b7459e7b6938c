# SPDX-License-Identifier: BSD-3-Clause
"""braid: collectives and messages over all NICs of a host at once, from Python.

    import braid, numpy
    with braid.init() as comm:                  # rank and peers from the environment of the launcher
        x = comm.empty(1000, "f4")              # or any numpy array, torch tensor, bytearray, ...
        comm.allreduce(x, op="avg")             # in place

doc/python.md has the rest, and include/braid/braid.h what each operation promises.
"""
from braid._braid import ffi as _ffi, lib as _lib
from braid.buffer import REDUCTIONS as _REDUCTIONS, TYPES as _TYPES, Reduction
from braid.collectives import Options
from braid.comm import Comm, Peer, Rail, Stats, create_id, free_id, init
from braid.errors import Error
from braid.memory import Key, Region
from braid.messages import Claimed, Notification, Received
from braid.op import Operation, group, wait_any
from braid.parameters import Parameters
from braid.session import Session

__version__: str = _ffi.string(_lib.braid_version()).decode()
types = tuple(_TYPES)  #: of elements, by name
reductions = tuple(_REDUCTIONS)  #: by name

__all__ = ["Claimed", "Comm", "Error", "Key", "Notification", "Operation", "Options", "Parameters", "Peer", "Rail", "Received", "Reduction", "Region", "Session", "Stats", "create_id", "free_id", "group", "init", "reductions", "types", "wait_any"]
