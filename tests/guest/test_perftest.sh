#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Data crosses every level: ib_write_bw from the last host to a neighbour of it on each level.
# shellcheck source=tests/guest/rdma.sh
. "$(dirname "$0")/rdma.sh"

last=$(tail -n 1 /run/hosts | cut -d' ' -f1)
for device in $(devices "$last"); do
    network=$(address "$device")
    for peer in $(devices all); do
        if [[ $peer != "$device" && $(address "$peer") == "${network%.*}".* ]]; then
            rate=$(write_bw "$peer" "$device")
            echo "$device to $peer: $rate MB/s"
            continue 2
        fi
    done
    fail "$device has no neighbour"
done
