#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# `braid perf` beside iperf3, ucx_perftest and fi_pingpong over TCP, and beside perftest over soft-RoCE, on links that are the limit: do
# they measure the same? bench/README.md says how to read the result.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${BRAID_BUILD:-$here/../build/release}
rounds=5 seconds=2 rate=100mbit delay=2000 parts="rate delay guest" json='' inside=''
guest_rate=20mbit   # what the emulated guest carries with time to spare
guest_delay=20000   # us, one way: there whoever sleeps is woken late, by 400 us where perftest spins

usage() {
    cat << END
Usage: bench/perf_peers.sh [options]
  --parts "P ..."  rate: TCP over a link of --rate; delay: TCP over a wire of --delay; guest: soft-RoCE in a guest, $guest_rate, then
                   a wire of $guest_delay us (default "$parts")
  --rounds N       both programs in turns, the order turns too; medians count (default $rounds)
  --seconds S      of a bandwidth (default $seconds)
  --rate RATE      default $rate
  --delay N        us, one way (default $delay)
  --json FILE      all figures
BRAID_BUILD names the build directory (default build/release). Needs root, for network namespaces.
END
}
# shellcheck source=bench/lib/options.sh
. "$here/lib/options.sh"
take_options "parts rounds seconds rate delay json inside!" "$@"

# A row: NAME|UNIT|BRAID'S TEST AND OPTIONS|PEER|ITS ARGUMENTS. mbit: payload; us: half of there and back, whole for a read.
# Bandwidths in messages of 64 KiB, those from a latency in messages of 4 MiB.
rows_rate='send, stream|mbit|send_bw -s 65536|iperf3|
send, stream|mbit|send_bw -s 65536|ucx_perftest|tag_bw
write, stream|mbit|write_bw -s 65536|ucx_perftest|ucp_put_bw
read, stream|mbit|read_bw -s 65536|ucx_perftest|ucp_get_bw
send, there and back|mbit|send_lat -s 4194304|fi_pingpong|4194304'
rows_delay='send 8 B|us|send_lat -s 8|ucx_perftest|tag_lat
send 64 B|us|send_lat -s 64|fi_pingpong|64
read 8 B|us|read_lat -s 8|ucx_perftest|ucp_get
write 8 B|us|write_lat -s 8|ucx_perftest|ucp_put_lat
send 8 B|us|send_lat -s 8|ping|'
rows_guest_rate='write, stream|mbit|write_bw -s 65536|ib_write_bw|
send, stream|mbit|send_bw -s 65536|ib_send_bw|
read, stream|mbit|read_bw -s 65536|ib_read_bw|'
rows_guest_delay='send 8 B|us|send_lat -s 8|ib_send_lat|
read 8 B|us|read_lat -s 8|ib_read_lat|
write 8 B|us|write_lat -s 8|ib_write_lat|'

port=7000

await_server() { # PREFIX...: until something listens on $port
    local turn
    for ((turn = 0; turn < 200; turn++)); do
        [[ -n $("$@" ss -Hltn "sport = :$port") ]] && return
        sleep 0.05
    done
    echo "nobody listens on port $port" >&2
}

# Both ends of a program; the client's output is the result.
both() { # SERVER_COMMAND... -- CLIENT_COMMAND...
    local server=() pid
    while [[ $1 != -- ]]; do server+=("$1"); shift; done
    shift
    "${on_b[@]}" timeout 60 "${server[@]}" > "$work/server" 2>&1 &
    pid=$!
    await_server "${on_b[@]}"
    "${on_a[@]}" timeout 60 "$@" 2>> "$work/words"
    wait $pid
}

run_braid() { # UNIT TEST OPTION...
    local unit=$1 bytes=${*: -1} options=() count=200
    shift
    [[ $bytes -lt 1000000 ]] || count=5
    case $1 in
    *_bw) options=(-D $((seconds + 2)) -f 1) ;;
    *) options=(-n "$count") ;;
    esac
    both "$build/braid" perf "$@" "${options[@]}" "${to_b[@]}" -p $port -- \
        "$build/braid" perf "$@" "${options[@]}" "${to_a[@]}" -p $port "$address" |
        awk -v bytes="$bytes" -v unit="$unit" -v test="$1" '$1 == bytes && NF > 3 {
            print unit == "us" ? $5 : test ~ /_bw/ ? $4 * 1.048576 * 8 : $1 * 8 / $5 }'
}

# As many messages of 64 KiB as the link carries in the time.
count() { awk -v rate="$1" -v s="$seconds" 'BEGIN { sub("mbit", "", rate); print int(rate * 1e6 * s / 8 / 65536) }'; }

run_iperf3() {
    both iperf3 -s -1 -p $port -- iperf3 -c "$address" -p $port -t "$seconds" -O 1 -J |
        sed -n '/"sum_received"/,/}/ s/.*"bits_per_second":[^0-9]*\([0-9.e+]*\).*/\1/p' | awk '{ print $1 / 1e6 }'
}

# Columns: 2 is the median latency, 6 the bandwidth of the whole run; 5 would be that of the last moment alone, its end included.
run_ucx_perftest() { # UNIT TEST
    local column=2 n=200 size=8 warm=10
    [[ $1 == us ]] || { column=6 && n=$(count "$rate") && size=65536 && warm=100; }
    both env UCX_TLS=tcp UCX_NET_DEVICES=veth0 ucx_perftest -p $port -- \
        env UCX_TLS=tcp UCX_NET_DEVICES=veth0 ucx_perftest -p $port -t "${2/get_bw/get}" -s $size -n "$n" -w "$warm" -f "$address" |
        awk -v c=$column -v unit="$1" 'NF > 7 && $1 + 0 > 0 { print unit == "us" ? $c : $c * 1.048576 * 8 }'
}

run_fi_pingpong() { # UNIT SIZE
    local n=200 column=7
    [[ $1 == us ]] || { n=5 && column=6; }
    both fi_pingpong -p tcp -e msg -I $n -S "$2" -B $port -- fi_pingpong -p tcp -e msg -I $n -S "$2" -P $port "$address" |
        awk -v c=$column -v unit="$1" 'NF == 8 && $1 != "bytes" { print unit == "us" ? $c : $c * 8 }'
}

run_ping() {
    "${on_a[@]}" ping -q -i 0.01 -c 200 "$address" | awk -F/ '/^rtt/ { print $5 * 1000 / 2 }'
}

run_perftest() { # UNIT PROGRAM
    local options=(-F -s 65536 -n "$(count $guest_rate)") column=4
    [[ $1 == mbit ]] || { options=(-F -s 8 -n 200) && column=5; }
    both "$2" "${options[@]}" -p $port "${to_b[@]:2}" -x "$(gid_index h1r0)" -- \
        "$2" "${options[@]}" -p $port "${to_a[@]:2}" -x "$(gid_index h0r0)" "$address" |
        awk -v size="${options[2]}" -v c=$column -v unit="$1" '$1 == size { print unit == "us" ? $c : $c * 1.048576 * 8 }'
}

# One program once: a line "PART|NAME|UNIT|BRAID|PEER|WHO|VALUE".
one() { # PART NAME UNIT BRAID PEER ARGUMENTS WHO
    local value
    port=$((port + 1))
    # shellcheck disable=SC2086 # options are words
    case $7-$5 in
    braid-*) value=$(run_braid "$3" $4) ;;
    peer-ib_*) value=$(run_perftest "$3" "$5") ;;
    peer-*) value=$(run_"$5" "$3" $6) ;;
    esac
    [[ $value =~ ^[0-9.e+]+$ ]] || { echo "$5 $6, $4: no figure ($7)" >&2; cat "$work/words" "$work/server" >&2; return; }
    echo "$1|$2|$3|${4%% *}|$5 $6|$7|$value"
}

survey() { # PART ROWS
    local round name unit test peer arguments order who
    for ((round = 1; round <= rounds; round++)); do
        order="braid peer"
        ((round % 2)) || order="peer braid"
        while IFS='|' read -r name unit test peer arguments; do
            for who in $order; do one "$1" "$name" "$unit" "$test" "$peer" "$arguments" "$who" < /dev/null; done
        done <<< "$2"
    done
}

# ---- in the guest -----------------------------------------------------------------------------------------------------

shape_guest() { # tc's words for both NICs
    local nic
    for nic in h0n0 h1n0; do tc qdisc replace dev $nic root "$@" || exit 1; done
}

if [[ -n $inside ]]; then
    # shellcheck source=tests/guest/rdma.sh
    . "$here/../tests/guest/rdma.sh"
    set +e
    work=$(mktemp -d)
    on_a=() on_b=() address=$(address h1r0)
    to_a=(--backend verbs -d h0r0) to_b=(--backend verbs -d h1r0)
    shape_guest tbf rate $guest_rate burst 16kb limit 8m
    survey "guest, $guest_rate" "$rows_guest_rate"
    shape_guest netem delay "${guest_delay}us" limit 10000
    survey "guest, $guest_delay us" "$rows_guest_delay"
    exit 0
fi

# ---- on the machine ---------------------------------------------------------------------------------------------------

for tool in braid bench/link_delay; do
    [[ -x $build/$tool ]] || { echo "$build/$tool is not built" >&2; exit 2; }
done
# shellcheck source-path=SCRIPTDIR
. "$here/peers/namespaces.sh"
# shellcheck source-path=SCRIPTDIR
. "$here/peers/wire.sh"
BRAID_SECRET=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
export BRAID_SECRET BRAID_TCP_CONGESTION=cubic
results=$work/results
on_a=(ip netns exec "$net_a") on_b=(ip netns exec "$net_b") address=10.77.0.2
to_a=(--backend tcp -d veth0) to_b=("${to_a[@]}")

# The bucket is small beside a message of 4 MiB and larger than a packet: what waits behind a pause must not go for nothing.
part_rate() {
    local side
    namespaces_up
    namespaces_congestion cubic
    for side in "$net_a" "$net_b"; do
        packets_only "$side"
        ip netns exec "$side" tc qdisc add dev veth0 root tbf rate "$rate" burst 32kb latency 50ms || exit 1
    done
    survey "TCP, $rate" "$rows_rate"
    ip netns del "$net_a"
    ip netns del "$net_b"
}

part_delay() {
    namespaces_up
    wire_up "$delay"
    survey "TCP, $delay us" "$rows_delay"
}

part_guest() {
    (cd "$here/.." && tests/guest/run --setup rails:1 --limit 900 -- bash bench/perf_peers.sh --rounds "$rounds" --seconds "$seconds" \
        --inside)
}

for part in $parts; do "part_$part"; done > "$results"

awk -F'|' -v json="$json" '
function median(list,    n, v, i, j, t) {
    n = split(list, v, " ")
    for (i = 2; i <= n; i++)
        for (j = i; j > 1 && v[j - 1] + 0 > v[j] + 0; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
    return n ? n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2 : 0
}
NF == 7 {
    row = $1 "|" $2 "|" $3 "|" $4 "|" $5
    if (!(row in seen)) { seen[row] = 1; order[++rows] = row }
    values[row, $6] = values[row, $6] " " $7
}
END {
    printf "| link | what | unit | braid perf | | peer | | braid/peer |\n|---|---|---|---|---|---|---|---|\n"
    out = "[\n"
    for (r = 1; r <= rows; r++) {
        row = order[r]
        b = median(values[row, "braid"]); p = median(values[row, "peer"])
        split(row, k, "|")
        printf "| %s | %s | %s | `%s` | %.4g | `%s` | %.4g | %s |\n", k[1], k[2], k[3] == "us" ? "us" : "Mbit/s", k[4], b, k[5], p,
            p ? sprintf("%.3f", b / p) : "-"
        gsub(/^ /, "", values[row, "braid"]); gsub(/^ /, "", values[row, "peer"])
        gsub(/ /, ", ", values[row, "braid"]); gsub(/ /, ", ", values[row, "peer"])
        out = out sprintf("%s  {\"link\": \"%s\", \"what\": \"%s\", \"unit\": \"%s\", \"test\": \"%s\", \"peer\": \"%s\", \"braid\": [%s], \"other\": [%s]}",
            r > 1 ? ",\n" : "", k[1], k[2], k[3], k[4], k[5], values[row, "braid"], values[row, "peer"])
    }
    if (json != "") print out "\n]" > json
}' "$results"
