#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""SSD-SGD as printed (Algorithms 1 and 2 of the paper) in float64, held against the weights that real ranks wrote.

usage: ssd_model.py FOLDER ELEMENTS ITERATIONS WARMUP DROP_AT

FOLDER/RANKS_K_LOCAL_R has rank R's own weights after each iteration, as float32. The training, its constants and the gradient are those of
test_ssd_model.c. Written from the paper's listing and not from training/, so that an error there is no error here.
"""
import pathlib
import sys

import numpy as np

LR, MOMENTUM, WD = 0.01, 0.9, 1e-3
TOLERANCE = 1e-5


def gradient(w, rank, t):
    i = np.arange(len(w))
    return 0.3 * w - 1.0 / (3 + (i * 7 + rank * 13 + t * 29) % 101)


def train(ranks, k, elements, iterations, warmup, drop_at, local):
    # The paper's constants: GLU has a = 2, b = 0.5, loc_lr = 4 lr; plain SGD has loc_lr = lr / 4.
    a, b, loc = (2.0, 0.5, 4.0) if local == "glu" else (1.0, 0.0, 0.25)
    weight = 1.0 / (np.arange(elements) % 97 + 2)  # the servers'
    velocity = np.zeros(elements)
    own = [weight.copy() for _ in range(ranks)]  # w', each worker's
    pre_weight = last_pull = weight.copy()
    pull = None  # on its way: what the servers had when it was asked for
    for t in range(iterations):
        lr = LR * (0.5 if t >= drop_at else 1)
        gradients = [gradient(own[r], r, t) for r in range(ranks)]
        if t >= warmup:
            if pull is not None:
                own = [pull.copy() for _ in range(ranks)]
                last_pull, pull = pull, None
            for r in range(ranks):  # Algorithm 2
                grad_sync = (pre_weight - own[r]) * (1 - MOMENTUM) / (lr * k)
                own[r] = own[r] - loc * lr * (a * gradients[r] + WD * own[r] + b * grad_sync)
        velocity = MOMENTUM * velocity + sum(gradients) / ranks + WD * weight
        weight = weight - lr * velocity
        if t < warmup:
            own = [weight.copy() for _ in range(ranks)]
            pre_weight = last_pull = weight.copy()
        elif (t - warmup + 1) % k == 0:
            pull, pre_weight = weight.copy(), last_pull
        yield own


def compare(folder, ranks, k, local, elements, iterations, warmup, drop_at):
    files = [folder / f"{ranks}_{k}_{local}_{r}" for r in range(ranks)]
    written = [np.fromfile(f, np.float32).reshape(iterations, elements) for f in files]
    most = 0.0
    for t, own in enumerate(train(ranks, k, elements, iterations, warmup, drop_at, local)):
        for r in range(ranks):
            off = np.abs(written[r][t] - own[r])
            at = int(off.argmax())
            most = max(most, off[at])
            if not off[at] <= TOLERANCE:  # NaN is not
                print(f"{ranks} ranks, k = {k}, {local}: rank {r}, iteration {t}, element {at}: "
                      f"{written[r][t][at]:.8g}, the paper's is {own[r][at]:.8g}")
                return False
    print(f"{ranks} ranks, k = {k}, {local}: at most {most:.1e} from the paper's")
    return True


def main():
    folder = pathlib.Path(sys.argv[1])
    numbers = [int(a) for a in sys.argv[2:]]
    runs = sorted(f.name.split("_") for f in folder.glob("*_0"))
    right = [compare(folder, int(ranks), int(k), local, *numbers) for ranks, k, local, _ in runs]
    sys.exit(not right or not all(right))


main()
