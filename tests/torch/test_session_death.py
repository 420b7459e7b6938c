# SPDX-License-Identifier: BSD-3-Clause
"""A rank that trains with a Session is killed in its backward pass: the other's loop ends with words, and it leaves."""
import signal

from test_death import job


def test_session__a_rank_is_killed(tmp_path):
    ended = job(tmp_path, 2, """
from torch import nn
init(2, 60)
model = nn.Sequential(nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
session = braid.torch.Session(model, optimizer)
i = 0
def die(*_):
    if rank == 1 and i == 4:
        os.kill(os.getpid(), signal.SIGKILL)
model[2].weight.register_hook(die)
try:
    for i in range(1000000):
        optimizer.zero_grad()
        model(torch.randn(4, 10)).sum().backward()
        optimizer.step()
except braid.Error as error:
    print("SAID", i, str(error).replace("\\n", " "))
session.free()
dist.destroy_process_group()
print("LEFT")
""")
    assert ended[1][0] == -signal.SIGKILL
    code, words = ended[0]
    assert code == 0, words
    said, left = words.splitlines()[-2:]
    assert said.startswith("SAID") and "rank 1" in said and int(said.split()[1]) in (4, 5), words
    assert left == "LEFT"
