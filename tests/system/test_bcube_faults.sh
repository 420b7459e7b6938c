#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# All-reduce over an emulated BCube(3,2) while a NIC and a
# switch break and come back: every result is right, the job goes on, and a level that is back is used again.
set -uo pipefail
braid=$BRAID_BUILD/braid
bed=f$$ # nobody else's
work=$(mktemp -d)
failures=0
export BRAID_PEER_TIMEOUT=8

if [[ $EUID -ne 0 ]]; then
    echo "SKIP: a network namespace a host needs root"
    exit 77
fi

# shellcheck disable=SC2317 # called by the trap
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

# More than this within some seconds: it carries data, not only signs of life.
carries() { # HOST LEVEL
    local before now _
    before=$(sent "$@")
    for _ in {1..60}; do
        sleep 0.2
        now=$(sent "$@")
        [[ $((now - before)) -gt 100000 ]] && return
    done
    return 1
}

"$braid" bcube emulate 3 2 --name "$bed" --rate 100mbit > "$work/out" 2>&1 || {
    echo "SKIP: no testbed can be emulated here: $(head -1 "$work/out")"
    exit 77
}

# -- a NIC and a switch break under a ring, and come back
timeout -s KILL 200 "$braid" bcube run --name "$bed" --timeout 190 -- \
    "$braid" allreduce --algorithm direct -b 1M -e 1M -n 80 -w 1 -c 20 > "$work/out" 2>&1 &
job=$!
carries h11 0 || fail 'the ring does not run'
fault nic h11 0 down
sleep 5
carries h11 1 || fail 'nothing goes over level 1 of h11 while level 0 is down'
fault nic h11 0 up
carries h11 0 || fail 'level 0 of h11 is not used again'
kill -0 $job 2> /dev/null || fail 'the job was over before the switch broke'
fault switch 1 0 down
sleep 5
carries h00 0 || fail 'nothing goes over level 0 of h00 while its switch of level 1 is down'
fault switch 1 0 up
wait $job || fail 'the all-reduce under faults ended badly'
grep -q 'Out of bounds values : 0 OK' "$work/out" || fail 'a result was wrong'


# -- all-reduces without a name are planned around a NIC that is out, and over all links when it is back
says() { # WORDS
    local _
    for _ in {1..300}; do
        [[ $(grep -c "$1" "$work/out") -ge 9 ]] && return
        sleep 0.2
    done
    return 1
}
BRAID_LOG=info timeout -s KILL 200 "$braid" bcube run --name "$bed" --timeout 190 -- \
    "$braid" allreduce -b 4M -e 4M -n 30 -w 1 -c 10 > "$work/out" 2>&1 &
job=$!
carries h11 0 || fail 'the all-reduce does not run'
fault nic h11 0 down
says 'go around broken links' || fail 'the ranks do not plan around a NIC that is out'
fault nic h11 0 up
says 'go over all links again' || fail 'the ranks do not use a NIC that is back'
wait $job || fail 'the planned all-reduce ended badly'
grep -q 'Out of bounds values : 0 OK' "$work/out" || fail 'a result of the planned all-reduce was wrong'

exit $((failures > 0))
