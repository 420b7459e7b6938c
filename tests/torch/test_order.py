# SPDX-License-Identifier: BSD-3-Clause
# ranks: 3
# environment: BRAID_TIMEOUT=120
"""Many calls of all kinds under way at once, of several groups and from several threads: each comes to its own values, whatever the order in which they are
waited for, and however many there are."""
import datetime
import random
import threading

import pytest
import torch
import torch.distributed as dist

import braid.torch  # noqa: F401

SIZES = [1, 3, 1000, 40000]  # elements


@pytest.fixture(scope="module", autouse=True)
def world():
    dist.init_process_group("braid", timeout=datetime.timedelta(seconds=120))
    yield
    dist.destroy_process_group()


def value(step, rank, part=0):
    """What rank `rank` puts into part `part` of its tensor of a step: small and whole, so that sums are exact."""
    return float((step * 7 + rank * 3 + part * 5) % 11)


class Calls:
    """Calls of a group, the same in all its ranks for one seed. Each method starts one and returns its Works and a function that checks the result."""

    def __init__(self, group, seed):
        self.group = group
        self.members = dist.get_process_group_ranks(group)
        self.size = len(self.members)
        self.rank = dist.get_rank(group)
        self.random = random.Random(seed)

    def full(self, n, step, rank, part=0):
        return torch.full((n,), value(step, rank, part))

    def all_reduce(self, n, step):
        x = self.full(n, step, self.rank)
        work = dist.all_reduce(x, group=self.group, async_op=True)
        return [work], lambda: torch.equal(x, sum(self.full(n, step, r) for r in range(self.size)))

    def broadcast(self, n, step):
        root = self.random.randrange(self.size)
        x = self.full(n, step, self.rank)
        work = dist.broadcast(x, self.members[root], group=self.group, async_op=True)
        return [work], lambda: torch.equal(x, self.full(n, step, root))

    def all_gather(self, n, step):
        out = [torch.empty(n) for _ in range(self.size)]
        work = dist.all_gather(out, self.full(n, step, self.rank), group=self.group, async_op=True)
        return [work], lambda: all(torch.equal(x, self.full(n, step, r)) for r, x in enumerate(out))

    def reduce_scatter(self, n, step):
        out = torch.empty(n)
        parts = torch.cat([self.full(n, step, self.rank, part) for part in range(self.size)])
        work = dist.reduce_scatter_tensor(out, parts, group=self.group, async_op=True)
        return [work], lambda: torch.equal(out, sum(self.full(n, step, r, self.rank) for r in range(self.size)))

    def all_to_all(self, n, step):
        out = torch.empty(n * self.size)
        parts = torch.cat([self.full(n, step, self.rank, part) for part in range(self.size)])
        work = dist.all_to_all_single(out, parts, group=self.group, async_op=True)
        return [work], lambda: torch.equal(out, torch.cat([self.full(n, step, r, self.rank) for r in range(self.size)]))

    def around(self, n, step):
        """To the next rank and from the one before, two messages whose tags come in another order there."""
        to, of = self.members[(self.rank + 1) % self.size], (self.rank - 1) % self.size
        x = [torch.empty(n), torch.empty(n)]
        works = [dist.isend(self.full(n, step, self.rank, tag), to, group=self.group, tag=tag) for tag in (0, 1)]
        works += [dist.irecv(x[tag], self.members[of], group=self.group, tag=tag) for tag in (1, 0)]
        return works, lambda: all(torch.equal(x[tag], self.full(n, step, of, tag)) for tag in (0, 1))

    def many(self, steps):
        """That many calls, up to 100 of them under way at once, waited for in an order of each rank's own."""
        own = random.Random(self.rank)
        kinds = [self.all_reduce, self.broadcast, self.all_gather, self.reduce_scatter, self.all_to_all, self.around]
        flying = []
        for step in range(steps):
            kind = self.random.choice(kinds)
            flying.append((step, kind.__name__, *kind(self.random.choice(SIZES), step)))
            while len(flying) > 100 or flying and step == steps - 1:
                step_, name, works, right = flying.pop(own.randrange(len(flying)))
                for work in works:
                    work.wait()
                assert right(), f"step {step_}, {name}"


def run_threads(*functions):
    """Runs the functions beside each other; raises what one of them raises."""
    errors = []

    def guarded(function):
        try:
            function()
        except BaseException as error:  # noqa: BLE001: it is raised again
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_two_threads_with_a_group_each():
    first, second = dist.new_group(), dist.new_group()
    run_threads(lambda: Calls(first, 1).many(300), lambda: Calls(second, 2).many(300))
    dist.destroy_process_group(first)
    dist.destroy_process_group(second)


def test_groups_that_share_a_rank():
    """Rank 1 is in both; it serves them in turn, the others know of one each."""
    pairs = [dist.new_group([0, 1]), dist.new_group([1, 2])]
    mine = [pair for pair in pairs if dist.get_rank() in dist.get_process_group_ranks(pair)] if dist.get_rank() == 1 else [pairs[dist.get_rank() // 2]]
    run_threads(*(lambda group=group: Calls(group, 3).many(200) for group in mine))
    dist.barrier()


def test_thousands_in_flight():
    """More than a communicator works at, and than its submission ring and the first chunks of its pool hold (1,024 each); the rest waits in order."""
    x = [torch.full((2,), value(step, dist.get_rank())) for step in range(4000)]
    works = [dist.all_reduce(t, async_op=True) for t in x]
    works[-1].wait()
    for work in works:
        work.wait()
    for step, t in enumerate(x):
        assert t.tolist() == [sum(value(step, r) for r in range(3))] * 2, step


def test_works_that_nobody_waits_for():
    """The tensors are held by the call until it ends."""
    for step in range(200):
        dist.all_reduce(torch.ones(10000), async_op=True)
    x = torch.ones(1)
    dist.all_reduce(x)
    assert x.item() == 3


def test_backward_calls_beside_the_main_thread():
    """Autograd's thread and the main thread take turns on one group."""

    class Sum(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            gradient = gradient.clone()
            dist.all_reduce(gradient)
            return gradient

    for step in range(20):
        x = torch.full((100,), value(step, dist.get_rank()), requires_grad=True)
        y = Sum.apply(Sum.apply(x))
        before = dist.all_reduce(torch.ones(5000), async_op=True)
        y.backward(torch.ones(100))
        before.wait()
        assert torch.equal(x.grad, torch.full((100,), 9.0))
