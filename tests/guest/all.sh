#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# all.sh FILE: inside the guest, runs the tests of FILE, which CMake writes from tests/guest/list: SETUP LIMIT NAME COMMAND...
# a line. Leaves NAME.log and NAME.status ("exit status, seconds") for each, with _ for /, and says in a line how it went.
# Its own exit status is 0 when all were run, whatever came of them: each is a ctest entry of its own.
set -uo pipefail
here=$(dirname "$0")
present=''

now() {
    cut -d' ' -f1 /proc/uptime
}

# A failed test may have left anything behind, so the next one gets a new network.
set_up() {
    if [[ $present != "$1" ]]; then
        bash "$here/net.sh" down && bash "$here/net.sh" up "$1" || return 1
        present=$1
    fi
}

run_test() {
    local limit=$1 name=$2 log=$BRAID_GUEST_OUT/${2//\//_} begin rc
    shift 2
    begin=$(now)
    # shellcheck disable=SC2016 # the new session's shell is to expand it
    setsid --wait bash -c 'echo $$ > /run/session; exec "$@"' - timeout --kill-after=5 "$limit" "$@" < /dev/null > "$log.log" 2>&1
    rc=$?
    pkill -KILL -s "$(< /run/session)" # what it left behind
    case $rc in
        0) printf 'passed ' ;;
        77) printf 'skipped ' ;;
        124 | 137) printf 'TIMEOUT ' && echo "killed after $limit s" >> "$log.log" ;;
        *) printf 'FAILED ' ;;
    esac
    if [[ $rc -ne 0 && $rc -ne 77 ]]; then
        present=''
        dmesg | tail -n 10 | sed 's/^/guest console: /' >> "$log.log"
    fi
    begin=$(awk -v a="$begin" -v b="$(now)" 'BEGIN { printf "%.1f", b - a }')
    echo "$name $begin s"
    echo "$rc $begin" > "$log.status"
}

while read -r setup limit name command; do
    if ! set_up "$setup"; then
        echo "guest: setup $setup failed before $name"
        exit 1
    fi
    eval "run_test $limit $name $command"
done < "$1"
# No test's fault, perhaps, but worth knowing.
dmesg | grep -E 'BUG:|WARNING:|Oops' | sed 's/^/guest console: /'
echo "$(now) s since boot"
