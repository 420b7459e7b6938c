# SPDX-License-Identifier: BSD-3-Clause
"""pip install bindings/python: builds libbraid and the module by CMake from the sources that this folder lies in, and puts both, and the
library's modules, into the package, which needs no installed braid then. BRAID_BUILD names a build folder to take them from instead."""
import os
import re
import shutil
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# Parts of libbraid that it loads when they are needed: for launchers with PMIx, and DPDK. Built where those are installed.
MODULES = ("braid_pmix", "braid_dpdk")


def version():
    with open(os.path.join(ROOT, "include", "braid", "braid.h"), encoding="utf-8") as file:
        return ".".join(re.findall(r"#define BRAID_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", file.read()))


class Build(build_ext):
    """CMake's target braid_python in place of a compiler's call."""

    def build_extension(self, ext):
        build = os.environ.get("BRAID_BUILD") or os.path.join(os.path.abspath(self.build_temp), "cmake")
        if not os.environ.get("BRAID_BUILD"):
            subprocess.run(["cmake", "-S", ROOT, "-B", build, "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_TESTING=OFF", "-DBRAID_PYTHON=ON",
                            f"-DBRAID_PYTHON_EXECUTABLE={sys.executable}"], check=True)
        targets = subprocess.run(["cmake", "--build", build, "--target", "help"], stdout=subprocess.PIPE, check=True, text=True).stdout
        modules = [module for module in MODULES if re.search(rf"\b{module}\b(?!\.)", targets)]
        subprocess.run(["cmake", "--build", build, "--parallel", "--target", "braid_python", *modules], check=True)
        package = os.path.dirname(os.path.abspath(self.get_ext_fullpath(ext.name)))
        os.makedirs(package, exist_ok=True)
        # Installing writes the path into the module by which it finds the library beside it.
        stage = os.path.join(os.path.abspath(self.build_temp), "stage")
        subprocess.run(["cmake", "--install", build, "--component", "python", "--prefix", stage], check=True)
        for folder, _, names in os.walk(stage):
            if "_braid.abi3.so" in names:
                shutil.copy(os.path.join(folder, "_braid.abi3.so"), self.get_ext_fullpath(ext.name))
        library = os.path.realpath(os.path.join(build, "libbraid.so"))
        shutil.copy(library, os.path.join(package, soname(library)))
        for module in modules:  # which libbraid looks for beside itself
            shutil.copy(os.path.join(build, f"{module}.so"), package)


def soname(library):
    """The name by which the module asks for the library."""
    listing = subprocess.run(["readelf", "-d", library], stdout=subprocess.PIPE, check=True, text=True).stdout
    return re.search(r"\(SONAME\).*\[(.*)\]", listing)[1]


setup(
    version=version(),
    ext_modules=[Extension("braid._braid", [], py_limited_api=True)],
    cmdclass={"build_ext": Build},
    options={"bdist_wheel": {"py_limited_api": "cp39"}},
)
