#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Soft-RoCE devices inside the guest.
#   net.sh check SETUP   is this a setup? (also outside a guest)
#   net.sh up SETUP      makes it: plain, rails:N (N rails between hosts 0 and 1), bcube:N,K; @RATE shapes every NIC
#   net.sh down          removes it
#   net.sh port HOST LEVEL down|up   takes a cable out, puts it back
# Host I's NIC on level L is the netdev hInL, its RDMA device hIrL, its address 10.L.S.D/24: switch S of the level, D one
# more than the host's digit of that level. /run/hosts has a line "HOST DEVICE,DEVICE,..." each, by level; /run/setup has SETUP.
#
# 1. Kernels before 7.x: rxe in a network namespace other than the first carries no data. So all hosts' NICs live in one
#    namespace, and the switches, bridges, in another: traffic still crosses every cable.
# 2. One namespace that owns both ends would take a shortcut or refuse: accept_local, no rp_filter, and ARP answered by the
#    interface that has the address only.
# 3. Neighbours are permanent entries with MACs known beforehand: rxe resolves at the first packet of a queue pair, and
#    ARP costs 0.5 to 1 s there.
# 4. MTU 4500 holds RoCE's largest payload, 4096, and its headers.
set -euo pipefail
switches=switches # the namespace
mtu=4500

wrong() {
    echo "guest: $*" >&2
    exit 2
}

# Sets kind, and for a network: hosts, levels, ports (of a switch), rate.
parse() {
    local shape=${1%%@*}
    rate=''
    [[ $1 == *@* ]] && rate=${1#*@}
    kind=${shape%%:*}
    if [[ $shape == plain && -z $rate ]]; then
        return 0
    elif [[ $shape =~ ^rails:([1-7])$ ]]; then
        hosts=2 ports=2 levels=${BASH_REMATCH[1]}
    elif [[ $shape =~ ^bcube:([2-8]),([1-6])$ ]]; then
        ports=${BASH_REMATCH[1]} levels=${BASH_REMATCH[2]} hosts=$((BASH_REMATCH[1] ** BASH_REMATCH[2]))
    else
        wrong "no setup '$1': plain, rails:N (1 to 7) or bcube:N,K (at most 64 hosts), with @RATE if shaped"
    fi
    [[ $hosts -le 64 ]] || wrong "setup '$1' has $hosts hosts, 64 are the most"
    [[ -z $rate || $rate =~ ^[1-9][0-9]*[kmg]bit$ ]] || wrong "rate '$rate': want a number and kbit, mbit or gbit"
}

# place HOST LEVEL: sets digit and switch. On rails every level has one switch.
place() {
    local low
    if [[ $kind == rails ]]; then
        digit=$1 switch=0
        return
    fi
    low=$((ports ** $2))
    digit=$(($1 / low % ports))
    switch=$((low * ($1 / low / ports) + $1 % low))
}

mac() {
    printf '02:00:00:%02x:%02x:%02x' "$1" "$2" "$3" # level, switch, digit
}

# Prints what "ip -batch" and the others are to do, a file each.
plan_nic() {
    local host=$1 level=$2 other name=h$1n$2 port=p$1_$2
    place "$host" "$level"
    echo "link add $name mtu $mtu address $(mac "$level" "$switch" "$digit") type veth peer name $port mtu $mtu netns $switches" >&"$nics"
    echo "addr add 10.$level.$switch.$((digit + 1))/24 dev $name" >&"$nics"
    echo "link set $name up" >&"$nics"
    for ((other = 0; other < ports; other++)); do
        [[ $other -eq $digit ]] ||
            echo "neigh replace 10.$level.$switch.$((other + 1)) lladdr $(mac "$level" "$switch" "$other") dev $name nud permanent" >&"$nics"
    done
    [[ $digit -ne 0 ]] || echo "link add s${level}_$switch mtu $mtu type bridge forward_delay 0 mcast_snooping 0" >&"$bridges"
    echo "link set $port master s${level}_$switch up" >&"$cables"
    echo "link add h${host}r$level type rxe netdev $name" >&"$devices"
    [[ -z $rate ]] || echo "qdisc add dev $name root tbf rate $rate burst 128k limit 8m" >&"$shapes"
}

up() {
    local host level plan names
    parse "$1"
    : > /run/hosts
    echo "$1" > /run/setup
    [[ $kind != plain ]] || return 0
    plan=$(mktemp -d /run/plan.XXXXXX)
    exec {nics}> "$plan/nics" {bridges}> "$plan/bridges" {cables}> "$plan/cables" {devices}> "$plan/devices" {shapes}> "$plan/shapes"
    for ((host = 0; host < hosts; host++)); do
        names=''
        for ((level = 0; level < levels; level++)); do
            plan_nic "$host" "$level"
            names+=,h${host}r$level
        done
        echo "$host ${names#,}" >> /run/hosts
    done
    sysctl -qw net.ipv4.conf.{all,default}.rp_filter=0 net.ipv4.conf.{all,default}.accept_local=1 \
        net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2
    ip netns add $switches
    ip -batch "$plan/nics"
    sed 's/^link add \([^ ]*\) .*/link set \1 up/' "$plan/bridges" >> "$plan/cables"
    ip -n $switches -batch "$plan/bridges"
    ip -n $switches -batch "$plan/cables"
    tc -batch "$plan/shapes"
    rdma -b "$plan/devices"
    rm -rf "$plan"
}

# A NIC's RDMA device goes with it.
down() {
    local name
    for name in $(ip -o link show type veth | sed -n 's/^[0-9]*: \(h[0-9]*n[0-9]*\)@.*/\1/p'); do
        ip link del "$name"
    done
    [[ ! -e /run/netns/$switches ]] || ip netns del $switches
    rm -f /run/hosts /run/setup
}

# The cable, not the NIC: a NIC that is set down loses its permanent neighbours.
port() {
    ip -n $switches link set "p$1_$2" "$3"
}

case ${1:-} in
    check) parse "$2" ;;
    up) up "$2" ;;
    down) down ;;
    port) port "$2" "$3" "$4" ;;
    *) wrong "net.sh check SETUP | up SETUP | down | port HOST LEVEL down|up" ;;
esac
