#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_clockless.sh [ROOT]: what runs in the simulator reads no clock, sleeps never, starts no thread and opens no
# socket. Prints each call that breaks it, as FILE:LINE: words, and exits 1 if there was one.
# The files that may are listed here, and only here: they do not run in the simulator.
set -euo pipefail
exempt='^protocol/bootstrap/|^collectives/(comm/(progress|progress_lock|progress_shm|progress_thread|bootstrap|comm|init|wait_many)|gpu/(gpu|stream_block)|shm/(coll|direct|past|rate))\.c$|^training/parameters/service\.c$'
calls='br_clock_now|clock_gettime|clock_nanosleep|gettimeofday|time|nanosleep|usleep|sleep|sched_yield'
calls+='|pthread_create|br_thread_start|thrd_create|fork|socket|socketpair|getaddrinfo|poll|epoll_wait|select'
cd "${1:-.}"

found=0
while read -r file; do
    # Comments go first; line numbers stay.
    if ! sed -E 's:/\*.*\*/::; s:^[ ]*/?\*.*::; s://.*::' "$file" |
        awk -v file="$file" -v calls="(^|[^a-zA-Z0-9_>.])($calls)\\\\(" \
            '$0 ~ calls { printf "%s:%d: not for code that runs in the simulator: %s\n", file, FNR, $0; bad = 1 }
             END { exit bad }'; then
        found=1
    fi
done < <(for folder in bcube protocol collectives training; do
    if [[ -d $folder ]]; then
        find "$folder" -name '*.[ch]'
    fi
done | grep -vE "$exempt" | sort)
exit $found
