# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Sourced by the benchmarks: two network namespaces joined by a veth pair, addresses 10.77.0.1 and 10.77.0.2 inside
# them only. They vanish when the script ends, however it ends, and so does the process group in $group.
net_a=brb$$a net_b=brb$$b group=
work=$(mktemp -d)

namespaces_up() {
    [[ $(id -u) == 0 ]] || { echo "needs root for network namespaces: run it with sudo" >&2; exit 2; }
    command -v ip > /dev/null || { echo "needs the command ip, of the package iproute2" >&2; exit 2; }
    ip netns add "$net_a" && ip netns add "$net_b" &&
        ip link add veth0 netns "$net_a" type veth peer name veth0 netns "$net_b" || exit 2 # ip has said why
    local side
    for side in "$net_a 10.77.0.1" "$net_b 10.77.0.2"; do
        ip -n "${side% *}" link set lo up &&
            ip -n "${side% *}" addr add "${side#* }/24" dev veth0 &&
            ip -n "${side% *}" link set veth0 up || exit 2
    done
    for side in "$net_a" "$net_b"; do # the kernel takes its time to call a link up
        while [[ $(ip -n "$side" -o link show veth0) != *"state UP"* ]]; do sleep 0.05; done
    done
}

# The veth gets a rate. The bucket must hold what the stack hands over at once, or a core burns.
namespaces_shape() { # RATE
    local side
    for side in "$net_a" "$net_b"; do
        ip netns exec "$side" tc qdisc add dev veth0 root tbf rate "$1" burst 256kb latency 50ms || exit 1
    done
}

# Congestion control of all connections inside the namespaces, by route attribute: a namespace may not choose it by
# sysctl. `system`: what the machine has.
namespaces_congestion() {
    local attribute=() side local_route
    [[ $1 == system ]] || attribute=(congctl "$1")
    for side in "$net_a 10.77.0.1" "$net_b 10.77.0.2"; do
        ip -n "${side% *}" route replace 10.77.0.0/24 dev veth0 proto kernel scope link src "${side#* }" \
            "${attribute[@]}"
        for local_route in 127.0.0.0/8 127.0.0.1; do
            ip -n "${side% *}" route replace local $local_route dev lo table local proto kernel scope host \
                src 127.0.0.1 "${attribute[@]}"
        done
    done
}

namespaces_down() {
    local side pids
    trap - EXIT INT TERM
    [[ -z $group ]] || { kill -9 -- "-$group"; wait "$group"; } 2>/dev/null
    for side in "$net_a" "$net_b"; do
        pids=$(ip netns pids "$side" 2>/dev/null)
        # shellcheck disable=SC2086 # a list
        [[ -z $pids ]] || kill -9 $pids 2>/dev/null
        ip netns del "$side" 2>/dev/null
    done
    rm -rf "$work"
}
trap namespaces_down EXIT
trap 'exit 130' INT TERM
