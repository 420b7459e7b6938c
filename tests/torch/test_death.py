# SPDX-License-Identifier: BSD-3-Clause
"""Jobs that end badly: a rank that is killed, one that forgets to leave, ranks that disagree, and torchrun that starts all of them again."""
import os
import signal
import subprocess
import sys
import time

import torch
import torch.distributed as dist

import forked

PRELUDE = """
import datetime, sys
import torch, torch.distributed as dist
import braid.torch
rank, store = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("braid", init_method="file://" + store, rank=rank, world_size=2, timeout=datetime.timedelta(seconds=60))
"""


def job(folder, ranks, body, **environment):
    """Runs body in so many processes; what each has returned and said. None is left when it ends."""
    script = folder / "rank.py"
    script.write_text(PRELUDE + body)
    processes = [subprocess.Popen([sys.executable, str(script), str(rank), str(folder / "store")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, env={**os.environ, **environment}) for rank in range(ranks)]
    try:
        said = [process.communicate(timeout=120)[0] for process in processes]
        return [(process.returncode, words) for process, words in zip(processes, said)]
    finally:
        for process in processes:
            process.kill()


def test_kill__in_an_all_reduce():
    """kill -9 of rank 2 while all-reduces run: the others get an exception that names it long before the deadline, and leave in peace."""
    def reduce(rank):
        x = torch.ones(1 << 20)
        try:
            for i in range(1000000):
                if rank == 2 and i == 5:
                    dist.all_reduce(x, async_op=True)
                    os.kill(os.getpid(), signal.SIGKILL)
                before = time.monotonic()
                dist.all_reduce(x)
        except dist.DistBackendError as error:
            took, said = time.monotonic() - before, str(error)
        try:
            dist.all_reduce(x)
        except RuntimeError as error:
            return took, said, str(error)

    *ended, killed = forked.job(3, reduce, limit=120)
    assert killed == -signal.SIGKILL
    for took, said, again in ended:
        assert took < 60 and "rank 2" in said and "rank 2" in again, ended


def test_debug_detail__and_exit_without_destroy(tmp_path):
    """TORCH_DISTRIBUTED_DEBUG=DETAIL finds calls that do not fit each other before they reach the network. The program ends as it is, at once."""
    ended = job(tmp_path, 2, """
x = torch.ones(4)
dist.all_reduce(x)
assert torch.all(x == 2)
try:
    if rank == 0:
        dist.all_reduce(torch.ones(4))
    else:
        dist.broadcast(torch.ones(4), 0)
except RuntimeError as error:
    print("SAID", str(error).replace("\\n", " "))
dist.all_reduce(torch.ones(1 << 16), async_op=True)
print("END", flush=True)
""", TORCH_DISTRIBUTED_DEBUG="DETAIL")
    for code, words in ended:
        assert code == 0, words
        assert "mismatch" in words and "ALLREDUCE" in words and "BROADCAST" in words, words
        assert "END" in words.splitlines(), words


def test_torchrun__starts_again(tmp_path):
    """Rank 1 of the first attempt dies in training; all ranks of the second one find each other anew."""
    script = tmp_path / "train.py"
    script.write_text("""
import os
import torch, torch.distributed as dist
import braid.torch
dist.init_process_group("braid")
for _ in range(10):
    x = torch.ones(1000)
    dist.all_reduce(x)
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    if dist.get_rank() == 1:
        os._exit(3)
    dist.all_reduce(x)
print(f"attempt {os.environ['TORCHELASTIC_RESTART_COUNT']} sum {x.sum().item()}", flush=True)  # in one piece: ranks share the output
dist.destroy_process_group()
""")
    done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "1", "--monitor-interval",
                           "0.1", str(script)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("attempt 1 sum 2000.0") == 2, done.stdout
