#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The direction of includes holds in the tree, and the checker sees each kind of breach that is injected here.
set -euo pipefail
check=$BRAID_SOURCE/tests/lint/check_includes.sh
# shellcheck source=tests/lint/injected.sh
source "$BRAID_SOURCE/tests/lint/injected.sh" "$check"

injected base/a.h '#include "transport/link.h"' 1
injected transport/tcp/a.c '#include "protocol/peer.h"' 1
injected protocol/bootstrap/a.c '  #  include "collectives/engine/engine.h"' 1
injected collectives/a.c '#include "tools/info.h"' 1
injected base/a.c '#include "error.h"' 1
injected protocol/a.c '#include "transport/tcp/tcp.h"' 1
injected collectives/comm/a.c '#include "transport/shm/address.h"' 1
injected tools/info/a.c '#include "transport/verbs/probe.h"' 0
injected transport/shm/a.c '#include "../../base/error.h"' 1
injected base/a.c '#include "base/../tools/info.h"' 1
injected base/a.c '#include <base/error.h>' 1
injected include/braid/braid.h '#include "base/error.h"' 1
injected examples/a.c '#include "base/error.h"' 1
injected tools/a.c '#include "base/error.h"' 0
injected transport/sim/a.c '#include "transport/transport.h"' 0
injected protocol/a.c '#include <braid/braid.h>' 0
injected base/a.c '#include <stdio.h>' 0
injected base/a.c '/* see "tools/info.h" */' 0
injected collectives/comm/a.c '    if (!strcmp(name, "verbs"))' 1
injected tools/perf/a.h '    const char *backend; /* "tcp" */' 0
injected transport/a.c '    static const char *const names[] = {"tcp", "udp"};' 0

bash "$check" "$BRAID_SOURCE"
