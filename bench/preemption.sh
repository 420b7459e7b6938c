#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Latency of urgent messages during a bulk transfer over a shaped link; bench/README.md says how to read the result.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${BRAID_BUILD:-$here/../build/release}
rate=1gbit urgent=65536 bulk=268435456 back=0 messages=200 rounds=3 pace=9000 json=preemption.json

usage() {
    cat <<END
Usage: bench/preemption.sh [options]
  --rate RATE      of the link, as tc writes it (default $rate)
  --urgent BYTES   of an urgent message (default $urgent)
  --bulk BYTES     of the bulk transfer (default $bulk)
  --back BYTES     that go the other way at the same time (default none)
  --messages N     urgent ones a round, at most 500 (default $messages)
  --rounds N       of each phase (default $rounds)
  --pace US        from one urgent message to the next (default $pace)
  --quick          one round of 50 messages, 64 MiB
  --json FILE      default $json
BRAID_BUILD names the build directory (default build/release). Needs root, for network namespaces.
END
}
# shellcheck source=bench/lib/options.sh
. "$here/lib/options.sh"
[[ " $* " != *" --quick "* ]] || rounds=1 messages=50 bulk=67108864
take_options "rate urgent bulk back messages rounds pace json quick!" "$@"
[[ -x $build/bench/preemption ]] || { echo "$build/bench/preemption is not built: ninja -C $build" >&2; exit 2; }

# shellcheck source-path=SCRIPTDIR
. "$here/peers/namespaces.sh"
namespaces_up
# The bucket must be smaller than an urgent message, or an idle link would pass it at the speed of memory; it must hold
# one packet as the stack hands it over, so those are kept small too.
for side in "$net_a" "$net_b"; do
    ip -n "$side" link set veth0 gso_max_size 16384
    ip netns exec "$side" tc qdisc add dev veth0 root tbf rate "$rate" burst 20kb latency 20ms || exit 1
done
secret=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')

start() { # RANK NAMESPACE
    ip netns exec "$2" env RANK="$1" WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 \
        BRAID_SECRET="$secret" BRAID_DEVICES=veth0 BRAID_BACKEND=tcp BRAID_TIMEOUT="${BRAID_TIMEOUT:-60}" \
        "$build/bench/preemption" --urgent "$urgent" --bulk "$bulk" --back "$back" --messages "$messages" --rounds "$rounds" --pace "$pace" \
        ${json:+--json "$json"} &
}
start 1 "$net_b"
receiver=$!
start 0 "$net_a"
wait $!
code=$?
wait $receiver || code=1
exit $code
