# SPDX-License-Identifier: BSD-3-Clause
"""braid.torch.trace(): torch's profiler and braid's operations of all ranks in one file, on one time axis, named by layer."""
# ranks: 2
# preload: torch._dynamo
import gzip
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.nn as nn

import braid.torch
from traced import traced

STEPS = 3


@pytest.fixture(scope="module", autouse=True)
def group():
    torch.set_num_threads(1)
    dist.init_process_group("braid")
    yield
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def folder():
    """Of both ranks."""
    with tempfile.TemporaryDirectory() as own:
        shared = [own]
        dist.broadcast_object_list(shared)
        yield shared[0]
        dist.barrier()


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(200, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU(), nn.Linear(400, 10))


def train(model, optimizer, steps):
    for step in range(steps):
        with torch.profiler.record_function(f"step {step}"):
            optimizer.zero_grad()
            with torch.profiler.record_function("forward"):
                loss = model(torch.randn(8, 200)).square().mean()
            with torch.profiler.record_function("backward"):
                loss.backward()
            optimizer.step()


def bars(merged, rank, category):
    return [e for e in merged["traceEvents"] if e["ph"] == "X" and e["pid"] == 1000 * rank + 1 and e.get("cat") == category]


def spans(merged, rank, name):
    return [e for e in merged["traceEvents"] if e["ph"] == "X" and e["pid"] == 1000 * rank + 1 and e["name"] == name]


def rows(merged, rank):
    return {e["tid"]: e["args"]["name"] for e in merged["traceEvents"] if e["name"] == "thread_name" and e["pid"] == 1000 * rank + 1}


def lies_in_one(bar, intervals):
    return any(i["ts"] <= bar["ts"] and bar["ts"] + bar["dur"] <= i["ts"] + i["dur"] for i in intervals)


def test_trace__ddp(folder):
    model = nn.parallel.DistributedDataParallel(network(), bucket_cap_mb=0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, optimizer, 1)  # behind which the buckets are cut anew
    with braid.torch.trace(f"{folder}/ddp.json", model=model) as profiler:
        train(model, optimizer, STEPS)
    assert any(e.key == "backward" for e in profiler.key_averages())
    dist.barrier()
    with open(f"{folder}/ddp.json") as file:
        merged = json.load(file)
    for rank in range(2):
        reductions = bars(merged, rank, "braid operation")
        assert [e["name"] for e in reductions] == ["bucket 0: 2.weight to 4.bias", "bucket 1: 0.weight to 0.bias"] * STEPS
        assert reductions[0]["args"]["bytes"] == 4 * (400 * 400 + 400 + 4000 + 10) and reductions[0]["args"]["algorithm"]
        # Each lies in the backward pass that caused it, as clocks of one host tell it.
        backward = spans(merged, rank, "backward")
        assert len(backward) == STEPS
        for number, bar in enumerate(reductions):
            assert lies_in_one(bar, [backward[number // 2]]), (bar, backward)
        assert any(e["name"] == "aten::addmm" for e in bars(merged, rank, "cpu_op"))
        assert rows(merged, rank)[reductions[0]["tid"]] == "braid: operations 0"
    names = {e["pid"]: e["args"]["name"] for e in merged["traceEvents"] if e["name"] == "process_name"}
    assert names[1] == "rank 0" and names[1001] == "rank 1"
    first, second = (spans(merged, rank, "step 0")[0] for rank in range(2))
    assert abs(first["ts"] - second["ts"]) < 60e6  # one axis


def test_trace__session(folder):
    """Named by layers; each all-reduce begins in a backward pass and ends before the pass that needs it."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    session = braid.torch.Session(model, optimizer, policy="layerwise")
    train(model, optimizer, 6)  # the warm-up
    with braid.torch.trace(f"{folder}/session.json"):
        train(model, optimizer, STEPS)
        session.synchronize()
    session.free()
    dist.barrier()
    with open(f"{folder}/session.json") as file:
        merged = json.load(file)
    for rank in range(2):
        reductions = [e for e in bars(merged, rank, "braid operation") if e["name"] in ("0", "2", "4")]
        backward = sorted(spans(merged, rank, "backward"), key=lambda e: e["ts"])
        for number, span in enumerate(backward):
            following = backward[number + 1]["ts"] if number + 1 < STEPS else float("inf")
            mine = [e for e in reductions if span["ts"] <= e["ts"] < following]
            assert sorted(e["name"] for e in mine) == ["0", "2", "4"], (rank, number, reductions)
            assert all(e["ts"] + e["dur"] <= following for e in mine)


def test_trace__parameter_servers_and_a_part_of_the_time(folder):
    model = network()
    with braid.torch.SSD(model.parameters(), lr=0.1, warmup=1, k=2) as optimizer:
        train(model, optimizer, 3)
        with braid.torch.trace(f"{folder}/ssd.json.gz"):
            train(model, optimizer, 4)  # the first pull ends before the second begins
        train(model, optimizer, 2)
    dist.barrier()
    with gzip.open(f"{folder}/ssd.json.gz", "rt") as file:
        merged = json.load(file)
    for rank in range(2):
        pushes = [e for e in bars(merged, rank, "braid operation") if e["name"].startswith("push layer")]
        assert {e["name"] for e in pushes} == {f"push layer {layer}" for layer in range(3)}
        assert len(spans(merged, rank, "step 0")) == 1
        assert any(e["name"].startswith("pull layer") for e in bars(merged, rank, "braid operation"))


def test_trace__torch_saves_a_recording_once(folder):
    with pytest.raises(ValueError, match="on_trace_ready"):
        with braid.torch.trace(f"{folder}/none.json", on_trace_ready=lambda profiler: profiler.export_chrome_trace(f"{folder}/own.json")):
            pass


def test_trace__after_an_exception_nothing_is_written(folder):
    with pytest.raises(ZeroDivisionError):
        with braid.torch.trace(f"{folder}/none.json"):
            1 / 0
    assert not os.path.exists(f"{folder}/none.json")


def test_braid_top__names_of_groups():
    """`braid top` shows torch's groups by their descriptions."""
    pair = dist.new_group([0, 1], group_desc="tensor parallel")
    dist.all_reduce(torch.ones(1), group=pair)
    dist.all_reduce(torch.ones(1))
    if dist.get_rank() == 0:
        top = lambda *arguments: subprocess.run([os.environ["BRAID"], "top", *arguments], capture_output=True, text=True, timeout=60).stdout  # noqa: E731
        mine = {(job["name"], job["rank"]) for job in json.loads(top("--json")) if job["pid"] == os.getpid()}
        assert {("default_pg", 0), ("tensor parallel", 0)} <= mine
        deadline = time.monotonic() + 60
        while "2 of 2 ranks" not in (shown := top("tensor par", "--once", "--interval", "100")):
            assert time.monotonic() < deadline, shown
    dist.barrier()


def test_merge_traces(folder):
    """Of files of a group that was made with BRAID_TRACE."""
    own = Path(folder) / str(dist.get_rank())
    own.mkdir()
    with traced(own, 2, []) as group:
        dist.all_reduce(torch.ones(1000000), group=group)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
            with torch.profiler.record_function("mine"):
                dist.all_reduce(torch.ones(300000), group=group)
    profiler.export_chrome_trace(str(own / "torch.json"))
    dist.barrier()
    if dist.get_rank() == 0:
        files = list(Path(folder).glob("[01]/*"))
        assert len(files) == 4, files
        braid.torch.merge_traces(f"{folder}/all.json", files)
        with open(f"{folder}/all.json") as file:
            merged = json.load(file)
        for rank in range(2):
            reductions = [e for e in bars(merged, rank, "braid operation") if e["name"] == "allreduce"]
            assert [e["args"]["bytes"] for e in reductions] == [1200000]  # the other one is not of the profiler's time
            assert lies_in_one(reductions[0], spans(merged, rank, "mine"))
        later = Path(folder) / "0" / "job.0.2.json"  # as of another group of the process
        later.write_bytes((Path(folder) / "0" / "job.0.json").read_bytes())
        braid.torch.merge_traces(f"{folder}/all.json", [later, *files])
        with open(f"{folder}/all.json") as file:
            reductions = [e for e in bars(json.load(file), 0, "braid operation") if e["name"] == "allreduce"]
        assert [e["args"]["bytes"] for e in reductions] == [1200000] * 2 and reductions[0]["tid"] != reductions[1]["tid"]
        with open(f"{folder}/none.json", "w") as file:
            file.write("[]")
        with pytest.raises(ValueError, match="neither"):
            braid.torch.merge_traces(f"{folder}/x.json", [f"{folder}/none.json"])
