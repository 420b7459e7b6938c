#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# cluster.sh COMMAND...: runs the command on the login node of a Slurm cluster of three nodes, all of it on this machine: login node and
# nodes are network namespaces with host names of their own (login, n1, n2, n3), joined by a bridge; munged, slurmctld and a slurmd a node run
# in the foreground, with all their files in $TMPDIR. To be run by tests/isolated.sh, with whose process namespace all of it ends.
# The command gets SLURM_CONF, which is all that sinfo, srun and sbatch need, and CLUSTER, the folder of the cluster. `kill_node NAME`
# (below, for scripts that source this file with --functions) takes a node away.
set -euo pipefail

# Everything that runs on the node ends, and no packet comes from it any more.
kill_node() { # NAME
    ip -n "$1" link set eth0 down
    ip netns pids "$1" | xargs -r kill -KILL
}

if [[ ${1:-} == --functions ]]; then
    return 0
fi
# shellcheck source=tests/within.sh
. "$BRAID_SOURCE/tests/within.sh"
if [[ ${1:-} != --inside ]]; then
    exec unshare --uts bash "$0" --inside "$@"
fi
shift
export CLUSTER=$TMPDIR/slurm SLURM_CONF=$TMPDIR/slurm/slurm.conf
mkdir -m 755 "$CLUSTER"
mkdir -m 700 "$CLUSTER/munge"
mkdir -p "$CLUSTER"/{state,log} "$CLUSTER"/{spool,tmp}/n{1,2,3}

hostname login
{
    echo 127.0.0.1 localhost
    echo 10.77.0.1 login
    printf '10.77.0.1%d n%d\n' 1 1 2 2 3 3
} > "$CLUSTER/hosts"
mount --bind "$CLUSTER/hosts" /etc/hosts
ip link add bridge type bridge
ip addr add 10.77.0.1/24 dev bridge
ip link set bridge up
for i in 1 2 3; do
    ip netns add "n$i"
    ip link add "n$i" type veth peer name eth0 netns "n$i"
    ip link set "n$i" master bridge up
    ip -n "n$i" addr add "10.77.0.1$i/24" dev eth0
    ip -n "n$i" link set eth0 up
    ip -n "n$i" link set lo up
done

# Nodes claim to have 64 processors each, so that 64 ranks need no flag. TmpFS: Slurm's plug-in for PMIx wants a folder of each node's own.
cat > "$SLURM_CONF" << CONF
ClusterName=braid
SlurmctldHost=login(10.77.0.1)
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$CLUSTER/state
SlurmdSpoolDir=$CLUSTER/spool/%n
SlurmdLogFile=$CLUSTER/log/%n
SlurmctldPidFile=$CLUSTER/slurmctld.pid
SlurmdPidFile=$CLUSTER/%n.pid
TmpFS=$CLUSTER/tmp/%n
AuthType=auth/munge
AuthInfo=socket=$CLUSTER/munge.socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=n1 NodeAddr=10.77.0.11 CPUs=64 State=UNKNOWN
NodeName=n2 NodeAddr=10.77.0.12 CPUs=64 State=UNKNOWN
NodeName=n3 NodeAddr=10.77.0.13 CPUs=64 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
echo CgroupPlugin=cgroup/v1 > "$CLUSTER/cgroup.conf" # none is used, but slurmd asks for the file system

head -c 1024 /dev/urandom > "$CLUSTER/munge/key"
chmod 400 "$CLUSTER/munge/key"
munged --foreground --socket="$CLUSTER/munge.socket" --key-file="$CLUSTER/munge/key" --log-file="$CLUSTER/munge/log" \
    --pid-file="$CLUSTER/munge/pid" --seed-file="$CLUSTER/munge/seed" > "$CLUSTER/log/munged" 2>&1 &
within 60 test -S "$CLUSTER/munge.socket" || {
    cat "$CLUSTER/log/munged"
    exit 1
}
slurmctld -D -i > "$CLUSTER/log/slurmctld" 2>&1 &
for node in n1 n2 n3; do
    # /sys shows the interfaces of the namespace in which it was mounted.
    nsenter --net="/run/netns/$node" unshare --uts --mount bash -c "hostname $node && mount -t sysfs sysfs /sys &&
        mount -t tmpfs tmpfs /sys/fs/cgroup && exec slurmd -D -N $node" > "$CLUSTER/log/$node.start" 2>&1 &
    disown # no word of the shell's when a node is killed
done
all_idle() {
    [[ $(sinfo -h -t idle -o %D 2> /dev/null) == 3 ]]
}
within 60 all_idle || {
    echo "the nodes did not become idle"
    sinfo || true
    tail -n 20 "$CLUSTER"/log/*
    exit 1
}
"$@"
