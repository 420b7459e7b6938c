# SPDX-License-Identifier: BSD-3-Clause
# Cores of a virtual machine are near each other for some time and then far. Reads the file of turns (turns.sh), whose lines end with what distance.c measured before
# and after the turn, and leaves in `phases` how many phases these distances show, and in phase_ns[] the mean distance of each, the nearest first. A phase ends where the
# distances, sorted, jump by more than half: below that, few calls would differ by more than the machine's other noise. To be given as the first file; other reports follow.
function learn(ns, i)
{
    for (i = ++distances; i > 1 && distance[i - 1] > ns; i--)
        distance[i] = distance[i - 1]
    distance[i] = ns
}
function find_phases(i, n, sum)
{
    for (i = 1; i <= distances; i++) {
        sum += distance[i]
        n++
        if (i == distances || distance[i + 1] > 1.5 * distance[i]) {
            phase_ns[++phases] = sum / n
            phase_end[phases] = i == distances ? distance[i] : sqrt(distance[i] * distance[i + 1])
            sum = n = 0
        }
    }
}
function phase_of(ns, f)
{
    for (f = 1; f < phases && ns > phase_end[f]; f++)
        ;
    return f
}
# The phase of a turn, from the last two fields of its lines; 0: it has changed within.
function phase_of_turn()
{
    return phase_of($(NF - 1)) == phase_of($NF) ? phase_of($NF) : 0
}
FNR == NR {
    learn($(NF - 1))
    learn($NF)
    next
}
FNR == 1 { find_phases() }
