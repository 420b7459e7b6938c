# SPDX-License-Identifier: BSD-3-Clause
# Waiting, for the test scripts: for the thing itself, never for a time in which it should have happened. A bound is for what never comes, so
# it is wide: any process may stand still for seconds on a busy machine, and sanitizers slow everything down tenfold.
# shellcheck shell=bash

# within SECONDS COMMAND...: runs the command, ten times a second, until it succeeds; false: it has not in that time.
within() {
    local until=$((SECONDS + $1))
    shift
    until "$@"; do
        [[ $SECONDS -lt $until ]] || return 1
        sleep 0.1
    done
}

# Has a process ended? Also true of one that nobody has waited for yet.
has_ended() { # PID
    [[ ! -e /proc/$1 || $(sed -n 's/^State:[[:space:]]*//p' "/proc/$1/status" 2> /dev/null) == Z* ]]
}
