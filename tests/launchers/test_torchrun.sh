#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# PyTorch's torchrun.
# shellcheck source=tests/launchers/lib.sh
. "$BRAID_SOURCE/tests/launchers/lib.sh"
needs torchrun python3-torch
programs
# It looks its own host name up. -r and -t: without them Debian 12's, which runs on a newer Python than it was made for, ends with an error of Python's.
echo "127.0.0.1 localhost $(hostname)" > "$work/hosts"
[[ -z ${BRAID_TEST_ISOLATED:-} ]] || mount --bind "$work/hosts" /etc/hosts
launcher=(torchrun -r 9:1 -t 9:1 --monitor_interval 0.1 --nproc_per_node {} --no_python)

works torchrun 4 "${launcher[@]}"
run 0 2 torchrun --standalone "${launcher[@]:1}" -- "$hello"
says 'rank . of 2' 2
dies "${launcher[@]}"
finish
