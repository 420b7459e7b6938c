# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Sourced behind namespaces.sh: between its two namespaces a long wire (link_delay), instead of the bare veth.
# shellcheck disable=SC2154 # net_a, net_b and build are those of who sources it
# $build is the build. The wire ends with the namespaces.
wire=

# What leaves veth0 of a namespace is packets with checksums.
packets_only() { # NAMESPACE
    ip netns exec "$1" ethtool -K veth0 tx off tso off gso off > /dev/null || exit 1
    ip netns exec "$1" ethtool -K veth0 tx-udp-segmentation off > /dev/null 2>&1 # not every kernel has it
}

# Again: another wire between the same two ends.
wire_up() { # MICROSECONDS
    local middle=${net_a}m side
    if [[ -z $wire ]]; then
        ip netns add "$middle"
        ip -n "$net_a" link del veth0
        for side in "$net_a 10.77.0.1 wire_a" "$net_b 10.77.0.2 wire_b"; do
            ip link add veth0 netns "${side%% *}" type veth peer name "${side##* }" netns "$middle"
            ip -n "${side%% *}" addr add "$(cut -d' ' -f2 <<< "$side")/24" dev veth0
            ip -n "${side%% *}" link set veth0 up
            ip -n "$middle" link set "${side##* }" up
            packets_only "${side%% *}"
        done
        for side in "$net_a" "$net_b"; do
            while [[ $(ip -n "$side" -o link show veth0) != *"state UP"* ]]; do sleep 0.05; done
        done
    else
        kill "$wire"
        wait "$wire" 2> /dev/null
    fi
    ip netns exec "$middle" "$build/bench/link_delay" --delay "$1" wire_a wire_b &
    wire=$!
    sleep 0.3 # until its sockets are open
}

wire_down() {
    { [[ -z $wire ]] || kill "$wire"; ip netns del "${net_a}m"; } 2> /dev/null
    namespaces_down
}
trap wire_down EXIT
