#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# run.sh FILE [ARGUMENT...]: a file of this folder with `braid.torch`: test_NAME.py by pytest, any other as a program with the arguments.
# A line `# ranks: N` in the file says that it is run in each of the N ranks of a job (ranks.py), where init_process_group("braid") needs no arguments;
# without the line it is run once and starts its ranks itself ($BRAID is the command). A line `# environment: NAME=VALUE ...` sets variables;
# with `# needs: FILE` it is run where that exists.
# 77: something is missing, and the last line says what.
set -euo pipefail
if [[ -z ${BRAID_TORCH_PYTHON:-} ]]; then
    echo "the PyTorch backend was not built: ${BRAID_TORCH_WHY:-}; ./dev test --torch installs PyTorch and runs this"
    exit 77
fi
if ! missing=$("$BRAID_TORCH_PYTHON" -c 'import cffi, numpy, pytest' 2>&1); then
    echo "$BRAID_TORCH_PYTHON: ${missing##*$'\n'}"
    exit 77
fi
file=$1
shift
needed=$(sed -n 's/^# needs: //p' "$file")
if [[ -n $needed && ! -e $needed ]]; then
    echo "there is no $needed"
    exit 77
fi
ranks=$(sed -n 's/^# ranks: //p' "$file")
read -ra environment < <(sed -n 's/^# environment: //p' "$file") || true
# What Python compiles of torch is kept, for the tests after this one and out of the sources.
export PYTHONPATH=$BRAID_BUILD/python PYTHONPYCACHEPREFIX=$BRAID_BUILD/pycache OMP_NUM_THREADS=1 BRAID=$BRAID_BUILD/braid
command=("$BRAID_TORCH_PYTHON")
if [[ -n $ranks ]]; then
    command+=("${BASH_SOURCE[0]%/*}/ranks.py" "$ranks")
elif [[ $file == */test_* ]]; then # no faulthandler_timeout: its thread holds a lock that ranks forked beside it wait for when they end
    command+=(-m pytest -q -x -p no:cacheprovider --rootdir "$(dirname "$file")")
fi
exec env "${environment[@]}" timeout 280 "${command[@]}" "$file" "$@"
