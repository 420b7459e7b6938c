#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# run.sh FILE: pytest of a file of this folder with `braid.torch`. A line `# ranks: N` in the file says that it is run in each of the N ranks of
# a job, where init_process_group("braid") needs no arguments; without the line it is run once and starts its ranks itself.
# A line `# environment: NAME=VALUE ...` sets variables. 77: something is missing, and the last line says what.
set -euo pipefail
if [[ -z ${BRAID_TORCH_PYTHON:-} ]]; then
    echo "the PyTorch backend was not built: ${BRAID_TORCH_WHY:-}; ./dev test --torch installs PyTorch and runs this"
    exit 77
fi
if ! missing=$("$BRAID_TORCH_PYTHON" -c 'import numpy, pytest' 2>&1); then
    echo "$BRAID_TORCH_PYTHON: ${missing##*$'\n'}"
    exit 77
fi
ranks=$(sed -n 's/^# ranks: //p' "$1")
read -ra environment < <(sed -n 's/^# environment: //p' "$1") || true
export PYTHONPATH=$BRAID_BUILD/python PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 BRAID=$BRAID_BUILD/braid
launch=()
if [[ -n $ranks ]]; then
    launch=("$BRAID" run -n "$ranks" --)
fi
exec env "${environment[@]}" timeout 240 "${launch[@]}" "$BRAID_TORCH_PYTHON" -m pytest -q -x -p no:cacheprovider --rootdir "$(dirname "$1")" "$1"
