#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The verbs back end against perftest, on the same two soft-RoCE devices of one guest, in turns. doc/verbs.md has the figures.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
    cat << 'END'
Usage: bench/verbs_peers.sh [options]
  --rounds N            default 7; each round runs every size with each program, the order turns with every round
  --latency "SIZES"     bytes, default "8 64 512 4096": half a round trip, against ib_write_lat; ib_send_lat stands beside it
  --bandwidth "SIZES"   bytes, default "65536 262144 1048576": against ib_write_bw
  --json FILE           all figures
Columns are medians over the rounds; `ratio` is the median of the rounds' own ratios, braid over ib_write_*. The guest is
emulated: figures compare, and mean nothing else. Run it on an otherwise idle machine.
BRAID_BUILD: the build, default build/release.
END
}

rounds=7 latency='8 64 512 4096' bandwidth='65536 262144 1048576' json='' inside=''
# shellcheck source=bench/lib/options.sh
. bench/lib/options.sh
take_options "rounds latency bandwidth json inside!" "$@"
export BRAID_BUILD=${BRAID_BUILD:-build/release}

# ---- in the guest: a line "TEST SIZE PROGRAM VALUE" for each run, us or MiB/s ---------------------------------------

server=h1r0 client=h0r0
trips=2000           # round trips of a run
bytes=$((24 << 20))  # of a run of a bandwidth
window=16            # frames; perftest's queue has 128
spin=1000            # us that an end of a stream spins before it sleeps, as BRAID_SPIN_US

# peer PROGRAM SIZE COUNT COLUMN: one run of a perftest program, once more if its clock failed, which it says by inf or 0.
peer() {
    local out value turn pid
    for turn in 1 2 3; do
        taskset -c 1 "$1" -d $server -s "$2" -n "$3" -x "$gid_server" -F > /dev/null 2>&1 &
        pid=$!
        wait_listen 18515
        out=$(taskset -c 0 timeout 30 "$1" -d $client -s "$2" -n "$3" -x "$gid_client" -F "$address" 2>&1) || fail "$1: $out"
        wait $pid || fail "the server's end of $1"
        value=$(awk -v size="$2" -v column="$4" '$1 == size && $column + 0 > 0 { print $column }' <<< "$out")
        [[ -z $value || $value == *inf* || $value == *nan* ]] || break
    done
    [[ $turn -le 3 && -n $value ]] || fail "$1 gives no figures: $out"
    echo "$value"
}

# braid TEST SIZE COUNT [OPTIONS]
braid() {
    "$BRAID_BUILD/bench/transport_pingpong" -b verbs -d $client -p $server -s "$2" -n "$3" "${@:4}" "$1"
}

one() {
    local value count=$((bytes / $2))
    case $1-$3 in
        lat-braid) value=$(braid writes "$2" $trips | awk '{ print $10 }') ;;
        lat-write) value=$(peer ib_write_lat "$2" $trips 5) ;;
        lat-send) value=$(peer ib_send_lat "$2" $trips 5) ;;
        bw-braid)
            value=$(braid stream "$2" $count -a "$2" -w $window -i $spin | awk '{ print $5 / 1.048576 }')
            ;;
        bw-write) value=$(peer ib_write_bw "$2" $count 4) ;;
    esac
    echo "$1 $2 $3 $value"
}

run_inside() {
    local round size program
    gid_server=$(gid_index $server) gid_client=$(gid_index $client) address=$(address $server)
    for ((round = 0; round < rounds; round++)); do
        local lat=(write braid send) bw=(write braid)
        [[ $((round % 2)) -eq 0 ]] || lat=(send braid write) bw=(braid write)
        for size in $latency; do
            for program in "${lat[@]}"; do one lat "$size" "$program"; done
        done
        for size in $bandwidth; do
            for program in "${bw[@]}"; do one bw "$size" "$program"; done
        done
    done
}

if [[ -n $inside ]]; then
    # shellcheck source=tests/guest/rdma.sh
    . tests/guest/rdma.sh
    run_inside
    exit 0
fi

# ---- on the machine: medians ------------------------------------------------------------------------------------------

raw=$(mktemp)
trap 'rm -f "$raw"' EXIT
tests/guest/run --setup rails:1 --limit 900 -- bash bench/verbs_peers.sh --inside --rounds "$rounds" --latency "$latency" \
    --bandwidth "$bandwidth" > "$raw" || { rc=$? && cat "$raw" && exit $rc; }

awk -v json="$json" '
function median(list,    n, v, i, j, t) {
    n = split(list, v, " ")
    for (i = 2; i <= n; i++)
        for (j = i; j > 1 && v[j - 1] + 0 > v[j] + 0; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
    return n ? n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2 : 0
}
{
    row = $1 " " $2
    if (!(row in seen)) { seen[row] = 1; order[++rows] = row }
    values[row, $3] = values[row, $3] " " $4
}
END {
    printf "%-4s %9s %12s %12s %12s %8s %8s\n", "test", "bytes", "braid", "ib_write", "ib_send", "ratio", "goal"
    out = "[\n"
    for (r = 1; r <= rows; r++) {
        row = order[r]
        n = split(values[row, "braid"], b, " ")
        split(values[row, "write"], w, " ")
        ratios = ""
        for (i = 1; i <= n; i++) ratios = ratios " " b[i] / w[i]
        split(row, key, " ")
        printf "%-4s %9d %12.2f %12.2f %12.2f %8.3f %8s\n", key[1], key[2], median(values[row, "braid"]), median(values[row, "write"]),
            median(values[row, "send"]), median(ratios), key[1] == "lat" ? "<= 1.1" : ">= 0.98"
        gsub(/^ /, "", values[row, "braid"]); gsub(/^ /, "", values[row, "write"]); gsub(/^ /, "", values[row, "send"])
        gsub(/ /, ", ", values[row, "braid"]); gsub(/ /, ", ", values[row, "write"]); gsub(/ /, ", ", values[row, "send"])
        out = out sprintf("%s  {\"test\": \"%s\", \"bytes\": %d, \"unit\": \"%s\", \"ratio\": %.4f, \"braid\": [%s], \"ib_write\": [%s], \"ib_send\": [%s]}",
            r > 1 ? ",\n" : "", key[1], key[2], key[1] == "lat" ? "us" : "MiB/s", median(ratios), values[row, "braid"], values[row, "write"],
            values[row, "send"])
    }
    if (json != "") print out "\n]" > json
}' "$raw"
