# SPDX-License-Identifier: BSD-3-Clause
"""The picture of doc/torch.md: a training step by DistributedDataParallel and one by a Session, with torch's profiler and braid's operations of two ranks.

    BRAID_BACKEND=tcp braid run -n 2 -- python3 bench/torch_timeline.py timeline.json timeline.svg

timeline.json is what Perfetto opens; timeline.svg is drawn from it by this script, in Perfetto's manner: it is no screenshot.
"""
import argparse
import json
from xml.sax.saxutils import escape

import torch
import torch.distributed as dist
import torch.nn as nn

import braid.torch

WIDTH, LEFT, ROW = 1500, 150, 17  # pixels
COLOURS = {"step": "#8d6e63", "forward": "#5c6bc0", "backward": "#26a69a", "optimizer": "#ef6c00", "frames": "#9e9d24"}
WARMUP = 8  # steps: buckets are cut anew, and a Session plans


def network():
    """Three blocks of a small residual network."""
    torch.manual_seed(1)
    block = lambda n, m: nn.Sequential(nn.Conv2d(n, m, 3, stride=2, padding=1), nn.BatchNorm2d(m), nn.ReLU())  # noqa: E731
    return nn.Sequential(block(3, 64), block(64, 128), block(128, 256), nn.Flatten(), nn.Linear(4096, 512), nn.ReLU(), nn.Linear(512, 10))


def train(what, model, optimizer, steps):
    images, classes = torch.randn(16, 3, 32, 32), torch.randint(10, (16,))
    for step in range(steps):
        with torch.profiler.record_function(f"step of {what}"):
            with torch.profiler.record_function("forward"):
                loss = nn.functional.cross_entropy(model(images), classes)
            with torch.profiler.record_function("backward"):
                loss.backward()
            with torch.profiler.record_function("optimizer"):
                optimizer.step()
                optimizer.zero_grad()


# ---- drawing -------------------------------------------------------------------------------------


def stacked(bars):
    """Bars that lie within each other, with their depth."""
    ends, found = [], []
    for bar in sorted(bars, key=lambda b: (b["ts"], -b["dur"])):
        while ends and ends[-1] <= bar["ts"]:
            ends.pop()
        found.append((len(ends), bar))
        ends.append(bar["ts"] + bar["dur"])
    return found


def colour(bar):
    for word, value in COLOURS.items():
        if bar["name"].startswith(word) or word in bar.get("cat", ""):
            return value
    return "#d81b60" if bar["cat"].startswith("braid") else "#90a4ae"


def joined(bars, apart):
    """Frames one behind the other as one bar: closer than a pixel they are not told apart."""
    found = []
    for bar in sorted(bars, key=lambda b: b["ts"]):
        if found and bar["ts"] - (found[-1]["ts"] + found[-1]["dur"]) < apart:
            found[-1]["dur"] = max(found[-1]["dur"], bar["ts"] + bar["dur"] - found[-1]["ts"])
        else:
            found.append(dict(bar, name="frames"))
    return found


def lanes(merged, pid, first, last):
    """(label, bars) of the rows of a rank: torch's main thread by depth, operations of braid, and frames that it sends."""
    names = {e["tid"]: e["args"]["name"] for e in merged["traceEvents"] if e["name"] == "thread_name" and e["pid"] == pid}
    bars = [e for e in merged["traceEvents"] if e["ph"] == "X" and e["pid"] == pid and e["ts"] + e["dur"] >= first and e["ts"] <= last]
    threads = {}
    for bar in bars:
        threads.setdefault(bar["tid"], []).append(bar)
    main = max((t for t in threads if not names.get(t, "").startswith("braid")), key=lambda t: len(threads[t]))
    rows = {}
    for depth, bar in stacked([b for b in threads[main] if b["cat"] in ("user_annotation", "cpu_op") and not b["name"].startswith("braid:")]):
        if depth < 4:
            rows.setdefault(("python" if not depth else "", depth), []).append(bar)
    found = [(label, row) for (label, _), row in sorted(rows.items(), key=lambda item: item[0][1])]
    for tid in sorted(threads):
        label = names.get(tid, "")
        if label.startswith("braid: operations") or label.startswith("braid: to rank"):
            row = joined(threads[tid], (last - first) / WIDTH) if "to rank" in label else threads[tid]
            found.append((label.split(" (")[0].replace("rank ", "").replace(", rail", " rail"), row))
    return found


def draw(merged, path):
    steps = sorted((e for e in merged["traceEvents"] if e["ph"] == "X" and e["name"].startswith("step of")), key=lambda e: e["ts"])
    first, last = steps[0]["ts"], max(e["ts"] + e["dur"] for e in steps)
    scale = (WIDTH - LEFT - 10) / (last - first)
    parts, y = [], 30
    for rank in range(2):
        parts.append(f'<text x="4" y="{y + 12}" font-weight="bold">rank {rank}</text>')
        y += ROW + 2
        for label, bars in lanes(merged, 1000 * rank + 1, first, last):
            parts.append(f'<text x="10" y="{y + 12}">{escape(label)}</text>')
            for bar in bars:
                x, end = (LEFT + scale * (min(max(t, first), last) - first) for t in (bar["ts"], bar["ts"] + bar["dur"]))
                if end - x < 0.7 and bar["cat"] == "cpu_op":
                    continue
                name = bar["name"]
                parts.append(f'<g><title>{escape(name)}, {bar["dur"] / 1000:.3f} ms</title><rect x="{x:.1f}" y="{y}" width="{max(end - x, 0.6):.1f}" '
                             f'height="{ROW - 2}" fill="{colour(bar)}"/>')
                room = int((end - x) / 6)
                if room >= 4:
                    parts.append(f'<text x="{x + 3:.1f}" y="{y + 12}" fill="white">{escape(name if len(name) <= room else name[: room - 1] + "…")}</text>')
                parts.append("</g>")
            y += ROW
        y += 10
    for i in range(11):
        x, ms = LEFT + i * (WIDTH - LEFT - 10) / 10, (last - first) / 10000 * i
        parts.append(f'<line x1="{x:.0f}" y1="22" x2="{x:.0f}" y2="{y}" stroke="#ddd"/><text x="{x + 2:.0f}" y="16" fill="#555">{ms:.1f} ms</text>')
    with open(path, "w") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" font-family="sans-serif" font-size="11">'
                   f'<rect width="100%" height="100%" fill="white"/>{"".join(parts[-11:] + parts[:-11])}</svg>\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("json")
    parser.add_argument("svg")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("braid")
    ddp = nn.parallel.DistributedDataParallel(network(), bucket_cap_mb=2)
    sgd = torch.optim.SGD(ddp.parameters(), lr=0.01)
    model = network()
    other = torch.optim.SGD(model.parameters(), lr=0.01)
    session = braid.torch.Session(model, other, policy="p3")
    train("DDP", ddp, sgd, WARMUP)
    train("Session", model, other, WARMUP)
    dist.barrier()
    with braid.torch.trace(arguments.json, model=ddp):
        train("DDP", ddp, sgd, 2)
        train("Session", model, other, 2)
    if dist.get_rank() == 0:
        with open(arguments.json) as file:
            draw(json.load(file), arguments.svg)
    session.free()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
