# SPDX-License-Identifier: BSD-3-Clause
"""build.py CC INCLUDE OUT.c: writes the C source of the extension module braid._braid.

Nothing of braid's API is declared by hand: the definitions are what the compiler's preprocessor makes of all headers in INCLUDE/braid. A function,
field or enumerator that is new there is in the module after the next build, and one that went away fails in the build or in
tests/python/test_api.py.

Two things are added. For each function whose last parameter is `struct braid_op **op`, or a stream, call_NAME() takes addresses as numbers, which is
much faster than cffi's pointers, and returns OP_RUNS for what goes on (native.c). With `later` it only submits; `ticket` is the call's own number.
And native.c itself.
"""
import os
import re
import subprocess
import sys
import tempfile

import cffi

HERE = os.path.dirname(os.path.abspath(__file__))

# What native.c offers.
NATIVE = """
int op_wait(struct braid_op *op, int timeout_ms);
int op_test(struct braid_op *op);
struct completion;
struct begun { long long ticket; struct braid_op *op; struct completion *completion; };
struct begun *op_begun(long long ticket);
void op_adopted(long long ticket);
int group_start(void);
int group_end(void);
int group_is_open(void);
void reduction_raised(void);
int op_has_ended(struct completion *);
void op_begins(struct completion *);
void op_forget(struct completion *);
int await_open(void);
uintptr_t array_address(uintptr_t object, int written);
"""

# The tensor at the beginning of DLPack's DLManagedTensor (dlpack.h, version 0.8).
DLPACK = """
struct dl_device { int32_t type, id; };
struct dl_type { uint8_t code, bits; uint16_t lanes; };
struct dl_tensor {
    void *data; struct dl_device device; int32_t ndim; struct dl_type dtype; int64_t *shape, *strides; uint64_t byte_offset;
};
"""


def preprocess(compiler, include, *options):
    """What the compiler makes of all public headers, without those of the C library."""
    names = sorted(name for name in os.listdir(os.path.join(include, "braid")) if name.endswith(".h"))
    with tempfile.TemporaryDirectory() as empty:
        for name in ("stddef.h", "stdint.h", "stdbool.h"):  # cffi knows their types
            open(os.path.join(empty, name), "w").close()
        return subprocess.run(
            [*compiler.split(), "-E", "-P", *options, "-nostdinc", "-I", empty, "-I", include, "-x", "c", "-"],
            input="".join(f"#include <braid/{name}>\n" for name in names),
            stdout=subprocess.PIPE, check=True, text=True,
        ).stdout


def constants(macros):
    """The numbers among the macros, as cffi wants them: it reads their values from the header."""
    pattern = r"^#define (BRAID_\w+) (?:[-()<> ]|\d\w*|U?INT\d+_MAX)+$"
    return "".join(f"#define {name} ...\n" for name in re.findall(pattern, macros, re.MULTILINE))


def calls(declarations):
    """(declarations, definitions) of call_NAME()."""
    heads, bodies = [], []
    for text in re.sub(r"\s+", " ", declarations).split(";"):
        match = re.fullmatch(r"\s*int braid_(\w+)\((.*), (struct braid_op \*\*op|void \*stream)\)", text)
        if not match or "(" in match[2]:
            continue
        name, parameters, arguments = match[1], [], []
        streams = match[3] == "void *stream"
        for parameter in match[2].split(", ") + (["void *stream"] if streams else []):
            pointer = re.fullmatch(r"(?:const )?(?:void|uint64_t) \*(\w+)", parameter)
            enumeration = re.fullmatch(r"(enum \w+) (\w+)", parameter)
            if pointer:
                parameters.append(f"uintptr_t {pointer[1]}")
                arguments.append(f"(void *){pointer[1]}")
            elif enumeration:
                parameters.append(f"int {enumeration[2]}")
                arguments.append(f"({enumeration[1]}){enumeration[2]}")
            else:
                parameters.append(parameter)
                arguments.append(re.search(r"(\w+)$", parameter)[1])
        call = f"braid_{name}({', '.join(arguments)}, &op)"
        head = f"int call_{name}(int later, long long ticket, {', '.join(parameters)})"
        heads.append(f"{head};\n")
        if streams:
            bodies.append(f"static {head}\n{{\n    (void)later, (void)ticket;\n    return braid_{name}({', '.join(arguments)});\n}}\n")
        else:
            bodies.append(
                f"static {head}\n{{\n    struct braid_op *op = NULL;\n    int rc = op_may_begin(later);\n\n    if (rc)\n        return rc;\n"
                f"    if (later)\n        OP_LATER(ticket, options, {call});\n    rc = {call};\n    return rc ? rc : op_goes_on(ticket, op, NULL);\n}}\n"
            )
    return "".join(heads), "".join(bodies)


def main():
    compiler, include, out = sys.argv[1:]
    declarations = preprocess(compiler, include)
    heads, bodies = calls(declarations)
    headers = sorted(name for name in os.listdir(os.path.join(include, "braid")) if name.endswith(".h"))
    with open(os.path.join(HERE, "native.c"), encoding="utf-8") as file:
        native = file.read()
    ffi = cffi.FFI()
    ffi.cdef(constants(preprocess(compiler, include, "-dM")) + declarations + DLPACK + NATIVE + heads)
    ffi.set_source("braid._braid", "".join(f"#include <braid/{name}>\n" for name in headers) + DLPACK + native + bodies)
    ffi.emit_c_code(out)
    os.utime(out)  # it is left alone where nothing has changed


main()
