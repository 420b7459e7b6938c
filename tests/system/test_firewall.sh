#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Packets of a rail vanish in the middle of an all-reduce, as a firewall lets them: with another rail the job goes on or
# ends with words, without one it ends with words that name the other rank, within the configured time.
set -euo pipefail
peer_timeout=2 margin=10
net=brf$$
scratch=$(mktemp -d)
cleanup() {
    local side pids
    trap - EXIT INT TERM
    for side in ${net}a ${net}b; do
        pids=$(ip netns pids "$side" 2> /dev/null || true)
        # shellcheck disable=SC2086 # a list
        [[ -z $pids ]] || kill -9 $pids 2> /dev/null || true
        ip netns del "$side" 2> /dev/null || true
    done
    wait 2> /dev/null
    rm -rf "$scratch"
}
if [[ $(id -u) -ne 0 ]] || ! ip netns add ${net}a 2> /dev/null; then
    echo "skipped: needs root and network namespaces"
    rm -rf "$scratch"
    exit 77
fi
trap cleanup EXIT
trap 'exit 130' INT TERM
ip netns add ${net}b
for rail in 0 1; do
    ip link add veth$rail netns ${net}a type veth peer name veth$rail netns ${net}b
    ip -n ${net}a addr add 10.78.$rail.1/24 dev veth$rail
    ip -n ${net}b addr add 10.78.$rail.2/24 dev veth$rail
    ip -n ${net}a link set veth$rail up
    ip -n ${net}b link set veth$rail up
done
for side in a b; do
    ip -n $net$side link set lo up
    for rail in 0 1; do # the kernel takes its time to call a link up
        for ((i = 0; i < 100; i++)); do
            [[ $(ip -n $net$side -o link show veth$rail) == *"state UP"* ]] && break
            sleep 0.05
        done
    done
done

fail() {
    echo "FAILED: $*"
    tail -n 5 "$scratch"/*.out "$scratch"/*.err
    exit 1
}

# start DEVICES ARGUMENTS...: one rank in each namespace; their processes in pids[].
start() {
    local devices=$1 rank side secret
    shift
    secret=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
    pids=()
    rm -f "$scratch"/*
    for rank in 0 1; do
        side=$([[ $rank -eq 0 ]] && echo ${net}a || echo ${net}b)
        ip netns exec "$side" env RANK=$rank WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.78.0.1 \
            MASTER_PORT=29500 BRAID_SECRET="$secret" BRAID_DEVICES="$devices" BRAID_BACKEND=uring \
            BRAID_PEER_TIMEOUT=$peer_timeout BRAID_TIMEOUT=60 BRAID_INIT_TIMEOUT=60 \
            "$BRAID_BUILD/braid" allreduce "$@" > "$scratch/$rank.out" 2> "$scratch/$rank.err" &
        pids+=($!)
    done
    for ((i = 0; i < 600; i++)); do
        grep -qs '#wrong' "$scratch/0.out" && break
        kill -0 "${pids[0]}" 2> /dev/null || fail "the job ended before the fault"
        sleep 0.1
    done
    sleep 0.3
}

# Nothing fits through a bucket of one byte.
block() { ip netns exec ${net}a tc qdisc replace dev "veth$1" root tbf rate 8bit burst 1 limit 1; }
unblock() { ip netns exec ${net}a tc qdisc del dev "veth$1" root; }

# finish SECONDS: waits for both; exit codes in codes[].
finish() {
    local limit=$1 rank from=$SECONDS
    codes=()
    for rank in 0 1; do
        while kill -0 "${pids[rank]}" 2> /dev/null; do
            ((SECONDS - from <= limit)) || fail "rank $rank hangs for more than $limit s"
            sleep 0.1
        done
        codes[rank]=0
        wait "${pids[rank]}" || codes[rank]=$?
    done
}

start veth0,veth1 -b 4M -e 4M -n "$([[ -n ${BRAID_SANITIZE-} ]] && echo 60 || echo 400)" -c 2
block 1
finish 60
if [[ ${codes[0]} -eq 0 && ${codes[1]} -eq 0 ]]; then
    grep -qx '# Out of bounds values : 0 OK' "$scratch/0.out" || fail "wrong results after the loss of a rail"
else
    grep -q 'rank 1' "$scratch/0.err" || fail "rank 0 does not name rank 1"
    grep -q 'rank 0' "$scratch/1.err" || fail "rank 1 does not name rank 0"
fi
unblock 1

start veth0 -b 4M -e 4M -n 100000000 -c 0
block 0
finish $((peer_timeout + margin))
[[ ${codes[0]} -eq 1 && ${codes[1]} -eq 1 ]] || fail "exit codes ${codes[*]}, both must be 1"
grep -q 'rank 1' "$scratch/0.err" || fail "rank 0 does not name rank 1"
grep -q 'rank 0' "$scratch/1.err" || fail "rank 1 does not name rank 0"
