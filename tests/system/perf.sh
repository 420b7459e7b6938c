# SPDX-License-Identifier: BSD-3-Clause
# For the tests of `braid perf`: a server and a client, and what they print.
# shellcheck shell=bash disable=SC2317 # called by within()
# shellcheck source=tests/within.sh
. "$BRAID_SOURCE/tests/within.sh"
# shellcheck source=tests/system/port.sh
. "$BRAID_SOURCE/tests/system/port.sh"
braid=$BRAID_BUILD/braid
work=$(mktemp -d)
export BRAID_STATS=$work/stats # no other job is seen here
port=$(free_port $((20000 + $$ % 10000)))
server=
trap '[[ -z $server ]] || kill -9 "$server" 2> /dev/null; rm -rf "$work"' EXIT

fail() {
    echo "FAILED: $*" >&2
    tail -n 30 "$work/server" "$work/out" "$work/err" >&2
    exit 1
}

# serve TEST OPTION...: a server in the background, which listens.
serve() {
    timeout -k 1 120 "$braid" perf "$@" -p "$port" > "$work/server" 2> "$work/server.err" &
    server=$!
    within 60 listens "$port" || fail "no server: $*"
}

# ended CODE: the server ends with it.
ended() {
    local code=0
    wait "$server" || code=$?
    server=
    [[ $code -eq $1 ]] || fail "the server's exit code is $code: $(cat "$work/server.err")"
}

# both TEST OPTION...: server and client with the same options.
both() {
    serve "$@"
    timeout -k 1 120 "$braid" perf "$@" -p "$port" localhost > "$work/out" 2> "$work/err" || fail "client: $*"
    ended 0
}

# row FIELD: of the only line of data.
row() {
    awk -v n="$1" '$1 ~ /^[0-9]+$/ && NF > 3 { print $n }' "$work/out"
}
