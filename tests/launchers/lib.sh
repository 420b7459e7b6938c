# SPDX-License-Identifier: BSD-3-Clause
# For the tests with real launchers. A launcher is a command with {} for the number of ranks, such as "mpiexec.mpich -n {}"; nothing is set in
# the environment that a user would have to set: BRAID_SECRET, BRAID_PORT and their like are removed.
# shellcheck shell=bash
set -uo pipefail
# shellcheck source=tests/within.sh
. "$BRAID_SOURCE/tests/within.sh"
unset BRAID_SECRET BRAID_SECRET_FILE BRAID_INSECURE BRAID_PORT MASTER_ADDR MASTER_PORT RANK WORLD_SIZE
braid=$BRAID_BUILD/braid
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# needs COMMAND PACKAGE: skips the test where the command is missing.
needs() {
    if ! command -v "$1" > /dev/null; then
        echo "no $1 here: ./dev test --launchers installs it as root (apt-get install $2)"
        exit 77
    fi
}

fail() {
    echo "FAILED: $*"
    tail -n 40 "$work/out" "$work/err" | sed 's/^/    /'
    failures=$((failures + 1))
}

# run CODE RANKS LAUNCHER... -- COMMAND...: what ends with CODE (! : with any but 0), within a minute; output in $work/out and $work/err.
run() {
    local code=$1 ranks=$2 rc=0 launcher=()
    shift 2
    while [[ $1 != -- ]]; do
        launcher+=("${1//\{\}/$ranks}")
        shift
    done
    shift
    timeout -k 5 60 "${launcher[@]}" "$@" > "$work/out" 2> "$work/err" < "${input:-/dev/null}" || rc=$?
    case $code in
        !) [[ $rc -ne 0 && $rc -ne 124 ]] || fail "${launcher[*]} $*: code $rc" ;;
        *) [[ $rc -eq $code ]] || fail "${launcher[*]} $*: code $rc, expected $code" ;;
    esac
}

# says PATTERN [COUNT]: so many lines of the output, or at least one, match.
says() {
    local n
    n=$(cat "$work/out" "$work/err" | grep -cE -- "$1")
    if [[ -n ${2:-} ]]; then
        [[ $n -eq $2 ]] || fail "$n lines say \"$1\", expected $2"
    else
        [[ $n -gt 0 ]] || fail "nobody says \"$1\""
    fi
}

# The program that a user would write first, in C and in Python, and one for what goes wrong; linked with the shared library. Without the
# Python package (BRAID_PYTHON) or numpy, `python` is empty.
hello=$work/hello
rank=$work/rank
python=
programs() {
    local source program
    for source in "$BRAID_SOURCE"/{examples/hello,tests/launchers/rank}.c; do
        program=${source##*/}
        cc -I "$BRAID_SOURCE/include" "$source" -o "$work/${program%.c}" -L "$BRAID_BUILD" -lbraid "-Wl,-rpath,$BRAID_BUILD" || exit 1
    done
    chmod 755 "$work"
    for program in python3 /usr/bin/python3; do
        if PYTHONPATH=$BRAID_BUILD/python "$program" -c 'import braid, numpy' 2> /dev/null; then
            python=$program
            return
        fi
    done
}

# works NAME RANKS LAUNCHER...: the programs, the command, and what the command says of the launcher, whose name in braid is NAME.
works() {
    local name=$1 ranks=$2 i
    shift 2
    run 0 "$ranks" "$@" -- "$hello"
    for ((i = 0; i < ranks; i++)); do
        says "rank $i of $ranks on .* = $((ranks * (ranks + 1) / 2))$" 1
    done
    if [[ -n $python ]]; then
        run 0 "$ranks" "$@" -- env "PYTHONPATH=$BRAID_BUILD/python" "$python" "$BRAID_SOURCE/examples/hello.py"
        for ((i = 0; i < ranks; i++)); do
            says "rank $i of $ranks: .* $((ranks * (ranks + 1) / 2))$" 1
        done
    fi
    run 0 "$ranks" "$@" -- "$braid" allreduce -b 8 -e 2M -f 64 -n 3 -w 1
    says ' 2097152 .*float'
    says 'Out of bounds values : 0 OK'
    run 0 "$ranks" "$@" -- "$braid" info
    says "^(\[[0-9]+\])? *$name, by [A-Z_]+: rank [0-9]+ of ${ranks}(\W|$)" "$ranks"
}

# A rank that never calls braid_init(): the others end with words, and the launcher with them.
never_comes() { # LAUNCHER...
    BRAID_INIT_TIMEOUT=2 run ! 3 "$@" -- "$rank" absent
    says 'braid_init: .*(rank 1|not all|rank missing)'
}

# A rank that is killed in the middle of its work: all end. Most launchers end the others before these can say why.
dies() { # LAUNCHER...
    run ! 3 "$@" -- "$rank" dies
}

finish() {
    echo "$((SECONDS)) s"
    exit $((failures > 0))
}
