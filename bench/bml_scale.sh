#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# BML in simulated BCubes, the real engine and protocol in virtual time, against the paper's 2(N-1)/(kN) T_F.
# bml_scale.sh [CUBE...]: default 4,3 (64 hosts, 2 s, 0.6 GiB) and 8,3 (512 hosts, a minute, 5 GiB).
# BRAID_BUILD is the build folder, BRAID_BML_COUNT the float32 of a host, BRAID_BML_RATE the bits a second of a NIC (10^8).
set -e
build=${BRAID_BUILD:-$(dirname "$0")/../build/release}
for cube in "${@:-4,3 8,3}"; do
    for one in $cube; do
        BRAID_BML=$one BRAID_BML_COUNT=${BRAID_BML_COUNT:-524288} "$build/tests/test_sim_bml"
    done
done
