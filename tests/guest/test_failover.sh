#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A cable is taken out and put back in the middle of all-reduces over two rails: the rail is lost and comes back, no call fails,
# every result is right. In a BCube the host's neighbours on that level are reached through others meanwhile.
# shellcheck source=tests/guest/rdma.sh
. "$(dirname "$0")/rdma.sh"
net=$(dirname "$0")/net.sh
log=$(mktemp)

# The job may have ended: then nothing more will come.
said() {
    grep -q "$1" "$log" && return
    ! has_ended "$job" || fail "the job ended without '$1': $(< "$log")"
    return 1
}

wait_for() {
    within 60 said "$1" || fail "no '$1': $(< "$log")"
}

sent_more() { # BYTES THAN: on the rail that is going to be lost
    [[ $(($(sent_bytes h0r1) - $2)) -gt $1 ]]
}

bytes=1M calls=160
[[ $(< /run/setup) != bcube:* ]] || bytes=256K calls=70 # more ranks share the processors
# Enough calls that some are still to come when the cable is back.
BRAID_LOG=info bash "$(dirname "$0")/ranks.sh" "$BRAID_BUILD/braid" allreduce -b $bytes -e $bytes -n $calls -w 1 -c 10 > "$log" 2>&1 &
job=$!
wait_for 'out-of-place'
within 30 sent_more 1000000 "$(sent_bytes h0r1)" || fail "nothing goes over h0r1: $(< "$log")"
bash "$net" port 0 1 down
wait_for 'rail to rank . on level 1 .* is lost'
bash "$net" port 0 1 up
wait_for 'it is active'
wait "$job" || fail "exit status $?: $(< "$log")"
grep -q 'Out of bounds values : 0 OK' "$log" || fail "wrong values: $(< "$log")"
