#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The simulator's code keeps off clocks, threads and sockets, and the checker sees those that are injected here.
set -euo pipefail
check=$BRAID_SOURCE/tests/lint/check_clockless.sh
# shellcheck source=tests/lint/injected.sh
source "$BRAID_SOURCE/tests/lint/injected.sh" "$check"

injected protocol/rail.c '    now = br_clock_now();' 1
injected collectives/engine/engine.c 'if (usleep(10) < 0)' 1
injected training/session/session.c 'pthread_create(&thread, NULL, run, NULL);' 1
injected bcube/route.h 'int s = socket(AF_INET, SOCK_STREAM, 0);' 1
injected protocol/bootstrap/store.c 'now = br_clock_now();' 0
injected transport/tcp/link.c 'now = br_clock_now();' 0
injected protocol/rail.c '/* like br_clock_now() */' 0
injected protocol/rail.c 'device->ops->poll(device); br_store_time(1); x.sleep(2);' 0

bash "$check" "$BRAID_SOURCE"
