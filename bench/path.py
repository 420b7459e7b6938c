#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The functions that an all-reduce between two ranks over tcp executes, by file.

    bench/path.py [--bytes 8] [--braid build/release/braid]

Rank 0 runs under valgrind's callgrind, twice: what braid_allreduce() calls more often in the longer
run, at least once an all-reduce, is the path; neither functions that the compiler has inlined show,
nor what the program itself calls between its all-reduces. A spin is a pass of the progress loop
that finds nothing: instructions are those of an all-reduce, spins included, with the passes beside
them; several runs with other numbers of passes give the cost of each.
"""
import argparse
import collections
import os
import re
import subprocess
import tempfile

FOLDERS = "base|bcube|gpu|transport|protocol|collectives|include/braid"


def run(braid, size, calls, out):
    valgrind = f"valgrind --tool=callgrind --dump-instr=no --callgrind-out-file={out}"
    command = f"{braid} allreduce -b {size} -e {size} -n {calls} -w 20 -c 0 --backend tcp"
    rank = "${BRAID_RANK:-$RANK}"
    choice = f'if [ "{rank}" = 0 ]; then exec {valgrind} {command}; else exec {command}; fi'
    subprocess.run([braid, "run", "-n", "2", "--", "sh", "-c", choice], check=True,
                   env={**os.environ, "BRAID_SHM_COLLECTIVE_BYTES": "0"},
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def load(path):
    """Returns calls, callees and file of each function, and instructions in all."""
    names, calls, files, total = {}, collections.Counter(), {}, 0
    callees = collections.defaultdict(set)
    file = callee = function = None
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            key, _, value = line.rstrip("\n").partition("=")
            named = re.match(r"\((\d+)\)(?: (.*))?$", value)
            if named:
                kind = {"cfn": "fn", "fn": "fn", "cob": "ob", "ob": "ob"}.get(key, "fl")
                if named.group(2):
                    names[kind, named.group(1)] = named.group(2)
                name = names[kind, named.group(1)]
            if key == "fl":
                file = name
            elif key == "fn":
                function = re.sub(r"'\d+$", "", name)
                files[function] = file
            elif key == "cfn":
                callee = re.sub(r"'\d+$", "", name)
            elif key == "calls":
                calls[callee] += int(value.split()[0])
                callees[function].add(callee)
            elif key.startswith("summary:"):
                total = int(key.split()[1])
    return calls, callees, files, total


def called_by(function, callees):
    """Returns the function and all that it calls, directly or not."""
    found, left = {function}, [function]
    while left:
        new = callees[left.pop()] - found
        found |= new
        left.extend(new)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bytes", default="8")
    parser.add_argument("--braid", default="build/release/braid")
    options = parser.parse_args()
    few, many = (50, 2050) if options.bytes == "8" else (3, 8)
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "callgrind.out")
        run(options.braid, options.bytes, few, out)
        before, _, _, less = load(out)
        run(options.braid, options.bytes, many, out)
        after, callees, files, more = load(out)
    reduces = 2 * (many - few)  # each is called out of place and in place
    path = collections.defaultdict(list)
    for function in called_by("braid_allreduce", callees):
        where = re.search(rf"(?:^|/)((?:{FOLDERS})/(?!.*\.\./).*)$", files.get(function, ""))
        if where and after[function] - before[function] >= 0.9 * reduces:
            path[where.group(1)].append(function)
    for file in sorted(path):
        print(f"{file}: {', '.join(sorted(path[file]))}")
    print(f"{sum(map(len, path.values()))} functions in {len(path)} files; an all-reduce: "
          f"{(more - less) / reduces:.0f} instructions in "
          f"{(after['br_progress_once'] - before['br_progress_once']) / reduces:.1f} passes")


main()
