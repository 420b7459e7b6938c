#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A rank on each host all-reduces over the RDMA devices: right values, no rail is lost, and every device carries its part.
# shellcheck source=tests/guest/rdma.sh
. "$(dirname "$0")/rdma.sh"
log=$(mktemp)
algorithm=auto
[[ $(< /run/setup) != bcube:* ]] || algorithm=bml

# What the device itself counts: nobody else uses it.
packets() {
    cat "/sys/class/infiniband/$1/ports/1/hw_counters/sent_pkts"
}

for device in $(devices all); do
    eval "before_$device=$(packets "$device")"
done
bash "$(dirname "$0")/ranks.sh" "$BRAID_BUILD/braid" allreduce -b 8 -e 512K -f 256 -n 2 -w 1 --algorithm $algorithm \
    > "$log" 2>&1 || fail "exit status $?: $(< "$log")"
cat "$log"
grep -q 'Out of bounds values : 0 OK' "$log" || fail "wrong values"
! grep -q 'is lost' "$log" || fail "a rail was lost"
for device in $(devices all); do
    before=before_$device
    count=$(($(packets "$device") - ${!before}))
    echo "$device sent $count packets"
    [[ $count -ge 64 ]] || fail "$device sent $count packets only"
done
