# SPDX-License-Identifier: BSD-3-Clause
"""A rank that trains with a Session is killed in its backward pass, or leaves it by an exception: the other's loop ends with words, and it leaves."""
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


def test_session__a_rank_raises(tmp_path):
    """Its gradients that are missing do not count as zeros."""
    ended = job(tmp_path, 2, """
from torch import nn
init(2, 60)
model = nn.Sequential(nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
session = braid.torch.Session(model, optimizer)
def fail(*_):
    if rank == 1 and i == 4:
        raise ValueError("of this rank")
model[0].weight.register_hook(fail)
try:
    for i in range(6):
        optimizer.zero_grad()
        model(torch.randn(4, 10)).sum().backward()
        optimizer.step()
    session.synchronize()
except (braid.Error, ValueError) as error:
    print("SAID", i, str(error).replace("\\n", " "))
session.free()
assert optimizer.step.__func__ is torch.optim.SGD.step and session._state == 0
dist.destroy_process_group()
print("LEFT")
""")
    for code, words in ended:
        assert code == 0 and "LEFT" in words, words
    assert "of this rank" in ended[1][1]
    assert "SAID" in ended[0][1] and "within a backward pass" in ended[0][1], ended[0][1]
