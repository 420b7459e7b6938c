#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Priority classes on the wire: each frame leaves with the traffic class of its priority, messages with that of the most urgent.
# shellcheck source=tests/guest/rdma.sh
. "$(dirname "$0")/rdma.sh"
log=$(mktemp) packets=$(mktemp)
export BRAID_TRAFFIC_CLASS=32,1:104,10:184 BRAID_SERVICE_LEVEL=0,1:3

answered() {
    [[ $(grep -c 'dropped by kernel' "$log") -ge $asked ]]
}

# Asks tcpdump for its counts and waits for the answer: sets captured, received, dropped.
ask() {
    asked=$((asked + 1))
    kill -USR1 "$pid"
    within 30 answered || fail "tcpdump does not answer: $(< "$log")"
    read -r captured received dropped <<< "$(sed -nE 's/.*[^0-9]([0-9]+) packets? captured, ([0-9]+) packets? received by filter, ([0-9]+) packets? dropped by kernel.*/\1 \2 \3/p' "$log" | tail -n 1)"
}

all_read() {
    ask
    [[ $((captured + dropped + early)) -ge $received ]]
}

# run PRIORITY: an all-reduce of 512 KiB in frames, whose packets are caught; then carried CLASS: their bytes with this traffic class.
run() {
    local pid asked=0 captured received dropped early
    : > "$log" # of the run before
    # By address and not by -Q out, which libpcap looks at behind the kernel's count.
    tcpdump -i h0n0 -B 16384 -s 64 -U -w "$packets" "udp port 4791 and src $(address h0r0)" 2> "$log" &
    pid=$!
    within 60 grep -q 'listening on' "$log" || fail "tcpdump: $(< "$log")"
    ask
    early=$((received - captured)) # came before the filter was set, and is never caught
    bash "$(dirname "$0")/ranks.sh" "$BRAID_BUILD/braid" allreduce -b 512K -e 512K -n 2 -w 1 --priority "$1" > "$log.job" 2>&1 ||
        fail "priority $1: exit status $?: $(< "$log.job")"
    grep -q 'Out of bounds values : 0 OK' "$log.job" || fail "priority $1: wrong values: $(< "$log.job")"
    # What tcpdump has not read when it is told to end is lost.
    within 60 all_read || fail "tcpdump has read $captured of $received: $(< "$log")"
    kill -INT $pid
    wait $pid || true
}

carried() {
    tcpdump -r "$packets" -v "ip[1] == $1" 2> /dev/null | sed -n 's/.*, length \([0-9]*\))$/\1/p' | awk '{ sum += $1 } END { print sum + 0 }'
}

# check PRIORITY CLASS: the frames have it, and nothing has another one but what goes with messages.
check() {
    local class
    run "$1"
    for class in 32 104 184 0; do
        bytes[class]=$(carried $class)
    done
    echo "priority $1: ${bytes[32]} bytes of class 32, ${bytes[104]} of 104, ${bytes[184]} of 184, ${bytes[0]} of 0"
    [[ ${bytes[$2]} -gt 1500000 && ${bytes[184]} -gt 0 && ${bytes[0]} -eq 0 ]] || fail "not with $2"
    for class in 32 104; do
        [[ $class -eq $2 || ${bytes[$class]} -lt 20000 ]] || fail "${bytes[$class]} bytes with class $class"
    done
}

bytes=()
check 0 32
check 12 184
