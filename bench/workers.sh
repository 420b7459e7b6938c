#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Processor time of each thread of a rank for a gigabyte that it sends and receives, between two hosts over several NICs: what one core bounds. bench/README.md says how
# to read the result.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${BRAID_BUILD:-$here/../build/release}
workers="1 4" backends="tcp udp" nics=4 size=16M bytes=4G rounds=3

usage() {
    cat << END
Usage: bench/workers.sh [options]
  --workers "N ..."   values of BRAID_WORKERS, by turns (default "$workers")
  --backends "B ..."  (default "$backends")
  --nics N            of each host (default $nics)
  --size N            bytes of an all-reduce (default $size)
  --bytes N           that a rank sends while times are taken (default $bytes)
  --rounds N          (default $rounds)
BRAID_BUILD names the build directory (default build/release). Needs root, for network namespaces.
END
}
# shellcheck source=bench/lib/options.sh
. "$here/lib/options.sh"
take_options "workers backends nics size bytes rounds" "$@"
# shellcheck source=bench/lib/hosts.sh
. "$here/lib/hosts.sh"
bytes=$(numfmt --from=iec "$bytes")

sent() { # bytes that host 0 has sent so far
    ip netns exec "$hosts_name-0" cat /sys/class/net/eth*/statistics/tx_bytes 2> /dev/null | awk '{ n += $1 } END { printf "%.0f", n }'
}

until_sent() { # BYTES
    until (($(sent) >= $1)); do
        kill -0 "$job" 2> /dev/null || { cat "$work/out" >&2; exit 1; }
        sleep 0.05
    done
}

# Of rank 0: a line "NAME ID NANOSECONDS" a thread.
times() {
    local task
    for task in /proc/"$rank"/task/*; do
        echo "$(< "$task/comm") ${task##*/} $(cut -d' ' -f1 "$task/schedstat")"
    done
}

measure() { # BACKEND WORKERS
    local from to
    hosts_run 2 1 "$nics" env BRAID_SPIN_US=0 BRAID_WORKERS="$2" "$build/braid" allreduce --backend "$1" -b "$size" -e "$size" -n 1000000 -w 1 -c 0 > "$work/out" 2>&1 &
    job=$!
    from=$(sent)
    until_sent $((from + bytes / 4))
    rank=$(ip netns pids "$hosts_name-0" | head -1)
    times > "$work/before"
    from=$(sent)
    until_sent $((from + bytes))
    times > "$work/after"
    to=$(sent)
    # shellcheck disable=SC2046 # a list
    kill -9 $(ip netns pids "$hosts_name-0") $(ip netns pids "$hosts_name-1") 2> /dev/null
    wait "$job" 2> /dev/null
    awk -v gb=$(((to - from) / 1000)) -v row="| $1 | $2 |" '
        NR == FNR { before[$2] = $3; next }
        $1 ~ /^braid-rail/ { n++; t = $3 - before[$2]; rails += t; if (t > most) most = t; next }
        { loop += $3 - before[$2] }
        END { gb /= 1e6; busy = loop > most ? loop : most
              printf "%s %.3f | %d | %.3f | %.3f | %.3f | %.1f |\n", row, loop / gb / 1e9, n, most / gb / 1e9, (loop + rails) / gb / 1e9, busy / gb / 1e9, 8e9 * gb / busy }
    ' "$work/before" "$work/after"
}

hosts_up 2 "$nics"
echo "| back end | BRAID_WORKERS | progress loop, s/GB | threads of devices | busiest of them, s/GB | all, s/GB | busiest thread, s/GB | which bounds at, Gbit/s |"
echo "|---|---|---|---|---|---|---|---|"
for ((round = 0; round < rounds; round++)); do
    for backend in $backends; do
        for n in $workers; do measure "$backend" "$n"; done
    done
done
