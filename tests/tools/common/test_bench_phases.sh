#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Benchmarks whose peers take turns compare times of one phase of the machine only (bench/peers/phases.awk), know which turns are lacking (lacking.awk), and repeat those (turns.sh).
set -uo pipefail
peers=$BRAID_SOURCE/bench/peers
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# expect NAME PATTERN SAID
expect() {
    # shellcheck disable=SC2053 # a pattern
    [[ $3 == $2 ]] && return
    echo "$1: no '$2' in '$3'"
    failed=1
}
# lacking NOW: what is lacking of $work/turns, in the phase of the distance NOW, with two rounds.
lacking() {
    awk -v transport=shm -v ranks=2 -v rounds=2 -v now="$1" -f "$peers/phases.awk" -f "$peers/lacking.awk" "$work/turns" "$work/turns"
}
# report SCRIPT: of $work/turns and $work/results, with its JSON on one line behind.
report() {
    awk -v peers="mpich braid impi" -v json="$work/json" -v svg= -v cpus=2 -v machine=here -v cpu=here -v tcp=cubic \
        -f "$peers/median.awk" -f "$peers/phases.awk" -f "$peers/$1" "$work/turns" "$work/results" && tr '\n' ' ' < "$work/json"
}

# Near, far, and a turn from one to the other. Open MPI has had no turn within a phase; MPICH none far.
cat > "$work/turns" << 'end'
shm 2 gather mpich 50 52
shm 2 gather braid 52 60
shm 2 gather mpich 61 50
shm 2 gather openmpi 50 280
shm 2 gather braid 280 290
shm 2 gather braid 300 310
shm 2 reduce braid 300 310
shm 2 reduce braid 310 310
shm 4 reduce mpich 50 50
end
expect near $'gather braid\ngather openmpi' "$(lacking 55)"
expect far $'gather mpich\ngather openmpi' "$(lacking 295)"
# Nothing is lacking of what is complete in the phases that it has had.
grep -v "openmpi\|mpich" "$work/turns" > "$work/fewer"
mv "$work/fewer" "$work/turns"
expect later later "$(lacking 295)"
echo "shm 2 gather braid 50 50" >> "$work/turns"
expect complete "" "$(lacking 295)"
# A machine with one phase.
printf 'shm 2 gather %s 100 %s\n' mpich 100 braid 140 mpich 99 > "$work/turns"
expect "one phase" "gather braid" "$(lacking 140)"

# Times of the near phase, of the far one, and of a turn that was in neither, which must not count. Phases alike have one figure in the table of ratios.
printf 'shm 2 gather %s\n' "mpich 50 52" "braid 52 50" "impi 50 50" "mpich 50 290" "mpich 290 300" "braid 300 310" > "$work/turns"
for bytes in 8 64; do
    printf "shm 2 gather barrier $bytes %s\n" "mpich 4 9 50 52" "braid 2 9 52 50" "impi 3 9 50 50" "mpich 0.1 9 50 290" \
        "mpich $((bytes == 8 ? 3 : 7)) 9 290 300" "braid 5 9 300 310"
done > "$work/results"
said=$(report collectives.awk)
expect "times near" "*gather*8 B *51 *4.00 *2.00 *3.00 *1.50x*" "$said"
expect "times far" "*gather*8 B *298 *3.00 *5.00 *- *0.60x*" "$said"
expect "ratios" "*| gather | 1.50/0.60 I/M4 | 1.45 I/M4 |*2 of 12*left out*" "$said"
expect "records" '*"bytes": 8, "line_ns": 51, "peer": "mpich", "us": 4.000,*"bytes": 8, "line_ns": 298, "peer": "mpich", "us": 3.000,*' "$said"
# Two turns of all peers near outvote single ones far, which are still shown.
cp "$work/results" "$work/once"
grep " 5[02]$" "$work/once" >> "$work/results"
said=$(report collectives.awk)
expect "a thin phase" "*8 B *298 *0.60x*| gather | 1.50 I | 1.50 I |*" "$said"
cp "$work/once" "$work/results"
sed -i 's/ gather barrier/ message/; s/ 2 message/ message/' "$work/results"
said=$(report p2p_report.awk)
expect "messages" "*8 B *51 *4.000 *2.000 *3.000 *1.50x*8 B *298 *3.000 *5.000 *- *0.60x*" "$said"

# Turns: two rounds, the first two turns of which are in no phase, then those that are lacking. The variables of the scripts that take them are their own.
cat > "$work/script.sh" << 'end'
here=$BRAID_SOURCE/bench work=$1 rounds=2 present="mpich braid" before=other
. "$here/peers/turns.sh"
distance=50 looks=0
look() { distance=$((++looks == 1 ? 300 : 50 + looks)); }
can_run() { [[ $1 != none ]]; }
measure() { echo "$* times"; }
take_turns shm 2 gather 2> "$work/words"
echo "$before" $(cut -d " " -f 4- "$turns" | tr '\n' ,) $(wc -l < "$results")
end
expect turns "other mpich 50 300,braid 300 52,mpich 52 53,braid 53 54,mpich 54 55,braid 55 56, 6" "$(bash "$work/script.sh" "$work")"
exit $failed
