#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# `braid info` on real devices: usable ones with the right GID; what is wrong with the others, and that the command behind
# "remedy:" remedies it.
# shellcheck source=tests/guest/rdma.sh
. "$(dirname "$0")/rdma.sh"
braid=$BRAID_BUILD/braid
out=$(mktemp -d)

# As whom, or where, braid is asked; nothing: as we are.
as=()

rdma() {
    "${as[@]}" "$braid" info > "$out/all" || fail "braid info: exit status $?"
    sed -n '/^RDMA/,/^$/p' "$out/all" > "$out/rdma"
}

# port DEVICE: the lines of one device.
port() {
    awk -v name="$1" '/^  [^ ]/ { on = $1 == name } on' "$out/rdma"
}

# The kernel changes GIDs a moment after it has changed the NIC, so whoever is not content asks again.
said_of() { # DEVICE WORDS
    grep -qF -- "$2" <<< "$(port "$1")" && return
    rdma
    return 1
}

# expect DEVICE WORDS
expect() {
    within 20 said_of "$@" || fail "braid info does not say '$2' of $1: $(cat "$out/rdma")"
}

is_usable() {
    [[ $(port "$1") == *': taken'* && $(port "$1") != *'not usable'* ]] && return
    rdma
    return 1
}

usable() {
    within 20 is_usable "$1" || fail "$1 is not usable: $(cat "$out/rdma")"
}

remedy() {
    port "$1" | sed -n 's/^ *remedy: //p'
}

first=$(devices 0 | head -n 1) last=$(devices all | tail -n 1)
nic=${first/r/n}
rdma
for device in $(devices all); do
    usable "$device"
    expect "$device" "GID $(gid_index "$device"): $(address "$device"), RoCE v2, ${device/r/n}: taken"
    expect "$device" 'link-local'
done
rdma_before=$(cat "$out/rdma")

# Down, and up again by what it says.
ip link set "$nic" down
wait_state "$first" DOWN
rdma
expect "$first" "not usable: its interface $nic is down"
usable "$last"
bash -c "$(remedy "$first")"
wait_state "$first" ACTIVE
rdma
usable "$first"

# The cable is out.
bash "$(dirname "$0")/net.sh" port 0 0 down
wait_state "$first" DOWN
rdma
expect "$first" "its port is down: $nic has no carrier"
bash "$(dirname "$0")/net.sh" port 0 0 up
wait_state "$first" ACTIVE

# No address; then a link-local one, which is no address either; then one of IPv6.
before=$(address "$first")
ip addr del "$before/24" dev "$nic"
rdma
expect "$first" "$nic has neither an IPv4 nor a global IPv6 address"
ip addr add 169.254.7.7/16 dev "$nic"
rdma
expect "$first" '169.254.7.7, RoCE v2'
expect "$first" 'not usable'
ip addr del 169.254.7.7/16 dev "$nic"
rdma
expect "$first" "$nic has neither an IPv4 nor a global IPv6 address"
command=$(remedy "$first")
ip addr add fd00:7::1/64 dev "$nic" nodad
rdma
expect "$first" "fd00:7::1, RoCE v2, $nic: taken"
ip addr del fd00:7::1/64 dev "$nic"
bash -c "${command/ADDRESS/$before}"
rdma
usable "$first"

# Packets of 1500 bytes: not the full RDMA MTU.
ip link set "$nic" mtu 1500
rdma
expect "$first" 'MTU 1024 of 4096'
bash -c "$(port "$first" | sed -n 's/^.*way: //p')"
as_before() {
    rdma
    [[ $(cat "$out/rdma") == "$rdma_before" ]]
}
within 20 as_before || fail "not as before: $(cat "$out/rdma")"

# A GID by its number: link-local only when somebody asks for it.
export BRAID_GID_INDEX=0
rdma
expect "$first" 'taken, as BRAID_GID_INDEX says'
BRAID_GID_INDEX=77
rdma
expect "$first" 'BRAID_GID_INDEX names GID 77, which the port does not have'
unset BRAID_GID_INDEX

# No way to the devices: no nodes, no permission, another network namespace, little memory that may be locked.
mv /dev/infiniband /dev/elsewhere
rdma
expect "$first" 'there is no /dev/infiniband/uverbs*'
mv /dev/elsewhere /dev/infiniband
user=(setpriv --reuid 1000 --clear-groups --bounding-set -all --inh-caps -all)
chmod 600 /dev/infiniband/uverbs*
as=("${user[@]}")
rdma
expect "$first" 'no permission to open it'
bash -c "$(remedy "$first" | sed 's/ (.*//')"
ulimit -l 1024
rdma
usable "$first"
expect problem 'only 1024 KiB of memory may be locked'
ip netns add other
as=(ip netns exec other)
rdma
expect "$first" 'its addresses are in another network namespace'

# Memory of a fake GPU, which soft-RoCE takes by the peer-memory module's way alone: each device tries.
BRAID_CUDA_LIBRARY=$BRAID_FAKE_CUDA FAKE_CUDA=peer_memory "$braid" info > "$out/gpu" || fail "braid info: exit status $?"
for device in $(devices all); do
    grep -qF "$device reaches it by the peer-memory module" "$out/gpu" || fail "$device does not reach a GPU: $(sed -n '/^GPUs/,/^$/p' "$out/gpu")"
done
BRAID_CUDA_LIBRARY=$BRAID_FAKE_CUDA "$braid" info > "$out/gpu" || fail "braid info: exit status $?"
for device in $(devices all); do
    grep -q "$device does not reach it: .*modprobe nvidia_peermem" "$out/gpu" || fail "it is not said why $device does not reach a GPU: $(sed -n '/^GPUs/,/^$/p' "$out/gpu")"
done
