#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# `./dev test --all` that is interrupted leaves nothing running: neither what it waits for nor the build beside it, which have the time to clean up. The commands
# that it calls are stand-ins, which note their process number and then sleep. At its start it says when the disk is too small.
set -euo pipefail
# shellcheck source=tests/within.sh
source "$BRAID_SOURCE/tests/within.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

stand_in() { # NAME: reads it
    { echo '#!/usr/bin/env bash' && cat; } > "$work/bin/$1"
    chmod +x "$work/bin/$1"
}
mkdir -p "$work/bin" "$work/repo/tests/guest"
stand_in dpkg-query <<< 'printf installed'
stand_in cmake << 'END'
[[ "$*" == "--build build/asan "* ]] || exit 0
echo $$ > "$STANDS/build"
exec sleep 1000
END
stand_in ctest << 'END'
[[ "$*" == *launchers\$* && "$*" != *-LE* ]] || exit 0
trap 'sleep 0.5; touch "$STANDS/clean"' EXIT
trap 'exit 143' TERM
echo $$ > "$STANDS/tests"
sleep 1000 &
wait
END
stand_in df << 'END'
echo Avail && cat "$STANDS/free"
END
touch "$work/repo/tests/guest/run"
cp "$BRAID_SOURCE/dev" "$work/repo/dev"
cd "$work"
export STANDS=$work PATH=$work/bin:$PATH
dev=''

fail() {
    echo "$*"
    [[ -z $dev ]] || kill -KILL -- "-$dev" || true
    cat "$work/out"
    exit 1
}

echo 2048M > "$work/free"
repo/dev test > "$work/out" 2>&1 || true # there are no results
! grep -q 'GiB free in build/' "$work/out" || fail "2 GiB are enough for one build"

for signal in INT TERM HUP; do
    rm -f "$work/build" "$work/tests" "$work/clean"
    setsid env --default-signal=INT,TERM,HUP repo/dev test --all -R '^base' > "$work/out" 2>&1 &
    dev=$!
    within 60 test -s "$work/build" || fail "SIG$signal: no build"
    within 60 test -s "$work/tests" || fail "SIG$signal: no tests"
    if [[ $(< "$work/free") == 2048M ]]; then
        grep -q ' 2.0 GiB free in build/, this needs ' "$work/out" || fail "2 GiB are too few for all builds, and it does not say so"
    elif grep -q 'GiB free in build/' "$work/out"; then
        fail "20 GiB are enough"
    fi
    echo 20480M > "$work/free"
    if [[ $signal == INT ]]; then # as Ctrl-C does
        kill -INT -- "-$dev"
    else
        kill "-$signal" "$dev"
    fi
    rc=0
    wait "$dev" || rc=$?
    [[ $rc -eq $((128 + $(kill -l "$signal"))) ]] || fail "SIG$signal: exit code $rc"
    for what in build tests; do
        within 60 has_ended "$(< "$work/$what")" || fail "SIG$signal: the $what go on"
    done
    [[ -e $work/clean ]] || fail "SIG$signal: the tests have not cleaned up"
done
