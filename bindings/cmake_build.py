# SPDX-License-Identifier: BSD-3-Clause
"""What the setup.py of each binding shares: pip builds by CMake from the sources that the binding's folder lies in."""
import os
import re
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def version():
    """The version of braid, which stands in one place: the public header."""
    with open(os.path.join(ROOT, "include", "braid", "braid.h"), encoding="utf-8") as file:
        return ".".join(re.findall(r"#define BRAID_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", file.read()))


class Tree:
    """A build folder. BRAID_BUILD names one that has been built already; otherwise all bindings share build/pip, so that `pip install` of
    several compiles the library once.

    options: for CMake, as "-DNAME=VALUE". environment: of CMake and the compilers; None: that of this process."""

    def __init__(self, options, environment=None):
        self.environment = environment
        self.folder = os.environ.get("BRAID_BUILD")
        if not self.folder:
            self.folder = os.path.join(ROOT, "build", "pip")
            # with its type the folder stays below the prefix of install()
            self._cmake("-S", ROOT, "-B", self.folder, "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_TESTING=OFF", "-DBRAID_PYTHON_SITE:STRING=site", *options)

    def build(self, target, *optional):
        """Builds a target, and of the others those that this build folder has: their names are returned."""
        listing = self._cmake("--build", self.folder, "--target", "help", stdout=subprocess.PIPE).stdout
        found = [name for name in optional if re.search(rf"\b{name}\b(?!\.)", listing)]
        processors = len(os.sched_getaffinity(0))  # without a number make starts everything at once
        self._cmake("--build", self.folder, "--parallel", str(processors), "--target", target, *found)
        return found

    def install(self, component, prefix):
        """Installs one component below prefix; returns {name: path} of its files. Installing writes the run path of a library."""
        self._cmake("--install", self.folder, "--component", component, "--prefix", prefix)
        return {name: os.path.join(folder, name) for folder, _, names in os.walk(prefix) for name in names}

    def library(self):
        """The path of libbraid.so, and the name by which programs ask for it."""
        path = os.path.realpath(os.path.join(self.folder, "libbraid.so"))
        listing = subprocess.run(["readelf", "-d", path], stdout=subprocess.PIPE, check=True, text=True).stdout
        return path, re.search(r"\(SONAME\).*\[(.*)\]", listing)[1]

    def _cmake(self, *arguments, **keywords):
        return subprocess.run(["cmake", *arguments], check=True, text=True, env=self.environment, **keywords)
