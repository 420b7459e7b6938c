#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# rdma_cm connects over every rail, with the source address bound: routes alone do not tell the rails of one namespace apart.
# shellcheck source=tests/guest/rdma.sh
. "$(dirname "$0")/rdma.sh"

# It listens in the kernel.
listens_on() { # ADDRESS
    grep -q "state LISTEN .*src-addr $1:" <<< "$(rdma resource show cm_id)"
}

level=0
for server in $(devices 0); do
    client=h1r$level
    rping -s -a "$(address "$server")" -C 3 &
    pid=$!
    within 20 listens_on "$(address "$server")" || fail "nobody listens on $server: $(rdma resource show cm_id)"
    timeout 30 rping -c -a "$(address "$server")" -I "$(address "$client")" -C 3 -v || fail "rping from $client to $server"
    wait $pid || true # the server's end is an error in some versions, and the client checked the data
    level=$((level + 1))
done
