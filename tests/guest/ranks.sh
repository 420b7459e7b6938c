#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# ranks.sh COMMAND [ARGS...]: inside the guest, runs a rank of one job on each host of the setup, with that host's RDMA devices;
# on a BCube with its topology. Rank 0's output only is passed on, and everybody's errors. The exit status is the worst one.
set -euo pipefail
size=$(wc -l < /run/hosts)
setup=$(< /run/setup)
[[ $size -gt 0 ]] || { echo "guest: the setup has no hosts" >&2 && exit 2; }

# Each rank is a host of its own, as far as braid knows, but they share the guest's processors.
export BRAID_BACKEND=${BRAID_BACKEND:-verbs} WORLD_SIZE=$size LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 BRAID_MACHINE_RANKS=$size
# Nine ranks on two emulated processors: silence is no sign of death there.
export BRAID_PEER_TIMEOUT=${BRAID_PEER_TIMEOUT:-60}
export MASTER_ADDR=127.0.0.1 MASTER_PORT=${MASTER_PORT:-29400} BRAID_SECRET=${BRAID_SECRET:-nobody-else-is-in-here}
if [[ $setup == bcube:* ]]; then
    export BRAID_TOPOLOGY=${setup%%@*}
fi

exec {stdout}>&1 {null}> /dev/null
pids=()
while read -r rank devices; do
    # A duplicate, not /dev/stdout, which would begin a file anew.
    out=$null
    [[ $rank -ne 0 ]] || out=$stdout
    RANK=$rank BRAID_DEVICES=$devices "$@" < /dev/null >&"$out" &
    pids+=($!)
done < /run/hosts
worst=0
for pid in "${pids[@]}"; do
    rc=0
    wait "$pid" || rc=$?
    [[ $rc -le $worst ]] || worst=$rc
done
exit "$worst"
