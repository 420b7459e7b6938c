#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Urgent all-reduces amid large ones: in the simulator, and on hosts with a shaped link; bench/README.md says how to read it.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${BRAID_BUILD:-$here/../build/release}
rates="4gbit 1gbit" backend=tcp rounds=5

usage() {
    cat <<END
Usage: bench/urgent.sh [options]
  --rates RATES    of the links between the hosts, as tc writes them (default "$rates"); none: the simulator alone
  --backend NAME   of the hosts (default $backend)
  --rounds N       (default $rounds)
BRAID_BUILD names the build directory (default build/release). The hosts need root, for network namespaces.
END
}
# shellcheck source=bench/lib/options.sh
. "$here/lib/options.sh"
take_options "rates backend rounds" "$@"

BRAID_URGENT=1 "$build/tests/test_sim_urgent" || exit 1
[[ -n $rates ]] || exit 0

# shellcheck source-path=SCRIPTDIR
. "$here/lib/hosts.sh"
printf '%-8s %5s %9s %9s %9s %7s %10s %10s %7s\n' rate ranks "alone us" "amid us" "p99 us" ratio "large ms" "+ urgent" ratio
for rate in $rates; do
    hosts_up 2 1 "$rate"
    printf '%-8s ' "$rate"
    hosts_run 2 1 1 env BRAID_BACKEND="$backend" "$build/bench/urgent" --rounds "$rounds" || exit 1
    hosts_down
done
