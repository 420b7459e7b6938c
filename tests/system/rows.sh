# SPDX-License-Identifier: BSD-3-Clause
# Rows of a table that `braid bcube run` writes into $work/out while it goes on: those of host h00.
# shellcheck shell=bash disable=SC2154,SC2317
# shellcheck source=tests/within.sh
. "$BRAID_SOURCE/tests/within.sh"

rows() {
    grep -cE '^\[h00\] +[0-9]+ +[0-9]+ ' "$work/out"
}

rows_are() { # COUNT
    [[ $(rows) -ge $1 ]]
}

# Waits for so many more rows; false: they do not come.
more_rows() { # COUNT
    within 80 rows_are $(($(rows) + $1))
}
