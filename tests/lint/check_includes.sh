#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_includes.sh [ROOT]: the direction of dependencies. Prints each include that breaks it, as FILE:LINE: words,
# and exits 1 if there was one.
#  - A file of a folder includes, of our own headers, those of its folder and of the folders before it in `order`.
#  - Our own includes are quoted and start at the root, so "x.h" without a folder is wrong.
#  - Of a back end (transport/NAME/), folders above transport/ include only the headers in `offered`.
#  - In C, no folder above transport/ has a back end's name in a string of its own: traits and capabilities say what it has to know
#    ("shm" is an algorithm's name, too, and "sim" a command's).
#  - What a user includes (include/braid) and examples/ know nothing but <braid/...>.
set -euo pipefail
root=${1:-.}
cd "$root"
# What folders above transport/ may know of single back ends: descriptors that cross a link, the RDMA devices of a host,
# the simulated network.
offered="transport/shm/shm.h transport/verbs/probe.h transport/verbs/capabilities.h transport/sim/sim.h"
order="base bcube gpu transport protocol collectives training bindings tools"

list() {
    local folder
    for folder in $order include examples; do
        [[ -d $folder ]] && find "$folder" -name '*.[ch]'
    done
    return 0
}

# shellcheck disable=SC2016 # the $ are awk's
list | sort | xargs -r awk -v order="$order" -v offered="$offered" '
BEGIN {
    n = split(order, names, " ")
    for (i = 1; i <= n; i++)
        rank[names[i]] = i
    rank["include"] = rank["examples"] = 0
    n = split(offered, names, " ")
    for (i = 1; i <= n; i++)
        known[names[i]] = 1
}
function bad(words) {
    printf "%s:%d: %s: %s\n", FILENAME, FNR, words, $0
    failed = 1
}
/^[ \t]*#[ \t]*include[ \t]*["<]/ {
    split(FILENAME, file, "/")
    target = $0
    sub(/^[^"<]*["<]/, "", target)
    sub(/[">].*/, "", target)
    quoted = $0 ~ /include[ \t]*"/
    folder = target
    if (!sub(/\/.*/, "", folder))
        folder = ""
    if (folder == "braid") {
        next
    } else if (quoted && !(folder in rank)) {
        bad("an include of ours starts with a folder of the root")
    } else if (folder in rank && target ~ /\.\./) {
        bad("an include of ours has no ..")
    } else if (folder in rank && !quoted) {
        bad("an include of ours is quoted")
    } else if (folder in rank && rank[folder] > rank[file[1]]) {
        bad(rank[file[1]] ? file[1] "/ may not know " folder "/" : file[1] "/ may know only <braid/...>")
    } else if (target ~ /^transport\/.*\// && file[1] != "transport" && !(target in known)) {
        bad("above transport/ nobody knows this header of a back end")
    }
}
{
    split(FILENAME, file, "/")
    code = $0
    sub(/\/\*.*/, "", code)
    if (rank[file[1]] > rank["transport"] && code ~ /"(tcp|udp|dpdk|verbs)"/)
        bad("above transport/ nobody knows the name of a back end")
}
END { exit failed }' || exit 1
