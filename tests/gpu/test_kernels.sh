#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The image of the reduction kernels has every kernel for every architecture, and none of them keeps registers in memory.
# Cubins are ELF files, so binutils read them; where the toolkit has cuobjdump, the fat binary itself is asked too.
set -euo pipefail
image=$BRAID_BUILD/gpu
if [[ ! -f $image/reduce.fatbin ]]; then
    echo "this build has no image of the reduction kernels: nvcc is missing"
    exit 77
fi
failed=0
expected=$(for type in float32 float64 float16 bfloat16 {,u}int{8,16,32,64}; do
    printf "braid_reduce_$type%s\n" _{sum,prod,min,max,avg}
done | sort)

# same WHAT NAMES
same() {
    if [[ $2 != "$expected" ]]; then
        echo "$1: the kernels are not those expected:"
        diff <(echo "$expected") <(echo "$2") || true
        failed=1
    fi
}

architectures=0
for cubin in "$image"/reduce.sm_*.cubin; do
    same "$cubin" "$(readelf -sW "$cubin" | awk '$4 == "FUNC" && $5 == "GLOBAL" { print $NF }' | sort)"
    architectures=$((architectures + 1))
done
[[ $architectures -gt 0 ]]
for ptx in "$image"/reduce.compute_*.ptx; do
    same "$ptx" "$(sed -n 's/.*\.entry \([a-z0-9_]*\).*/\1/p' "$ptx" | sort)"
    if grep -n '\.local' "$ptx"; then
        echo "$ptx: an array of a thread lies in memory, not in registers"
        failed=1
    fi
done
cuobjdump=$(command -v cuobjdump || echo /usr/local/cuda/bin/cuobjdump)
if [[ -x $cuobjdump ]]; then
    found=$("$cuobjdump" --list-elf "$image/reduce.fatbin" | grep -c sm_)
    if [[ $found -ne $architectures ]]; then
        echo "the fat binary has machine code for $found architectures instead of $architectures"
        failed=1
    fi
else
    echo "cuobjdump is not installed: the fat binary itself was not opened"
fi
exit $failed
