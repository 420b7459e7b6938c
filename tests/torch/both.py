# SPDX-License-Identifier: BSD-3-Clause
"""Runs a script with gloo and then with braid in the same processes, and compares what it returns.

Every rank of the job calls `both` with the same scripts in the same order. The groups of all jobs meet by one store, each under a prefix of its own,
so that no job needs a port of its own.
"""
import contextlib
import datetime
import os

import torch
import torch.distributed as dist

BACKENDS = tuple(os.environ.get("BOTH_BACKENDS", "gloo,braid").split(","))
if "braid" in BACKENDS:
    import braid.torch  # noqa: F401  registers the backend

_store = None
_jobs = 0


def rank() -> int:
    """This process's rank, also where no group exists."""
    return int(os.environ["RANK"])


def size() -> int:
    """The number of ranks of the job."""
    return int(os.environ["WORLD_SIZE"])


def rendezvous() -> dist.Store:
    """A store for one more job: all ranks ask for it equally often."""
    global _store, _jobs
    if _store is None:
        _store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), size(), rank() == 0)
    _jobs += 1
    return dist.PrefixStore(str(_jobs), _store)


@contextlib.contextmanager
def job(backend: str, timeout: float = 60):
    """The default group of the backend, with the timeout in seconds; it is destroyed at the end."""
    dist.init_process_group(backend, store=rendezvous(), rank=rank(), world_size=size(),
                            timeout=datetime.timedelta(seconds=timeout))
    try:
        yield dist.group.WORLD
    finally:
        dist.destroy_process_group()


def run(backend: str, script):
    """What `script()` returns in a job of the backend, from a random state that is always the same."""
    torch.manual_seed(1)
    with job(backend):
        return script()


def compare(result, expected, **tolerance) -> None:
    """Tensors by torch.testing, in lists, tuples and dicts; all else by ==."""
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(result, expected, equal_nan=True, **tolerance)
    elif isinstance(expected, (list, tuple)):
        assert len(result) == len(expected)
        for one, other in zip(result, expected):
            compare(one, other, **tolerance)
    elif isinstance(expected, dict):
        assert result.keys() == expected.keys()
        for key in expected:
            compare(result[key], expected[key], **tolerance)
    else:
        assert result == expected


def both(script, exact: bool = True) -> None:
    """Runs `script()` with each backend and compares what it returns.

    exact: whether the tensors are equal bit for bit. It has to be False where more than two ranks are summed: gloo adds in the order of its ring,
        braid in that of the algorithm it has chosen, and the sum of floating-point numbers depends on the order. Then the tolerance is
        that of torch.testing for the type (1.3e-6 and 1e-5 for float32).
    """
    expected, *results = [run(backend, script) for backend in BACKENDS]
    for result in results:
        compare(result, expected, **({"rtol": 0, "atol": 0} if exact else {}))
