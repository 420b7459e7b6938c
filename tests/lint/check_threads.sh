#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_threads.sh [ROOT]: all threads of the library and of `braid` are started by br_thread_start(), which blocks the
# program's signals in them. Prints each other call of pthread_create() as FILE:LINE: words, and exits 1 if there was one.
set -euo pipefail
cd "${1:-.}"

folders=()
for folder in base bcube gpu transport protocol collectives training bindings tools; do
    [[ -d $folder ]] && folders+=("$folder")
done
if grep -rnE --include='*.[ch]' '(pthread|thrd)_create\(' "${folders[@]}" | grep -vE '^base/thread\.[ch]:' |
    sed -E 's/^([^:]*:[0-9]+:)/\1 start threads with br_thread_start():/'; then
    exit 1
fi
