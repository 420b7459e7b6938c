# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the guest's scripts: who has which devices.
set -euo pipefail
# shellcheck disable=SC2317 # called by within()
# shellcheck source=tests/within.sh
. "$(dirname "${BASH_SOURCE[0]}")/../within.sh"

fail() {
    echo "$*" >&2
    exit 1
}

# devices HOST|all: a line each, by level.
devices() {
    awk -v host="$1" 'host == "all" || $1 == host { gsub(",", "\n", $2); print $2 }' /run/hosts
}

# The IPv4 address of a device: it is the one of its NIC, which has the same name with n for r.
address() {
    ip -o -4 addr show dev "${1/r/n}" | sed -n 's/.* inet \([0-9.]*\)\/.*/\1/p'
}

port_state() {
    cut -d: -f2 "/sys/class/infiniband/$1/ports/1/state" | tr -d ' '
}

state_is() {
    [[ $(port_state "$1") == "$2" ]]
}

# wait_state DEVICE STATE
wait_state() {
    within 30 state_is "$@" || fail "$1 is $(port_state "$1") and not $2"
}

listens() {
    [[ -n $(ss -Hltn "sport = :$1") ]]
}

# wait_listen PORT: until something listens on the TCP port.
wait_listen() {
    within 40 listens "$1" || fail "nobody listens on port $1"
}

sent_bytes() {
    cat "/sys/class/net/${1/r/n}/statistics/tx_bytes"
}

# write_bw SERVER CLIENT: ib_write_bw between two devices, 50 times 64 KiB, which must have left through the client's NIC.
# Prints MB/s, for reading only: perftest's clock has no use for an emulated processor's and may give 0.
write_bw() {
    local server out before
    before=$(sent_bytes "$2")
    ib_write_bw -d "$1" -s 65536 -n 50 -x "$(gid_index "$1")" -F > /dev/null &
    server=$!
    wait_listen 18515
    out=$(timeout 40 ib_write_bw -d "$2" -s 65536 -n 50 -x "$(gid_index "$2")" -F "$(address "$1")") || fail "ib_write_bw from $2 to $1: $out"
    wait "$server" || fail "the server's end of ib_write_bw on $1"
    [[ $(($(sent_bytes "$2") - before)) -ge $((50 * 65536)) ]] || fail "what $2 wrote to $1 did not leave through its NIC"
    awk '$1 == 65536 { print $4 }' <<< "$out"
}

# The index of a device's GID for RoCE v2 over IPv4, wherever the kernel put it: a moment after the address is there.
gid_index() {
    within 20 find_gid "$1" || fail "$1 has no RoCE v2 GID over IPv4"
}

find_gid() {
    local gids=/sys/class/infiniband/$1/ports/1 file
    for file in "$gids"/gids/*; do
        if [[ $(< "$file") == 0000:0000:0000:0000:0000:ffff:* &&
            $(cat "$gids/gid_attrs/types/${file##*/}") == "RoCE v2" ]]; then
            echo "${file##*/}"
            return 0
        fi
    done
    return 1
}
