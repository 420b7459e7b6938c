#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# `import braid` finds an installed copy and nothing of the build: after `cmake --install`, and after `pip install`, whose package has the library in it.
set -euo pipefail
if [[ -z ${BRAID_PYTHON:-} ]]; then
    echo "the Python package was not built: ${BRAID_PYTHON_WHY:-}"
    exit 77
fi
if ! "$BRAID_PYTHON" -c 'import numpy'; then
    echo "apt-get install python3-numpy"
    exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export PYTHONDONTWRITEBYTECODE=1

# runs FOLDER: two ranks of hello.py with the package there.
runs() {
    PYTHONPATH=$1 "$BRAID_PYTHON" -c "import braid; assert braid.__file__.startswith('$1'), braid.__file__"
    PYTHONPATH=$1 timeout 60 "$BRAID_BUILD/braid" run -n 2 -- "$BRAID_PYTHON" "$BRAID_SOURCE/examples/hello.py" > "$scratch/out"
    [[ $(grep -c 'the sum is 3$' "$scratch/out") -eq 2 ]]
    ! readelf -d "$1/braid/_braid.abi3.so" | grep -F "$BRAID_BUILD"
}

cmake --install "$BRAID_BUILD" --prefix "$scratch/prefix" > "$scratch/install.log"
runs "$(dirname "$(dirname "$(find "$scratch/prefix" -name _braid.abi3.so)")")"

# Debian's pip before its setuptools cannot be imported.
if ! "$BRAID_PYTHON" -c 'import setuptools, wheel, pip' 2> /dev/null; then
    echo "without pip: apt-get install python3-pip python3-setuptools python3-wheel"
    exit 0
fi
mkdir "$scratch/source" # pip leaves folders beside setup.py
ln -s "$BRAID_SOURCE/include" "$scratch/source/include"
mkdir "$scratch/source/bindings"
cp -r "$BRAID_SOURCE/bindings/python" "$BRAID_SOURCE/bindings/cmake_build.py" "$scratch/source/bindings"
"$BRAID_PYTHON" -m pip install -q --no-build-isolation --no-deps --no-index --disable-pip-version-check --root-user-action ignore \
    --target "$scratch/pip" "$scratch/source/bindings/python"
runs "$scratch/pip"
for module in braid_pmix braid_dpdk; do # beside the library, which looks for them there
    if [[ -e $BRAID_BUILD/$module.so && ! -e $scratch/pip/braid/$module.so ]]; then
        echo "the wheel lacks $module.so"
        exit 1
    fi
done
find "$scratch/pip" -name WHEEL -exec grep -q '^Tag: cp39-abi3-' {} + || {
    echo "the wheel is not for every Python from 3.9 on"
    exit 1
}
