# SPDX-License-Identifier: BSD-3-Clause
# A port for a server that a test starts.
# shellcheck shell=bash

listens() { # PORT
    [[ -n $(ss -Hltn "sport = :$1") ]]
}

# The first one from FIRST on that nobody listens on. Nobody is given it by chance: FIRST is below those that the kernel gives to others.
free_port() { # FIRST
    local port=$1
    while listens "$port"; do
        port=$((port + 1))
    done
    echo "$port"
}
