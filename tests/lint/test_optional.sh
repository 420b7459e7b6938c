#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What is optional stays optional: without verbs, DPDK, GPU kernels and hwloc CMake configures, the files that look at that compile with the usual
# warnings as errors, and the table of back ends asks for no verbs. Everything else is as in the usual build, and is not built again.
set -euo pipefail
if [[ -n $BRAID_SANITIZE ]]; then
    exit 77 # once is enough
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cmake -S "$BRAID_SOURCE" -B "$scratch" -G Ninja -DBRAID_WERROR=ON -DBRAID_VERBS=OFF -DBRAID_DPDK=OFF -DBRAID_GPU_KERNELS=OFF -DBRAID_HWLOC=OFF > "$scratch/log"
objects=CMakeFiles/br_transport.dir/transport
cmake --build "$scratch" --target $objects/table.c.o $objects/verbs/probe.c.o $objects/dpdk/library.c.o \
    CMakeFiles/br_tools.dir/tools/info/nic_affinity.c.o >> "$scratch/log" 2>&1 || {
    tail -n 30 "$scratch/log"
    exit 1
}
if grep -q br_verbs_ops <<< "$(nm "$scratch/$objects/table.c.o")"; then
    echo "the table of back ends has verbs, though it was switched off"
    exit 1
fi
if grep -q 'transport/dpdk/module/' "$scratch/build.ninja"; then
    echo "the module for DPDK is built, though it was switched off"
    exit 1
fi
