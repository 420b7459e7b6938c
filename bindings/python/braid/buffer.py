# SPDX-License-Identifier: BSD-3-Clause
"""What may be given as a buffer, and how its address, length and type are found without copying it.

In this order: numpy arrays; `__cuda_array_interface__` (version 3); DLPack (`__dlpack__`), which torch, cupy and jax have; the buffer protocol
(PEP 3118): bytearray, array.array, memoryview, mmap. Elements must lie one behind the other in C's order. What is received into must be writable.
"""
from __future__ import annotations

import ctypes
import re
import sys
from typing import Any, Optional, Tuple

from braid._braid import ffi, lib
from braid.errors import Error

try:
    import numpy
except ImportError:  # everything but Comm.empty() and sessions works without
    numpy = None


class _Names(dict):
    """The enumerators of an enum of the headers, by the names that Python gives them; an unknown name is an error with words."""

    def __init__(self, enum: str, what: str, prefix: str = "BRAID_") -> None:
        members = ffi.typeof(f"enum {enum}").relements
        super().__init__(sorted(((name[len(prefix):].lower(), value) for name, value in members.items()
                                 if name != "BRAID_REDUCTION_USER"), key=lambda item: item[1]))
        self.what = what

    def __missing__(self, name: Any) -> int:
        if isinstance(name, Reduction) and self is REDUCTIONS:
            return name.number
        raise ValueError(f"there is no {self.what} {name!r}; there are {', '.join(self)}")


class Reduction:
    """A reduction of the program's own, of Comm.reduction(), to be given as op=. It lives as long as its communicator."""

    def __init__(self, number: int, function: Any) -> None:
        self.number, self._function = number, function


TYPES = _Names("braid_type", "type")
ORDERS = _Names("braid_order", "order", "BRAID_ORDER_")
SIGNALS = _Names("braid_signal", "change of a number", "BRAID_SIGNAL_")
REDUCTIONS = _Names("braid_reduction", "reduction")
TYPE_NAMES = {value: name for name, value in TYPES.items()}


def _size(name: str) -> int:
    """Bytes of an element: its name ends with the bits, but for bool, and float8, whose formats follow."""
    return 1 if name == "bool" else int(re.match(r"[a-z]+(\d+)", name)[1]) // 8


SIZES = {value: _size(name) for name, value in TYPES.items()}

# Formats of the struct module in native order, which memoryview has.
_FORMATS = {"f": "float32", "d": "float64", "e": "float16", "?": "bool", "c": "uint8", "Zf": "complex64", "Zd": "complex128"}
for _letter in "bhilqn":
    _bits = 8 * ctypes.sizeof({"b": ctypes.c_byte, "h": ctypes.c_short, "i": ctypes.c_int, "l": ctypes.c_long,
                               "q": ctypes.c_longlong, "n": ctypes.c_ssize_t}[_letter])
    _FORMATS[_letter], _FORMATS[_letter.upper()] = f"int{_bits}", f"uint{_bits}"

# Of ml_dtypes' numpy types, which jax and torch's users have. braid's float8_e4m3 is OCP's, which has no infinities; ml_dtypes' own of this name has them.
_ALIASES = {"float8_e4m3fn": "float8_e4m3", "float8_e4m3": "float8_e4m3 of IEEE's kind"}
_OBJECTS = "the elements are Python objects, that is addresses, which mean nothing to other ranks"


class _Dtypes(dict):
    """Types by numpy's dtype objects, found once each."""

    def __missing__(self, dtype: Any) -> int:
        name = _ALIASES.get(dtype.name, dtype.name)
        if not dtype.isnative:
            raise ValueError(f"elements of type {dtype} are in the other byte order; braid has the host's: x.astype(x.dtype.newbyteorder('='))")
        if name not in TYPES:
            raise TypeError(f"braid has no elements of type {dtype}; it has {', '.join(TYPES)}. type= says what bytes stand for")
        self[dtype] = TYPES[name]
        return self[dtype]


DTYPES = _Dtypes()


# A buffer that was understood: the address of its first element, how many there are, their type, and what must live while it is used. A plain
# tuple: making one of a class takes as long as a small all-reduce.
Span = Tuple[int, int, int, Any]


def _layout_trusted() -> bool:
    """Does native.c know where numpy keeps an array's address and flags?"""
    for array in (numpy.zeros(3), numpy.zeros((4, 4))[:, 1:2], numpy.zeros((2, 3), "i4")[1:], numpy.frombuffer(b"abcd", "u1")):
        interface = array.__array_interface__
        for written in (False, True):
            good = array.flags.c_contiguous and (array.flags.writeable or not written)
            if lib.array_address(id(array), written) != (interface["data"][0] if good else 0):
                return False
    return True


_trusted = numpy is not None and sys.implementation.name == "cpython" and not hasattr(sys, "gettotalrefcount") and _layout_trusted()
ndarray = numpy.ndarray if _trusted else type("NoArray", (), {})
array_address = lib.array_address


def span(x: Any, written: bool, type_name: Optional[str] = None) -> Span:
    """Where the elements of x are. written: the call writes them. type_name: what they are, whatever x says, for types that Python has not."""
    if type_name is not None:
        return _retyped(_find(x, written, True), type_name)
    if type(x) is ndarray:
        address = array_address(id(x), written)
        if address:
            return (address, x.size, DTYPES[x.dtype], x)
    return _find(x, written, False)


def _retyped(found: Span, type_name: str) -> Span:
    address, count, kind, keep = found
    wanted = TYPES[type_name]
    size = -kind if kind < 0 else SIZES[kind]
    if SIZES[wanted] != 1 and size not in (1, SIZES[wanted]) or count * size % SIZES[wanted]:
        raise ValueError(f"{count} elements of {size} bytes are not elements of type {type_name}, which has {SIZES[wanted]} bytes")
    return address, count * size // SIZES[wanted], wanted, keep


def _find(x: Any, written: bool, raw: bool) -> Span:
    """span() by way of what x offers. raw: the type does not matter, and where braid has it not, `type` is -(bytes of an element)."""
    if numpy is not None and isinstance(x, numpy.ndarray):
        return _of_array(x, written, raw)
    if isinstance(x, (str, bytes)) and written:
        raise TypeError(f"a {type(x).__name__} cannot be written; give a bytearray or an array")
    if hasattr(x, "__cuda_array_interface__"):
        return _of_cuda(x, written, raw)
    if hasattr(x, "__dlpack__"):
        return _of_dlpack(x, written, raw)
    try:
        view = memoryview(x)
    except TypeError:
        raise TypeError(f"a {type(x).__name__} is no buffer: give a numpy array, or what has __dlpack__, __cuda_array_interface__ or the buffer protocol") from None
    if not view.c_contiguous:
        raise ValueError("the elements of the buffer do not lie one behind the other; copy it first: braid copies nothing behind your back")
    if written and view.readonly:
        raise ValueError(f"the buffer is read-only, and the call writes it ({type(x).__name__})")
    if "O" in re.sub(":[^:]*:", "", view.format):  # between colons are names of fields
        raise TypeError(f"format {view.format!r}: {_OBJECTS}")
    name = _FORMATS.get(view.format.lstrip("@="))
    if name not in TYPES and not raw:
        raise TypeError(f"braid has no elements of format {view.format!r}; type= says what bytes stand for")
    # from_buffer() holds the buffer, so that a bytearray cannot be resized while it is used.
    held = ffi.from_buffer("char[]", view, require_writable=written)
    return (int(ffi.cast("uintptr_t", held)), view.nbytes // view.itemsize, TYPES[name] if name in TYPES else -view.itemsize, (held, x))


def _of_array(x: Any, written: bool, raw: bool) -> Span:
    if not x.flags.c_contiguous:
        raise ValueError("the array is not contiguous in C's order; numpy.ascontiguousarray(x) makes a copy that is: braid copies nothing behind your back")
    if written and not x.flags.writeable:
        raise ValueError("the array is read-only, and the call writes it")
    if x.dtype.hasobject:
        raise TypeError(f"dtype {x.dtype}: {_OBJECTS}")
    kind = DTYPES[x.dtype] if not raw else -x.dtype.itemsize
    return (x.__array_interface__["data"][0], x.size, kind, x)


def _of_cuda(x: Any, written: bool, raw: bool) -> Span:
    """https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html"""
    interface = x.__cuda_array_interface__
    address, readonly = interface["data"]
    shape, strides = interface["shape"], interface.get("strides")
    code, bits = interface["typestr"][1], 8 * int(interface["typestr"][2:])
    name = {"f": "float", "i": "int", "u": "uint", "c": "complex", "b": "bool"}.get(code, code) + (str(bits) if code != "b" else "")
    if code == "O":
        raise TypeError(f"type {interface['typestr']}: {_OBJECTS}")
    if interface["typestr"][0] == ">":
        raise ValueError(f"elements of type {interface['typestr']} are in the other byte order")
    if name not in TYPES and not raw:
        raise TypeError(f"braid has no elements of type {interface['typestr']}; type= says what bytes stand for")
    if interface.get("mask") is not None:
        raise TypeError("braid has no masked arrays")
    _check_strides(shape, strides, bits // 8)
    if written and readonly:
        raise ValueError("the array is read-only, and the call writes it")
    if interface.get("stream") is not None:
        synchronize(interface["stream"])
    return (address or 0, _product(shape), TYPES[name] if name in TYPES else -(bits // 8), x)


_DLPACK = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool", 10: "float8_e4m3", 12: "float8_e5m2"}
_DLPACK_HANDLE = 3
_DLPACK_HOST, _DLPACK_CUDA, _DLPACK_CUDA_HOST, _DLPACK_CUDA_MANAGED = 1, 2, 3, 13


def _of_dlpack(x: Any, written: bool, raw: bool) -> Span:
    """https://dmlc.github.io/dlpack/latest/python_spec.html. The capsule is held instead of consumed: its own destructor gives the tensor back."""
    device = int(x.__dlpack_device__()[0])
    if device not in (_DLPACK_HOST, _DLPACK_CUDA, _DLPACK_CUDA_HOST, _DLPACK_CUDA_MANAGED):
        raise ValueError(f"memory of DLPack's device type {device} is not the host's or an NVIDIA GPU's")
    if device == _DLPACK_CUDA:
        capsule = x.__dlpack__(stream=1)  # the legacy default stream goes behind what the producer has under way
        synchronize(1)
    else:
        capsule = x.__dlpack__()
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    tensor = ffi.cast("struct dl_tensor *", address(capsule, b"dltensor"))
    kind, shape = tensor.dtype, [tensor.shape[i] for i in range(tensor.ndim)]
    if kind.code == _DLPACK_HANDLE:
        raise TypeError("the elements of the DLPack tensor are handles, which mean nothing to other ranks")
    name = _DLPACK.get(kind.code, f"code {kind.code} ")
    if kind.code not in (6, 10, 12):
        name += str(kind.bits)
    if (name not in TYPES or kind.lanes != 1) and not raw:
        raise TypeError(f"braid has no elements of DLPack's type {name}; type= says what bytes stand for")
    size = kind.bits * kind.lanes // 8
    _check_strides(shape, None if tensor.strides == ffi.NULL else [tensor.strides[i] * size for i in range(tensor.ndim)], size)
    start = int(ffi.cast("uintptr_t", tensor.data)) + tensor.byte_offset
    return (start, _product(shape), TYPES[name] if name in TYPES else -size, (capsule, x))


def _product(shape: Any) -> int:
    count = 1
    for length in shape:
        count *= length
    return count


def _check_strides(shape: Any, strides: Any, size: int) -> None:
    """Do the elements, of `size` bytes, lie one behind the other in C's order?"""
    if strides is None or _product(shape) == 0:
        return
    for length, stride in zip(reversed(shape), reversed(strides)):
        if length > 1 and stride != size:
            raise ValueError("the array is not contiguous in C's order; make a copy that is: braid copies nothing behind your back")
        size *= length


def stream_handle(stream: Any) -> int:
    """A CUDA stream as a number: of an int, torch.cuda.Stream, cupy.cuda.Stream, or what has __cuda_stream__."""
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    for name in "cuda_stream", "ptr":
        if hasattr(stream, name):
            return int(getattr(stream, name))
    return int(stream)


def synchronize(stream: int) -> None:
    """Waits until a CUDA stream has come to its end; 1 and 2 are the driver's handles of the legacy and the per-thread default stream."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise Error(19, f"the array lies on a GPU, but the driver cannot be loaded: {error}") from None
    rc = cuda.cuStreamSynchronize(ctypes.c_void_p(stream))
    if rc:
        raise Error(5, f"cuStreamSynchronize of stream {stream:#x}: CUDA error {rc}")
