# SPDX-License-Identifier: BSD-3-Clause
# What the tests of `braid plan` share; $braid is the command.
# shellcheck shell=bash

fail() {
    echo "FAILED: $*"
    exit 1
}

# says WORDS ARGUMENT...: fails, and these words are in what it says
says() {
    local words=$1 out
    shift
    out=$("$braid" plan "$@" 2>&1) && fail "plan $* should fail"
    grep -qF -- "$words" <<<"$out" || fail "plan $*: '$words' is not in: $out"
}
