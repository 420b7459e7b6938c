#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# all.sh FILE: inside the guest, runs the tests of FILE, which CMake writes from tests/guest/list: SETUP LIMIT NAME COMMAND...
# a line. A test that fails is run once more. Leaves NAME.log and NAME.status ("exit status, seconds, failures before it") for each, with _ for /,
# and says in a line how it went. Its own exit status is 0 when all were run, whatever came of them: each is a ctest entry of its own.
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

# run_test SETUP LIMIT NAME COMMAND...
run_test() {
    local setup=$1 limit=$2 name=$3 log=$BRAID_GUEST_OUT/${3//\//_} begin rc failures=0
    shift 3
    if [[ $name == guest/asan/* && ! -d $BRAID_BUILD/../asan/tests ]]; then
        echo "the build asan is not there" > "$log.log"
        echo "77 0 0" > "$log.status"
        return
    fi
    begin=$(now)
    while true; do
        set_up "$setup" || return 1
        # shellcheck disable=SC2016 # the new session's shell is to expand it
        setsid --wait bash -c 'echo $$ > /run/session; exec "$@"' - timeout --kill-after=5 "$limit" "$@" < /dev/null >> "$log.log" 2>&1
        rc=$?
        pkill -KILL -s "$(< /run/session)" # what it left behind
        [[ $rc -ne 0 && $rc -ne 77 ]] || break
        present=''
        dmesg | tail -n 10 | sed 's/^/guest console: /' >> "$log.log"
        [[ $rc -ne 124 && $rc -ne 137 ]] || echo "killed after $limit s" >> "$log.log"
        failures=$((failures + 1))
        [[ $failures -lt 2 ]] || break
        echo "failed with $rc, run once more:" >> "$log.log"
    done
    case $rc,$failures in
        0,1) printf 'flaky ' ;;
        0,*) printf 'passed ' ;;
        77,*) printf 'skipped ' ;;
        124,* | 137,*) printf 'TIMEOUT ' ;;
        *) printf 'FAILED ' ;;
    esac
    begin=$(awk -v a="$begin" -v b="$(now)" 'BEGIN { printf "%.1f", b - a }')
    echo "$name $begin s"
    echo "$rc $begin $failures" > "$log.status"
}

while read -r setup limit name command; do
    if ! eval "run_test $setup $limit $name $command"; then
        echo "guest: setup $setup failed before $name"
        exit 1
    fi
done < "$1"
# No test's fault, perhaps, but worth knowing.
dmesg | grep -E 'BUG:|WARNING:|Oops' | sed 's/^/guest console: /'
echo "$(now) s since boot"
