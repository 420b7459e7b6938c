#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# BRAID_BACKEND=auto: RDMA where every rank has devices for it, TCP for all where one rank has none; the log names the back end and
# the reason.
# A BCube of two hosts, as ranks of one machine would take shared memory otherwise.
# shellcheck source=tests/guest/rdma.sh
. "$(dirname "$0")/rdma.sh"
# shellcheck source=tests/says.sh
. "$(dirname "$0")/../says.sh"
log=$(mktemp)
export BRAID_BACKEND=auto BRAID_LOG=info

# job NAMES_OF_RANK_0 NAMES_OF_RANK_1: its status; the output of both is in $log.
job() {
    local common=(WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 BRAID_MACHINE_RANKS=2 BRAID_PEER_TIMEOUT=60
        MASTER_ADDR=127.0.0.1 MASTER_PORT=29400 BRAID_SECRET=the-secret-of-this-test 'BRAID_TOPOLOGY=bcube:2,1')
    local run=("$BRAID_BUILD/braid" allreduce -b 64K -e 64K -n 2 -w 1) pid rc=0
    env "${common[@]}" RANK=1 BRAID_DEVICES="$2" "${run[@]}" > "$log.1" 2>&1 &
    pid=$!
    env "${common[@]}" RANK=0 BRAID_DEVICES="$1" "${run[@]}" > "$log" 2>&1 || rc=$?
    wait $pid || rc=$?
    cat "$log.1" >> "$log"
    return $rc
}

# names NOUNS: a line of the log has all the nouns, which | separates.
names() {
    says_all "$log" "$1" || fail "no line with $1: $(< "$log")"
}

sent() {
    cat /sys/class/infiniband/h0r0/ports/1/hw_counters/sent_pkts
}

before=$(sent)
job h0r0 h1r0 || fail "by the devices' own names: $(< "$log")"
names 'back end|verbs'
names 'Out of bounds values : 0 OK'
[[ $(($(sent) - before)) -ge 16 ]] || fail "nothing went through h0r0: $(< "$log")"

# A soft-RoCE device is used only when it is named itself, and RDMA only when every rank can use it.
before=$(sent)
job 10.0.0.1 10.0.0.2 || fail "by addresses: $(< "$log")"
names 'Out of bounds values : 0 OK'
[[ $(sent) -eq $before ]] || fail "RDMA, though no device was named: $(< "$log")"
! job h0r0 10.0.0.2 || fail "rank 0 has no TCP device of that name"
names 'RDMA|TCP|rank 1|10.0.0.2|soft-RoCE' # the warning
names 'RDMA|h0r0|rank 1|10.0.0.2|soft-RoCE' # the error of rank 0
