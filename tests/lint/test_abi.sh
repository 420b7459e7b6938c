#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_abi.sh lets through what may come in a minor version, and nothing else.
set -euo pipefail
if ! command -v abidiff > /dev/null; then
    echo "abidiff is not installed (Debian: abigail-tools)"
    exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tree=$scratch/tree
# A library in small.
restore() {
    mkdir -p "$tree/include/braid" "$tree/cmake"
    cat > "$tree/include/braid/braid.h" << 'HEADER'
#include <stddef.h>
enum braid_kind {
    BRAID_ONE = 1,
    BRAID_TWO = 2
};
struct braid_opaque;
struct braid_key {
    long check;
};
struct braid_options {
    size_t struct_size;
    enum braid_kind kind;
    int first;
    int last;
};
int braid_call(struct braid_opaque *opaque, const struct braid_options *options);
int braid_use(const struct braid_key *key, int color);
HEADER
    printf 'BRAID_1.0 {\nglobal:\n    braid_call;\n    braid_use;\nlocal:\n    *;\n};\n' > "$tree/cmake/braid.map"
}
restore
git -C "$tree" init -q
git -C "$tree" add .
git -C "$tree" -c user.name=nobody -c user.email=nobody@localhost commit -qm "the last version"
bash "$BRAID_SOURCE/tests/lint/check_abi.sh" "$tree" | grep -q 'no tag'
git -C "$tree" tag v1.2.3

# changed EXPECTED FILE COMMAND: after this command of sed the checker ends with this status.
changed() {
    local rc=0
    restore
    cp "$tree/$2" "$scratch/before"
    sed -i "$3" "$tree/$2"
    if cmp -s "$tree/$2" "$scratch/before"; then
        echo "$2: $3: changes nothing"
        exit 1
    fi
    bash "$BRAID_SOURCE/tests/lint/check_abi.sh" "$tree" > "$scratch/out" 2>&1 || rc=$?
    if [[ $rc -ne $1 ]]; then
        echo "$2: $3: expected status $1, got $rc:"
        cat "$scratch/out"
        exit 1
    fi
}

bash "$BRAID_SOURCE/tests/lint/check_abi.sh" "$tree"
header=include/braid/braid.h
changed 0 $header 's|int last;|&\n    void *newer;|'
changed 0 $header 's|BRAID_TWO = 2|&, BRAID_THREE = 3|'
changed 0 $header 's|^int braid_use|int braid_newer(void);\n&|'
changed 1 $header 's|int last;|double newer;\n&|'
changed 1 $header 's|int last;|int final;|'
changed 1 $header 's|int last;|long last;|'
changed 1 $header 's|int last;||'
changed 1 $header 's|long check;|&\n    long newer;|' # plain data
changed 1 $header 's|int color|long color|'
changed 1 $header 's|BRAID_TWO = 2|BRAID_TWO = 3|'
changed 1 cmake/braid.map 's|^    braid_use;||'
