# SPDX-License-Identifier: BSD-3-Clause
# ranks: 2
"""Gradient sessions and parameter servers."""
import subprocess
import sys

import braid
import numpy as np
import pytest


@pytest.mark.parametrize("given", ["shapes", "arrays"])
def test_session__sums(comm, given):
    shapes = [(3, 4), 100, (7,)]
    layers = shapes if given == "shapes" else [np.zeros(shape, "f8") for shape in shapes]
    options = {"policy": "layerwise"} if given == "arrays" else {}
    session = comm.session(layers, **options)
    assert [gradient.shape for gradient in session.gradients] == [(3, 4), (100,), (7,)]
    for turn in range(8):
        for layer in range(3):
            session.wait(layer)
            assert turn == 0 or np.all(session.gradients[layer] == (turn if layer != 1 else 1 + turn) + turn)
        session.step()
        for layer in reversed(range(3)):
            session.gradients[layer][:] = turn + 1 + (comm.rank == 1 and layer == 1)
            session.ready(layer)
    session.step()
    report = session.report()
    assert report.iterations >= 8 and report.groups == len(session.groups())
    with pytest.raises(braid.Error):
        session.ready(9)
    kept = session.gradients[0]
    session.free()
    assert kept.sum() == 12 * 16


def test_session__unused_and_options(comm):
    with comm.session([5, 6], names=["conv", "fc"], policy="single", type="float64", reduction="avg") as session:
        session.step()
        session.gradients[1][:] = comm.rank
        session.ready(1)
        with pytest.raises(braid.Error, match="comes first"):
            session.test(1)  # travels with layer 0
        with pytest.raises(braid.Error, match=r"layer 1 \(fc\)"):
            session.ready(1)
        session.unused()
        while not session.test(0):
            pass
        assert session.test(1)
        session.step()
        assert np.all(session.gradients[1] == 0.5) and not session.gradients[0].any()
        assert session.groups() == [0]
    with pytest.raises(TypeError, match="polcy"):
        comm.session([1], polcy="p3")
    with pytest.raises(TypeError, match="shapes"):
        comm.session([1, np.zeros(1)])


def test_parameters__sgd_on_the_servers(comm):
    weights = [np.full((2, 3), 1.0, "f4"), np.full(4, 2.0, "f4")]
    parameters = comm.parameters(weights, method="ssgd", rate=0.5, servers=[1])
    for _ in range(3):
        for layer in range(2):
            parameters.wait(layer)
        for layer in reversed(range(2)):
            parameters.gradient(layer)[:] = comm.rank  # the mean is 0.5
            parameters.push(layer)
    parameters.sync()
    weight = parameters.weight(0)
    assert weight.shape == (2, 3) and np.all(weight == 1 - 3 * 0.5 * 0.5)
    with pytest.raises(ValueError):
        weight[:] = 0
    with pytest.raises(BufferError):
        parameters.free()
    del weight
    assert parameters.report().iterations == 3
    parameters.free()


def test_parameters__rates_and_a_saved_state(comm):
    def iterate(parameters, times):
        for _ in range(times):
            parameters.set_rate(0, 0.5, momentum=0.5)
            parameters.gradient(0)[:] = 1
            parameters.push(0)
            parameters.wait(0)

    first = comm.parameters([np.zeros((2, 2), "f4")], method="ssgd", rate=9)
    iterate(first, 2)
    first.sync()
    saved, velocity = first.weight(0).copy(), first.velocity(0)
    assert np.all(velocity == 1.5) and velocity.shape == (2, 2) and np.all(saved == -0.5 - 0.75)
    second = comm.parameters([saved], method="ssgd", iterations=2)
    second.set_velocity(0, velocity)
    with pytest.raises(ValueError, match="shape"):
        second.set_velocity(0, velocity[0])
    iterate(first, 1)
    iterate(second, 1)
    assert np.all(second.weight(0) == first.weight(0)) and second.report().iterations == 3
    first.free()
    second.free()


@pytest.mark.parametrize("end, left", [
    ("with c: pass", "1"),
    ("c.finalize(); del w", "0"),
    ("d = c.split(0); q = d.parameters([3]); v = q.weight(0); d.finalize(); c.finalize(); del w, v", "0"),
    ("d = c.split(0); q = d.parameters([3]); v = q.weight(0); d.finalize(); c.finalize()", "2"),
], ids=["with", "later", "part", "part at exit"])
def test_parameters__arrays_outlive_finalize(comm, end, left):
    """In a job of its own. Another one of the same process is left in good order whatever the first one does."""
    if comm.rank:
        return
    code = f"""
import braid
c, other = braid.init(size=1, rank=0), braid.init(size=1, rank=0)
p = c.parameters([4])
w = p.weight(0)
{end}
print(len(braid.comm._late))
braid.comm.atexit.unregister(braid.comm._at_exit)
braid.comm._at_exit()
assert not braid.comm._late and not braid.comm._open and other._ending
print("well")
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (ran.stdout, ran.stderr, ran.returncode) == (f"{left}\nwell\n", "", 0)
