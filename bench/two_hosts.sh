#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# braid run -n N -- bench/two_hosts.sh COMMAND...: a rank, of which the first half believe to be on one host and the others on another: each half sees a
# boot ID of its own, by which braid tells hosts apart. TCP between them goes over loopback (BRAID_DEVICES=127.0.0.1). Needs root.
set -euo pipefail
id=$(mktemp)
printf '%08d-0000-0000-0000-000000000000\n' $((RANK * 2 / WORLD_SIZE)) > "$id"
# shellcheck disable=SC2016
exec unshare -m bash -c 'mount --bind "$1" /proc/sys/kernel/random/boot_id; rm -f "$1"; shift; exec "$@"' _ "$id" "$@"
