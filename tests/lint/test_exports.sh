#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# libbraid.so shows braid_ symbols and nothing else, and each public function of the headers is there. It is linked with the libraries that
# doc/design/dependencies.md allows and with no other.
set -euo pipefail
library=$BRAID_BUILD/libbraid.so

# The symbols on standard input that do not belong to the public interface; BRAID_0 is the version node itself.
foreign() {
    grep -vE '^(braid_[a-z0-9_]+|BRAID_0)$' || true
}

if [[ $(printf '%s\n' braid_init br_error BRAID_0 main | foreign | wc -l) -ne 2 ]]; then
    echo "the check itself does not see foreign symbols"
    exit 1
fi
shown=$(nm -D --defined-only "$library" | awk '{ sub(/@.*/, "", $3); print $3 }' | sort -u)
extra=$(foreign <<< "$shown")
if [[ -n $extra ]]; then
    printf 'libbraid.so exports what is not public:\n%s\n' "$extra"
    exit 1
fi

# A declaration starts in the first column; its name is the first braid_word directly before a parenthesis.
declared() {
    cat "$BRAID_SOURCE"/include/braid/*.h | grep -E '^[a-z].*\bbraid_[a-z0-9_]+\(' | grep -vE '^(static|typedef)' |
        sed -E 's/^[^(]*\b(braid_[a-z0-9_]+)\(.*/\1/' | sort -u
}
missing=$(comm -23 <(declared) <(printf '%s\n' "$shown"))
if [[ -n $missing ]]; then
    printf 'declared in include/braid/ but not in libbraid.so:\n%s\n' "$missing"
    exit 1
fi

# What only the command or some users need must not be here.
if [[ -z $BRAID_SANITIZE ]]; then
    allowed='^(liburing|libsodium|libnuma|libyaml-0|libcjson|libm|libc|ld-linux-x86-64|ld-linux-aarch64)\.so'
    if ! extra=$(readelf -d "$library" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p' | { grep -vE "$allowed" || true; }) || [[ -n $extra ]]; then
        printf 'libbraid.so is linked with what doc/design/dependencies.md does not allow:\n%s\n' "$extra"
        exit 1
    fi
fi
