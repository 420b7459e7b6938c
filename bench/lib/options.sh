# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Sourced by benchmarks whose options are variables: take_options "rounds nic busy!" "$@" makes `--rounds 3` or `--rounds=3` rounds=3, and the
# flag `--busy` busy=yes. The script gives all of them defaults before, and has usage(), which --help or -h prints. Errors are worded and
# end the script as those of the programs do (tools/common/options.h).
take_options() {
    local names=" $1 " name program=${0##*/}
    shift
    while (($#)); do
        [[ $1 == --help || $1 == -h ]] && { usage; exit 0; }
        name=${1#--} name=${name%%=*}
        if [[ $1 != --* ]]; then
            echo "$program: '$1' is not an option; --help lists them" >&2
            exit 2
        elif [[ $names == *" $name! "* ]]; then
            [[ $1 != *=* ]] || { echo "$program: $1: this option takes no value" >&2; exit 2; }
            declare -g "$name=yes"
        elif [[ ! $name =~ ^[a-z]+$ || $names != *" $name "* ]]; then
            echo "$program: there is no option $1; --help lists them" >&2
            exit 2
        elif [[ $1 == *=* ]]; then
            declare -g "$name=${1#*=}"
        else
            (($# > 1)) || { echo "$program: $1 needs a value" >&2; exit 2; }
            declare -g "$name=$2"
            shift
        fi
        shift
    done
}
