#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# isolated.sh COMMAND...: runs a test in a world of its own, so that tests can run beside each other: namespaces for the network (with
# loopback up), mounts (/run and /dev/shm are empty), processes (all of them end with the test) and IPC, and an empty folder as $TMPDIR and
# as the working folder. Where the machine allows no namespaces the test runs without them.
set -euo pipefail
self=$(readlink -f "$0")
if [[ ${1:-} != --inside ]]; then
    TMPDIR=$(mktemp -d)
    chmod 755 "$TMPDIR" # some tests go on as another user
    export TMPDIR
    trap 'rm -rf "$TMPDIR"' EXIT
    cd "$TMPDIR"
    namespaces=(--net --mount --ipc --pid --fork --kill-child --mount-proc)
    if [[ $EUID -ne 0 ]]; then
        namespaces+=(--user --map-current-user --keep-caps)
    fi
    if ! unshare "${namespaces[@]}" ip link set lo up 2> "$TMPDIR/why"; then
        echo "not isolated: $(< "$TMPDIR/why")"
        "$@"
        exit
    fi
    rm "$TMPDIR/why"
    unshare "${namespaces[@]}" bash "$self" --inside "$@"
    exit
fi
shift
ip link set lo up
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /dev/shm
export BRAID_TEST_ISOLATED=1
"$@"
