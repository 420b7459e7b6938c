# SPDX-License-Identifier: BSD-3-Clause
"""A rank that trains with a Session is killed in its backward pass, or leaves it by an exception: the other's loop ends with words, and it leaves."""
import os
import signal

import torch
import torch._dynamo  # noqa: F401  an optimizer loads it, which takes longer than all else: once, and not in each rank
from torch import nn

import braid.torch
from forked import job


class Training:
    """A model, its session, and six iterations, or as many as it takes."""

    def __init__(self):
        self.model = nn.Sequential(nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 10))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.session = braid.torch.Session(self.model, self.optimizer)
        self.i = 0

    def run(self, iterations):
        """What ended it."""
        try:
            for self.i in range(iterations):
                self.optimizer.zero_grad()
                self.model(torch.randn(4, 10)).sum().backward()
                self.optimizer.step()
            self.session.synchronize()
        except (braid.Error, ValueError) as error:
            return str(error)
        finally:
            self.session.free()


def test_session__a_rank_is_killed():
    def train(rank):
        training = Training()

        def die(*_):
            if rank == 1 and training.i == 4:
                os.kill(os.getpid(), signal.SIGKILL)

        training.model[2].weight.register_hook(die)
        return training.run(1000000), training.i

    (said, i), killed = job(2, train, limit=120)
    assert killed == -signal.SIGKILL
    assert "rank 1" in said and i in (4, 5), (said, i)


def test_session__a_rank_raises():
    """Its gradients that are missing do not count as zeros."""
    def train(rank):
        training = Training()

        def fail(*_):
            if rank == 1 and training.i == 4:
                raise ValueError("of this rank")

        training.model[0].weight.register_hook(fail)
        said = training.run(6)
        assert training.optimizer.step.__func__ is torch.optim.SGD.step and training.session._state == 0
        return said

    ended = job(2, train, limit=120)
    assert "within a backward pass" in ended[0] and ended[1] == "of this rank", ended
