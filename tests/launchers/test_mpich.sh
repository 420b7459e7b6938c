#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# MPICH's mpiexec (Hydra), a server of PMI-1.
# shellcheck source=tests/launchers/lib.sh
. "$BRAID_SOURCE/tests/launchers/lib.sh"
needs mpiexec.mpich mpich
programs
launcher=(mpiexec.mpich -n {})

works pmi1 4 "${launcher[@]}"
run 0 1 "${launcher[@]}" -- "$hello"
says 'rank 0 of 1 '

never_comes "${launcher[@]}"
dies "${launcher[@]}"

# A descriptor that is not open, one that is no launcher's, and numbers that make no sense. The ranks' words go to a file: Hydra, whose processes
# all fail at once, sometimes ends before it has handed them on.
refused() { # PATTERN COMMAND...
    local pattern=$1
    shift
    : > "$work/words"
    run ! 2 "${launcher[@]}" -- sh -c 'exec "$@" 2>> "$0"' "$work/words" "$@"
    cat "$work/words" >> "$work/err"
    says "$pattern"
}
refused 'PMI_FD' env PMI_FD=77 "$hello"
refused 'braid_init: .*PMI' sh -c "exec env PMI_FD=9 $hello 9< /dev/null"
refused '7' env PMI_RANK=7 "$hello"
run 0 2 env BRAID_LAUNCHER=none "${launcher[@]}" -- "$hello"
says 'rank 0 of 1 ' 2
finish
