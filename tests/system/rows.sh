# SPDX-License-Identifier: BSD-3-Clause
# Rows of a table that `braid bcube run` writes into $work/out while it goes on: those of host h00.
# shellcheck shell=bash disable=SC2154

rows() {
    grep -cE '^\[h00\] +[0-9]+ +[0-9]+ ' "$work/out"
}

# Waits for so many more rows; false: they do not come.
more_rows() { # COUNT
    local until=$(($(rows) + $1)) _
    for _ in {1..400}; do
        [[ $(rows) -ge $until ]] && return
        sleep 0.2
    done
    return 1
}
