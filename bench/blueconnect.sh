#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# BlueConnect: 2 emulated hosts of 4 ranks, shared memory inside, a shaped link between, against a flat ring of ours and the other
# libraries. bench/README.md says how to read the result. Options are those of allreduce_peers.sh. Last a link without a rate: what the cores
# alone allow each of them.
set -u
here=$(cd "$(dirname "$0")" && pwd)
for rate in 1gbit 4gbit ""; do
    echo "2 hosts x 4 ranks, link of ${rate:-no rate}"
    "$here/allreduce_peers.sh" --ranks 8 --transports veth --congestion cubic --rate "$rate" --busy \
        --peers "openmpi mpich gloo braid_ring braid_blueconnect braid" --sizes "1048576 4194304 16777216 67108864" --ms 1000 \
        --json "blueconnect_${rate:-unshaped}.json" "$@" || exit 1
done
