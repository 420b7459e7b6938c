#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# An all-reduce between two hosts over RDMA, with every kind of name for a device; devices that cannot be used say why at once.
# shellcheck source=tests/guest/rdma.sh
. "$(dirname "$0")/rdma.sh"
braid=$BRAID_BUILD/braid
out=$(mktemp -d)
export BRAID_BACKEND=verbs BRAID_INIT_TIMEOUT=40

# run NAMES-OF-RANK-0 NAMES-OF-RANK-1: 64 KiB, checked.
run() {
    # shellcheck disable=SC2016
    A=$1 B=$2 timeout 80 "$braid" run -n 2 -- sh -c \
        'if [ "$RANK" = 0 ]; then BRAID_DEVICES=$A; else BRAID_DEVICES=$B; fi; export BRAID_DEVICES; exec "$0" allreduce -b 64K -e 64K -n 2 -w 1' \
        "$braid" > "$out/text" 2>&1
}

works() {
    run "$@" || fail "$*: exit status $?: $(cat "$out/text")"
    grep -q 'back end verbs' "$out/text" || fail "$*: another back end: $(cat "$out/text")"
    grep -q 'Out of bounds values : 0 OK' "$out/text" || fail "$*: wrong values: $(cat "$out/text")"
}

# refuses WORDS NAMES NAMES
refuses() {
    local words=$1
    shift
    run "$@" && fail "$*: it works, and should not"
    grep -qF -- "$words" "$out/text" || fail "$*: does not say '$words': $(cat "$out/text")"
}

works h0r0,h0n1 "$(address h1r0),h1r1"
refuses 'no RDMA device h1r1:2; there are: h0r0' h0r1 h1r1:2

# With addresses of both families at both ends, IPv4 is taken. (IPv6 alone does not travel between hosts of one namespace.)
nic=h0n1 four=$(address h0r1)
ip addr add fd00:9::1/64 dev h0n1 nodad
ip addr add fd00:9::2/64 dev h1n1 nodad
works h0r1 h1r1
ip addr del fd00:9::1/64 dev h0n1
ip addr del fd00:9::2/64 dev h1n1

BRAID_GID_INDEX=0 refuses 'link-local' h0r0 h1r0
BRAID_GID_INDEX=99 refuses 'BRAID_GID_INDEX names GID 99' h0r0 h1r0

ip addr del "$four/24" dev "$nic"
no_gid() { ! find_gid h0r1 > /dev/null; }
within 20 no_gid || fail "h0r1 has a GID without an address"
refuses "ip addr add ADDRESS/24 dev $nic" h0r1 h1r1
ip addr add "$four/24" dev "$nic"
ip link set "$nic" down
wait_state h0r1 DOWN
refuses "ip link set $nic up" h0r1 h1r1
ip link set "$nic" up
wait_state h0r1 ACTIVE # for the next test
