# SPDX-License-Identifier: BSD-3-Clause
"""pip install bindings/python bindings/torch: builds the module of braid.torch by CMake for the torch that is installed, as c10d has no stable ABI.
libbraid is package braid's, which Python loads first: one copy a process. BRAID_BUILD names a build folder to take the module from instead.

pip builds in an environment of its own, in which torch is missing; a fresh process of the same interpreter without pip's PYTHONPATH sees the one that is
installed into, so that --no-build-isolation is not needed. Tools that build with another interpreter (uv, build) do need it, or BRAID_TORCH_PYTHON."""
import os
import shutil
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import cmake_build  # noqa: E402

OUTSIDE = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONNOUSERSITE")}
PYTHON = os.environ.get("BRAID_TORCH_PYTHON") or sys.executable


def find_torch():
    """The version of the torch at hand, and the environment in which PYTHON finds it."""
    for environment in (dict(os.environ), OUTSIDE):
        found = subprocess.run([PYTHON, "-c", "import importlib.metadata as m; print(m.version('torch'))"], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True, env=environment)
        if found.returncode == 0:
            return found.stdout, environment
    sys.exit(f"braid-torch: {PYTHON} has no torch, for which the module is built: pip install torch first; where a tool builds with an interpreter of its "
             "own, --no-build-isolation, or the path of yours in BRAID_TORCH_PYTHON")


class Build(build_ext):
    """CMake's target braid_torch in place of a compiler's call."""

    def build_extension(self, ext):
        tree = cmake_build.Tree(["-DBRAID_TORCH=ON", f"-DBRAID_TORCH_PYTHON={PYTHON}", "-DBRAID_PYTHON=OFF"], ENVIRONMENT)
        tree.build("braid_torch")
        files = tree.install("torch", os.path.join(os.path.abspath(self.build_temp), "stage"))
        os.makedirs(os.path.dirname(os.path.abspath(self.get_ext_fullpath(ext.name))), exist_ok=True)
        shutil.copy(files["_native.so"], self.get_ext_fullpath(ext.name))


TORCH, ENVIRONMENT = find_torch()
major, minor = (int(number) for number in TORCH.split(".")[:2])
# Of the same minor version, also where it is a preview: NVIDIA's containers have 2.6.0a0+..., which is less than 2.6, as 2.7.0a0 is less than 2.7.
TORCH_NEEDED = f"torch>={major}.{minor}.0.dev0,<{major}.{minor + 1}.0.dev0"
setup(
    version=cmake_build.version(),
    install_requires=[f"braid=={cmake_build.version()}", TORCH_NEEDED],
    ext_modules=[Extension("braid.torch._native", [])],
    cmdclass={"build_ext": Build},
)
