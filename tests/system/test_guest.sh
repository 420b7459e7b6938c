#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# tests/guest/run around a qemu that is none: a script that runs the command right here, dies, or hangs. So how outputs, exit
# codes, signals and failures of a guest are handled is tested in seconds; real boots are the tests of tests/guest/list.
# shellcheck disable=SC2317 # called by within()
set -euo pipefail
# shellcheck source=tests/within.sh
. "$BRAID_SOURCE/tests/within.sh"
if [[ -n ${BRAID_SANITIZE:-} ]]; then
    echo "nothing of the build is in it"
    exit 77
fi
run=$BRAID_SOURCE/tests/guest/run
bash "$run" --check || exit $? # 77 where there is no guest

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/bin" "$scratch/tmp"
export TMPDIR=$scratch/tmp STATE=$scratch/state
PATH=$scratch/bin:$PATH
cat > "$scratch/bin/qemu-system-x86_64" << 'END'
#!/usr/bin/env bash
# MODE: run, die, die-once, hang (before the command), hang-later. The command is run as the guest would.
for word in "$@"; do
    case $word in
        local,id=share,*) files=${word#*path=} && files=${files%%,*} ;;
        file,id=out,*) out=${word#*path=} && out=${out%%,*} ;;
        file,id=err,*) err=${word#*path=} && err=${err%%,*} ;;
    esac
done
echo $$ >> "$STATE"
case $MODE in
    die) echo "the emulator's last words" >&2 && exit 1 ;;
    die-once) [[ $(wc -l < "$STATE") -gt 1 ]] || exit 1 ;;
    hang) exec sleep 1000 ;;
    hang-later) : > "$files/started" && exec sleep 1000 ;;
esac
: > "$files/started"
. <(sed '$d' "$files/job") # all but the line that starts the guest's side
cd "$folder"
BRAID_GUEST_OUT=$files/out "${command[@]}" > "$out" 2> "$err"
echo $? > "$files/rc"
END
chmod +x "$scratch/bin/qemu-system-x86_64"

fail() {
    echo "FAILED: $*"
    cat "$scratch/out" "$scratch/err"
    exit 1
}

# try MODE EXPECTED ARGS...: the exit status is as expected, nothing stays behind.
try() {
    local rc=0
    rm -f "$STATE"
    MODE=$1 bash "$run" "${@:3}" > "$scratch/out" 2> "$scratch/err" || rc=$?
    [[ $rc -eq $2 ]] || fail "${*:3}: exit status $rc and not $2"
    gone
}

emulators_gone() {
    local pid
    while read -r pid; do
        within 30 has_ended "$pid" || fail "process $pid is still there"
    done < "$STATE"
}

gone() {
    [[ -z $(ls -A "$TMPDIR") ]] || fail "left behind: $(ls -A "$TMPDIR")"
    [[ ! -e $STATE ]] || emulators_gone
}

boots() {
    [[ $(wc -l < "$STATE") -eq $1 ]] || fail "$(wc -l < "$STATE") boots and not $1"
}

# interrupt SIGNAL EXPECTED: a guest that hangs is ended by a signal to its runner.
interrupt() {
    local rc=0 pid
    rm -f "$STATE"
    MODE=hang-later bash "$run" -- true > "$scratch/out" 2> "$scratch/err" &
    pid=$!
    within 60 test -s "$STATE" || fail "no emulator is started"
    kill "-$1" $pid
    wait $pid 2> /dev/null || rc=$?
    [[ $rc -eq $2 ]] || fail "SIG$1: exit status $rc and not $2"
}

# shellcheck disable=SC2016 # the guest's shell is to expand it
try run 7 --out "$scratch/results" -- bash -c 'echo "$1"; echo words >&2; echo result > "$BRAID_GUEST_OUT/file"; exit 7' - "a 'b'  \$c"
boots 1
[[ $(< "$scratch/out") == "a 'b'  \$c" ]] || fail "stdout, or the command's words"
[[ $(< "$scratch/err") == words ]] || fail "stderr"
[[ $(< "$scratch/results/file") == result ]] || fail "--out"
BRAID_SOMETHING="two words" try run 0 -- printenv BRAID_SOMETHING
[[ $(< "$scratch/out") == "two words" ]] || fail "braid's variables"

try die-once 0 -- echo alive
boots 2
[[ $(< "$scratch/out") == alive ]] || fail "stdout of the second boot"
try die 125 -- true
boots 2
grep -q "last words" "$scratch/err" || fail "qemu's own words"
BRAID_GUEST_BOOT_LIMIT=2 try hang 125 -- true
grep -q 'booting once more' "$scratch/err" || fail "one that hangs is not booted again"

interrupt TERM 143
gone
interrupt KILL 137 # which nobody can clean up behind, but the emulator must not go on
emulators_gone
rm -r "$TMPDIR"/braid-guest.*

for words in "true" "--smp 0 -- true" "--smp" "--memory 2x -- true" "--setup rails:9 -- true" "--setup bcube:9,9 -- true" \
    "--setup rails:2@fast -- true" "--setup plain@1mbit -- true" "--limit -1 -- true" "--" ""; do
    # shellcheck disable=SC2086 # words
    try run 2 $words
    [[ ! -s $STATE ]] || fail "'$words' booted"
done
rm "$scratch/bin/qemu-system-x86_64"
mkdir "$scratch/few"
for tool in bash dirname readlink cat; do
    ln -s "$(command -v $tool)" "$scratch/few/"
done
rc=0
PATH=$scratch/few bash "$run" -- true 2> "$scratch/err" || rc=$?
[[ $rc -eq 77 ]] || fail "without qemu: exit status $rc"
grep -q 'apt-get install' "$scratch/err" || fail "without qemu: what to install"
