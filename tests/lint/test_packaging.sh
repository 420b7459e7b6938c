#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# An installed copy is enough: installs into a scratch prefix, builds examples/allreduce.c against it through
# pkg-config (shared and static) and through CMake's find_package, and runs each on two ranks.
set -euo pipefail
if [[ -n $BRAID_SANITIZE ]]; then
    exit 77 # a sanitized library is not what anybody installs
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
prefix=$scratch/prefix
cmake --install "$BRAID_BUILD" --prefix "$prefix" > "$scratch/install.log"

libdir=$(dirname "$(find "$prefix" -name libbraid.so)")
export PKG_CONFIG_PATH=$libdir/pkgconfig
export LD_LIBRARY_PATH=$libdir
cc=${CC:-cc}
source=$BRAID_SOURCE/examples/allreduce.c

# shellcheck disable=SC2046 # the flags are words
$cc -Wall -Werror "$source" -o "$scratch/shared" $(pkg-config --cflags --libs braid)
# shellcheck disable=SC2046
$cc -Wall -Werror "$source" -o "$scratch/static" $(pkg-config --cflags braid) "$libdir/libbraid.a" \
    $(pkg-config --static --libs braid | sed 's/-lbraid//')

# shellcheck disable=SC2046
$cc -Wall -Werror "$BRAID_SOURCE/examples/grid.c" -o "$scratch/grid" $(pkg-config --cflags --libs braid)
# shellcheck disable=SC2046
$cc -O2 -Wall -Werror "$BRAID_SOURCE/examples/train.c" -o "$scratch/train" $(pkg-config --cflags --libs braid) -lm

mkdir "$scratch/user"
cp "$source" "$scratch/user/main.c"
cat > "$scratch/user/CMakeLists.txt" << 'LISTS'
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C)
find_package(braid 1.0 REQUIRED)
add_executable(shared_user main.c)
target_link_libraries(shared_user PRIVATE braid::braid)
add_executable(static_user main.c)
target_link_libraries(static_user PRIVATE braid::braid_static)
LISTS
cmake -S "$scratch/user" -B "$scratch/user/build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" > "$scratch/user.log"
cmake --build "$scratch/user/build" >> "$scratch/user.log" || {
    cat "$scratch/user.log"
    exit 1
}

if ! grep -q ' U braid_' <<< "$(nm -D "$scratch/shared")" || grep -q ' U braid_' <<< "$(nm -D "$scratch/static")"; then
    echo "the shared and the static example are not linked as they should be"
    exit 1
fi
for program in shared static user/build/shared_user user/build/static_user; do
    timeout 120 "$prefix/bin/braid" run -n 2 -- "$scratch/$program"
done
timeout 120 "$prefix/bin/braid" run -n 4 -- "$scratch/grid" 2
timeout 120 "$prefix/bin/braid" run -n 2 -- "$scratch/train"
