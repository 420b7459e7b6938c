#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Every collective over the RDMA devices, the values checked (all-reduce has a test of its own).
# shellcheck source=tests/guest/rdma.sh
. "$(dirname "$0")/rdma.sh"
log=$(mktemp)
for collective in reduce_scatter allgather broadcast reduce alltoall gather scatter barrier sendrecv; do
    before=$(sent_bytes h0r0)
    bash "$(dirname "$0")/ranks.sh" "$BRAID_BUILD/braid" "$collective" -b 64K -e 64K -n 1 -w 0 > "$log" 2>&1 ||
        fail "$collective: exit status $?: $(< "$log")"
    [[ $collective == barrier ]] || grep -q 'Out of bounds values : 0 OK' "$log" || fail "$collective: wrong values: $(< "$log")"
    [[ $(sent_bytes h0r0) -gt $before ]] || fail "$collective: nothing went through h0r0: $(< "$log")"
done
