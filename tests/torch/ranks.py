# SPDX-License-Identifier: BSD-3-Clause
"""ranks.py N FILE [ARGUMENT...]: FILE by pytest in each of N ranks, as `braid run -n N -- python -m pytest FILE` would.

Torch takes seconds to load, and with torch._dynamo, which optimizers load, twice as long: this process does it once and forks the ranks. It starts no
threads and loads nothing of braid, which is what makes that sound. A line `# preload: MODULE ...` in FILE says what else all ranks need."""
import gc
import importlib
import os
import re
import secrets
import selectors
import signal
import socket
import sys

import pytest
import torch.distributed  # noqa: F401


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def fork(rank, size, port, secret, command):
    """Starts a rank. Returns its process and the end of the pipe that it writes to."""
    mine, theirs = os.pipe()
    process = os.fork()
    if process:
        os.close(theirs)
        return process, mine
    os.dup2(theirs, 1)
    os.dup2(theirs, 2)
    for end in mine, theirs:
        os.close(end)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size), LOCAL_WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port), BRAID_SECRET=secret)
    status = pytest.main(command)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # taking torch apart takes a second; programs that end as such are test_death.py's and test_example.py's


def end_all(selector):
    for key in list(selector.get_map().values()):
        os.kill(key.data[1], signal.SIGKILL)


def end_unfinished(selector, rest):
    """Too much time has passed: says how far each rank has come."""
    for key in list(selector.get_map().values()):
        print(f"[{key.data[0]}] {rest.get(key.data[0], b'').decode(errors='replace')} ... has not ended", flush=True)
    end_all(selector)
    os._exit(124)


def follow(ends):
    """Prints what the ranks write, each line with its rank, until all have ended. Returns the first exit status that is not 0, or 0. A rank that fails ends the
    others, and so does SIGTERM, as of `timeout`."""
    selector, rest, failed = selectors.DefaultSelector(), {}, 0
    for rank, (process, end) in enumerate(ends):
        selector.register(end, selectors.EVENT_READ, (rank, process))
    signal.signal(signal.SIGTERM, lambda *_: end_unfinished(selector, rest))
    while selector.get_map():
        for key, _ in selector.select():
            rank, process = key.data
            data = os.read(key.fd, 1 << 16)
            *lines, rest[rank] = (rest.get(rank, b"") + data).split(b"\n")
            for line in lines + ([rest[rank]] if not data and rest[rank] else []):
                sys.stdout.buffer.write(b"[%d] %s\n" % (rank, line))
            sys.stdout.flush()
            if data:
                continue
            selector.unregister(key.fd)
            status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            if status and not failed:
                print(f"rank {rank} has ended with {status}", flush=True)
                failed = status if status > 0 else 128 - status
                end_all(selector)
    return failed


def main(size, file, *arguments):
    with open(file) as text:
        for line in re.findall(r"^# preload: (.*)$", text.read(), re.MULTILINE):
            for module in line.split():
                importlib.import_module(module)
    gc.collect()
    gc.freeze()  # what all ranks share is not looked at, and so not copied, in any of them
    command = ["-q", "-x", "-o", "faulthandler_timeout=200", "-p", "no:cacheprovider", "--rootdir", os.path.dirname(file), file, *arguments]
    port, secret = free_port(), secrets.token_hex(32)
    os._exit(follow([fork(rank, int(size), port, secret, command) for rank in range(int(size))]))  # as the ranks do


if __name__ == "__main__":
    main(*sys.argv[1:])
