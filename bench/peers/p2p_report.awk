# SPDX-License-Identifier: BSD-3-Clause
# "transport kind bytes peer us rate before_ns after_ns" lines of all rounds -> tables on stdout and JSON in `json`; with median.awk and behind phases.awk.
# Variables: peers (list), json, cpus, cpu (machine in words), tcp (congestion control).
# best: of the peers' values and this one, the smaller time or the larger rate
function better(of, value, best)
{
    return value && (!best || (of == "us" ? value < best : value > best)) ? value : best
}
function row(group, bytes, f, of, p, value, best, mine, line)
{
    line = sprintf("%10s %8.0f", human(bytes), phase_ns[f])
    for (p = 1; p <= peer_count; p++) {
        value = median(group SUBSEP bytes SUBSEP f SUBSEP peer[p] SUBSEP of)
        line = line (value ? sprintf(" %12.3f", of == "us" ? value : value / 1e6) : sprintf(" %12s", "-"))
        if (peer[p] !~ /^braid/ || peer[p] == "braid_before")
            best = better(of, value, best)
        if (peer[p] == "braid")
            mine = value
    }
    print line (best && mine ? sprintf(" %18.2fx", of == "us" ? best / mine : mine / best) : "")
}
function table(group, of, where, i, f, p)
{
    split(group, where, SUBSEP)
    printf "\n%s, %s, %s (medians)\n%10s %8s", where[1], where[2], of == "us" ? "us" : "millions/s, 64 in flight", "size", "line, ns"
    for (p = 1; p <= peer_count; p++)
        printf " %12s", peer[p]
    print " braid's of the best"
    for (i = 1; i <= sizes[group]; i++)
        for (f = 1; f <= phases; f++)
            if ((group, at[group, i], f) in known)
                row(group, at[group, i], f, of)
}
function records(group, where, i, f, p, key)
{
    split(group, where, SUBSEP)
    for (i = 1; i <= sizes[group]; i++)
        for (f = 1; f <= phases; f++)
            for (p = 1; p <= peer_count; p++) {
                key = group SUBSEP at[group, i] SUBSEP f SUBSEP peer[p]
                if (count[key SUBSEP "us"])
                    printf "%s    {\"transport\": \"%s\", \"kind\": \"%s\", \"bytes\": %d, \"line_ns\": %.0f, \"peer\": \"%s\", \"us\": %.3f, " \
                        "\"per_second\": %.0f, \"rounds\": %d}", written++ ? ",\n" : "", where[1], where[2], at[group, i], phase_ns[f], peer[p], \
                        median(key SUBSEP "us"), median(key SUBSEP "rate"), count[key SUBSEP "us"] > json
            }
}
!(f = phase_of_turn()) { next }
{
    group = $1 SUBSEP $2
    if (!(group in sizes))
        groups[++group_count] = group
    if (!((group, $3) in known)) {
        known[group, $3] = 1
        at[group, ++sizes[group]] = $3
    }
    known[group, $3, f] = 1
    key = group SUBSEP $3 SUBSEP f SUBSEP $4
    sample[key SUBSEP "us", ++count[key SUBSEP "us"]] = $5
    sample[key SUBSEP "rate", ++count[key SUBSEP "rate"]] = $6
}
END {
    peer_count = split(peers, peer, " ")
    printf "{\n  \"machine\": \"%s\",\n  \"cpus\": %d,\n  \"congestion\": \"%s\",\n  \"results\": [\n", cpu, cpus, tcp > json
    for (g = 1; g <= group_count; g++) {
        table(groups[g], "us")
        table(groups[g], "rate")
        records(groups[g])
    }
    print "\n  ]\n}" > json
}
