# SPDX-License-Identifier: BSD-3-Clause
"""examples/train_torch.py: that it runs as its first lines say, and learns."""
import os
import pathlib
import re
import subprocess
import sys

import pytest

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "train_torch.py"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
BRAID_RUN = [os.environ["BRAID"], "run", "-n", "2", "--no-prefix", "--", sys.executable]


@pytest.mark.parametrize("launch, options, how", [(TORCHRUN, [], "DistributedDataParallel"), (BRAID_RUN, ["--session"], "Session")])
def test_example(launch, options, how):
    ran = subprocess.run([*launch, str(EXAMPLE), "--iterations", "60", *options], stdout=subprocess.PIPE, text=True, timeout=130)
    assert ran.returncode == 0
    assert len(re.findall(r"^iteration \d+: loss [0-9.]+$", ran.stdout, re.M)) == 6, ran.stdout
    last = re.search(rf"^2 ranks, braid, {how}: [0-9.]+ ms an iteration, ([0-9.]+)% right$", ran.stdout, re.M)
    assert last and float(last[1]) > 20, ran.stdout  # one of ten classes
