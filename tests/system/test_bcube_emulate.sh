#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# braid bcube emulate, list, exec, run, fault, down, as a user would: a healthy testbed, injected faults, misuse, and that nothing is left
# behind whatever was killed when.
# shellcheck disable=SC2016,SC2317 # what stands in single quotes is for shells on the hosts; within() calls functions
set -uo pipefail
# shellcheck source=tests/within.sh
. "$BRAID_SOURCE/tests/within.sh"
work=$(mktemp -d)
cp "$BRAID_BUILD/braid" "$work/braid" # for a user who may not read the build folder
chmod 755 "$work" "$work/braid"
braid=$work/braid
bed=t$$ # nobody else's
failures=0

# shellcheck disable=SC2317 # called by the trap
cleanup() {
    local name
    for name in "$bed" "${bed}k"; do
        [[ -e /run/braid/$name ]] && "$braid" bcube down "$name" > /dev/null
    done
    rm -rf "$work"
}
trap cleanup EXIT

fail() {
    echo "FAILED: $*" >&2
    sed 's/^/    /' "$work/out" "$work/err" >&2
    failures=$((failures + 1))
}

# bcube CODE ARGUMENT...: must return CODE within a minute.
bcube() {
    local code=$1 rc=0
    shift
    timeout -s KILL 60 "$braid" bcube "$@" > "$work/out" 2> "$work/err" < /dev/null || rc=$?
    [[ $rc -eq $code ]] || fail "braid bcube $*: code $rc, expected $code"
}

has() { # FILE PATTERN
    grep -qE -- "$2" "$work/$1" || fail "$1 does not say \"$2\""
}

at() { # HOST COMMAND...
    timeout -s KILL 60 "$braid" bcube exec --name "$bed" "$1" -- "${@:2}"
}

fault() { # injected or cleared, without output
    bcube 0 fault --name "$bed" "$@"
}

# answers HOST ADDRESS: nobody listens there, so whoever is reached refuses, and at once.
answers() {
    [[ $(at "$1" timeout 0.5 bash -c ": < /dev/tcp/$2/9" 2>&1) = *refused* ]]
}

# Several tries: the kernel tells of links that come up once a second, and half a second is little for processes on a busy machine.
reaches() { # HOST ADDRESS
    within 30 answers "$@"
}

switches() {
    ip netns exec "$bed-switches" "$@"
}

# shows PATTERN COMMAND...
shows() {
    grep -q -- "$1" <<< "$("${@:2}")"
}

# What there is of testbeds of ours.
remains() {
    ls -d /run/netns/"$bed"* /run/braid/"$bed"* 2> /dev/null
    grep -F "/run/netns/$bed" /proc/mounts
    ip -o link | grep -E ' (l[0-9]+s[0-9]+(p[0-9]+)?|mgmt(-[0-9]+)?)[@:]'
    pgrep -f "sleep 4321.$$"
}

nothing_remains() {
    [[ -z $(remains) ]]
}

nothing_left() {
    within 30 nothing_remains || fail "$1: left behind: $(remains | tr '\n' ' ')"
}

sleepers() { # COUNT
    [[ $(pgrep -fc "^sleep 4321.$$") -eq $1 ]]
}

no_sleepers() {
    ! pgrep -f "sleep 4321.$$" > /dev/null
}

# Everything that faults change, as text.
snapshot() {
    local host
    switches bridge link | sed -E 's/^[0-9]*: //; s/@[^:]*//' | sort
    switches tc qdisc | sed 's/ [0-9a-f]*: / /' | sort
    for host in h00 h01 h12; do
        at $host sh -c 'ip -o -4 addr; ip -o link; tc qdisc; ip route
                        cat /proc/sys/net/ipv4/conf/*/arp_ignore /proc/sys/net/ipv4/conf/*/rp_filter' |
            sed -E 's/^[0-9]+: //; s/ [0-9a-f]*: / /; s/@if[0-9]+//; s/ link-netnsid.*//' | sort
    done
}

# -- misuse, which root is not needed for
bcube 2 emulate
has err 'which shape'
bcube 2 emulate 3
bcube 2 emulate 3 x
has err "'x' is no number"
bcube 2 emulate 1 2
bcube 2 emulate 3 2 7
bcube 2 emulate 2 16
has err 'too large for one machine'
bcube 2 emulate 3 2 --hosts 10
has err 'has 9 hosts'
bcube 2 emulate 3 2 --rate fast
has err '500mbit'
bcube 2 emulate 3 2 --rate 1tbit
bcube 2 emulate 3 2 --rate 1gbit --loopback
bcube 2 emulate 3 2 --name ../x
has err 'no name of a testbed'
bcube 2 emulate 3 2 --no-such
bcube 0 emulate --help
has out 'loopback'
bcube 2 exec h00
bcube 2 exec -- true
bcube 2 run
bcube 1 exec --name "$bed" h00 -- true
has err "no testbed $bed"
bcube 1 run --name "$bed" -- true
bcube 1 fault --name "$bed" list
bcube 1 down "$bed"
bcube 1 down --name "$bed"
has err "$bed"
bcube 2 down "$bed" --all
bcube 2 down "$bed" --name "$bed"
bcube 2 down --name "$bed" --all
has err '--name'
bcube 0 fault --help
has out 'swap +HOST LEVEL LEVEL'
bcube 2 no-such

# -- without root: addresses only
if [[ $EUID -eq 0 ]]; then
    mkdir "$work/run"
    chown 65534:65534 "$work/run"
    other() {
        timeout -s KILL 60 setpriv --reuid 65534 --regid 65534 --clear-groups env XDG_RUNTIME_DIR="${other_state:-$work/run}" "$braid" bcube "$@" \
            > "$work/out" 2> "$work/err" < /dev/null
    }
else
    other() {
        XDG_RUNTIME_DIR=${other_state:-$work} timeout -s KILL 60 "$braid" bcube "$@" > "$work/out" 2> "$work/err" < /dev/null
    }
fi
mkdir "$work/taken" && ln -s /nowhere "$work/taken/braid"
other_state=$work/taken other emulate 2 2 --loopback && fail "a state folder of somebody else"
has err 'another user'
other emulate 2 2 && fail "namespaces without root"
has err 'root.*--loopback'
other emulate 2 2 --loopback || fail "loopback"
has out 'needs root'
other list || fail "list"
has out '^bcube +BCube\(2,2\), 4 hosts, loopback'
other run -- sh -c 'echo "$RANK/$WORLD_SIZE $BRAID_DEVICES $BRAID_TOPOLOGY $BRAID_BACKEND"' || fail "run on loopback"
has out '^\[h10\] 2/4 127\.[0-9.]+,127\.[0-9.]+ bcube:2,2 tcp$'
[[ $(cut -d' ' -f3 "$work/out" | tr , '\n' | sort -u | wc -l) -eq 8 ]] || fail "addresses are not of one NIC each"
other run -- "$braid" allreduce -b 64K -e 64K -n 2 -w 1 || fail "an all-reduce on loopback"
other exec h01 -- sh -c 'exit 9'
[[ $? -eq 9 ]] || fail "exec on loopback loses the exit code"
other fault nic h00 0 down && fail "a fault on loopback"
has err 'root'
other emulate 2 1 --loopback --name second || fail "a second testbed"
other exec h01 -- true && fail "which of two was not asked"
has err 'say which'
other down --all || fail "down --all"
has out 'testbed second is removed'
[[ -z $(ls "$work/run" 2> /dev/null) ]] || fail "loopback leaves something behind"

if [[ $EUID -ne 0 ]] || ! unshare -n true 2> "$work/err" || ! command -v ip tc bridge > "$work/out"; then
    echo "SKIP: namespaces need root, and looking at them iproute2; what needs neither was tested, $failures failures"
    exit $((failures > 0 ? 1 : 77))
fi

# -- a healthy testbed
nothing_left "before"
ip netns add "$bed-h21"
bcube 1 emulate 3 2 --name "$bed"
has err "namespace $bed-h21 already"
ip netns del "$bed-h21" || fail "somebody else's namespace was removed"
nothing_left "a namespace of somebody else"
begin=$SECONDS
bcube 0 emulate 3 2 --name "$bed" --rate 40mbit
[[ $((SECONDS - begin)) -lt 20 ]] || fail "making 9 hosts took longer than 20 s" # it takes 0.3 s where nothing else runs
has out 'BCube\(3,2\), 9 hosts of 2 NICs, 6 switches, 40mbit, MTU 1500'
[[ $(ip netns list | grep -c "^$bed-") -eq 10 ]] || fail "ip netns does not see 9 hosts and the switches"
bcube 1 emulate 3 2 --name "$bed"
has err "testbed $bed already"
bcube 0 list
has out "^$bed +BCube\(3,2\), 9 hosts, 40mbit"
[[ $(at h12 hostname) = h12 ]] || fail "the host does not know its name"
[[ $(at 5 sh -c 'ls /sys/class/net' | tr '\n' ' ') = "eth0 eth1 lo mgmt0 " ]] || fail "NICs of h12"
[[ $(switches tc qdisc | grep -cE 'tbf.* rate 40Mbit burst (128Kb|13[01])') -eq 18 ]] || fail "not every port is shaped"
address() { # HOST LEVEL
    at "$1" ip -o -4 addr show dev "eth$2" | sed -E 's/.*inet ([0-9.]+).*/\1/'
}
for other in h01 h02; do
    reaches h00 "$(address $other 0)" || fail "h00 does not reach $other on level 0"
    answers h00 "$(address $other 1)" && fail "h00 reaches $other on level 1"
done
for other in h10 h20; do
    reaches h00 "$(address $other 1)" || fail "h00 does not reach $other on level 1"
    answers h00 "$(address $other 0)" && fail "h00 reaches $other on level 0"
done
for level in 0 1; do
    answers h00 "$(address h11 $level)" && fail "h00 reaches h11, which is no neighbour"
done
management=$(at h22 ip -o -4 addr show dev mgmt0 | sed -E 's/.*inet ([0-9.]+).*/\1/')
reaches h00 "$management" || fail "no management network"

# -- exec: input, output, exit code, signals are the command's
[[ $(echo "a  b" | timeout 20 "$braid" bcube exec --name "$bed" h01 -- sh -c 'cat; echo "$0"' 'c  d' | tr '\n' '|') = "a  b|c  d|" ]] ||
    fail "exec changes input or arguments"
bcube 7 exec --name "$bed" "[0,1]" -- sh -c 'exit 7'
bcube 127 exec --name "$bed" h01 -- /no/such/command
bcube 126 exec --name "$bed" h01 -- /etc
bcube 143 exec --name "$bed" h01 -- sh -c 'kill $$'
bcube 1 exec --name "$bed" h09 -- true
has err 'no host'

# -- run: all hosts at once
RANK=9 BRAID_RANK=9 BRAID_TOPOLOGY=mesh bcube 0 run --name "$bed" -- sh -c \
    'echo "$(hostname) $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR $BRAID_DEVICES $BRAID_TOPOLOGY" \
          "${#BRAID_SECRET} ${BRAID_RANK-none} $((MASTER_PORT > 0)) $(head -n 1 "$BRAID_INVENTORY" | wc -l)"'
has out '^\[h00\] h00 0/9 0/1 10\.255\.0\.1 eth0,eth1 bcube:3,2 64 none 1 1$'
has out '^\[h22\] h22 8/9 0/1 '
[[ $(wc -l < "$work/out") -eq 9 ]] || fail "not one line a host"
bcube 0 run --name "$bed" --ranks-per-host 2 -- sh -c 'echo "$RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE ${BRAID_TOPOLOGY-none}"'
has out '^\[h01\.1\] 3/18 1/2 none$'
has err 'hosts .*switch .*: braid bcube emulate 9 1$'
bcube 0 run --name "$bed" -- "$braid" allreduce -b 64K -e 64K -n 2 -w 1
has out '^\[h00\] .*65536 .* 0 '
bcube 5 run --name "$bed" -- sh -c "if [ \$RANK = 4 ]; then sleep 0.3; exit 5; fi; exec sleep 4321.$$"
has err '^braid bcube run: host h11: rank 4 \(process [0-9]+\) .*exit code 5'
within 30 no_sleepers || fail "processes are left after a failure"
bcube 124 run --name "$bed" --timeout 1 -- sleep "4321.$$"
bcube 127 run --name "$bed" -- /no/such/command
[[ $(grep -c 'cannot run' "$work/err") -eq 1 ]] || fail "a missing program is reported more than once"

# -- faults, each with its undo
healthy=$(snapshot)
level0=$(address h01 0)
level1=$(address h10 1)
fault nic h00 0 down
within 30 shows NO-CARRIER at h00 ip link show dev eth0 || fail "the NIC still has a carrier"
answers h00 "$level0" && fail "h00 reaches h01 without a cable"
reaches h00 "$level1" || fail "the other level is gone too"
fault switch 0 0 down
fault nic h00 0 up
answers h00 "$level0" && fail "a switch without power passes something"
fault switch 0 0 up
reaches h00 "$level0" || fail "h00 does not reach h01 again"
fault level 1 down
level_1_down() { [[ $(switches ip -o link | grep -c 'l1s.*state DOWN') -ge 9 ]]; }
within 30 level_1_down || fail "level 1 is not down"
fault level 1 up
fault host h00 down
answers h01 "$(address h00 0)" && fail "a host without cables is reached"
fault list
has out '^host h00 down$'
fault clear
fault swap h00 0 1
answers h00 "$level0" && fail "swapped NICs do no harm"
fault swap h00 0 1 clear
reaches h00 "$level0" || fail "the swap was not undone"
fault move h00 0 2
shows 'master l0s2' switches bridge link show dev l0s0p0 || fail "the cable is not on the other switch"
fault mtu h00 0 1400
shows 'mtu 1400' at h00 ip link show dev eth0 || fail "the MTU is not low"
fault switch-mtu h00 1 1300
fault rate h00 1 10mbit
[[ $(at h00 tc qdisc show dev eth1) = *"rate 10Mbit"* ]] || fail "the link is not slow"
fault address h01 1 10.99.0.1
shows '10.99.0.1/24' at h01 ip -4 addr show dev eth1 || fail "the address is not wrong"
fault loss h10 1 100
answers h10 "$(address h20 1)" && fail "a port that loses everything passes something"
fault loss h10 1 12.5
fault arp h12
fault rp_filter h12
[[ $(at h12 cat /proc/sys/net/ipv4/conf/{all,eth0}/{arp_ignore,rp_filter} | tr '\n' ' ') = "0 1 0 1 " ]] || fail "the sysctls are healthy"
fault missing h01 0
[[ $(at h01 sh -c 'ls /sys/class/net' | tr '\n' ' ') = "eth1 lo mgmt0 " ]] || fail "h01 still has eth0"
fault off h02 0
shows '[<,]UP[,>]' at h02 ip link show dev eth0 && fail "eth0 is not off"
fault join s0-0 s0-1
shows 'master l0s0' switches bridge link show dev l0s1p2 || fail "the switches are not joined"
fault mute 1 1
shows LOWER_UP at h01 ip link show dev eth1 || fail "a mute switch has no carrier"
fault deaf h20 0
fault mac h21 0 02:00:00:00:00:07
shows '02:00:00:00:00:07' at h21 ip link show dev eth0 || fail "the MAC is not another one"
fault name h22 1 enp3s0
shows 'inet 10' at h22 ip -4 addr show dev enp3s0 || fail "the NIC has no other name, or lost its address"
bcube 1 fault --name "$bed" name h21 0 eth1
has err 'as it was before'
fault list
[[ $(tr '\n' '|' < "$work/out") = "move h00 0 s0-2|mtu h00 0 1400|switch-mtu h00 1 1300|rate h00 1 10mbit|address h01 1 10.99.0.1/24|loss h10 1 12.5|arp h12|rp_filter h12|missing h01 0|off h02 0|join s0-0 s0-1|mute 1 1|deaf h20 0|mac h21 0 02:00:00:00:00:07|name h22 1 enp3s0|" ]] ||
    fail "the list is not what was injected"
fault clear
as_before() { [[ $(snapshot) = "$healthy" ]]; }
within 30 as_before || fail "something is not as it was: $(diff <(echo "$healthy") <(snapshot))"
bcube 1 fault --name "$bed" nic h00 0 up
has err 'no fault'
bcube 2 fault --name "$bed" nic h00 2 down
has err 'level'
bcube 2 fault --name "$bed" nic h00 0
has err 'nic HOST LEVEL down\|up'
bcube 1 fault --name "$bed" host h99 down
bcube 2 fault --name "$bed" loss h00 0 101
bcube 2 fault --name "$bed" rate h00 0 quick
bcube 2 fault --name "$bed" gremlins
bcube 2 fault --name "$bed" move h00 0 s2-0
has err 's0-0 to s1-2'

# -- SIGKILL of run: its processes end with it
{
    "$braid" bcube run --name "$bed" -- sh -c "sleep 4321.$$ & wait" > "$work/out" 2> "$work/err" &
    launcher=$!
} 2> /dev/null
within 60 sleepers 9 || fail "not 9 sleepers"
kill -KILL "$launcher"
{ wait "$launcher"; } 2> /dev/null
within 30 no_sleepers || fail "processes outlive a launcher that was killed"

# -- down ends what runs inside, and removes all
setsid "$braid" bcube exec --name "$bed" h02 -- sh -c "trap '' TERM; sleep 4321.$$" > /dev/null 2>&1 < /dev/null &
disown # or bash tells of its end
within 60 sleepers 1 || fail "the command does not run"
bcube 0 down "$bed"
has out "testbed $bed is removed, [12] process"
nothing_left "down"

# -- the rate is what was asked
bcube 0 emulate 2 1 --name "$bed" --rate 40mbit
# 2 MiB at 40 Mbit/s take 419 ms, and 4.5 % of a wire are headers; the burst goes ahead for nothing. Processes that stand still for a moment
# take longer, and then it is measured again.
at_rate() {
    bcube 0 run --name "$bed" --backend tcp -- "$braid" sendrecv -b 2M -e 2M -n 2 -w 1 --json "$work/json"
    time=$(grep -oE '"time_us":[[:space:]]*[0-9.]+' "$work/json" | head -n 1 | grep -oE '[0-9]+' | head -n 1)
    [[ ${time:-0} -ge 385000 && ${time:-0} -le 700000 ]]
}
within 60 at_rate || fail "2 MiB over 40 Mbit/s took ${time:-no time} us"
bcube 0 run --name "$bed" --ranks-per-host 2 -- "$braid" allreduce -b 64K -e 64K -n 2 -w 1
[[ ! -s $work/err ]] || fail "hosts of one switch reach each other"
bcube 0 down --name "$bed"
bcube 0 emulate 2 2 --name "$bed" --hosts 3 --rate none --mtu 9000
[[ $(ip netns list | grep -c "^$bed-") -eq 4 ]] || fail "--hosts 3"
shows tbf at h10 tc qdisc show dev eth0 && fail "--rate none shapes"
shows 'mtu 9000' at h10 ip link show dev eth1 || fail "--mtu 9000"
bcube 1 exec --name "$bed" h11 -- true
bcube 0 down "$bed"
nothing_left "a partial cube"

# -- SIGKILL of emulate and of down at any moment
# end_emulate SIGNAL WHEN: after so many thousandths of a second, or when it has "begun": the first that it makes is there.
end_emulate() {
    local pid
    # A background process of a script ignores SIGINT, unless it is told not to.
    env --default-signal=INT "$braid" bcube emulate 4 3 --name "${bed}k" > "$work/out" 2> "$work/err" &
    pid=$!
    if [[ $2 = begun ]]; then
        until [[ -e /run/braid/${bed}k ]] || has_ended $pid; do sleep 0.01; done
    else
        sleep "0.$2"
    fi
    { kill "-$1" $pid && wait $pid; } 2> /dev/null
}

kill_emulate() { # WHEN
    end_emulate KILL "$1"
    [[ -e /run/braid/${bed}k ]] || return
    if ! "$braid" bcube exec --name "${bed}k" h000 -- true 2> "$work/err"; then
        has err 'half made'
        killed=$((killed + 1))
        bcube 1 emulate 4 3 --name "${bed}k"
    fi
    { timeout -s KILL "0.${1/begun/050}" "$braid" bcube down "${bed}k" > "$work/out"; } 2> "$work/err" && return
    [[ -e /run/braid/${bed}k ]] && bcube 0 down "${bed}k"
}

interrupt_emulate() { # WHEN
    end_emulate INT "$1"
    if grep -q interrupted "$work/err"; then
        interrupted=$((interrupted + 1))
        nothing_left "Ctrl-C"
    fi
    [[ -e /run/braid/${bed}k ]] && bcube 0 down "${bed}k"
}

killed=0
for ms in 001 003 010 020 040 070 110 160 230 300; do
    kill_emulate $ms
done
# Who kills may stand still as well, until there is nothing to be killed any more.
for ((try = 0; try < 20 && killed == 0; try++)); do
    kill_emulate begun
done
[[ $killed -gt 0 ]] || fail "no emulate was killed half-way"
nothing_left "SIGKILL"

# -- Ctrl-C in emulate undoes what was made so far
interrupted=0
for ms in 020 050 100 200; do
    interrupt_emulate $ms
done
for ((try = 0; try < 20 && interrupted == 0; try++)); do
    interrupt_emulate begun
done
[[ $interrupted -gt 0 ]] || fail "no emulate was interrupted"
nothing_left "the end"

[[ $failures -eq 0 ]] && echo "braid bcube emulate: all fine"
exit $((failures > 0))
