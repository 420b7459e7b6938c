#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What users build, an optimized library and its tools without tests (-DCMAKE_BUILD_TYPE=Release), has no warning with gcc or with
# clang: at -O3 both find other things than in our own builds. Kept in build/plain-*, so that the next time only changes are compiled.
set -euo pipefail
if [[ -n $BRAID_SANITIZE ]]; then
    exit 77 # once is enough
fi
cd "$BRAID_SOURCE"
mkdir -p build
built=0
for compiler in gcc clang; do
    log=build/plain-$compiler.log
    if ! command -v "$compiler" > /dev/null; then
        echo "$compiler is not installed"
        continue
    fi
    if ! cmake --preset plain-$compiler > "$log" 2>&1 || ! cmake --build build/plain-$compiler >> "$log" 2>&1; then
        echo "the Release build with $compiler fails:"
        grep -E 'error|warning' "$log" || tail -n 30 "$log"
        exit 1
    fi
    built=$((built + 1))
done
if [[ $built -eq 0 ]]; then
    exit 77
fi
