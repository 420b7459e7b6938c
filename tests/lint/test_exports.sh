#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The functions that the headers declare, those that cmake/braid.map lists, those that libbraid.so shows, each in a version node, and those of
# the table in doc/api.md are the same.
# The library is linked with the libraries that doc/design/dependencies.md allows and with no other.
set -euo pipefail
export LC_ALL=C # one order of sort
library=$BRAID_BUILD/libbraid.so

# A declaration starts in the first column; its name is the first braid_word directly before a parenthesis.
declared() {
    cat "$BRAID_SOURCE"/include/braid/*.h | grep -E '^[a-z].*\bbraid_[a-z0-9_]+\(' | grep -vE '^(static|typedef)' |
        sed -E 's/^[^(]*\b(braid_[a-z0-9_]+)\(.*/\1/' | sort -u
}

# NAME@@NODE of each name in the list, in its order.
listed() {
    awk '/^BRAID_[0-9.]+ *\{/ { node = $1 } /^    braid_[a-z0-9_]+;$/ { sub(/;/, ""); print $1 "@@" node }' "$BRAID_SOURCE/cmake/braid.map"
}

# The same of what the library shows; the nodes themselves are symbols, too.
shown() {
    nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | sort -u
}

# same WHAT ONE OTHER: two sorted lists are the same, and not empty.
same() {
    if [[ -z $2 || $2 != "$3" ]]; then
        printf '%s:\n' "$1"
        diff <(printf '%s\n' "$2") <(printf '%s\n' "$3") || true
        exit 1
    fi
}

same 'include/braid/ (<) and cmake/braid.map (>) do not name the same functions' "$(declared)" "$(listed | sed 's/@@.*//' | sort -u)"
same 'cmake/braid.map (<) and libbraid.so (>) do not have the same names' "$(listed | sort)" "$(shown)"
# The table of doc/api.md has every function; X_init and X_on_stream stand with X.
missing=$(declared | sed -E 's/_(init|on_stream)$//' | sort -u | sed 's/^braid$/braid_init/' |
    while read -r name; do grep -qF "\`$name\`" "$BRAID_SOURCE/doc/api.md" || echo "$name"; done)
if [[ -n $missing ]]; then
    printf 'doc/api.md does not name:\n%s\n' "$missing"
    exit 1
fi
# shellcheck disable=SC2016 # these backquotes are Markdown
gone=$(comm -13 <(declared) <(grep -oE '`braid_[a-z0-9_]+`' "$BRAID_SOURCE/doc/api.md" | tr -d '`' | sort -u | grep -vxFf <(cat "$BRAID_SOURCE"/include/braid/*.h | grep -oE '^struct braid_[a-z_]+ \{' | cut -d' ' -f2)))
if [[ -n $gone ]]; then
    printf 'doc/api.md names functions that the headers do not declare:\n%s\n' "$gone"
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
