#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# BRAID_BACKEND=auto: RDMA where every rank has devices for it, TCP for all where one has not; and it says which and why.
# A BCube of two hosts, as ranks of one machine would take shared memory otherwise.
# shellcheck source=tests/guest/rdma.sh
. "$(dirname "$0")/rdma.sh"
log=$(mktemp)
export BRAID_BACKEND=auto BRAID_LOG=info

# job NAMES_OF_RANK_0 NAMES_OF_RANK_1: its status; what both say is in $log.
job() {
    local common=(WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 BRAID_MACHINE_RANKS=2 BRAID_PEER_TIMEOUT=60
        MASTER_ADDR=127.0.0.1 MASTER_PORT=29400 BRAID_SECRET=nobody-else-is-in-here 'BRAID_TOPOLOGY=bcube:2,1')
    local run=("$BRAID_BUILD/braid" allreduce -b 64K -e 64K -n 2 -w 1) pid rc=0
    env "${common[@]}" RANK=1 BRAID_DEVICES="$2" "${run[@]}" > "$log.1" 2>&1 &
    pid=$!
    env "${common[@]}" RANK=0 BRAID_DEVICES="$1" "${run[@]}" > "$log" 2>&1 || rc=$?
    wait $pid || rc=$?
    cat "$log.1" >> "$log"
    return $rc
}

says() {
    grep -qF -- "$1" "$log" || fail "it does not say '$1': $(< "$log")"
}

sent() {
    cat /sys/class/infiniband/h0r0/ports/1/hw_counters/sent_pkts
}

before=$(sent)
job h0r0 h1r0 || fail "by the devices' own names: $(< "$log")"
says 'between hosts the back end is verbs'
says 'Out of bounds values : 0 OK'
[[ $(($(sent) - before)) -ge 16 ]] || fail "nothing went through h0r0: $(< "$log")"

# Soft-RoCE counts by its own name only, and what one rank lacks nobody takes.
before=$(sent)
job 10.0.0.1 10.0.0.2 || fail "by addresses: $(< "$log")"
says 'Out of bounds values : 0 OK'
[[ $(sent) -eq $before ]] || fail "RDMA, though nobody has asked for soft-RoCE: $(< "$log")"
! job h0r0 10.0.0.2 || fail "rank 0 has no TCP device of that name"
says 'RDMA devices stay unused, and TCP takes their place: rank 1: 10.0.0.2 is soft-RoCE'
says 'RDMA devices stay unused (rank 1: 10.0.0.2 is soft-RoCE'
