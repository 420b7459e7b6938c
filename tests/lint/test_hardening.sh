#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The files we ship are hardened as cmake/hardening.cmake says: libbraid.so, its modules and the tool are read with readelf,
# the objects by their notes of what indirect jumps they allow.
set -euo pipefail
if [[ -n $BRAID_SANITIZE ]]; then
    exit 77 # sanitizers check more, and level 3 of the C library's checks does not go with them
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
rc=0

# expect FILE WHAT PATTERN TEXT: the text of readelf must have a line that matches.
expect() {
    if ! grep -qE "$3" <<< "$4"; then
        echo "${1##*/} has no $2"
        rc=1
    fi
}

# hardened FILE
hardened() {
    local dynamic segments symbols
    dynamic=$(readelf -dW "$1")
    segments=$(readelf -lW "$1")
    symbols=$(readelf --dyn-syms -W "$1")
    expect "$1" "BIND_NOW: addresses of functions stay writable" 'BIND_NOW|FLAGS_1.*NOW' "$dynamic"
    expect "$1" "GNU_RELRO segment" 'GNU_RELRO' "$segments"
    expect "$1" "stack that is not executable" 'GNU_STACK.* RW +0x' "$segments"
    expect "$1" "position-independent code" 'Elf file type is DYN' "$segments"
    expect "$1" "canaries on the stack" ' __stack_chk_fail' "$symbols"
    expect "$1" "checked calls of the C library (_FORTIFY_SOURCE)" ' __[a-z_]+_chk(@|$)' "$symbols"
}

# The check itself sees a file without all that.
echo 'int main(int n, char **a) { return n + **a; }' > "$scratch/plain.c"
cc -O0 -no-pie -fno-stack-protector -Wl,-z,lazy -Wl,-z,norelro -Wl,-z,execstack "$scratch/plain.c" -o "$scratch/plain" 2> /dev/null
seen=$(hardened "$scratch/plain" | wc -l)
if [[ $seen -ne 6 ]]; then
    echo "the check itself finds $seen of 6 faults in a file without any hardening"
    exit 1
fi

hardened "$BRAID_BUILD/libbraid.so"
hardened "$BRAID_BUILD/braid"
for module in "$BRAID_BUILD"/braid_*.so; do
    [[ ! -f $module ]] || hardened "$module"
done

# cmake/library.cmake says why.
expect libbraid.so "NODELETE: each dlopen() after a dlclose() takes further keys of threads" 'FLAGS_1.*NODELETE' "$(readelf -dW "$BRAID_BUILD/libbraid.so")"

# Static TLS (base/thread.h): 512 bytes of it are there for all libraries that a program loads while it runs.
tls=$(readelf -lW "$BRAID_BUILD/libbraid.so" | awk '$1 == "TLS" { print $6 }')
if [[ $((tls)) -gt 128 ]]; then
    echo "libbraid.so has $((tls)) bytes of thread-local variables: Python may be unable to load it (br_thread_block() has memory for each thread)"
    rc=1
fi

# Objects, and not what they are linked to: a linker keeps the note only where the C library's start files have it too.
if [[ $(uname -m) == x86_64 ]]; then
    notes=$(readelf -nW "$BRAID_BUILD/libbraid.a")
    objects=$(grep -c '^File: ' <<< "$notes")
    marked=$(grep -cE 'x86 feature: IBT, SHSTK' <<< "$notes" || true)
    if [[ $objects -eq 0 || $marked -ne $objects ]]; then
        echo "$marked of the $objects objects of libbraid.a allow checked jumps and returns (-fcf-protection)"
        rc=1
    fi
fi
exit $rc
