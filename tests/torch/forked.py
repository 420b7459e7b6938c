# SPDX-License-Identifier: BSD-3-Clause
"""Jobs of forked processes: torch is loaded once, and what a case breaks ends with its job."""
import datetime
import multiprocessing
import os
import signal
import tempfile
import traceback

import torch.distributed as dist

import braid.torch  # noqa: F401  registers the backend


class Failed(str):
    """The text of the exception that a rank ended with."""


def _rank(body, rank, size, timeout, store, environment, end):
    os.environ.update(environment)
    try:
        if store:
            dist.init_process_group("braid", init_method=f"file://{store}", rank=rank, world_size=size,
                                    timeout=datetime.timedelta(seconds=timeout))
        result = body(rank)
        dist.destroy_process_group()
    except BaseException as error:  # an assertion, too
        if isinstance(error, AssertionError):
            traceback.print_exc()
        result = Failed(f"{type(error).__name__}: {error}")
    end.send(result)
    os._exit(0)  # pytest is none of the child's


def job(size: int, body, timeout: float = 60, limit: float = 60, initialize: bool = True, **environment: str) -> list:
    """Runs `body(rank)` in `size` processes that have a braid group.

    timeout: of the group, in seconds. limit: when a rank that has not ended by then counts as hanging, in seconds. initialize: whether
    the ranks have the group when body begins. environment: variables of all ranks.
    Returns what each rank returned, `Failed` where it raised, or minus the number of the signal that ended it.
    """
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        ranks = []
        for rank in range(size):
            mine, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_rank, args=(body, rank, size, timeout, f"{folder}/store" if initialize else "", environment, theirs))
            process.start()
            theirs.close()
            ranks.append((process, mine))
        results = []
        for rank, (process, end) in enumerate(ranks):
            try:
                results.append(end.recv() if end.poll(limit) else Failed("HANGS"))
            except EOFError:  # it died
                results.append(None)
            if results[-1] == "HANGS":
                os.kill(process.pid, signal.SIGKILL)
            process.join()
            if results[-1] is None:
                results[-1] = process.exitcode
        return results
