#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# In place of ssh for mpirun and mpiexec: a host is a network namespace of this machine, with its own host name, so
# that the libraries take the ranks in two of them for ranks on two hosts.   agent.sh [-OPTION...] HOST COMMAND...
while [[ $1 == -* ]]; do shift; done
host=$1
shift
# shellcheck disable=SC2016 # the inner shell expands it
exec ip netns exec "$host" unshare --uts sh -c 'hostname "$1"; shift; eval "exec $*"' sh "$host" "$@"
