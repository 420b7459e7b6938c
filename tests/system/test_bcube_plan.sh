#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# braid bcube plan: lists, files, an inventory that is written, edited, checked and planned from again; misuse.
set -uo pipefail
braid=$BRAID_BUILD/braid
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

fail() {
    echo "FAILED: $*" >&2
    head -n 30 out err | sed 's/^/    /' >&2
    failures=$((failures + 1))
}

# plan CODE [argument...]
plan() {
    local code=$1 rc=0
    shift
    timeout -s KILL 60 "$braid" bcube plan "$@" > out 2> err < /dev/null || rc=$?
    [[ $rc -eq $code ]] || fail "braid bcube plan $*: code $rc, expected $code"
}

has() { # FILE TEXT
    grep -qF -- "$2" "$1" || fail "$1 does not say \"$2\""
}

count() { # FILE TEXT NUMBER
    [[ $(grep -cF -- "$2" "$1") -eq $3 ]] || fail "$1 says \"$2\" $(grep -cF -- "$2" "$1") times, not $3"
}

# -- everything of one cube
plan 0 3 2 --rate 40gbit --mtu 9000 --nics ens1,ens2 --inventory-out i.yaml --svg i.svg --checklist i.txt \
    --switch-config sonic
has out 'BCube(3,2): 9 hosts of 2 NICs, 6 switches of 3 ports, 18 cables'
has out 'h12        5  [1,2]   ens2      1  s1-2    1     10.1.2.2/24         10.255.0.6'
has out 'sudo config vlan member add -u 105 Ethernet4'
has err 'wrote i.yaml'
count i.txt '[ ] port' 18
count i.yaml 'management:' 9
has i.yaml 'rate: 40gbit'
has i.svg '<svg xmlns="http://www.w3.org/2000/svg"'
count i.svg '<circle' 18
has i.svg '9 hosts of 2 NICs, 6 switches of 3 ports, 18 cables'
has i.svg 'level 1  ens2'
if command -v rsvg-convert > /dev/null; then
    rsvg-convert i.svg > i.png || fail "i.svg is no SVG"
fi

# -- from an edited inventory; what was written contradicts itself in nothing
plan 0 --check i.yaml
has out 'nothing contradicts itself'
sed -i 's/name: h12 /name: rack7-node3 /' i.yaml
printf 'switches:\n  - {level: 1, index: 2, name: leaf9, ports: [e4, e5, e6]}\n' >> i.yaml
plan 0 --inventory i.yaml --svg j.svg --inventory-out j.yaml
has out 'rack7-node3       5  [1,2]   ens2      1  leaf9   e5    10.1.2.2/24'
has j.svg 'rack7-node3 ens2, 10.1.2.2/24'
plan 0 --inventory j.yaml
mv out first
plan 0 --inventory i.yaml
cmp -s out first || fail "an inventory that was read and written plans something else"
plan 0 --inventory i.yaml --no-list --switch-config cisco
has out 'hostname leaf9'
has out 'interface e5'
count out 'number' 0

# -- contradictions, each with its line
sed 's#10.0.1.2/24#10.0.1.1/24#' i.yaml > bad.yaml
line=$(grep -n '10.0.1.1/24' bad.yaml | tail -n 1 | cut -d: -f1)
plan 1 --check bad.yaml
grep -q "bad.yaml:$line: h11 ens1 .*10\.0\.1\.1 .*h10 ens1" out || fail "not the address of two NICs"
has out 'bad.yaml: 1 contradiction'
plan 1 --inventory bad.yaml --svg bad.svg
has err "bad.yaml:$line:"
has err 'no plan is made of it'
[[ ! -e bad.svg && ! -s out ]] || fail "a plan is made of contradictions"
sed 's#10.0.2.3/24#10.9.2.3/24#' i.yaml > bad.yaml
plan 1 --check bad.yaml
has out "bad.yaml:$(grep -n 10.9.2.3 bad.yaml | cut -d: -f1): h22 ens1: 10.9.2.3/24 is not in 10.0.2.0/24"
has out 'write 10.0.2.3/24'
sed '/10.1.1.3/d' i.yaml > bad.yaml
plan 1 --check bad.yaml
has out 'h21 has no NIC for level 1'
sed -E 's#(10.0.0.[12]/24)#\1, mac: "02:00:00:00:00:01"#' i.yaml > bad.yaml
plan 1 --check bad.yaml
has out 'h01 ens1 has the same MAC as h00 ens1 (line'
sed -n '/name: h22/q;p' i.yaml > bad.yaml
plan 1 --check bad.yaml
has out '8 hosts are listed, the shape has 9'
(sed '/^switches/,$d' i.yaml && printf '  - {name: more}\n') > bad.yaml
plan 1 --check bad.yaml
has err "bad.yaml:$(wc -l < bad.yaml): hosts: 10 are listed, BCube(3,2) has at most 9"
printf 'shape: {n: 3, k: 2}\nspeed: 5\n' > bad.yaml
plan 1 --check bad.yaml
has err 'bad.yaml:2: an inventory has no key'
plan 1 --check no-such-file
has err '--inventory-out'

# -- partial and large cubes
plan 0 4 2 --hosts 6
has out 'BCube(4,2), partial: 6 hosts of 2 NICs, 6 switches of 4 ports, 12 cables'
plan 0 16 4
[[ $(wc -l < out) -eq $((65536 * 4 + 11)) ]] || fail "BCube(16,4): $(wc -l < out) lines"
[[ $(awk 'NR > 11 { print $8 }' out | sort -u | wc -l) -eq $((65536 * 4)) ]] || fail "BCube(16,4): addresses collide"
plan 0 3 2 --prefix 192.168.0.0/16
has out '192.168.0.1/24'

# -- misuse: what is wrong and what to write
plan 2
has err 'which shape?'
plan 2 3
plan 2 3 2 1
plan 2 1 2
has err 'at least 2'
plan 2 3 x
has err 'N,K'
plan 2 300 2
has err '65536'
plan 2 3 2 --hosts 10
has err 'from 1 to 9'
plan 2 3 2 --hosts 0
plan 2 3 2 --no-such-option
has err '--help'
plan 2 3 2 --prefix 10.0.0.0
has err '10.0.0.0/8'
plan 2 16 4 --prefix 192.168.0.0/16
has err 'larger network'
plan 2 3 2 --nics one
has err '2 names'
plan 2 3 2 --rate fast
has err '500mbit'
plan 2 3 2 --switch-config hub
has err 'cisco, sonic and linux'
plan 2 3 2 --inventory i.yaml
has err 'change them there'
plan 2 --check i.yaml --svg x.svg
has err 'only looks'
plan 1 3 2 --inventory-out i.yaml
has err '--force'
plan 0 3 2 --inventory-out i.yaml --force
plan 1 3 2 --svg /no/such/folder/x.svg
has err 'No such file'
plan 1 3 2 --checklist /dev/full
has err 'cannot write /dev/full'
plan 1 16 4 --no-list --svg x.svg
has err '4096'
rc=0
"$braid" bcube plan 3 2 > /dev/full 2> err || rc=$?
[[ $rc -eq 1 ]] || fail "a full device: code $rc"
plan 0 --help
has out 'Usage: braid bcube plan'
timeout 60 "$braid" bcube help > out 2> err
has out 'plan'

[[ $failures -eq 0 ]] && echo "braid bcube plan: all fine"
exit $((failures > 0))
