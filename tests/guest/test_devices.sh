#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The devices of the setup are there and usable: listed by libibverbs, active, MTU 4096, a GID of their NIC's address.
# shellcheck source=tests/guest/rdma.sh
. "$(dirname "$0")/rdma.sh"

[[ -s /run/hosts ]] || fail "this setup has no devices"
for device in $(devices all); do
    wait_state "$device" ACTIVE
    listed=$(ibv_devinfo)
    info=$(awk -v device="$device" '$1 == "hca_id:" { mine = $2 == device } mine' <<< "$listed")
    [[ -n $info ]] || fail "ibv_devinfo does not list $device"
    grep -q 'state:.*PORT_ACTIVE' <<< "$info" || fail "$device is not active: $info"
    grep -q 'active_mtu:.*4096' <<< "$info" || fail "$device has another MTU: $info"
    gid=$(< "/sys/class/infiniband/$device/ports/1/gids/$(gid_index "$device")")
    IFS=. read -r a b c d <<< "$(address "$device")"
    [[ $gid == *:$(printf '%02x%02x:%02x%02x' "$a" "$b" "$c" "$d") ]] || fail "$device has the GID $gid for $a.$b.$c.$d"
done
echo "$(wc -w <<< "$(devices all)") devices"
