# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Sourced by benchmarks of jobs on emulated hosts with several NICs: each host is a network namespace, NIC i of every host is `eth<i>`, 10.<80+i>.0.<host+1>, and
# plugged into switch i, a bridge. (`braid bcube emulate` makes BCubes; here every host reaches every other over each of its NICs.) All of it vanishes when the script
# ends, however it ends, and so do the processes in them. $work is a folder of its own.
hosts_name=brh$$ hosts_made=()
work=$(mktemp -d)
# shellcheck source=bench/lib/shape.sh
. "$(dirname "${BASH_SOURCE[0]}")/shape.sh"

hosts_space() {
    ip netns add "$1" || exit 1
    hosts_made+=("$1")
    ip -n "$1" link set lo up
}

# hosts_up HOSTS NICS [RATE]: RATE as tc writes it, at both ends of each cable; none: as fast as the machine. Two hosts are joined by cables without a switch.
# Connections use cubic: a namespace may not choose its congestion control by sysctl, and the system's may be one that is slow between namespaces.
hosts_up() {
    local hosts=$1 nics=$2 rate=${3:-} host nic space network switches=$hosts_name-s
    [[ $(id -u) == 0 ]] || { echo "needs root for network namespaces: run it with sudo" >&2; exit 2; }
    hosts_space "$switches"
    for ((host = 0; host < hosts; host++)); do hosts_space "$hosts_name-$host"; done
    for ((nic = 0; nic < nics; nic++)); do
        if ((hosts == 2)); then
            ip link add "eth$nic" netns "$hosts_name-0" type veth peer name "eth$nic" netns "$hosts_name-1"
        else
            ip -n "$switches" link add "switch$nic" type bridge
            ip -n "$switches" link set "switch$nic" up
            for ((host = 0; host < hosts; host++)); do
                ip link add "eth$nic" netns "$hosts_name-$host" type veth peer name "h${host}n$nic" netns "$switches"
                ip -n "$switches" link set "h${host}n$nic" master "switch$nic" up
                [[ -z $rate ]] || shape_link "$switches" "h${host}n$nic" "$rate" || exit 1
            done
        fi
        for ((host = 0; host < hosts; host++)); do
            space=$hosts_name-$host network=10.$((80 + nic)).0
            ip -n "$space" addr add "$network.$((host + 1))/24" dev "eth$nic"
            ip -n "$space" link set "eth$nic" up
            ip -n "$space" route replace "$network.0/24" dev "eth$nic" proto kernel scope link src "$network.$((host + 1))" congctl cubic
            [[ -z $rate ]] || shape_link "$space" "eth$nic" "$rate" || exit 1
        done
    done
    for ((host = 0; host < hosts; host++)); do # the kernel takes its time to call a link up
        for ((nic = 0; nic < nics; nic++)); do
            while [[ $(ip -n "$hosts_name-$host" -o link show "eth$nic") != *"state UP"* ]]; do sleep 0.05; done
        done
    done
}

# hosts_run RANKS RANKS_PER_HOST NICS COMMAND...: one process a rank, as torchrun's and `braid run`'s environment says it, on hosts 0, 1, ...; braid takes all
# NICs, gloo the first, as it can use one only. Fails if a rank does.
hosts_run() {
    local ranks=$1 per_host=$2 nics=$3 rank devices pids=() failed=0 secret
    shift 3
    devices=$(seq -s, -f 'eth%.0f' 0 $((nics - 1)))
    secret=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
    for ((rank = 0; rank < ranks; rank++)); do
        ip netns exec "$hosts_name-$((rank / per_host))" env RANK=$rank WORLD_SIZE="$ranks" LOCAL_RANK=$((rank % per_host)) LOCAL_WORLD_SIZE="$per_host" \
            MASTER_ADDR=10.80.0.1 MASTER_PORT=29500 BRAID_SECRET="$secret" BRAID_DEVICES="$devices" BRAID_MACHINE_RANKS="$ranks" GLOO_SOCKET_IFNAME=eth0 "$@" &
        pids+=($!)
    done
    for rank in "${pids[@]}"; do wait "$rank" || failed=1; done
    return $failed
}

hosts_down() {
    local space pids
    for space in "${hosts_made[@]}"; do
        pids=$(ip netns pids "$space" 2> /dev/null)
        # shellcheck disable=SC2086 # a list
        [[ -z $pids ]] || kill -9 $pids 2> /dev/null
        ip netns del "$space" 2> /dev/null
    done
    hosts_made=()
}
trap 'hosts_down; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
