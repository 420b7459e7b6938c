# SPDX-License-Identifier: BSD-3-Clause
# "transport congestion ranks bytes peer us memcpy_us busy_us" lines of all rounds -> tables on stdout and JSON in `json`.
# Variables: peers (list), busy (1: a table of that, too), json, cpus, rounds, cpu (machine in words), tcp (the system's congestion control).
function busy_table(group, i, p, line)
{
    print "what all cores work for one call, us; waiting in a loop is work"
    for (i = 1; i <= sizes[group]; i++) {
        line = sprintf("%10s", human(at[group, i]))
        for (p = 1; p <= peer_count; p++)
            line = line sprintf(" %12.0f", median(group SUBSEP at[group, i] SUBSEP peer[p], "busy"))
        print line
    }
}
function table(group, where, size, i, p, us, best, mine, line)
{
    split(group, where, SUBSEP)
    printf "\n%s%s, %d ranks, us (median of %d)\n%10s", where[1], where[2] == "none" ? "" : " " \
        (where[2] == "system" ? "system (" tcp ")" : where[2]), where[3], rounds, "size"
    for (p = 1; p <= peer_count; p++)
        printf " %12s", peer[p]
    print " fastest/braid" (where[1] == "shm" ? " alloc/memcpy" : "")
    for (i = 1; i <= sizes[group]; i++) {
        size = at[group, i]
        line = sprintf("%10s", human(size))
        best = mine = 0
        for (p = 1; p <= peer_count; p++) {
            us = median(group SUBSEP size SUBSEP peer[p])
            line = line (us ? sprintf(" %12.2f", us) : sprintf(" %12s", "-"))
            if (us && peer[p] !~ /^braid/ && (!best || us < best))
                best = us
            if (peer[p] == "braid")
                mine = us
        }
        line = line (best && mine ? sprintf(" %12.2fx", best / mine) : sprintf(" %13s", "-"))
        us = median(group SUBSEP size SUBSEP "braid_alloc")
        if (us && floor[group, size] > 0)
            line = line sprintf(" %11.2fx", us / floor[group, size])
        print line
    }
}
function records(group, where, i, p, key)
{
    split(group, where, SUBSEP)
    for (i = 1; i <= sizes[group]; i++)
        for (p = 1; p <= peer_count; p++) {
            key = group SUBSEP at[group, i] SUBSEP peer[p]
            if (!count[key])
                continue
            printf "%s    {\"transport\": \"%s\", \"congestion\": \"%s\", \"ranks\": %d, \"bytes\": %d, \"peer\": \"%s\", " \
                "\"us\": %.3f, \"rounds\": %d", separator, where[1], where[2], where[3], at[group, i], peer[p], \
                median(key), count[key] > json
            printf ", \"busy_us\": %.1f", median(key, "busy") > json
            if (peer[p] == "braid_alloc")
                printf ", \"memcpy_us\": %.3f", floor[group, at[group, i]] > json
            printf "}" > json
            separator = ",\n"
        }
}
{
    group = $1 SUBSEP $2 SUBSEP $3
    if (!(group in sizes))
        groups[++group_count] = group
    if (!((group, $4) in known)) {
        known[group, $4] = 1
        at[group, ++sizes[group]] = $4
    }
    key = group SUBSEP $4 SUBSEP $5
    sample[key, ++count[key]] = $6
    worked[key, count[key]] = $8
    if ($7 > 0 && (!floor[group, $4] || $7 < floor[group, $4]))
        floor[group, $4] = $7
}
END {
    peer_count = split(peers, peer, " ")
    printf "{\n  \"machine\": \"%s\",\n  \"cpus\": %d,\n  \"system_congestion\": \"%s\",\n  \"results\": [\n", cpu, cpus, \
        tcp > json
    for (g = 1; g <= group_count; g++) {
        table(groups[g])
        if (busy)
            busy_table(groups[g])
        records(groups[g])
    }
    print "\n  ]\n}" > json
}
