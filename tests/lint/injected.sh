# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Sourced by the tests of the checkers: source injected.sh CHECKER
check=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# injected FILE LINE EXPECTED: in a tree with only this line the checker ends with status EXPECTED, and names the place
# when that is a failure.
injected() {
    local rc=0
    rm -rf "$scratch/tree"
    mkdir -p "$scratch/tree/$(dirname "$1")"
    printf '%s\n' "$2" > "$scratch/tree/$1"
    bash "$check" "$scratch/tree" > "$scratch/out" 2>&1 || rc=$?
    if [[ $rc -ne $3 ]] || { [[ $3 -ne 0 ]] && ! grep -qF "$1:1:" "$scratch/out"; }; then
        echo "injected in $1: $2: expected status $3, got $rc:"
        cat "$scratch/out"
        exit 1
    fi
}
