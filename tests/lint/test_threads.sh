#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Every thread is started with the program's signals blocked, and the checker sees one that is injected here.
set -euo pipefail
check=$BRAID_SOURCE/tests/lint/check_threads.sh
# shellcheck source=tests/lint/injected.sh
source "$BRAID_SOURCE/tests/lint/injected.sh" "$check"

injected collectives/comm/progress.c 'rc = pthread_create(&thread, NULL, run, NULL);' 1
injected tools/perf/mesh.c 'thrd_create(&thread, run, NULL);' 1
injected base/thread.c 'err = pthread_create(thread, NULL, run, argument);' 0
injected training/parameters/service.c 'rc = br_thread_start(&thread, run, NULL);' 0

bash "$check" "$BRAID_SOURCE"
