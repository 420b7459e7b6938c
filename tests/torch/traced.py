# SPDX-License-Identifier: BSD-3-Clause
"""A process group whose operations are traced: what braid itself was given."""
import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List

import pytest
import torch.distributed as dist


@contextlib.contextmanager
def traced(folder: Path, size: int, found: List[Dict[str, Any]]) -> Iterator[Any]:
    """A group of the first `size` ranks, made by all ranks of the job; the others skip the test. Behind the block `found` has its collectives on this rank in the order of submission: name, bytes, priority, ...

    folder: of this rank's own."""
    settings = {"BRAID_TRACE": str(folder / "job.json"), "BRAID_SHM_COLLECTIVE_BYTES": "0"}  # which says that all are traced, small ones too
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        group = dist.new_group(list(range(size)), backend="braid")
    finally:
        for name, setting in before.items():
            os.environ.pop(name) if setting is None else os.environ.update({name: setting})
    if dist.get_rank() >= size:
        pytest.skip("not a rank of this group")
    yield group
    dist.barrier(group)
    operations: List[Any] = []
    deadline = time.monotonic() + 60
    while not any(event["name"] == "barrier" for event in operations):  # the file is written while the job runs
        assert time.monotonic() < deadline, f"the barrier is not in {list(folder.iterdir())}"
        time.sleep(0.05)
        with contextlib.suppress(ValueError):  # it is being written
            operations = [event for file in folder.glob("job.*") for event in json.loads(file.read_text()) if event.get("cat") == "operation"]
    dist.destroy_process_group(group)
    found += [{"name": event["name"], **event["args"]} for event in sorted(operations, key=lambda event: event["args"]["order"])]
