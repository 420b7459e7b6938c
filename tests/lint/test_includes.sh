#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The direction of includes holds in the tree, and the checker sees each kind of breach that is planted here.
set -euo pipefail
check=$BRAID_SOURCE/tests/lint/check_includes.sh
# shellcheck source=tests/lint/injected.sh
source "$BRAID_SOURCE/tests/lint/injected.sh" "$check"

planted base/a.h '#include "transport/link.h"' 1
planted transport/tcp/a.c '#include "protocol/peer.h"' 1
planted protocol/bootstrap/a.c '  #  include "collectives/engine/engine.h"' 1
planted collectives/a.c '#include "tools/info.h"' 1
planted base/a.c '#include "error.h"' 1
planted transport/shm/a.c '#include "../../base/error.h"' 1
planted base/a.c '#include "base/../tools/info.h"' 1
planted base/a.c '#include <base/error.h>' 1
planted include/braid/braid.h '#include "base/error.h"' 1
planted examples/a.c '#include "base/error.h"' 1
planted tools/a.c '#include "base/error.h"' 0
planted transport/sim/a.c '#include "transport/transport.h"' 0
planted protocol/a.c '#include <braid/braid.h>' 0
planted base/a.c '#include <stdio.h>' 0
planted base/a.c '/* see "tools/info.h" */' 0

bash "$check" "$BRAID_SOURCE"
