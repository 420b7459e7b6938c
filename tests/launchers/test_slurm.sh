#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Slurm's srun with all of its plug-ins, sbatch, and torchrun within srun, in a cluster of three nodes (cluster.sh) that is started once for all.
if [[ -z ${CLUSTER:-} ]]; then
    for command in srun munged; do
        if ! PATH=$PATH:/usr/sbin command -v $command > /dev/null; then
            echo "no $command here: ./dev test --launchers installs it as root (apt-get install slurm-wlm munge)"
            exit 77
        fi
    done
    if [[ $EUID -ne 0 || -z ${BRAID_TEST_ISOLATED:-} ]]; then
        echo "a Slurm cluster in network namespaces needs root"
        exit 77
    fi
    exec bash "$BRAID_SOURCE/tests/launchers/cluster.sh" bash "$0"
fi
# shellcheck source=tests/launchers/lib.sh
. "$BRAID_SOURCE/tests/launchers/lib.sh"
# shellcheck source=tests/launchers/cluster.sh
. "$BRAID_SOURCE/tests/launchers/cluster.sh" --functions
set +e
programs

# Every way in which srun lets processes speak, over two hosts with 3 and 1 ranks. Without -w Slurm would take n3 for a node on which an earlier job
# is still being tidied up.
for mpi in none pmi2 pmix; do
    name=${mpi/none/slurm} name=${name/pmi2/pmi1}
    launcher=(srun -Q -w "n1,n2" -N 2 -n {} "--mpi=$mpi")
    works "$name" 4 "${launcher[@]}"
    run 0 4 "${launcher[@]}" -- "$hello"
    says 'on n1' 3
    says 'on n2' 1
    run 0 1 srun -Q -n {} "--mpi=$mpi" -- "$hello"
    says 'rank 0 of 1 '
    # srun sends rank 1 a signal only when the others have ended.
    never_comes "${launcher[@]}" -W 1
    # Here the others live long enough to say who is lost.
    run ! 3 "${launcher[@]}" -- "$rank" dies
    says 'here is rank 0: .*rank 1'
    says 'here is rank 2: .*rank 1'
done

# Ranks dealt out in turn: rank 0 and 2 are on n1.
run 0 4 srun -Q -w "n1,n2" -N 2 -n {} --mpi=none --distribution=cyclic -- "$hello"
says 'rank 2 of 4 on n1'

# The batch script itself is one process, and what it starts by srun are jobs.
cat > "$work/script" << SCRIPT
#!/bin/bash
$hello
srun -Q --mpi=pmix $hello
srun -Q --mpi=pmi2 $hello
SCRIPT
run 0 4 sbatch -Q --wait -w "n1,n2" -N 2 -n {} -o "$work/batch" -e "$work/batch" "$work/script" --
cat "$work/batch" >> "$work/out"
says 'rank 0 of 1 on n1' 1
says 'rank . of 4 on n1' 6
says 'rank . of 4 on n2' 2

# torchrun within srun: the innermost counts.
if command -v torchrun > /dev/null; then
    for mpi in pmix pmi2; do
        # shellcheck disable=SC2016 # a variable of the node's
        run 0 2 srun -Q -w "n1,n2" -N 2 -n {} --mpi=$mpi -- sh -c 'exec torchrun -r 9:1 -t 9:1 --monitor_interval 0.1 --nnodes 2 --nproc_per_node 2 \
            --node_rank $SLURM_NODEID --master_addr 10.77.0.11 --no_python "$0"' "$hello"
        says 'rank [0-3] of 4 on n1' 2
        says 'rank [0-3] of 4 on n2' 2
    done
fi

# A node is lost with all that ran on it: the others name its rank, and end. srun itself would wait for Slurm to find the node down.
srun -Q -N 3 -n 3 --mpi=pmi2 env BRAID_PEER_TIMEOUT=3 "$rank" works "$work/ready" > "$work/out" 2> "$work/err" < /dev/null &
job=$!
if within 60 test -e "$work/ready"; then
    kill_node n2
    # shellcheck disable=SC2317 # within() calls it
    words() {
        grep -q 'here is rank 0: .*rank 1' "$work/err" && grep -q 'here is rank 2: .*rank 1' "$work/err"
    }
    within 60 words || fail "a node is lost: not both of the others have named its rank"
else
    fail "three ranks on three nodes did not start"
fi
kill -KILL "$job"
finish
