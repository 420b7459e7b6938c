# SPDX-License-Identifier: BSD-3-Clause
"""Jobs of forked processes: torch is loaded once, and what a case breaks ends with its job."""
import atexit
import ctypes
import datetime
import gc
import multiprocessing
import os
import signal
import sys
import tempfile
import traceback

import torch.distributed as dist

import braid.comm
import braid.torch


class Failed(str):
    """The text of the exception that a rank ended with."""


def _leave(error):
    """Ends this process as the interpreter ends a program, but without what pytest would do then."""
    atexit._clear()
    for registered in braid.comm._at_exit, braid.torch._at_exit:  # the later is called first
        atexit.register(registered)
    if error is not None and not isinstance(error, SystemExit):
        sys.last_value = error
    ctypes.pythonapi.Py_Exit(0)


def _rank(body, rank, size, timeout, store, environment, leaves, end):
    os.environ.update(environment)
    raised = None
    try:
        if store:
            dist.init_process_group("braid", init_method=f"file://{store}", rank=rank, world_size=size,
                                    timeout=datetime.timedelta(seconds=timeout))
        result = body(rank)
        if dist.is_initialized() and not leaves:
            dist.destroy_process_group()
    except BaseException as error:  # an assertion, too
        if isinstance(error, AssertionError):
            traceback.print_exc()
        raised, result = error, Failed(f"{type(error).__name__}: {error}")
    end.send(result)
    if leaves:
        _leave(raised)
    os._exit(0)  # pytest is none of the child's


def job(size: int, body, timeout: float = 60, limit: float = 60, initialize: bool = True, leaves: bool = False, **environment: str) -> list:
    """Runs `body(rank)` in `size` processes that have a braid group.

    timeout: of the group, in seconds. limit: when a rank that has not ended by then counts as hanging, in seconds. initialize: whether
    the ranks have the group when body begins. leaves: `body` is the whole program: behind it, or behind what it raises, the interpreter ends with
    all that is open then; otherwise the group is destroyed. environment: variables of all ranks.
    Returns what each rank returned, `Failed` where it raised or hangs, or how it died: its exit status, or minus the number of the signal.
    """
    context = multiprocessing.get_context("fork")
    gc.freeze()  # what is loaded, mostly torch, is not taken apart in each rank that ends as a program does
    with tempfile.TemporaryDirectory() as folder:
        ranks = []
        for rank in range(size):
            mine, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_rank, args=(body, rank, size, timeout, f"{folder}/store" if initialize else "", environment, leaves, theirs))
            process.start()
            theirs.close()
            ranks.append((process, mine))
        results = []
        for process, end in ranks:
            result, told = Failed("HANGS"), False
            if end.poll(limit):
                try:
                    result, told = end.recv(), True
                except EOFError:
                    pass
                process.join(limit)
            if process.exitcode is None:
                result = Failed("HANGS")
                os.kill(process.pid, signal.SIGKILL)
                process.join()
            elif process.exitcode < 0 or not told:
                result = process.exitcode
            results.append(result)
        return results
