#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# run.sh FILE: pytest of the file in each rank of a job; `# ranks: N` in the file says how many. 77: something is missing, and the last line says what.
set -euo pipefail
if [[ -z ${BRAID_PYTHON:-} ]]; then
    echo "the Python package was not built: ${BRAID_PYTHON_WHY:-}"
    exit 77
fi
if ! missing=$("$BRAID_PYTHON" -c 'import numpy, pytest' 2>&1); then
    echo "$BRAID_PYTHON: ${missing##*$'\n'}: apt-get install python3-numpy python3-pytest"
    exit 77
fi
ranks=$(sed -n 's/^# ranks: //p' "$1")
export PYTHONPATH=$BRAID_BUILD/python PYTHONDONTWRITEBYTECODE=1 BRAID_TIMEOUT=${BRAID_TIMEOUT:-60} OMP_NUM_THREADS=1
exec timeout 240 "$BRAID_BUILD/braid" run -n "$ranks" -- "$BRAID_PYTHON" -m pytest -q -x -p no:cacheprovider --rootdir "$(dirname "$1")" "$1"
