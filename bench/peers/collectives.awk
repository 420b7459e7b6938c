# SPDX-License-Identifier: BSD-3-Clause
# "transport ranks collective pace bytes peer us busy_us before_ns after_ns" lines of all rounds -> tables on stdout, JSON in `json` and a heat map in `svg` ("": none);
# with median.awk and behind phases.awk. Variables: peers (list), json, svg, cpus, machine (in words).
BEGIN {
    title["barrier"] = "a barrier before each call"
    title["stream"] = "one call behind the other"
    title["each"] = "call after call, each timed"
    letters["openmpi"] = "O4"
    letters["openmpi5"] = "O5"
    letters["mpich"] = "M4"
    letters["mpich5"] = "M5"
    letters["impi"] = "I"
}
# The fastest peer's time of a cell in phase f over braid's; 0: one of them is missing. In a comparison of two builds the peer is the build of before. Leaves
# the peer in `fastest`.
function ratio(cell, f, p, us, best, mine)
{
    fastest = ""
    for (p = 1; p <= peer_count; p++) {
        us = median(cell SUBSEP f SUBSEP peer[p])
        if (us && (peer[p] !~ /^braid/ || peer[p] == "braid_before") && (!best || us < best)) {
            best = us
            fastest = peer[p]
        }
        if (peer[p] == "braid")
            mine = us
    }
    return best && mine ? best / mine : 0
}
# The fewest turns that a peer which measured the cell has had in phase f.
function turns_of_all(cell, f, p, n, least)
{
    least = -1
    for (p = 1; p <= peer_count; p++)
        if ((cell, peer[p]) in measured_by) {
            n = count[cell SUBSEP f SUBSEP peer[p]]
            least = least < 0 || n < least ? n : least
        }
    return least
}
# What counts of the phases of a cell: the geometric mean of their ratios, or where they differ by more than 1.2 the least; 0: there is none. A phase in which some
# peer has had no turn or a single one counts only where no phase has more. Leaves in `words` what a table shows: that mean, or all ratios, and beside several
# peers who is the fastest.
function verdict(cell, f, r, n, logs, least, most, all, letter, who, same, enough)
{
    for (f = 1; f <= phases; f++)
        if (turns_of_all(cell, f) > 1)
            enough = 1
    same = 1
    for (f = 1; f <= phases; f++) {
        if (!(r = ratio(cell, f)) || (enough && turns_of_all(cell, f) < 2))
            continue
        letter = peer_count > 2 ? letters[fastest] : ""
        if (n++ && letter != who)
            same = 0
        who = who (n > 1 && !same ? "/" : "") (n > 1 && same ? "" : letter)
        all = all (n > 1 ? "/" : "") sprintf("%.2f", r)
        logs += log(r)
        least = n == 1 || r < least ? r : least
        most = r > most ? r : most
    }
    if (!n)
        return 0
    r = most <= 1.2 * least ? exp(logs / n) : least
    words = (most <= 1.2 * least ? sprintf("%.2f", r) : all) (who ? " " who : "")
    return r
}
function row(group, collective, bytes, f, p, cell, us, line)
{
    cell = group SUBSEP collective SUBSEP bytes
    line = sprintf("%-16s%8s %8.0f", collective, bytes ? human(bytes) : "", phase_ns[f])
    for (p = 1; p <= peer_count; p++) {
        us = median(cell SUBSEP f SUBSEP peer[p])
        line = line (us ? sprintf(" %12.2f", us) : sprintf(" %12s", "-"))
    }
    print line (ratio(cell, f) ? sprintf(" %12.2fx", ratio(cell, f)) : "")
}
function times(group, c, s, f, p)
{
    printf "\n%s, us (medians)\n%-16s%8s %8s", name[group], "", "size", "line, ns"
    for (p = 1; p <= peer_count; p++)
        printf " %12s", peer[p]
    print " fastest/braid"
    for (c = 1; c <= collective_count; c++)
        for (s = 1; s <= size_count; s++)
            for (f = 1; f <= phases; f++)
                if ((group, collective[c], size[s], f) in cells)
                    row(group, collective[c], size[s], f)
}
# The sizes that any collective of a group has been measured with: a barrier has none, the others all.
function measured(group, s, c)
{
    for (c = 1; c <= collective_count; c++)
        if ((group, collective[c], size[s]) in cells)
            return 1
    return 0
}
# The ratios alone, a table of Markdown.
function grid(group, c, s, r, line, any)
{
    printf "\n| %s |", name[group]
    for (s = 1; s <= size_count; s++)
        if (measured(group, s))
            printf " %s |", size[s] ? human(size[s]) : "none"
    printf "\n|---|"
    for (s = 1; s <= size_count; s++)
        if (measured(group, s))
            printf "---|"
    print ""
    for (c = 1; c <= collective_count; c++) {
        line = "| " collective[c] " |"
        any = 0
        for (s = 1; s <= size_count; s++)
            if (measured(group, s)) {
                r = verdict(group SUBSEP collective[c] SUBSEP size[s])
                any = any || r
                line = line (r ? " " words " |" : " |")
            }
        if (any)
            print line
    }
}
function record(where, collective, bytes, f, peer, key)
{
    key = where[1] SUBSEP where[2] SUBSEP where[3] SUBSEP collective SUBSEP bytes SUBSEP f SUBSEP peer
    if (count[key])
        printf "%s    {\"transport\": \"%s\", \"ranks\": %d, \"collective\": \"%s\", \"pace\": \"%s\", \"bytes\": %d, \"line_ns\": %.0f, " \
            "\"peer\": \"%s\", \"us\": %.3f, \"busy_us\": %.1f, \"rounds\": %d}", written++ ? ",\n" : "", where[1], where[2], collective, \
            where[3], bytes, phase_ns[f], peer, median(key), median(key, "busy"), count[key] > json
}
function records(group, where, c, s, f, p)
{
    split(group, where, SUBSEP)
    for (c = 1; c <= collective_count; c++)
        for (s = 1; s <= size_count; s++)
            for (f = 1; f <= phases; f++)
                for (p = 1; p <= peer_count; p++)
                    record(where, collective[c], size[s], f, peer[p])
}
# Red below 1, white at 1, green above, full at factors of 4 and 2.
function colour(r, t)
{
    if (r < 1) {
        t = log(1 / r) / log(4)
        t = t > 1 ? 1 : t
        return sprintf("rgb(%d,%d,%d)", 255 - 35 * t, 255 - 195 * t, 255 - 205 * t)
    }
    t = log(r) / log(2)
    t = t > 1 ? 1 : t
    return sprintf("rgb(%d,%d,%d)", 255 - 165 * t, 255 - 70 * t, 255 - 155 * t)
}
function heat_map(wide, high, x, y, g, c, s, r)
{
    wide = 130 + 58 * size_count
    high = 46 + 22 * collective_count
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"12\">\n", wide, \
        high * group_count + 26 > svg
    print "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>" > svg
    print "<text x=\"8\" y=\"18\">time of the fastest peer / time of braid; green: braid is faster</text>" > svg
    for (g = 1; g <= group_count; g++) {
        y = 26 + (g - 1) * high
        printf "<text x=\"8\" y=\"%d\" font-weight=\"bold\">%s</text>\n", y + 16, name[groups[g]] > svg
        for (s = 1; s <= size_count; s++)
            printf "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", 130 + 58 * s - 30, y + 34, \
                size[s] ? human(size[s]) : "none" > svg
        for (c = 1; c <= collective_count; c++) {
            printf "<text x=\"8\" y=\"%d\">%s</text>\n", y + 34 + 22 * c - 6, collective[c] > svg
            for (s = 1; s <= size_count; s++) {
                r = verdict(groups[g] SUBSEP collective[c] SUBSEP size[s])
                if (!r)
                    continue
                x = 130 + 58 * (s - 1)
                printf "<rect x=\"%d\" y=\"%d\" width=\"56\" height=\"20\" fill=\"%s\"/>", x, y + 34 + 22 * (c - 1) + 2, colour(r) > svg
                printf "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%.2f</text>\n", x + 28, y + 34 + 22 * c - 6, r > svg
            }
        }
    }
    print "</svg>" > svg
}
!(f = phase_of_turn()) {
    left_out++
    next
}
{
    group = $1 SUBSEP $2 SUBSEP $4
    if (!(group in name)) {
        groups[++group_count] = group
        name[group] = $1 ", " $2 " ranks, " title[$4]
    }
    if (!($3 in seen))
        seen[$3] = collective[++collective_count] = $3
    if (!($5 in known))
        known[$5] = size[++size_count] = $5
    cells[group, $3, $5] = cells[group, $3, $5, f] = measured_by[group, $3, $5, $6] = 1
    key = group SUBSEP $3 SUBSEP $5 SUBSEP f SUBSEP $6
    sample[key, ++count[key]] = $7
    worked[key, count[key]] = $8
}
END {
    peer_count = split(peers, peer, " ")
    printf "{\n  \"machine\": \"%s\",\n  \"cpus\": %d,\n  \"results\": [\n", machine, cpus > json
    for (g = 1; g <= group_count; g++) {
        times(groups[g])
        records(groups[g])
    }
    for (g = 1; g <= group_count; g++)
        grid(groups[g])
    if (left_out)
        printf "\n%d of %d times are left out: the distance of the cores changed within the turn\n", left_out, FNR
    print "\n  ]\n}" > json
    if (svg)
        heat_map()
}
