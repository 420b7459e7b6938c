#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Memory of whole jobs on real NICs, by rank 0's report: in the steady state nothing is registered, what is pinned is bounded, what does not
# fit is copied, and the limit of locked memory is named.
# shellcheck source=tests/guest/rdma.sh
. "$(dirname "$0")/rdma.sh"

braid=$BRAID_BUILD/braid
report=$(mktemp)

# job [OPTIONS...]: an all-reduce of two ranks over both rails, in ordinary memory.
job() {
    # shellcheck disable=SC2016 # for the ranks' shells
    BRAID_REPORT=$report "$braid" run -n 2 -- bash -c \
        'BRAID_DEVICES=h${RANK}r0,h${RANK}r1 exec "$0" allreduce --backend verbs -w 1 -b 512K -e 512K --memory malloc "$@"' \
        "$braid" "$@" > /dev/null || fail "the job failed"
}

# reported WORDS: the number in front of these words in the report's line on memory.
reported() {
    local number
    number=$(sed -n "s/^# memory:.*[ :]\([0-9]*\) $1.*/\1/p" "$report")
    [[ -n $number ]] || fail "no '$1' in the report: $(cat "$report")"
    echo "$number"
}

job -n 2
few=$(reported registrations)
job -n 20
many=$(reported registrations)
# Either may have enlarged a receive queue, which held more at some moment. A registration in each of the 18 further calls would be 18 more.
((many < few + 18)) || fail "$few registrations in a short job, $many in a long one"
(($(reported 'KiB copied') == 0)) || fail "something was copied: $(cat "$report")"
(($(reported hits) > 40)) || fail "the cache was not used: $(cat "$report")"
echo "$many registrations, $(reported 'KiB pinned now') KiB pinned, nothing copied"

# A buffer with both devices is 1 MiB: there is room for one of the two, then for none.
BRAID_CACHE_BYTES=1100K job -n 3
(($(reported 'KiB of at most') <= 1100)) || fail "more is pinned than the bound: $(cat "$report")"
(($(reported 'uses without a region') + $(reported evicted) > 0)) || fail "both fitted: $(cat "$report")"
BRAID_CACHE_BYTES=100K job -n 3
(($(reported 'KiB of at most') == 0)) || fail "more is pinned than the bound: $(cat "$report")"
(($(reported 'KiB copied') > 0)) || fail "no copies: $(cat "$report")"
echo "bounded: $(reported 'KiB copied') KiB copied"

# Without privileges, and little that may be locked.
chmod 666 /dev/infiniband/*
# shellcheck disable=SC2016
words=$("$braid" run -n 2 -- bash -c 'ulimit -l 64
    BRAID_DEVICES=h${RANK}r0 exec setpriv --reuid 65534 --regid 65534 --clear-groups "$0" allreduce --backend verbs' "$braid" 2>&1) &&
    fail "a job within 64 KiB: $words"
[[ $words == *"locked memory"*"64 KiB"*"ulimit -l unlimited"* ]] || fail "no hint: $words"
rm -f "$report"
