# SPDX-License-Identifier: BSD-3-Clause
# When `braid bcube emulate` fails: is it this machine, which then skips the test, or emulate?
# shellcheck shell=bash

# Can namespaces and the interfaces of a testbed be made here at all?
can_emulate() {
    local name=probe$$ rc=0
    ip netns add "$name" || return
    ip -n "$name" link add a type veth peer name b && ip -n "$name" link add c type bridge &&
        tc -n "$name" qdisc add dev a root tbf rate 1mbit burst 128kb limit 512kb || rc=1
    ip netns del "$name"
    return $rc
} > /dev/null 2>&1
