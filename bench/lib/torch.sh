# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154
# Sourced by benchmarks of PyTorch: $python is a Python with torch, that of PYTHON or the one that `./dev test --torch` makes, and finds braid.torch in $build.
python=${PYTHON:-$here/../build/torch/bin/python}
[[ -n ${PYTHON:-} || -x $python ]] || python=python3
export OMP_NUM_THREADS=1 PYTHONPATH=$build/python${PYTHONPATH:+:$PYTHONPATH}
"$python" -c 'import torch.distributed' 2> /dev/null || { echo "$python has no torch: PYTHON names one that has, or ./dev test --torch makes one" >&2; exit 77; }
"$python" -c 'import braid.torch' || { echo "$build has no braid.torch for $python" >&2; exit 77; }
