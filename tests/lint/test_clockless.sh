#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The simulator's code keeps off clocks, threads and sockets, and the checker sees those that are planted here.
set -euo pipefail
check=$BRAID_SOURCE/tests/lint/check_clockless.sh
# shellcheck source=tests/lint/injected.sh
source "$BRAID_SOURCE/tests/lint/injected.sh" "$check"

planted protocol/rail.c '    now = br_clock_now();' 1
planted collectives/engine/engine.c 'if (usleep(10) < 0)' 1
planted training/session/session.c 'pthread_create(&thread, NULL, run, NULL);' 1
planted bcube/route.h 'int s = socket(AF_INET, SOCK_STREAM, 0);' 1
planted protocol/bootstrap/store.c 'now = br_clock_now();' 0
planted transport/tcp/link.c 'now = br_clock_now();' 0
planted protocol/rail.c '/* like br_clock_now() */' 0
planted protocol/rail.c 'device->ops->poll(device); br_store_time(1); x.sleep(2);' 0

bash "$check" "$BRAID_SOURCE"
