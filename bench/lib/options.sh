# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Sourced by benchmarks whose options are variables: take_options "rounds nic" "$@" makes `--rounds 3` rounds=3. Whoever sources it has given
# defaults to all of them, and has usage().
take_options() {
    local names=" $1 "
    shift
    while (($#)); do
        [[ $1 == --help || $1 == -h ]] && { usage; exit 0; }
        [[ $1 == --* && $names == *" ${1#--} "* ]] || { echo "$1 is no option" >&2; usage >&2; exit 2; }
        (($# > 1)) || { echo "$1 needs a value" >&2; exit 2; }
        declare -g "${1#--}=$2"
        shift 2
    done
}
