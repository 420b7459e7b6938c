#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The direction of includes holds in the tree, and the checker sees each kind of breach that is planted here.
set -euo pipefail
check=$BRAID_SOURCE/tests/house/check_includes.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# planted FILE LINE EXPECTED: a tree with only this line gives the exit status EXPECTED
planted() {
    local rc=0
    rm -rf "$scratch/tree"
    mkdir -p "$scratch/tree/$(dirname "$1")"
    printf '%s\n' "$2" > "$scratch/tree/$1"
    bash "$check" "$scratch/tree" > "$scratch/out" 2>&1 || rc=$?
    if [[ $rc -ne 0 && $3 -eq 0 ]] || [[ $rc -eq 0 && $3 -ne 0 ]]; then
        echo "planted in $1: $2: expected status $3, got $rc"
        exit 1
    fi
    if [[ $3 -ne 0 ]] && ! grep -qF "$1:1:" "$scratch/out"; then
        echo "planted in $1: $2: the report does not name the place"
        exit 1
    fi
}

planted base/a.h '#include "transport/link.h"' 1
planted transport/uring/a.c '#include "protocol/peer.h"' 1
planted protocol/bootstrap/a.c '  #  include "collectives/engine.h"' 1
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
