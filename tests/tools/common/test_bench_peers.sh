#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# bench/collectives_peers.sh reports a library that is there, leaves out one that is not, and says so.
set -uo pipefail
export BRAID_PEERS BRAID_BUILD
BRAID_PEERS=$(mktemp -d)
trap 'rm -rf "$BRAID_PEERS"' EXIT
mkdir -p "$BRAID_PEERS/openmpi5/bin"
ln -s "$(type -P true)" "$BRAID_PEERS/openmpi5/bin/mpicc"
printf '#!/bin/sh\necho gather barrier 8 12.5 0 25\n' > "$BRAID_PEERS/openmpi5/bin/mpirun"
chmod +x "$BRAID_PEERS/openmpi5/bin/mpirun"

# On one core: there the machine has one phase, which does not change within a turn.
core=$(taskset -cp $$)
core=${core##* }
said=$(taskset -c "${core%%[,-]*}" bash "$BRAID_SOURCE/bench/collectives_peers.sh" --peers "openmpi5 mpich5" --ranks 2 --transports shm --rounds 1 \
    --collectives gather --json "$BRAID_PEERS/json" 2> "$BRAID_PEERS/errors") || exit 1
if [[ $said != *gather*8\ B*12.50* || $(< "$BRAID_PEERS/json") != *'"peer": "openmpi5", "us": 12.500'* || $(< "$BRAID_PEERS/errors") != *mpich5*"left out"* ]]; then
    echo "$said"
    cat "$BRAID_PEERS/errors" "$BRAID_PEERS/json"
    exit 1
fi
