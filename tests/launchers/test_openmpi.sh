#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Open MPI's mpirun, a server of PMIx.
# shellcheck source=tests/launchers/lib.sh
. "$BRAID_SOURCE/tests/launchers/lib.sh"
needs mpirun.openmpi openmpi-bin
if [[ ! -f $BRAID_BUILD/braid_pmix.so ]]; then
    echo "braid was built without PMIx: apt-get install libpmix-dev, then build it again"
    exit 77
fi
programs
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
launcher=(mpirun.openmpi --oversubscribe -n {})

works pmix 4 "${launcher[@]}"
run 0 1 "${launcher[@]}" -- "$hello"
says 'rank 0 of 1 '

never_comes "${launcher[@]}"
dies "${launcher[@]}"

# Without the module, without its library, with another version's: words, and what to install.
BRAID_PMIX_MODULE=$work/none run ! 2 "${launcher[@]}" -- "$hello"
says 'PMIX_NAMESPACE.*apt-get install libpmix2'
BRAID_PMIX_MODULE=$BRAID_BUILD/libbraid.so run ! 2 "${launcher[@]}" -- "$hello"
says 'another version of braid'
# The address of a server that has gone.
run ! 2 "${launcher[@]}" -- sh -c "for v in \$(env | sed -n 's/^\(PMIX_SERVER_URI[0-9]*\)=.*/\1/p'); do
    export \$v='1.0;tcp4://127.0.0.1:1'; done; exec $hello"
says 'PMIx_Init'
# The user's word counts: no launcher.
run 0 2 env BRAID_LAUNCHER=none "${launcher[@]}" -- "$hello"
says 'rank 0 of 1 ' 2
finish
