#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# `braid bcube check` on an emulated BCube whose NICs have soft-RoCE devices: nothing on a healthy one, each host's devices at that
# host; one that lacks is named.
set -euo pipefail
braid=$BRAID_BUILD/braid
out=$(mktemp -d)

fail() {
    echo "$*" >&2
    cat "$out/text" >&2
    exit 1
}

check() {
    "$braid" bcube check --name rdma --no-color --json "$out/json" > "$out/text"
}

# settings CODES: the findings on settings and RDMA are these. Those on rates are not looked at: the emulated processor is slow at times.
settings() {
    [[ $(sed -nE 's/^(error|warning|note) +(BC0[67][0-9]) .*/\2/p' "$out/text") == "$1" ]]
}

"$braid" bcube emulate 2 2 --name rdma > /dev/null
for host in h00 h01 h10 h11; do
    for level in 0 1; do
        ip netns exec "rdma-$host" rdma link add "$host-$level" type rxe netdev "eth$level"
    done
done
check || true
settings '' || fail "a healthy testbed has findings"
# In the JSON a host's name stands before its devices.
for host in h00 h01 h10 h11; do
    found=$(tr -d '\n\t' < "$out/json" | grep -o "\"device\":\"$host-[01]\",\"port\":1,\"netdev\":\"eth[01]\",\"state\":\"active\"" | sort -u | wc -l)
    [[ $found -eq 2 ]] || fail "$host has $found devices and not 2: $(cat "$out/json")"
done
[[ $(grep -c '"device":' "$out/json") -eq 8 ]] || fail "hosts have devices of others: $(cat "$out/json")"

rdma link delete h01-1
check && fail "a missing device is not found"
settings BC073 || fail "not the one finding that there is"
grep -q 'RDMA device .*eth1 of h01' "$out/text" || fail "the missing device is not named"
"$braid" bcube down rdma > /dev/null
