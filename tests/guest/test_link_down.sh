#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A cable out: its port goes down, the other rail carries data; back in: the port is active and carries data again.
# shellcheck source=tests/guest/rdma.sh
. "$(dirname "$0")/rdma.sh"
net=$(dirname "$0")/net.sh

bash "$net" port 0 1 down
wait_state h0r1 DOWN
[[ $(port_state h0r0) == ACTIVE ]] || fail "h0r0 went down too"
write_bw h0r0 h1r0
bash "$net" port 0 1 up
wait_state h0r1 ACTIVE
write_bw h0r1 h1r1
