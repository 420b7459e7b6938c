# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154
# Sourced behind drivers.sh by benchmarks whose peers take turns: in each round (`rounds`) all peers that are `present` measure one thing, then the next. A virtual
# machine has phases, in which its cores are near each other or far, of some ten seconds; distance.c says before and after each turn which one it is. The script has
# measure TRANSPORT RANKS THING PEER, which prints the lines of a turn. With both distances at their ends they become lines of $results, for phases.awk.
results=$work/results turns=$work/turns
: > "$results"
: > "$turns"
cc -O2 -pthread -o "$work/distance" "$here/peers/distance.c" || exit 1
distance=0 full_speed=1000000000

# Leaves the distance of the cores in $distance, and the highest speed so far in $full_speed, both in ns.
look() {
    local speed
    read -r distance speed < <("$work/distance") || { echo "the distance of the cores cannot be measured" >&2; exit 1; }
    ((speed >= full_speed)) || full_speed=$speed
}
look

take_turn() { # TRANSPORT RANKS THING PEER
    local earlier=$distance
    measure "$@" > "$work/lines"
    look
    [[ -s $work/lines ]] || return
    sed "s/\$/ $earlier $distance/" "$work/lines" >> "$results"
    echo "$* $earlier $distance" >> "$turns"
}

# take_turns TRANSPORT RANKS THING...: all rounds. Then turns are repeated until each peer has had as many in each phase as there are rounds, for at most half of the time again.
take_turns() {
    local transport=$1 n=$2 round thing peer start=$SECONDS end lacking
    shift 2
    for ((round = 1; round <= rounds; round++)); do
        for thing in "$@"; do
            echo "  $transport, $n ranks, round $round of $rounds: $thing" >&2
            for peer in $present; do
                ! can_run "$peer" "$n" "$transport" || take_turn "$transport" "$n" "$thing" "$peer"
            done
        done
    done
    end=$((SECONDS + 1 + (SECONDS - start) / 2))
    while ((SECONDS < end)); do
        mapfile -t lacking < <(awk -v transport="$transport" -v ranks="$n" -v rounds="$rounds" -v now="$distance" -f "$here/peers/phases.awk" \
            -f "$here/peers/lacking.awk" "$turns" "$turns")
        ((${#lacking[@]})) || break
        if [[ ${lacking[0]} == later ]]; then
            sleep 0.1
            look
            continue
        fi
        echo "  $transport, $n ranks, again in this phase ($distance ns): ${lacking[*]}" >&2
        for thing in "${lacking[@]}"; do take_turn "$transport" "$n" "${thing% *}" "${thing#* }"; done
    done
}
