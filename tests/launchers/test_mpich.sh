#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# MPICH's mpiexec (Hydra), a server of PMI-1.
# shellcheck source=tests/launchers/lib.sh
. "$BRAID_SOURCE/tests/launchers/lib.sh"
needs mpiexec.mpich mpich
programs
launcher=(mpiexec.mpich -n {})
# Hydra tells its proxy of the end of its input. Where the ranks have ended before, SIGPIPE ends it, and what they said is lost: so its input does not end.
mkfifo "$work/silent"
exec 7<> "$work/silent"
input=$work/silent

works pmi1 4 "${launcher[@]}"
run 0 1 "${launcher[@]}" -- "$hello"
says 'rank 0 of 1 '

never_comes "${launcher[@]}"
dies "${launcher[@]}"

# A descriptor that is not open, one that is no launcher's, and numbers that make no sense.
run ! 2 "${launcher[@]}" -- env PMI_FD=77 "$hello"
says 'PMI_FD'
run ! 2 "${launcher[@]}" -- sh -c "exec env PMI_FD=9 $hello 9< /dev/null"
says 'braid_init: .*PMI'
run ! 2 "${launcher[@]}" -- env PMI_RANK=7 "$hello"
says 'PMI_RANK.*7'
run 0 2 env BRAID_LAUNCHER=none "${launcher[@]}" -- "$hello"
says 'rank 0 of 1 ' 2
finish
