#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# All-reduce between two hosts over several NICs of different rates: what share of the links it fills. bench/README.md says how to read the result.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${BRAID_BUILD:-$here/../build/release}
rates="100+100 500+500 300+900 100+900 50+1000 100+100+100+100 100+300+300+900" sizes="1M 64M" backends="tcp udp" rounds=3 seconds=2 change="" braids="" quick=

usage() {
    cat << END
Usage: bench/rails.sh [options]
  --rates "A+B ..."  Mbit/s of each NIC, the same on both hosts (default "$rates")
  --sizes "N ..."    bytes of an all-reduce (default "$sizes")
  --backends "B ..." (default "$backends")
  --rounds N         medians count (default $rounds)
  --seconds N        of calls in a round, more or less (default $seconds)
  --change "A+B"     after 3 s of calls of 2 MB the NICs get these rates; what counts begins a second later
  --braids "A B"     other builds' commands, by turns (default that of the build directory)
  --quick            100+100 and 300+900 over tcp, 1 round
BRAID_BUILD names the build directory (default build/release). Needs root, for network namespaces.
END
}
# shellcheck source=bench/lib/options.sh
. "$here/lib/options.sh"
take_options "rates sizes backends rounds seconds change braids quick!" "$@"
[[ -z $quick ]] || rates="100+100 300+900" sizes="1M 64M" backends=tcp rounds=1
[[ -n $braids ]] || braids=$build/braid
# shellcheck source=bench/lib/hosts.sh
. "$here/lib/hosts.sh"
# shellcheck source=bench/lib/alternate.sh
. "$here/lib/alternate.sh"

shape() { # A+B
    local nic=0 rate
    for rate in ${1//+/ }; do
        shape_link "$hosts_name-0" "eth$nic" "${rate}mbit" && shape_link "$hosts_name-1" "eth$nic" "${rate}mbit" || exit 1
        nic=$((nic + 1))
    done
}

bytes() { numfmt --from=iec "$1"; }
nics() { tr -dc + <<< "$1" | wc -c | awk '{ print $1 + 1 }'; }
sum() { echo $((${1//+/ + })); }

# share RATES BYTES MICROSECONDS: of the rates' sum, of which packets of 1514 bytes carry 0.955.
share() { awk -v mbit="$(sum "$1")" -v bytes="$2" -v us="$3" 'BEGIN { printf "%.3f", bytes * 8 / us / (mbit * 0.955) }'; }

steady() { # BRAID BACKEND RATES SIZE
    local n
    n=$(awk -v mbit="$(sum "$3")" -v bytes="$(bytes "$4")" -v s="$seconds" 'BEGIN { n = int(s * mbit * 125000 / bytes / 2); print n < 2 ? 2 : n }')
    hosts_run 2 1 "$(nics "$3")" timeout 120 "$1" allreduce --backend "$2" -b "$4" -e "$4" -n "$n" -w 2 -c 0 > "$work/out" || { cat "$work/out" >&2; exit 1; }
    awk '/^ +[0-9]+ /{ print ($6 + $10) / 2 }' "$work/out"
}

# A row is a call out of place and one in place, of 2,000,000 bytes and a few: a line as soon as it has ended.
changed() { # BRAID BACKEND RATES
    local line host at job
    hosts_run 2 1 "$(nics "$3")" timeout 120 stdbuf -oL "$1" allreduce --backend "$2" -b 2000000 -e 2020000 -i 4 -n 1 -w 0 -c 0 2> /dev/null > >(
        while read -r line; do echo "${EPOCHREALTIME/./} $line"; done > "$work/rows") &
    job=$!
    until grep -q ' 2000000 ' "$work/rows" 2> /dev/null; do sleep 0.05; done
    sleep 3
    shape "$change"
    at=${EPOCHREALTIME/./}
    sleep 5
    for host in 0 1; do
        # shellcheck disable=SC2046 # a list
        kill -9 $(ip netns pids "$hosts_name-$host") 2> /dev/null
    done
    wait "$job" 2> /dev/null
    awk -v from=$((at + 1000000)) '$2 ~ /^20/ && $1 - $7 - $11 > from { us += $7 + $11; n += 2 } END { print us / n }' "$work/rows"
}

row() { # BACKEND RATES SIZE
    local braid us
    for braid in $braids; do
        us=$(median "$work/times.${braid//\//_}")
        printf '| %s | %s%s | %s | %s | %.1f | %s |\n' "$1" "$2" "${change:+ -> $change}" "$3" "$braid" \
            "$(awk -v us="$us" -v n="$(bytes "$3")" 'BEGIN { print us * 1000 / n }')" "$(share "${change:-$2}" "$(bytes "$3")" "$us")"
    done
}

[[ -z $change ]] || sizes=2000000
printf '| back end | Mbit/s | bytes | command | ns a byte | of the links |\n|---|---|---|---|---|---|\n'
for rate in $rates; do
    hosts_up 2 "$(nics "$rate")" 1000mbit
    for backend in $backends; do
        for size in $sizes; do
            rm -f "$work"/times.*
            for ((round = 0; round < rounds; round++)); do
                for braid in $braids; do
                    shape "$rate"
                    rm -f "$work/rows"
                    if [[ -n $change ]]; then changed "$braid" "$backend" "$rate"; else steady "$braid" "$backend" "$rate" "$size"; fi \
                        >> "$work/times.${braid//\//_}"
                done
            done
            row "$backend" "$rate" "$size"
        done
    done
    hosts_down
done
