# SPDX-License-Identifier: BSD-3-Clause
"""examples/train.c in numpy: data-parallel training with a gradient session. braid run -n 4 -- python3 train.py"""
import braid
import numpy as np

WIDTHS, BATCH, ITERATIONS, RATE = (2, 24, 24, 1), 32, 3000, 0.3
start = np.random.default_rng(1)  # the first weights are the same on all ranks
weights = [start.uniform(-1, 1, (out, n + 1)).astype("f4") * np.sqrt(3 / n, dtype="f4") for n, out in zip(WIDTHS, WIDTHS[1:])]
for weight in weights:
    weight[:, -1] = 0  # of the bias, an input that is always 1

with braid.init() as comm, comm.session([weight.shape for weight in weights], reduction="avg") as session:
    draw, right = np.random.default_rng(comm.rank + 2), 0  # the samples are not
    for iteration in range(ITERATIONS):
        points = draw.uniform(-1, 1, (BATCH, 2)).astype("f4")
        square = (points**2).sum(1)
        wanted = np.where((square > 0.2) & (square < 0.7), 1, -1).astype("f4")[:, None]
        values = [points]
        for layer, weight in enumerate(weights):
            session.wait(layer)  # the mean of the iteration before must be here now, and not earlier: until then it travels
            weight -= RATE * session.gradients[layer]
            values[-1] = np.c_[values[-1], np.ones(BATCH, "f4")]
            values.append(np.tanh(values[-1] @ weight.T))
        session.step()  # ends the iteration before; now and then it plans anew
        right += (values[-1] * wanted > 0).sum() if iteration >= ITERATIONS - 100 else 0
        slope = values[-1] - wanted
        for layer in reversed(range(len(weights))):
            slope = slope * (1 - (values[layer + 1][:, : len(weights[layer])]) ** 2)
            session.gradients[layer][:] = slope.T @ values[layer] / BATCH
            session.ready(layer)  # returns at once
            slope = slope @ weights[layer][:, :-1]
    if comm.rank == 0:
        report = session.report()
        print(f"{comm.size} ranks: {right / BATCH:.1f} % right; {report.groups} all-reduces an iteration, {report.iteration * 1e3:.3f} ms each")
    assert right >= 90 * BATCH
