#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# BML on emulated BCubes against the paper's formula and against parameter servers with one NIC; bench/README.md says how to read it.
# Arguments go to `braid demo`.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${BRAID_BUILD:-$here/../build/release}
for shape in 2,2 3,2 2,3 4,2; do
    "$build/braid" demo --shape "$shape" --models vgg19 --rate 100mbit --percent 10 --rounds 3 --warmup 1 "$@" || exit 1
done
