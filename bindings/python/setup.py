# SPDX-License-Identifier: BSD-3-Clause
"""pip install bindings/python: builds libbraid and the module by CMake from the sources that this folder lies in, and puts both, and the
library's modules, into the package, which needs no installed braid then. BRAID_BUILD names a build folder to take them from instead."""
import os
import shutil
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import cmake_build  # noqa: E402

# Parts of libbraid that it loads when they are needed: for launchers with PMIx, and DPDK. Built where those are installed.
MODULES = ("braid_pmix", "braid_dpdk")


class Build(build_ext):
    """CMake's target braid_python in place of a compiler's call."""

    def build_extension(self, ext):
        tree = cmake_build.Tree([f"-DBRAID_PYTHON_EXECUTABLE={sys.executable}", "-DBRAID_PYTHON=ON", "-DBRAID_TORCH=OFF"])
        modules = tree.build("braid_python", *MODULES)
        package = os.path.dirname(os.path.abspath(self.get_ext_fullpath(ext.name)))
        os.makedirs(package, exist_ok=True)
        files = tree.install("python", os.path.join(os.path.abspath(self.build_temp), "stage"))
        shutil.copy(files["_braid.abi3.so"], self.get_ext_fullpath(ext.name))
        library, soname = tree.library()
        shutil.copy(library, os.path.join(package, soname))
        for module in modules:  # which libbraid looks for beside itself
            shutil.copy(os.path.join(tree.folder, f"{module}.so"), package)


setup(
    version=cmake_build.version(),
    ext_modules=[Extension("braid._braid", [], py_limited_api=True)],
    cmdclass={"build_ext": Build},
    options={"bdist_wheel": {"py_limited_api": "cp39"}},
)
