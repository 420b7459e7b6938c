# SPDX-License-Identifier: BSD-3-Clause
"""SSD-SGD and local SGD by braid.torch.SSD: the paper's formulas, synchronous SGD by DDP and gloo, schedules, saved states. How it ends: test_death.py."""
# ranks: 2
# preload: torch._dynamo
import copy
import warnings

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

import braid.torch

ROUNDING = dict(rtol=2e-5, atol=2e-6)


@pytest.fixture(scope="module", autouse=True)
def group():
    torch.set_num_threads(1)
    dist.init_process_group("braid")
    yield
    dist.destroy_process_group()


def rank():
    return dist.get_rank()


# ---- the formulas --------------------------------------------------------------------------------


def slopes(iteration):
    """What the gradients of the ranks are moved by: other numbers for each rank, iteration and element."""
    return [np.array([1 / (3 + (i * 7 + r * 13 + iteration * 29) % 101) for i in range(30)]) for r in range(2)]


def gradients(weights, iteration):
    return [0.3 * w - c for w, c in zip(weights, slopes(iteration))]


def paper(method, k, warmup, iterations, lr, m, decay, own=2.0, sync=0.5, local_rate=4.0):
    """The workers' weights after each iteration, by the listings of arXiv:2012.05396 in float64. lr: of an iteration."""
    server, velocity = np.linspace(-1, 1, 30), np.zeros(30)
    worker, own_velocity = [server.copy(), server.copy()], [np.zeros(30), np.zeros(30)]
    pre = last = server.copy()
    late, history = None, []
    for t in range(iterations):
        g, rate = gradients(worker, t), lr(t)
        delayed = t >= warmup and method in ("ssd", "local")
        pulls = not delayed or (t - warmup + 1) % k == 0
        if delayed and late is not None:
            pre, last, worker, late = last, late, [late.copy(), late.copy()], None
        if delayed and method == "ssd":
            worker = [w - local_rate * rate * (own * x + decay * w + sync * (pre - w) * (1 - m) / (rate * k)) for w, x in zip(worker, g)]
        if not delayed or method == "ssd":
            velocity = m * velocity + (sum(g) / 2 + decay * server)
            server = server - rate * velocity
        if delayed and method == "local":
            own_velocity = [m * v + x + decay * w for v, x, w in zip(own_velocity, g, worker)]
            worker = [w - rate * v for w, v in zip(worker, own_velocity)]
            worker = [sum(worker) / 2] * 2 if pulls else worker
        if not delayed:
            pre = last = server.copy()
            worker = [server.copy(), server.copy()]
        elif pulls and method == "ssd":
            late = server.copy()
        history.append(worker)
    return history


class Weights(nn.Module):
    """30 weights in three parameters, whose gradients come in an order that differs from rank to rank."""

    def __init__(self):
        super().__init__()
        start = torch.linspace(-1, 1, 30) + 100 * rank()  # rank 0's count
        self.parts = nn.ParameterList([start[:7].clone(), start[7:8].clone(), start[8:].clone().view(2, 11)])

    def forward(self, iteration):
        c = torch.tensor(slopes(iteration)[rank()], dtype=torch.float32).split([7, 1, 22])
        order = range(3) if rank() else reversed(range(3))
        return sum((0.15 * p * p - q.view(p.shape) * p).sum() for p, q in [(self.parts[i], c[i]) for i in order])

    def flat(self):
        return torch.cat([p.detach().reshape(-1) for p in self.parts]).numpy()


@pytest.mark.parametrize("method, k, warmup, overlap", [
    ("ssd", 1, 5, True), ("ssd", 2, 5, True), ("ssd", 4, 5, False), ("ssd", 4, 0, True), ("local", 1, 3, True), ("local", 4, 0, True), ("ssgd", 1, 500, True)])
def test_formulas(method, k, warmup, overlap):
    model = Weights()
    with braid.torch.SSD(model.parameters(), lr=0.05, k=k, method=method, momentum=0.9, weight_decay=1e-3, warmup=warmup, overlap=overlap) as optimizer:
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 12, gamma=0.5)
        wanted = paper(method, k, warmup, 30, lambda t: 0.05 * 0.5 ** (t // 12), 0.9, 1e-3)
        for t in range(30):
            optimizer.zero_grad()
            model(t).backward()
            optimizer.step()
            scheduler.step()
            np.testing.assert_allclose(model.flat(), wanted[t][rank()], err_msg=f"iteration {t}", **ROUNDING)
    np.testing.assert_allclose(model.flat(), wanted[-1][rank()], **ROUNDING)  # they stay behind close()


def test_asgd_comes_to_the_minimum():
    model = nn.Linear(3, 1, bias=False)
    with braid.torch.SSD(model.parameters(), lr=0.5, method="asgd", servers=1) as optimizer:
        for _ in range(60):
            optimizer.zero_grad()
            ((model.weight - 0.25) ** 2).sum().div(2).backward()
            optimizer.step()
        optimizer.sync()
        np.testing.assert_allclose(model.weight.detach().numpy(), 0.25, atol=1e-3)


# ---- beside DistributedDataParallel --------------------------------------------------------------


class Net(nn.Module):
    """With tied weights, a frozen parameter, and a branch that only rank 0 takes."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(8, 16, bias=False)
        self.middle = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16))
        self.branch = nn.Linear(16, 16)
        self.frozen = nn.Parameter(torch.ones(16), requires_grad=False)
        self.out = nn.Linear(16, 8, bias=False)
        self.out.weight = nn.Parameter(self.embed.weight.detach().T.contiguous())

    def forward(self, x, branch):
        h = self.middle(self.embed(x)) * self.frozen
        h = h + self.branch(h) if branch else h
        return self.out(h) + F.linear(h, self.out.weight) / 2


def batches(count, seed=0):
    generator = torch.Generator().manual_seed(seed + rank())
    return [torch.randn(16, 8, generator=generator) for _ in range(count)]


def groups_of(model):
    """Two param groups, as usual: no decay of biases."""
    return [{"params": [p for n, p in model.named_parameters() if "bias" not in n], "weight_decay": 1e-2},
            {"params": [p for n, p in model.named_parameters() if "bias" in n], "lr": 0.02}]


def train(model, module, optimizer, inputs, schedule=None, sync=lambda: None):
    for t, x in enumerate(inputs):
        optimizer.zero_grad()
        if t % 3 == 2:  # gradients of two backward passes
            with module.no_sync():
                F.mse_loss(model(x, False), x).backward()
            x = -x
        F.mse_loss(model(x, rank() == 0), x).backward()
        optimizer.step()
        if schedule:
            schedule.step()


def test_synchronous_is_ddp():
    gloo = dist.new_group(backend="gloo")
    torch.manual_seed(1)
    first = Net()
    second = copy.deepcopy(first)
    ddp = nn.parallel.DistributedDataParallel(first, process_group=gloo, find_unused_parameters=True)
    sgd = torch.optim.SGD(groups_of(first), lr=0.1, momentum=0.9)
    train(ddp, ddp, sgd, batches(12), torch.optim.lr_scheduler.LinearLR(sgd, 0.0001, total_iters=6))
    with braid.torch.SSD(groups_of(second), lr=0.1, momentum=0.9, method="ssgd") as optimizer:
        train(second, optimizer, optimizer, batches(12), torch.optim.lr_scheduler.LinearLR(optimizer, 0.0001, total_iters=6))
    for (name, p), q in zip(first.named_parameters(), second.parameters()):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), err_msg=name, **ROUNDING)


@pytest.mark.parametrize("method", ["ssgd", "ssd"])
def test_a_saved_state_goes_on(method):
    torch.manual_seed(1)
    model = Net()
    inputs = batches(20)
    with braid.torch.SSD(groups_of(model), lr=0.05, momentum=0.9, method=method, k=3, warmup=4) as optimizer:
        train(model, optimizer, optimizer, inputs[:10])
        with pytest.raises(RuntimeError, match="consolidate_state_dict"):
            optimizer.state_dict()
        optimizer.consolidate_state_dict()
        saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
        train(model, optimizer, optimizer, inputs[10:])
        optimizer.sync()
    torch.manual_seed(2)
    other = Net()
    other.load_state_dict(saved[0])
    with braid.torch.SSD(groups_of(other), lr=7, method=method, warmup=4) as optimizer:
        optimizer.load_state_dict(saved[1])
        assert optimizer.param_groups[1]["lr"] == 0.02
        train(other, optimizer, optimizer, inputs[10:])
        optimizer.sync()
        assert optimizer.report().iterations == 20 and optimizer.report().steps == 3
    for (name, p), q in zip(model.named_parameters(), other.parameters()):
        assert torch.equal(p, q), name


def test_a_saved_state_in_the_process_that_saved_it():
    """Goes on as it went on the first time, with layers in the order of the backward pass."""
    torch.manual_seed(1)
    model = Net()
    inputs = batches(10)
    with braid.torch.SSD(groups_of(model), lr=0.05, momentum=0.9, method="ssgd") as optimizer:
        train(model, optimizer, optimizer, inputs[:5])
        optimizer.consolidate_state_dict()
        saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
        train(model, optimizer, optimizer, inputs[5:])
        wanted = [p.detach().clone() for p in model.parameters()]
        view = model.embed.weight.detach()
        with pytest.raises(BufferError):
            optimizer.load_state_dict(saved[1])
        train(model, optimizer, optimizer, inputs[:1])  # it still works
        assert torch.equal(view, model.embed.weight) and not torch.equal(view, wanted[0])
        del view
        optimizer.sync()
        model.load_state_dict(saved[0])
        optimizer.load_state_dict(saved[1])
        train(model, optimizer, optimizer, inputs[5:])
        for (name, p), q in zip(model.named_parameters(), wanted):
            assert torch.equal(p, q), name


# ---- learning ------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [dict(k=4, warmup=40), dict(k=None, warmup=20), dict(method="local", k=4, warmup=0)])
def test_learns(options):
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))
    generator = torch.Generator().manual_seed(10 + rank())
    with braid.torch.SSD(model.parameters(), lr=0.05, momentum=0.9, servers=1, **options) as optimizer:
        for _ in range(300):
            x = torch.rand(64, 2, generator=generator) * 2 - 1
            optimizer.zero_grad()
            F.cross_entropy(model(x), (x[:, 0] * x[:, 1] > 0).long()).backward()
            optimizer.step()
        optimizer.sync()
    x = torch.rand(2000, 2, generator=torch.Generator().manual_seed(99)) * 2 - 1
    right = (model(x).argmax(1) == (x[:, 0] * x[:, 1] > 0)).float().mean()
    assert right > 0.9
    same = model[0].weight.detach().clone()
    dist.broadcast(same, 0)
    assert torch.equal(same, model[0].weight)


# ---- refusals -----------------------------------------------------------------------------------


def test_many_groups():
    """Each has a layer of the servers', of which there are as many as memory holds."""
    weights = [nn.Parameter(torch.zeros(3)) for _ in range(300)]
    optimizer = braid.torch.SSD([{"params": [w], "lr": 0.1 * (1 + i % 3)} for i, w in enumerate(weights)], method="ssgd")
    for _ in range(2):
        optimizer.zero_grad()
        sum(w.sum() for w in weights).backward()
        optimizer.step()
    for i, w in enumerate(weights):
        assert torch.allclose(w.detach(), torch.full((3,), -0.2 * (1 + i % 3))), (i, w)
    optimizer.close()


def test_refuses():
    with pytest.raises(TypeError, match="float64"):
        braid.torch.SSD(nn.Linear(2, 2).double().parameters())
    with pytest.raises(ValueError, match="method"):
        braid.torch.SSD(nn.Linear(2, 2).parameters(), method="adam")
    with pytest.raises(ValueError, match="k is 0"):
        braid.torch.SSD(nn.Linear(2, 2).parameters(), k=0)
    with pytest.raises(ValueError, match="2 ranks"):
        braid.torch.SSD(nn.Linear(2, 2).parameters(), servers=3)
    with pytest.raises(ValueError, match="requires a gradient"):
        braid.torch.SSD(nn.Linear(2, 2).requires_grad_(False).parameters())
    a = nn.Parameter(torch.zeros(3))
    with pytest.raises(ValueError, match="share memory"):
        braid.torch.SSD([a, nn.Parameter(a.data)])
    optimizer = braid.torch.SSD([a], method="ssgd", overlap=True)
    a.sum().backward()
    with pytest.raises(RuntimeError, match="no_sync"):
        a.sum().backward()
    optimizer.step()
    with pytest.raises(RuntimeError, match="param groups"):
        optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(1))]})
    optimizer.close()
    optimizer.close()
    with pytest.raises(RuntimeError, match="closed"):
        optimizer.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        embedding = nn.Embedding(4, 2, sparse=True)
        with braid.torch.SSD(embedding.parameters(), method="ssgd") as optimizer:
            embedding(torch.tensor([1])).sum().backward()
            with pytest.raises(TypeError, match="sparse"):
                optimizer.step()
            embedding.weight.grad = None
            optimizer.step()
