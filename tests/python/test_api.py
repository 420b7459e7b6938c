# SPDX-License-Identifier: BSD-3-Clause
# ranks: 1
"""All of the C API can be reached from Python, and what is shown has a docstring and types."""
import inspect
import os
import re

import braid
from braid._braid import lib

FOLDER = os.path.dirname(os.path.realpath(braid.__file__))
# What Python has by other means.
NOT_NEEDED = {
    "braid_gradient": "Session.gradients, of memory that the package gives",
    "braid_gradient_wait": "Session.wait() by braid_gradient_test(), a slice of time at once",
    "braid_stats_name": "names of the fields of Stats, Rail and Peer",
    "braid_test_any": "wait_any() with timeout=0",
    "braid_wait_all": "Operation.wait() of each",
    "braid_stats_get": "the same",
}


def test_every_function_of_the_headers_is_used():
    sources = "".join(open(os.path.join(FOLDER, name), encoding="utf-8").read() for name in os.listdir(FOLDER) if name.endswith(".py"))
    sources += open(os.path.join(FOLDER, os.pardir, "native.c"), encoding="utf-8").read()
    forms = set(re.findall(r'Form\("(\w+)"', sources))
    missing = []
    for name in dir(lib):
        match = re.fullmatch(r"braid_(\w+?)(_init|_on_stream)?", name)
        if match and name not in NOT_NEEDED and not re.search(rf"\b{name}\b", sources) and match[1] not in forms:
            missing.append(name)
    assert missing == []


def test_documented_and_typed():
    bare = []
    for name in braid.__all__:
        thing = getattr(braid, name)
        if not callable(thing):
            continue
        if not thing.__doc__:
            bare.append(name)
        for member, function in inspect.getmembers(thing, inspect.isfunction) if inspect.isclass(thing) else []:
            if not member.startswith("_") and function.__module__.startswith("braid"):
                if not function.__doc__ or "return" not in function.__annotations__:
                    bare.append(f"{name}.{member}")
    assert bare == [] and os.path.exists(os.path.join(FOLDER, "py.typed"))


def test_version():
    assert braid.__version__ == f"{lib.BRAID_VERSION_MAJOR}.{lib.BRAID_VERSION_MINOR}.{lib.BRAID_VERSION_PATCH}"
