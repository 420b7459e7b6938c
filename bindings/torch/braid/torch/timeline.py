# SPDX-License-Identifier: BSD-3-Clause
"""One timeline of all ranks, with what torch's profiler has seen and, on the same axis, what braid did (doc/torch.md, doc/trace.md).

    with braid.torch.trace("trace.json"):               in the script, around a few iterations
        ...
    python3 -m braid.torch.timeline all.json FILE...       of files that are there already: export_chrome_trace()'s and BRAID_TRACE's, of any ranks
"""
from __future__ import annotations

import argparse
import atexit
import gzip
import json
import os
import shutil
import tempfile
import zlib
from array import array
from contextlib import contextmanager
from itertools import accumulate
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

ROWS = 10_000_000  # braid's rows follow torch's threads, whose numbers are the kernel's
PIDS = 1000  # processes and devices of a rank

Events = List[Dict[str, Any]]
Bucket = Tuple[int, str]  # bytes and title of an all-reduce of DistributedDataParallel


class _Part(NamedTuple):
    """Of one rank. torch: a file of its profiler; braid: one of BRAID_TRACE. Either may be missing."""

    rank: int
    torch: Optional[Dict[str, Any]]
    braid: Optional[Events]
    buckets: Sequence[Sequence[Bucket]] = ()  # of each DistributedDataParallel


@contextmanager
def trace(path: Union[str, "os.PathLike[str]"], *, group: Any = None, model: Any = None, **options: Any) -> Iterator[Any]:
    """Profiles what runs within it, and leaves one file of all ranks for https://ui.perfetto.dev, on the group's rank 0. Collective.

        with braid.torch.trace("trace.json", model=ddp) as profiler:
            for batch in batches: ...

    path: ending in .gz it is compressed. group: of backend "braid", whose operations are recorded, and no other group's; default: all ranks.
    model: a DistributedDataParallel, or several, whose all-reduces are then named after the layers of their buckets; a Session names its own.
    options: those of torch.profiler.profile, which the context gives, but for on_trace_ready: torch saves a recording once, and this file has it.
    Without `activities` it records the CPU, and CUDA where there is one. BRAID_TRACE need not be set. After an exception in it nothing is written.
    """
    import torch
    from braid.torch import comm as comm_of

    if options.get("on_trace_ready") is not None:
        raise ValueError("trace: on_trace_ready is not there: torch saves a recording once, and it goes to the file of all ranks. Use torch.profiler.profile() "
                         "with BRAID_TRACE, and braid.torch.merge_traces()")
    if "activities" not in options:
        kinds = torch.profiler.ProfilerActivity
        options["activities"] = [kinds.CPU] + [kinds.CUDA] * torch.cuda.is_available()
    comm = comm_of(group)
    own = comm.trace_start(_file_of_this_process())
    try:
        with torch.profiler.profile(**options) as profiler:
            yield profiler
    finally:
        comm.trace_stop()
    with tempfile.TemporaryDirectory() as folder:
        profiler.export_chrome_trace(f"{folder}/torch.json")
        seen = _read(f"{folder}/torch.json")
    models = model if isinstance(model, (list, tuple)) else [model] if model is not None else []
    part = _Part(comm.rank, seen, _within(_read(own), _window([seen])), [_buckets_of(m) for m in models])
    parts = _gather(comm, zlib.compress(json.dumps(part).encode(), 1))
    if parts:
        _write(path, _merged([_Part(*json.loads(zlib.decompress(p))) for p in parts]))


def merge_traces(path: Union[str, "os.PathLike[str]"], files: Sequence[Union[str, "os.PathLike[str]"]]) -> None:
    """Writes one timeline from files of torch.profiler's export_chrome_trace() and of BRAID_TRACE, whatever the ranks. Each file says which it is and of
    which rank, torch's if torch.distributed was at work. Of braid's only what lies within the profilers' time is taken, if there are any.

    ValueError: it is neither, or does not say its rank. Files of several hosts differ by the difference of the hosts' clocks."""
    seen: Dict[int, Dict[str, Any]] = {}
    own: Dict[int, Events] = {}
    for file in sorted(map(os.fspath, files), key=lambda file: (len(file), file)):  # a process's first job before its later ones: a.0.json, a.0.2.json
        content = _read(file)
        if isinstance(content, dict) and "traceEvents" in content:
            rank = content.get("distributedInfo", {}).get("rank")
            if rank is None:
                raise ValueError(f"{file} does not say its rank: torch.distributed was not initialised when it was written")
            seen[rank] = content
        elif isinstance(content, list) and content and any(e.get("name") == "midnight" for e in content):
            rank = content[0]["pid"]
            own[rank] = own[rank] + _later(content, own[rank], os.path.basename(file)) if rank in own else content
        else:
            raise ValueError(f"{file} is neither of torch.profiler's export_chrome_trace() nor of BRAID_TRACE in a job")
    everywhere = _window(list(seen.values()))
    _write(path, _merged([_Part(rank, seen.get(rank), _within(own[rank], _window([seen[rank]]) if rank in seen else everywhere) if rank in own else None)
                          for rank in sorted({*seen, *own})]))


# ---- files ---------------------------------------------------------------------------------------

_folder: Optional[str] = None


def _file_of_this_process() -> str:
    """braid keeps one file open for as long as a job runs."""
    global _folder
    if _folder is None:
        _folder = tempfile.mkdtemp(prefix="braid-trace-")
        atexit.register(shutil.rmtree, _folder, ignore_errors=True)
    return f"{_folder}/braid.%r.json"


def _read(path: Any) -> Any:
    opened = gzip.open(path, "rt") if os.fspath(path).endswith(".gz") else open(path)
    with opened as file:
        return json.load(file)


def _write(path: Any, merged: Dict[str, Any]) -> None:
    """An older file is replaced only when this one is complete."""
    path = os.fspath(path)
    new = f"{path}.{os.getpid()}.new"
    try:
        with gzip.open(new, "wt") if path.endswith(".gz") else open(new, "w") as file:
            json.dump(merged, file)
        os.replace(new, path)
    except BaseException:
        if os.path.exists(new):
            os.unlink(new)
        raise


def _gather(comm: Any, part: bytes) -> List[bytes]:
    """What all ranks have given, on rank 0; elsewhere nothing."""
    sizes = array("q", [len(part)] * comm.size)
    comm.allgather(sizes)
    whole = bytearray(sum(sizes)) if comm.rank == 0 else None
    comm.gatherv(part, list(sizes), whole)
    ends = list(accumulate(sizes))
    return [bytes(whole[end - size : end]) for size, end in zip(sizes, ends)] if whole is not None else []


# ---- one axis ------------------------------------------------------------------------------------


def _midnight(events: Events) -> int:
    """Where braid's times begin, in ns since 1970."""
    return 10**9 * next(int(e["args"]["name"]) for e in events if e["name"] == "midnight")


def _later(events: Events, first: Events, name: str) -> Events:
    """Of another job of the same process: in rows of its own behind those of the first."""
    shift = (_midnight(events) - _midnight(first)) / 1000
    rows = 1 + max(e["tid"] for e in first)
    moved = []
    for event in events:
        if event["name"] in ("process_name", "midnight"):
            continue
        event = dict(event, tid=event["tid"] + rows)
        if event["ph"] == "M":
            event["args"] = {"name": f"{event['args']['name']} ({name})"}
        else:
            event["ts"] += shift
        moved.append(event)
    return moved


def _window(traces: Sequence[Dict[str, Any]]) -> Optional[Tuple[float, float]]:
    """From the first to the last event of torch's profilers, in ns since 1970."""
    spans = [(t.get("baseTimeNanoseconds", 0) + 1000 * e["ts"], t.get("baseTimeNanoseconds", 0) + 1000 * (e["ts"] + e.get("dur", 0)))
             for t in traces for e in t["traceEvents"] if e["ph"] == "X"]
    return (min(a for a, _ in spans), max(b for _, b in spans)) if spans else None


def _within(events: Events, window: Optional[Tuple[float, float]]) -> Events:
    if window is None:
        return events
    first, last = ((end - _midnight(events)) / 1000 for end in window)
    return [e for e in events if e["ph"] == "M" or (e["ts"] + e.get("dur", 0) >= first and e["ts"] <= last)]


def _merged(parts: Sequence[_Part]) -> Dict[str, Any]:
    bases = [part.torch.get("baseTimeNanoseconds", 0) for part in parts if part.torch] or [_midnight(part.braid) for part in parts if part.braid]
    base = min(bases, default=0)
    events: Events = []
    for part in parts:
        events += _of_rank(part, base)
    return {"displayTimeUnit": "ms", "baseTimeNanoseconds": base, "traceEvents": events}


def _of_rank(part: _Part, base: int) -> Events:
    """Its process first, with torch's threads and then braid's rows; then what else torch has, as devices."""
    pids: Dict[Any, int] = {}
    process = next((e["pid"] for e in part.torch["traceEvents"] if e["ph"] == "X" and e.get("cat") == "cpu_op"), "python") if part.torch else "python"
    pids[process] = PIDS * part.rank + 1
    events = _of_torch(part, base, pids) if part.torch else []
    if part.braid:
        events += _of_braid(part, base, pids[process])
    for kind, value in (("process_name", {"name": f"rank {part.rank}"}), ("process_sort_index", {"sort_index": pids[process]})):
        events.append({"ph": "M", "pid": pids[process], "tid": 0, "name": kind, "args": value})
    return events


def _of_torch(part: _Part, base: int, pids: Dict[Any, int]) -> Events:
    assert part.torch
    shift = (part.torch.get("baseTimeNanoseconds", 0) - base) / 1000
    process, *_ = pids
    tids: Dict[str, int] = {}  # threads that have names in place of numbers
    events = []
    for event in part.torch["traceEvents"]:
        event = dict(event, pid=pids.setdefault(event["pid"], PIDS * part.rank + 1 + len(pids)))
        if isinstance(event["tid"], str):
            name = event["tid"]
            event["tid"] = tids.setdefault(name, ROWS + len(tids))
        if "ts" in event:
            event["ts"] += shift
        if "id" in event and isinstance(event["id"], int):  # arrows, from a forward pass to its backward pass
            event["id"] += part.rank << 40
        if event["name"] == "process_sort_index":
            event["args"] = {"sort_index": event["pid"]}
        elif event["name"] == "process_name":
            event["args"] = {"name": f"rank {part.rank}: {event['args']['name']}"}
        if event["name"] not in ("process_name", "process_sort_index") or event["pid"] != pids[process]:
            events.append(event)
    return events


def _of_braid(part: _Part, base: int, pid: int) -> Events:
    assert part.braid
    shift = (_midnight(part.braid) - base) / 1000
    _name_buckets(part)
    events: Events = []
    for event in part.braid:
        if event["name"] in ("process_name", "midnight"):
            continue
        event = dict(event, pid=pid, tid=ROWS + event["tid"])
        if event["ph"] == "M":
            event["args"] = {"name": f"braid: {event['args']['name']}"}
            events.append({"ph": "M", "pid": pid, "tid": event["tid"], "name": "thread_sort_index", "args": {"sort_index": event["tid"]}})
        else:
            event["ts"] += shift
            event["cat"] = f"braid {event.get('cat', '')}".strip()
        events.append(event)
    return events


# ---- buckets of DistributedDataParallel ----------------------------------------------------------


def _buckets_of(model: Any) -> List[Bucket]:
    """Bytes and title of each of its all-reduces, in the order in which they come."""
    data = model._get_ddp_logging_data()
    ignored = getattr(model, "parameters_to_ignore", ())
    names = [name for name, p in model.module.named_parameters() if p.requires_grad and name not in ignored]
    sizes = [int(size) for size in (data.get("rebuilt_bucket_sizes") or data.get("bucket_sizes", "")).split(",") if size.strip()]
    members = [[int(i) for i in bucket.split()] for bucket in data.get("rebuilt_per_bucket_param_indices", "").split(",") if bucket.strip()]
    if len(sizes) == 1 and not members:  # not cut anew yet: behind the first backward pass
        members = [list(range(len(names)))]
    if len(sizes) != len(members):
        return []
    ends = [(names[min(bucket)], names[max(bucket)]) for bucket in members]
    return [(size, f"bucket {i}: {first}" + f" to {last}" * (last != first)) for i, (size, (first, last)) in enumerate(zip(sizes, ends))]


def _name_buckets(part: _Part) -> None:
    """The all-reduces of a DistributedDataParallel come in the order of its buckets, each with its bytes, or half of them where a hook compresses."""
    operations = sorted((e for e in part.braid or () if e.get("cat") == "operation" and e["name"] == "allreduce"), key=lambda e: e["args"]["order"])
    for buckets in part.buckets:
        following = 0
        for operation in operations:
            for i in (following, 0) if buckets else ():
                size, title = buckets[i]
                if operation["args"]["bytes"] in (size, size // 2):
                    operation["name"], following = title, (i + 1) % len(buckets)
                    break


def main() -> None:
    parser = argparse.ArgumentParser(prog="python3 -m braid.torch.timeline", description=merge_traces.__doc__.split("\n")[0])
    parser.add_argument("output")
    parser.add_argument("files", nargs="+")
    arguments = parser.parse_args()
    merge_traces(arguments.output, arguments.files)


if __name__ == "__main__":
    main()
