#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# bench/lib/options.sh reads the options of the benchmark scripts as the programs read theirs: the same forms, the same errors.
set -uo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat > "$work/script.sh" << 'END'
usage() { echo "Usage: script.sh"; }
rounds=3 sizes="8 64" busy=
. "$BRAID_SOURCE/bench/lib/options.sh"
take_options "rounds sizes busy!" "$@"
echo "$rounds|$sizes|$busy"
END

# case CODE PATTERN ARGUMENT...: the script ends with CODE, and what it prints is PATTERN.
failed=0
expect() {
    local code=$1 pattern=$2 said rc=0
    shift 2
    said=$(bash "$work/script.sh" "$@" 2>&1) || rc=$?
    # shellcheck disable=SC2053 # a pattern
    if [[ $rc -ne $code || $said != $pattern ]]; then
        echo "'$*': exit code $rc instead of $code, or no '$pattern': $said"
        failed=1
    fi
}
expect 0 "3|8 64|"
expect 0 "5|8 64|yes" --busy --rounds 5
expect 0 "5|--x|" --rounds=5 --sizes --x
expect 0 "2|a=b|" --rounds 1 --sizes=a=b --rounds 2
expect 0 "Usage: script.sh" --rounds 5 --help
expect 0 "Usage: script.sh" -h
expect 2 "script.sh: --rounds needs a value" --rounds
expect 2 "script.sh: there is no option --round*--help*" --round 5
expect 2 "script.sh: there is no option --busy!*" "--busy!"
expect 2 "script.sh: --busy=1*no value" --busy=1
expect 2 "script.sh: 'word'*--help*" word
expect 2 "script.sh: '-r'*--help*" -r 5
exit $failed
