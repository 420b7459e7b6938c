# SPDX-License-Identifier: BSD-3-Clause
# What the tests of `braid plan` share; $braid is the command.
# shellcheck shell=bash

fail() {
    echo "FAILED: $*"
    exit 1
}

# says NOUN|NOUN... ARGUMENT...: fails, and what it says names all of these
says() {
    local nouns noun out
    IFS='|' read -ra nouns <<<"$1"
    shift
    out=$("$braid" plan "$@" 2>&1) && fail "plan $* should fail"
    for noun in "${nouns[@]}"; do
        grep -qF -- "$noun" <<<"$out" || fail "plan $*: '$noun' is not in: $out"
    done
}
