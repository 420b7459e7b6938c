#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Two rails of unequal rates: each carries its share of an all-reduce, by rate, and the values are right.
# shellcheck source=tests/guest/rdma.sh
. "$(dirname "$0")/rdma.sh"
log=$(mktemp)

# The second rail gets a quarter of the first one's rate.
for nic in h0n1 h1n1; do
    tc qdisc change dev "$nic" root tbf rate 5mbit burst 128k limit 8m
done
fast=$(sent_bytes h0r0)
slow=$(sent_bytes h0r1)
bash "$(dirname "$0")/ranks.sh" "$BRAID_BUILD/braid" allreduce -b 2M -e 2M -n 8 -w 2 > "$log" 2>&1 || fail "exit status $?: $(< "$log")"
cat "$log"
grep -q 'Out of bounds values : 0 OK' "$log" || fail "wrong values"
fast=$(($(sent_bytes h0r0) - fast))
slow=$(($(sent_bytes h0r1) - slow))
echo "20 Mbit/s: $fast bytes, 5 Mbit/s: $slow bytes"
# Four to one by rate, one to one by halves. The first transfers are cut before anything is measured.
[[ $((4 * fast)) -ge $((7 * slow)) && $fast -le $((8 * slow)) ]] || fail "not by rate"
