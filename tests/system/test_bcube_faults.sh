#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# All-reduce over an emulated BCube(3,2), over TCP and over udp, while a NIC and a
# switch break and come back: every result is right, the job goes on, and a level that is back is used again.
# shellcheck disable=SC2317 # called by within() and by the trap
set -uo pipefail
# shellcheck source=tests/system/rows.sh
. "$BRAID_SOURCE/tests/system/rows.sh"
# shellcheck source=tests/system/testbed.sh
. "$BRAID_SOURCE/tests/system/testbed.sh"
# shellcheck source=tests/says.sh
. "$BRAID_SOURCE/tests/says.sh"
braid=$BRAID_BUILD/braid
bed=f$$ # no other test's
work=$(mktemp -d)
failures=0
export BRAID_PEER_TIMEOUT=8

if [[ $EUID -ne 0 ]]; then
    echo "SKIP: a network namespace a host needs root"
    exit 77
fi

cleanup() {
    [[ -e /run/braid/$bed ]] && "$braid" bcube down "$bed" > /dev/null
    rm -rf "$work"
}
trap cleanup EXIT

fail() {
    echo "FAILED: $*" >&2
    sed 's/^/    /' "$work/out" | cut -c1-220 | tail -40 >&2
    failures=$((failures + 1))
}

fault() {
    "$braid" bcube fault --name "$bed" "$@" || fail "fault $*"
}

# What the NIC of a level has sent so far.
sent() { # HOST LEVEL
    "$braid" bcube exec --name "$bed" "$1" -- cat "/sys/class/net/eth$2/statistics/tx_bytes"
}

# A NIC that sends more than 100 kB carries data, and not only keepalives.
carries() { # HOST LEVEL
    local before
    before=$(sent "$@") && [[ -n $before ]] && within 30 sent_more "$@" "$before"
}

sent_more() { # HOST LEVEL BEFORE
    local now
    now=$(sent "$1" "$2") && [[ -n $now && $((now - $3)) -gt 100000 ]]
}

"$braid" bcube emulate 3 2 --name "$bed" --rate 100mbit > "$work/out" 2>&1 || {
    echo "SKIP: no testbed can be emulated here: $(head -1 "$work/out")"
    can_emulate && exit 1
    exit 77
}

backend=tcp

# Row after row of all-reduces, each with two that are checked, until stop().
start() { # OPTION...
    BRAID_LOG=info timeout -s KILL 360 "$braid" bcube run --name "$bed" --backend "$backend" --timeout 350 -- \
        "$braid" allreduce -b 1M -e 5M -i 4096 -n 6 -w 0 -c 1 "$@" > "$work/out" 2>&1 &
    job=$!
}

# After two more rows, the first of which may have begun before the last fault was cleared.
stop() {
    more_rows 2 || fail 'the all-reduces do not go on'
    kill -0 $job 2> /dev/null || fail 'the job ended by itself'
    kill $job
    wait $job
    if grep -E '^\[h00\] +[0-9]+ +[0-9]+ ' "$work/out" | awk '$10 + $14 > 0 { exit 1 }'; then return; fi
    fail 'a result was wrong'
}

# Each of the nine ranks logs a line with all the nouns, which | separates.
all_ranks_say() { # NOUNS
    local rank
    for rank in {0..8}; do
        says_all "$work/out" "rank $rank:|$1" || return
    done
}

# -- a NIC and a switch break under an algorithm by name, which keeps its plan, and come back
start --algorithm direct
carries h11 0 || fail 'the all-reduce does not run'
fault nic h11 0 down
sleep 3
carries h11 1 || fail 'nothing goes over level 1 of h11 while level 0 is down'
fault nic h11 0 up
carries h11 0 || fail 'level 0 of h11 is not used again'
fault switch 1 0 down
sleep 3
carries h00 0 || fail 'nothing goes over level 0 of h00 while its switch of level 1 is down'
fault switch 1 0 up
carries h00 1 || fail 'level 1 of h00 is not used again'
stop

# -- all-reduces without a name are planned around a NIC that is out, and over all links when it is back
start
carries h11 0 || fail 'the all-reduce does not run'
fault nic h11 0 down
within 60 all_ranks_say 'all-reduces|broken links' || fail 'the ranks do not plan around a NIC that is out'
more_rows 2 || fail 'the planned all-reduces do not go on'
fault nic h11 0 up
within 60 all_ranks_say 'all-reduces|all links' || fail 'the ranks do not use a NIC that is back'
stop

# -- the same over our own datagrams: what goes over the other level, and a route over other hosts while a switch is down
backend=udp
start --algorithm direct
carries h11 0 || fail 'udp: the all-reduce does not run'
fault nic h11 0 down
carries h11 1 || fail 'udp: nothing goes over level 1 of h11 while level 0 is down'
fault nic h11 0 up
carries h11 0 || fail 'udp: level 0 of h11 is not used again'
stop

exit $((failures > 0))
