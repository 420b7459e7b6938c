#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_abi.sh SOURCE: are the public headers such that programs built with those of the last tag (v*) go on? doc/api.md says what may change.
# Compared by abidiff is, of each version, a library with a pointer to each function of cmake/braid.map, made from the headers alone: so nothing
# of that tag has to be built, and types that are opaque to programs are not looked into.
set -euo pipefail
source=$1
tag=$(git -C "$source" describe --tags --match 'v[0-9]*' --abbrev=0 2> /dev/null) || {
    echo "no tag v* yet: there is no ABI to keep"
    exit 0
}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# library TREE OUT
library() {
    local header
    for header in "$1"/include/braid/*.h; do
        echo "#include <braid/$(basename "$header")>"
    done > "$2.c"
    sed -nE 's/^    (braid_[a-z0-9_]+);$/__typeof__(\1) *abi_\1;/p' "$1/cmake/braid.map" >> "$2.c"
    "${CC:-cc}" -g -shared -fPIC -nostdlib -I "$1/include" -o "$2" "$2.c"
}

mkdir "$scratch/tag"
git -C "$source" archive "$tag" include/braid cmake/braid.map | tar -x -C "$scratch/tag"
library "$scratch/tag" "$scratch/old.so"
library "$source" "$scratch/new.so"

# Structs with struct_size may grow at their end; but abidiff takes for the end what stands behind the old size, wherever the fields that were
# there have gone, so those are asked for apart. A name that has changed is no matter to it, but to a program that is built again.
cat > "$scratch/growth" << 'RULE'
[suppress_type]
type_kind = struct
name_not_regexp = ^braid_(id|key|layer|parameter_layer)$
has_data_member_inserted_at = end
RULE
rc=0
abidiff --no-added-syms --suppressions "$scratch/growth" "$scratch/old.so" "$scratch/new.so" > "$scratch/report" || rc=1
abidiff --no-added-syms "$scratch/old.so" "$scratch/new.so" > "$scratch/all" || true
abidiff --no-added-syms --harmless "$scratch/old.so" "$scratch/new.so" > "$scratch/names" || true
if grep -qE 'data member (change|deletion)' "$scratch/all"; then
    rc=1
fi
if grep -qE "name of '.*' changed to" "$scratch/names"; then
    rc=1
fi
if [[ $rc -ne 0 ]]; then
    echo "the public headers break programs that were built with $tag (doc/api.md):"
    cat "$scratch/names"
fi
exit $rc
