#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A script that says init_process_group("braid") and imports nothing of braid runs, under torchrun, too: after `cmake --install`, and after `pip install` of
# both distributions, which builds them by CMake, beside an installed torch.
set -euo pipefail
if [[ -z ${BRAID_TORCH_PYTHON:-} ]]; then
    echo "the PyTorch backend was not built: ${BRAID_TORCH_WHY:-}; ./dev test --torch installs PyTorch and runs this"
    exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 BRAID_TIMEOUT=60
unset PYTHONPATH

cat > "$scratch/train.py" << 'END'
import torch, torch.distributed as dist
dist.init_process_group("braid")
x = torch.arange(5.0) + dist.get_rank()
dist.all_reduce(x)
print(x.tolist(), flush=True)
END
# The copy in a folder is the one that is used, and its library the only one; without the entry point of torch 2.14, by that of torch.backends.
cat > "$scratch/look.py" << 'END'
import sys
import torch.distributed as dist
folder, store = sys.argv[1:]
if hasattr(dist.Backend, "_ensure_backend_registered"):
    del dist.Backend._ensure_backend_registered
    __import__("_braid_torch").autoload()
    dist.Backend._ensure_backend_registered = staticmethod(lambda name: None)
assert "braid" not in sys.modules, "import torch loads braid"
assert "braid" in dist.Backend.backend_list
register = dist.Backend.register_backend
def register_once(name, *arguments, **more):  # as some versions of torch have it
    assert not hasattr(dist.Backend, name.upper()), f"{name} c10d backend already exist"
    register(name, *arguments, **more)
dist.Backend.register_backend = register_once
dist.init_process_group("braid", init_method=f"file://{store}", rank=0, world_size=1)
dist.barrier()
import braid.torch
assert braid.torch._native.__file__.startswith(folder), braid.torch._native.__file__
libraries = {line.split()[-1] for line in open("/proc/self/maps") if "/libbraid.so" in line}
assert len(libraries) == 1 and libraries.pop().startswith(folder), libraries
END

# looks FOLDER PYTHON: that it is found there, and nothing of the build folder.
looks() {
    timeout 120 "$2" "$scratch/look.py" "$1" "$scratch/store.$((++stores))"
    if readelf -d "$(find "$1" -path '*braid/torch/_native*.so')" | grep -F "$BRAID_BUILD"; then
        echo "the module looks for its library in the build folder"
        return 1
    fi
}
stores=0

cmake --install "$BRAID_BUILD" --prefix "$scratch/prefix" > "$scratch/install.log"
PYTHONPATH=$(dirname "$(find "$scratch/prefix" -name _braid_torch.py)") looks "$scratch/prefix" "$BRAID_TORCH_PYTHON"

"$BRAID_TORCH_PYTHON" -m venv --system-site-packages --without-pip "$scratch/venv"
# Where torch lies in a virtual environment itself, its packages are not among the system's.
site=("$scratch"/venv/lib/python*/site-packages)
"$BRAID_TORCH_PYTHON" -c 'import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))' > "${site[0]}/torch.pth"
python=$scratch/venv/bin/python
if ! "$python" -c 'import cffi, setuptools, wheel, pip' 2> "$scratch/missing"; then
    echo "without pip: $(tail -1 "$scratch/missing"): apt-get install python3-pip python3-setuptools python3-wheel"
    exit 0
fi
# pip configures and builds a folder of its own by CMake. What takes minutes in that is not what is tested: objects come from the build folder at hand, by a
# compiler launcher, where that has one of the same name; and there are no kernels for GPUs.
mkdir -p "$scratch/source/build/pip"
for path in "$BRAID_SOURCE"/*; do
    case ${path##*/} in
        bindings) cp -r "$path" "$scratch/source" ;; # pip leaves folders beside setup.py
        build) ;;
        *) ln -s "$path" "$scratch/source" ;;
    esac
done
echo BRAID_GPU_KERNELS:BOOL=OFF > "$scratch/source/build/pip/CMakeCache.txt"
cat > "$scratch/launcher" << END
#!/usr/bin/env bash
for ((i = 1; i <= \$#; i++)); do
    if [[ \${!i} == -o ]]; then
        out=\$((i + 1))
        object=$BRAID_BUILD/\${!out}
        if [[ -f \$object && \$object == *.o ]]; then
            echo "\${!out}" >> "$scratch/reused"
            exec cp "\$object" "\${!out}"
        fi
    fi
done
exec "\$@"
END
chmod +x "$scratch/launcher"
CMAKE_GENERATOR=Ninja CMAKE_C_COMPILER_LAUNCHER=$scratch/launcher CMAKE_CXX_COMPILER_LAUNCHER=$scratch/launcher BRAID_BUILD='' \
    "$python" -m pip install -q --no-build-isolation --no-deps --no-index --disable-pip-version-check --root-user-action ignore \
    "$scratch/source/bindings/python" "$scratch/source/bindings/torch"
looks "${site[0]}" "$python"
grep -q '/braid_torch[.]dir/' "$scratch/reused" || {
    echo "pip has compiled what is there already; the launcher has found nothing of braid_torch"
    exit 1
}
timeout 120 "$python" -m torch.distributed.run --standalone --nproc-per-node 2 "$scratch/train.py" > "$scratch/out"
if [[ $(grep -oF '[1.0, 3.0, 5.0, 7.0, 9.0]' "$scratch/out" | wc -l) -ne 2 ]]; then # perhaps both on one line
    cat "$scratch/out"
    exit 1
fi

# A library that cannot be loaded is an error of who asks for braid, not of who imports torch.
rm "${site[0]}"/braid/libbraid.so.*
LD_LIBRARY_PATH='' "$python" -c "
import torch, torch.distributed as dist
try:
    dist.init_process_group('braid', init_method='file://$scratch/none', rank=0, world_size=1)
except (RuntimeError, ImportError) as error:
    while error.__cause__ is not None:
        error = error.__cause__
    assert 'libbraid' in str(error), error
else:
    raise SystemExit('it has another library')"
