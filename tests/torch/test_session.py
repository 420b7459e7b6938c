# SPDX-License-Identifier: BSD-3-Clause
# ranks: 3
# preload: torch._dynamo
"""braid.torch.Session: the same losses as DistributedDataParallel over gloo, by 2 ranks to the bit, in loops as scripts have them."""
import copy
import io
import tempfile
from contextlib import nullcontext

import braid
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from braid.torch.session import Session

ITERATIONS = 20


@pytest.fixture(scope="session")
def world():
    with braid.init() as comm:
        path = bytearray(tempfile.mktemp(prefix="braid-gloo-").encode().ljust(200, b"\0"))
        comm.broadcast(path)
        dist.init_process_group("gloo", init_method="file://" + path.rstrip(b"\0").decode(), rank=comm.rank, world_size=comm.size)
        yield comm
        dist.destroy_process_group()


@pytest.fixture(scope="session", params=[2, 3])
def job(request, world):
    """A communicator and a group of gloo; the rank that is not in them waits at the end of each test."""
    ranks = list(range(request.param))
    group = dist.new_group(ranks)
    yield (world.group(ranks, tag=request.param) if world.rank in ranks else None), group


@pytest.fixture
def comm(job, world):
    torch.manual_seed(7)
    if job[0] is None:
        pytest.skip("not in this group")
    return job[0]


@pytest.fixture
def group(job):
    return job[1]


two = pytest.mark.parametrize("job", [2], indirect=True)  # more ranks would show nothing else


def batch(comm, i, *shape, classes=5):
    generator = torch.Generator().manual_seed(1000 * i + comm.rank)
    return torch.randn(*shape, generator=generator), torch.randint(0, classes, shape[:1], generator=generator)


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.conv2, self.bn2 = nn.Conv2d(8, 8, 3, stride=2), nn.BatchNorm2d(8)
        self.fc = nn.Linear(8, 5)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        return self.fc(x.mean((2, 3)))


class Language(nn.Module):
    """A Transformer whose output layer is its embedding, and whose attention uses the weights of a module that it does not call."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(17, 16)
        self.block = nn.TransformerEncoderLayer(16, 2, 32, dropout=0, batch_first=True)
        self.head = nn.Linear(16, 17, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x):
        return self.head(self.block(self.embedding(x)))


class Branches(nn.Module):
    """Each rank takes another branch, by turns; `never` is in nobody's."""

    def __init__(self):
        super().__init__()
        self.stem, self.a, self.b, self.never, self.head = (nn.Linear(10, 10) for _ in range(5))
        self.turn = 0

    def forward(self, x):
        self.turn += 1
        x = F.relu(self.stem(x))
        if self.turn % 3 != 1:  # in some iterations nobody takes either
            x = F.relu((self.a if (self.turn + x.shape[0]) % 2 else self.b)(x))
        return self.head(x)


def mlp(width=20):
    return nn.Sequential(nn.Linear(10, width), nn.ReLU(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 5))


def plain(model, optimizer, comm, i, shape=(8, 10)):
    x, y = batch(comm, i, *shape)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


def images(model, optimizer, comm, i):
    return plain(model, optimizer, comm, i, (4, 3, 8, 8))


def words(model, optimizer, comm, i):
    x = torch.randint(0, 17, (4, 9), generator=torch.Generator().manual_seed(1000 * i + comm.rank))
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x[:, :-1]).transpose(1, 2), x[:, 1:])
    loss.backward()
    optimizer.step()
    return loss.item()


def branches(model, optimizer, comm, i):
    return plain(model, optimizer, comm, i, (8 + comm.rank, 10))


def clipped(model, optimizer, comm, i):
    x, y = batch(comm, i, 8, 10)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad(set_to_none=False)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    optimizer.step()
    return loss.item() + norm.item()


def old_style(model, optimizer, comm, i):
    """Clears gradients behind the step, by hand, and looks at one before."""
    x, y = batch(comm, i, 8, 10)
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    norm = sum(p.grad.norm().item() for p in model.parameters())
    for p in model.parameters():
        p.grad.zero_()
    return loss.item() + norm


def sgd(params):
    return torch.optim.SGD(params, lr=0.1, momentum=0.9, weight_decay=0.01)


def both(comm, group, model, make, iterate, exact, session_options={}, **ddp_options):
    """Losses by DistributedDataParallel and by the session must be the same, and so must the weights at the end."""
    twin = copy.deepcopy(model)
    reference, session_model = DistributedDataParallel(model, process_group=group, **ddp_options), twin
    optimizers = make(reference.parameters()), make(twin.parameters())
    with Session(twin, optimizers[1], comm=comm, **session_options) as session:
        for i in range(ITERATIONS):
            expected, got = (iterate(m, o, comm, i) for m, o in zip((reference, session_model), optimizers))
            assert got == expected if exact else got == pytest.approx(expected, rel=2e-4), f"iteration {i}"
        session.synchronize()
        for (name, a), b in zip(model.state_dict().items(), twin.state_dict().values()):
            assert torch.equal(a, b) if exact else torch.allclose(a, b, rtol=1e-3, atol=1e-5), name
        report = session.report()
    return report


@pytest.mark.parametrize("policy", ["auto", "p3", "single", "mgwfbp"])
def test_session__mlp(comm, group, policy):
    report = both(comm, group, mlp(), sgd, plain, comm.size == 2, {"policy": policy, "warmup": 2})
    assert report.plans >= 1 and report.iterations >= ITERATIONS - 1


@two
@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad])
def test_session__other_optimizers(comm, group, optimizer):
    both(comm, group, mlp(), lambda params: optimizer(params, lr=0.01), plain, comm.size == 2)


def test_session__batch_normalisation(comm, group):
    both(comm, group, Convolutions(), sgd, images, comm.size == 2)


@two
def test_session__channels_last(comm, group):
    both(comm, group, Convolutions().to(memory_format=torch.channels_last), sgd, images, comm.size == 2)


def test_session__tied_weights_and_attention(comm, group):
    both(comm, group, Language(), sgd, words, comm.size == 2)


def test_session__branches_that_ranks_take_by_turns(comm, group):
    both(comm, group, Branches(), sgd, branches, comm.size == 2, find_unused_parameters=True)


@two
@pytest.mark.parametrize("iterate", [clipped, old_style])
def test_session__gradients_that_are_looked_at(comm, group, iterate):
    both(comm, group, mlp(), sgd, iterate, False)


@pytest.mark.parametrize("overlap", [True, False])
def test_session__accumulation(comm, group, overlap):
    sessions = []

    def iterate(model, optimizer, comm, i):
        ours = not isinstance(model, DistributedDataParallel)
        optimizer.zero_grad()
        losses = []
        for part in range(3):
            x, y = batch(comm, 10 * i + part, 8, 10)
            with (sessions[0] if ours else model).no_sync() if part < 2 else nullcontext():
                loss = F.cross_entropy(model(x), y) / 3
                loss.backward()
            losses.append(loss.item())
        optimizer.step()
        return sum(losses)

    model = mlp()
    twin, reference = copy.deepcopy(model), DistributedDataParallel(model, process_group=group)
    optimizers = sgd(reference.parameters()), sgd(twin.parameters())
    with Session(twin, optimizers[1], comm=comm, overlap=overlap) as session:
        sessions.append(session)
        for i in range(ITERATIONS):
            expected, got = (iterate(m, o, comm, i) for m, o in zip((reference, twin), optimizers))
            assert got == (expected if comm.size == 2 else pytest.approx(expected, rel=1e-4))
        if not overlap:
            assert all(torch.allclose(a, b, rtol=1e-3) for a, b in zip(model.parameters(), twin.parameters()))
        # A second backward pass that nobody has announced.
        with pytest.raises(RuntimeError, match=r"\d\.(weight|bias) has a second gradient.*no_sync.*exception.*free"):
            loss = F.cross_entropy(twin(batch(comm, 0, 8, 10)[0]), torch.zeros(8, dtype=torch.long))
            loss.backward(retain_graph=True)
            loss.backward()


@two
def test_session__accumulation_without_no_sync_is_ddps(comm, group):
    """Each backward pass sends: the average so far and what came since."""
    def iterate(model, optimizer, comm, i):
        optimizer.zero_grad()
        for part in range(2):
            x, y = batch(comm, 10 * i + part, 8, 10)
            loss = F.cross_entropy(model(x), y)
            loss.backward()
        optimizer.step()
        return loss.item()

    both(comm, group, mlp(), sgd, iterate, False)


@two
@pytest.mark.parametrize("before", [True, False])
def test_session__rate_of_the_step_counts(comm, group, before):
    """A scheduler changes the rate while layers are still to be stepped."""
    def run(wrap):
        torch.manual_seed(7)
        model = mlp()
        optimizer = sgd(model.parameters())
        make = lambda: torch.optim.lr_scheduler.StepLR(optimizer, 3, gamma=0.5)
        schedule = make() if before else None
        wrapped, session = wrap(model, optimizer)
        schedule = schedule or make()
        losses = []
        for i in range(ITERATIONS):
            losses.append(plain(wrapped, optimizer, comm, i))
            schedule.step()
        if session:
            session.free()
        return losses

    expected = run(lambda model, optimizer: (DistributedDataParallel(model, process_group=group), None))
    got = run(lambda model, optimizer: (model, Session(model, optimizer, comm=comm)))
    assert got == (expected if comm.size == 2 else pytest.approx(expected, rel=1e-4))


@two
def test_session__checkpoint(comm, group):
    """Saved in the midst of lazy steps, by one rank alone, and loaded into another session that goes on."""
    losses, states = [], None
    for first in True, False:
        torch.manual_seed(1 if first else 2)
        model = Convolutions()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        if not first:
            buffer, model_alone = io.BytesIO(states), Convolutions()
            saved = torch.load(buffer, weights_only=False)
            model.load_state_dict(saved["model"])
            optimizer.load_state_dict(saved["optimizer"])
        with Session(model, optimizer, comm=comm, policy="p3") as session:
            for i in range(12):
                if i == 6 and first:
                    if comm.rank == 0:
                        buffer = io.BytesIO()
                        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, buffer)
                        states = buffer.getvalue()
                        whole = io.BytesIO()
                        torch.save(model, whole)
                        alone = torch.load(io.BytesIO(whole.getvalue()), weights_only=False)  # without a session
                        alone(batch(comm, 0, 4, 3, 8, 8)[0]).sum().backward()
                        assert all(torch.equal(a, b) for a, b in zip(alone.parameters(), model.parameters()))
                    length = torch.tensor([len(states or b"")])
                    comm.broadcast(length)
                    data = bytearray(states or bytes(length.item()))
                    comm.broadcast(data)
                    states = bytes(data)
                if first or i >= 6:
                    losses.append(images(model, optimizer, comm, i))
    assert losses[12:] == losses[6:12]


@two
def test_session__evaluation_sees_stepped_weights(comm, group):
    model = Language()
    twin = copy.deepcopy(model)
    reference = DistributedDataParallel(model, process_group=group)
    optimizers = sgd(reference.parameters()), sgd(twin.parameters())
    x = torch.arange(8).reshape(1, 8)
    with Session(twin, optimizers[1], comm=comm) as session:
        for i in range(6):
            words(reference, optimizers[0], comm, i), words(twin, optimizers[1], comm, i)
            for m in model, twin:
                m.eval()
            with torch.no_grad() if i % 2 else torch.inference_mode():
                if i != 2 or comm.rank == 0:  # a rank may do it alone
                    assert torch.allclose(model(x), twin(x), rtol=1e-3, atol=1e-5)
            for m in model, twin:
                m.train()
        session.synchronize()


def test_session__any_order_of_layers(comm, group):
    """Layers are called, hence ready, in another order on each rank and in each iteration."""
    class Shuffled(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList(nn.Linear(10, 10) for _ in range(12))
            self.head = nn.Linear(10, 5)
            self.order = None

        def forward(self, x):
            for i in self.order:
                x = x + torch.tanh(self.parts[i](x))
            return self.head(x)

    def iterate(model, optimizer, comm, i):
        inner = getattr(model, "module", model)
        inner.order = torch.randperm(12, generator=torch.Generator().manual_seed(100 * i + comm.rank)).tolist()
        return plain(model, optimizer, comm, i)

    both(comm, group, Shuffled(), sgd, iterate, False, {"policy": "layerwise"})


@two
def test_session__a_layer_waits_for_its_own_gradient_only(comm):
    """Rank 1 keeps its gradient of the first layer back until rank 0 has gone through optimizer.step() and the forward pass of the last layer."""
    model = mlp()
    optimizer = sgd(model.parameters())
    with Session(model, optimizer, comm=comm, policy="layerwise") as session:
        plain(model, optimizer, comm, 0)
        session.synchronize()
        first, last = (model[i].weight.detach().clone() for i in (0, 4))
        word = torch.zeros(1)
        if comm.rank == 1:
            hold = model[0].weight.register_hook(lambda gradient: comm.recv(word, 0))
        plain(model, optimizer, comm, 1)
        if comm.rank == 0:
            model[4](torch.zeros(1, 20))
            assert not torch.equal(last, model[4].weight) and torch.equal(first, model[0].weight)
            comm.send(word, 1)
        else:
            hold.remove()
        session.synchronize()
        assert not torch.equal(first, model[0].weight)


@two
@pytest.mark.parametrize("overlap", [True, False])
def test_session__compiled(comm, overlap):
    def losses(compiled):
        torch.manual_seed(7)
        model = mlp()
        optimizer = sgd(model.parameters())
        with Session(model, optimizer, comm=comm, overlap=overlap):
            called = torch.compile(model, backend="aot_eager") if compiled else model
            return [plain(called, optimizer, comm, i) for i in range(5)]

    assert losses(True) == losses(False)


@two
def test_session__several_types(comm, group):
    """bfloat16 and float32 in one session: all travel as float32."""
    model = mlp()
    model[2].to(torch.bfloat16)
    model[2].register_forward_pre_hook(lambda module, args: args[0].bfloat16())
    model[2].register_forward_hook(lambda module, args, output: output.float())
    optimizer = sgd(model.parameters())
    with Session(model, optimizer, comm=comm) as session:
        losses = [plain(model, optimizer, comm, i % 4) for i in range(ITERATIONS)]
        session.synchronize()
        assert losses[-1] < losses[0] and model[2].weight.grad is None or model[2].weight.grad.dtype == torch.bfloat16
        bits = torch.cat([p.detach().double().reshape(-1) for p in model.parameters()])
        low, high = bits.clone(), bits.clone()
        comm.allreduce(low, op="min"), comm.allreduce(high, op="max")
        assert torch.equal(low, high)


@two
def test_session__two_optimizers_and_hooks(comm, group):
    """Parameters of another optimizer keep their average gradient; hooks of a step see stepped weights."""
    model = mlp()
    first, second = sgd(model[0].parameters()), sgd(model[4].parameters())
    seen = []
    with Session(model, first, comm=comm):
        for i in range(4):
            x, y = batch(comm, i, 8, 10)
            model.zero_grad()
            F.cross_entropy(model(x), y).backward()
            first.step()
            second.step()
        low, high = (model[4].weight.detach().clone() for _ in range(2))
        comm.allreduce(low, op="min"), comm.allreduce(high, op="max")
        assert torch.equal(low, high)
        first.register_step_post_hook(lambda *_: seen.append(model[0].weight.detach().clone()))
        before = model[0].weight.detach().clone()
        plain(model, first, comm, 9)
        assert len(seen) == 1 and not torch.equal(seen[0], before)


@two
@pytest.mark.parametrize("reentrant", [False, True])
def test_session__activation_checkpoints(comm, group, reentrant):
    from torch.utils.checkpoint import checkpoint

    class Saves(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.a, self.b, self.head = nn.Linear(10, 10), mlp(), nn.Linear(5, 10), nn.Linear(10, 5)

        def forward(self, x):
            x = checkpoint(self.a, self.stem(x), use_reentrant=reentrant)
            return self.head(checkpoint(self.b, x, use_reentrant=reentrant))

    both(comm, group, Saves(), sgd, plain, comm.size == 2)


@two
def test_session__gradients_scaler_and_closure(comm, group):
    def iterate(model, optimizer, comm, i):
        x, y = batch(comm, i, 8, 10)

        def closure():
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            return loss

        return optimizer.step(closure).item()

    both(comm, group, mlp(), sgd, iterate, comm.size == 2)

    model = mlp()
    optimizer, scaler = sgd(model.parameters()), torch.amp.GradScaler("cpu", init_scale=4.0)
    with Session(model, optimizer, comm=comm):
        for i in range(6):
            x, y = batch(comm, i, 8, 10)
            before = model[0].weight.detach().clone()
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            scaler.scale(loss * (float("inf") if i == 3 and comm.rank == 0 else 1)).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.state_dict()  # steps what is left
            assert torch.equal(before, model[0].weight) == (i == 3)


@two
@pytest.mark.parametrize("replace", [lambda grad: None, lambda grad: grad.new_ones(grad.shape)])
def test_session__gradients_that_are_replaced(comm, group, replace):
    def iterate(model, optimizer, comm, i):
        x, y = batch(comm, i, 8, 10)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        last = list(model.parameters())[-1]
        last.grad = replace(last)
        optimizer.step()
        return loss.item()

    both(comm, group, mlp(), sgd, iterate, True)


class Normed(torch.optim.Optimizer):
    """Each step depends on all gradients."""

    def __init__(self, params, lr=0.1):
        super().__init__(params, {"lr": lr, "steps": 0})

    @torch.no_grad()
    def step(self, closure=None):
        params = [p for group in self.param_groups for p in group["params"] if p.grad is not None]
        norm = torch.sqrt(sum(p.grad.pow(2).sum() for p in params))
        for p in params:
            p -= p.grad / norm * self.param_groups[0]["lr"]
        self.param_groups[0]["steps"] += 1


@two
def test_session__optimizers_of_scripts(comm, group):
    """Another class, or another step in the object, is called once for all; autocast around the model is not one around the optimizer."""
    both(comm, group, mlp(), Normed, plain, True, {"policy": "layerwise"})
    model = mlp()
    with pytest.raises(RuntimeError, match="Normed.*param_groups.*overlap=False"):
        with Session(model, optimizer := Normed(model.parameters()), comm=comm, overlap=True, policy="layerwise"):
            plain(model, optimizer, comm, 0)
    calls = []

    def patched(params):
        optimizer = sgd(params)
        step = optimizer.step
        optimizer.step = lambda *args: (calls.append(1), step(*args))[1]
        return optimizer

    both(comm, group, mlp(), patched, plain, True)
    assert len(calls) == 2 * ITERATIONS

    class Seen(torch.optim.SGD):
        def step(self, closure=None):
            calls.append(torch.is_autocast_enabled("cpu"))
            return super().step(closure)

    model, calls[:] = mlp(), []
    with Session(model, optimizer := Seen(model.parameters(), lr=0.1), comm=comm, overlap=True):
        for i in range(2):
            with torch.autocast("cpu"):
                loss = F.cross_entropy(model(batch(comm, i, 8, 10)[0]), batch(comm, i, 8, 10)[1])
            loss.backward()
            optimizer.step()
    assert calls and not any(calls)


@two
def test_session__closure_without_overlap(comm, group):
    """A parameter that nobody has used is not stepped, weight decay or not."""
    def iterate(model, optimizer, comm, i):
        x, y = batch(comm, i, 8, 10)

        def closure():
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            return loss

        return optimizer.step(closure).item()

    both(comm, group, Branches(), sgd, iterate, True, {"overlap": False}, find_unused_parameters=True)


@two
def test_session__clipping_in_another_type(comm, group):
    """What nobody has used this time adds nothing to a norm, though it had a gradient the time before."""
    both(comm, group, Branches(), sgd, clipped, False, {"dtype": torch.float64}, find_unused_parameters=True)


@two
def test_session__reentrant_checkpoint_at_the_end(comm, group):
    """The last gradient comes in a backward pass within the outer one, and another micro-batch follows."""
    from torch.utils.checkpoint import checkpoint

    class Saves(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.head = nn.Linear(10, 10), nn.Linear(10, 5)

        def forward(self, x):
            return self.head(checkpoint(self.first, x.requires_grad_(), use_reentrant=True))

    def iterate(model, optimizer, comm, i):
        optimizer.zero_grad()
        for part in range(2):
            x, y = batch(comm, 10 * i + part, 8, 10)
            loss = F.cross_entropy(model(x), y)
            loss.backward()
        optimizer.step()
        return loss.item()

    both(comm, group, Saves(), sgd, iterate, False)


@two
def test_session__no_sync_behind_a_pass_that_sends(comm):
    model = mlp()
    optimizer = sgd(model.parameters())
    with Session(model, optimizer, comm=comm) as session:
        first, second = (F.cross_entropy(model(x), y) for x, y in (batch(comm, i, 8, 10) for i in range(2)))
        first.backward()
        with session.no_sync(), pytest.raises(RuntimeError, match="second gradient"):
            second.backward()


@two
def test_session__free_gives_the_optimizer_back(comm):
    model = mlp()
    optimizer = sgd(model.parameters())
    with Session(model, optimizer, comm=comm):
        plain(model, optimizer, comm, 0)
    assert "step" not in optimizer.__dict__
    assert all(type(p.grad) in (torch.Tensor, type(None)) for p in model.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    step = optimizer.step
    with Session(model, optimizer, comm=comm):
        plain(model, optimizer, comm, 0)
        schedule.step()
    assert optimizer.__dict__["step"] == step


@two
def test_session__copies_are_without_a_session(comm, group):
    model = mlp()
    optimizer = sgd(model.parameters())
    with Session(model, optimizer, comm=comm) as session:
        plain(model, optimizer, comm, 0)
        session.synchronize()
        twin = copy.deepcopy(model)
        plain(twin, sgd(twin.parameters()), comm, comm.rank)  # by itself
        plain(model, optimizer, comm, 1)
    plain(model, optimizer, comm, comm.rank)  # no communication any more


@two
def test_session__what_it_refuses(comm, group):
    def make(model, optimizer=None, **options):
        return Session(model, optimizer or sgd(model.parameters()), comm=comm, **options)

    with pytest.raises(ValueError, match="no parameters"):
        make(nn.ReLU(), sgd([torch.zeros(1, requires_grad=True)]))
    with pytest.raises(ValueError, match="LBFGS"):
        make(mlp(), torch.optim.LBFGS(mlp().parameters()))
    with pytest.raises(ValueError, match="differ|says where"):
        make(mlp(20 + comm.rank))
    with pytest.raises(ValueError, match="complex64"):
        make(nn.Linear(2, 2, dtype=torch.complex64))
    with pytest.raises(ValueError, match="0.weight is sparse"):
        make(nn.Sequential(nn.Embedding(5, 4, sparse=True)))
    model = mlp()
    model[0].requires_grad_(False)
    with make(model, optimizer := sgd(model.parameters())):
        plain(model, optimizer, comm, 0)
        model[0].requires_grad_(True)
        with pytest.raises(RuntimeError, match="0.weight was frozen"):
            plain(model, optimizer, comm, 0)
        optimizer.zero_grad()


@two
@pytest.mark.parametrize("closure", [False, True])
def test_session__unfrozen_without_overlap(comm, closure):
    model = mlp()
    model[0].requires_grad_(False)
    with Session(model, optimizer := sgd(model.parameters()), comm=comm, overlap=False):
        model[0].requires_grad_(True)
        with pytest.raises(RuntimeError, match="0.weight was frozen"):
            optimizer.step(lambda: torch.zeros(1)) if closure else optimizer.step()


@two
def test_session__options_and_names(comm, group):
    model = mlp()
    optimizer = sgd(model.parameters())
    with Session(model, optimizer, comm=comm, policy="layerwise") as session:
        assert session.plan() == [] and session.report() is None
        plain(model, optimizer, comm, 0)
        assert session.plan() == [["0"], ["2"], ["4"]] and session.report().groups == 3
    with pytest.raises((TypeError, braid.Error), match="polcy|no such policy"):
        with Session(model, optimizer, comm=comm, policy="polcy"):
            plain(model, optimizer, comm, 0)
