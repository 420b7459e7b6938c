# SPDX-License-Identifier: BSD-3-Clause
# Which turns of `transport` and `ranks` are lacking for every peer to have `rounds` of them in each phase that any peer has had, for what it measures: behind phases.awk,
# which gets the file of turns, then this gets it. Prints "what peer" lines, those of one thing, in the phase of the distance `now`; "later": only in other phases;
# nothing: none. A peer without any turn within one phase lacks one in every phase.
$1 == transport && $2 == ranks {
    if (!($3 in peers_of))
        things[++thing_count] = $3
    if (!(($3, $4) in known)) {
        known[$3, $4] = 1
        peers_of[$3] = peers_of[$3] " " $4
    }
    if (f = phase_of_turn()) {
        turns[$3, $4, f]++
        any[$3, f] = any[$3, $4] = 1
    }
}
function lacks(thing, peer, f)
{
    return (any[thing, f] || !any[thing, peer]) && turns[thing, peer, f] < rounds
}
END {
    for (t = 1; t <= thing_count; t++) {
        n = split(peers_of[things[t]], peer, " ")
        for (f = 1; f <= phases; f++)
            for (p = 1; p <= n; p++)
                if (lacks(things[t], peer[p], f)) {
                    later = 1
                    if (f == phase_of(now))
                        list = list things[t] " " peer[p] "\n"
                }
        if (list)
            break
    }
    printf "%s", list ? list : later ? "later\n" : ""
}
