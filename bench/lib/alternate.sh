# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# For benchmarks that compare ways to run one job, by turns: sourced. The command is in $braid.

# once BACKEND SIZE [BRAID]: microseconds of an all-reduce of two ranks, out of place; BRAID: another build's command.
once() {
    local n run=${3:-$braid}
    case $2 in *[0-9]) n=100000 ;; 64K) n=20000 ;; [12]M) n=2000 ;; *) n=80 ;; esac
    timeout 60 "$run" run -n 2 --backend "$1" -- "$run" allreduce -b "$2" -e "$2" -n "$n" -w 5 -c 0 |
        awk '{ sub(/^\[[0-9]+\] /, "") } $1 ~ /^[0-9]+$/ { print $6; exit }'
}

# rounds COMMAND...: the command ROUNDS (9) times, fewer if SECONDS_EACH (30) are over: one size on one machine must not keep all others
# from being measured. At least once.
rounds() {
    local until=$((SECONDS + ${SECONDS_EACH:-30})) round
    for ((round = 0; round < ${ROUNDS:-9} && (round == 0 || SECONDS < until); round++)); do "$@"; done
}

# median FILE: of the numbers in its lines.
median() {
    sort -g "$1" | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}

# spread FILE: half of what lies between the quartiles of its lines, in percent of their median.
spread() {
    sort -g "$1" | awk -v median="$(median "$1")" '{ v[NR] = $1 }
        END { printf "%.1f", 50 * (v[int(NR * 0.75 + 0.5)] - v[int(NR * 0.25 + 0.75)]) / median }'
}

# more A B: by how many percent the median of file A is above that of file B.
more() {
    awk -v a="$(median "$1")" -v b="$(median "$2")" 'BEGIN { printf "%.1f", 100 * (a / b - 1) }'
}
