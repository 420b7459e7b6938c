#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Links on demand: 64 real ranks over TCP start and end right, and have few links; who disagrees about it is told.
braid=$BRAID_BUILD/braid
unset BRAID_LINKS

fail() {
    echo "FAILED: $*"
    exit 1
}

out=$(BRAID_LOG=debug timeout 300 "$braid" run -n 64 --backend tcp -- "$braid" allreduce -b 8 -e 8 -n 1 -w 0 2>&1) || fail "$(tail -n 20 <<<"$out")"
grep -q 'Out of bounds values : 0 OK' <<<"$out" || fail "no result: $out"
ends=$(grep -c 'rail to rank .* is up' <<<"$out")
# the tree's 63 links have two ends each, and the algorithm's few ranks a rank; all pairs would be 4032
((ends >= 126 && ends < 1500)) || fail "$ends ends of links"

out=$(timeout 100 "$braid" run -n 2 --backend tcp -- sh -c "export BRAID_LINKS=start; [ \$RANK = 1 ] && BRAID_LINKS=demand; exec $braid barrier" 2>&1) && fail "they differ: $out"
grep -q 'BRAID_LINKS' <<<"$out" || fail "no word of BRAID_LINKS: $out"
exit 0
