# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Sourced by benchmarks that shape links themselves.

# shape_link NAMESPACE DEVICE RATE: RATE as tc writes it. The bucket must hold what the stack hands over at once, or a core burns; no more, or small messages pass at
# the speed of memory: the rule of `braid bcube emulate` (tools/testbed/netlink.c).
shape_link() {
    local burst=256kb
    case $3 in
        *[0-9]mbit) ((${3%%[.m]*} > 500)) || burst=128kb ;;
        *[0-9]kbit | *[0-9]bit) burst=128kb ;;
    esac
    ip netns exec "$1" tc qdisc replace dev "$2" root tbf rate "$3" burst $burst latency 50ms
}
