#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the guest's job, as process 1: makes the devices, runs the command in its time, leaves its exit code.
# From the job: here, setup, limit, folder (where the command runs), command.
# shellcheck disable=SC2154
share=/run/guest

power_off() {
    echo "$1" > "$share/rc.new"
    mv "$share/rc.new" "$share/rc" # all or nothing
    sync
    echo o > /proc/sysrq-trigger
    sleep 60 # until it is off
}

# Output passes a pipe, not the port itself: a port can be open only once, and scripts write to /dev/stderr.
run_command() {
    local out err rc begin=$SECONDS
    exec {out}> >(exec cat > /dev/vport*p1 2> /dev/null)
    local cat_out=$!
    exec {err}> >(exec cat > /dev/vport*p2 2> /dev/null)
    local cat_err=$!
    (
        set -e
        bash "$here/net.sh" up "$setup" || exit 125
        cd "$folder"
        exec timeout --kill-after=5 "$limit" "${command[@]}"
    ) >&"$out" 2>&"$err" < /dev/null {out}>&- {err}>&-
    rc=$?
    if [[ ($rc -eq 124 || $rc -eq 137) && $((SECONDS - begin)) -ge $limit ]]; then
        echo "guest: ended after $limit s, the command's --limit" >&"$err"
    fi
    exec {out}>&- {err}>&-
    # A process that the command left behind may hold the pipes: it does not hold the guest.
    timeout 10 tail -f /dev/null --pid="$cat_out" --pid="$cat_err" -s 0.05
    return "$rc"
}

hostname guest
ip link set lo up
export BRAID_GUEST=1 BRAID_GUEST_OUT=$share/out
: > "$share/started"
run_command
power_off $?
