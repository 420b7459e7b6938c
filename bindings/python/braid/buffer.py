# SPDX-License-Identifier: BSD-3-Clause
"""What may be given as a buffer, and how its address, length and type are found without copying it.

In this order: numpy arrays; CUDA tensors of torch; `__cuda_array_interface__` (version 3); DLPack (`__dlpack__`), which torch, cupy and jax have; the
buffer protocol (PEP 3118): bytearray, array.array, memoryview, mmap. Elements must lie one behind the other in C's order. What is received into must be
writable.

Kernels that have been launched on GPU memory may still run when a call is made. So the host waits for the stream that the array's producer uses, except
in calls with stream=, which run behind what is in that stream:

    torch                       the current stream of the tensor's device
    __cuda_array_interface__    its "stream"; None or absent: the producer says that there is nothing to wait for
    DLPack                      the legacy default stream, once the producer has put it behind its own
"""
from __future__ import annotations

import ctypes
import functools
import os
import re
import sys
from typing import Any, Callable, Dict, Optional, Tuple

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


class OnGpu:
    """What keeps a buffer of a GPU, and how the stream is waited for in which it may be written or read."""

    __slots__ = ("_held", "wait")

    def __init__(self, held: Any, wait: Callable[[], None]) -> None:
        self._held, self.wait = held, wait


def waits_of(keep: Any) -> Tuple[Callable[[], None], ...]:
    """Of the fourth of a Span, or a tuple of these: what is to be waited for before the buffers are used again."""
    if isinstance(keep, tuple):
        return tuple(wait for each in keep for wait in waits_of(each))
    return (keep.wait,) if isinstance(keep, OnGpu) else ()


def span(x: Any, written: bool, type_name: Optional[str] = None, options: Optional[Dict[str, Any]] = None) -> Span:
    """Where the elements of x are. written: the call writes them. type_name: what they are, whatever x says, for types that Python has not.
    options: of the call, which may name a stream."""
    if type_name is not None:
        return _retyped(_find(x, written, True, options), type_name)
    if type(x) is ndarray:
        address = array_address(id(x), written)
        if address:
            return (address, x.size, DTYPES[x.dtype], x)
    return _find(x, written, False, options)


def _retyped(found: Span, type_name: str) -> Span:
    address, count, kind, keep = found
    wanted = TYPES[type_name]
    size = -kind if kind < 0 else SIZES[kind]
    if SIZES[wanted] != 1 and size not in (1, SIZES[wanted]) or count * size % SIZES[wanted]:
        raise ValueError(f"{count} elements of {size} bytes are not elements of type {type_name}, which has {SIZES[wanted]} bytes")
    return address, count * size // SIZES[wanted], wanted, keep


def _find(x: Any, written: bool, raw: bool, options: Optional[Dict[str, Any]] = None) -> Span:
    """span() by way of what x offers. raw: the type does not matter, and where braid has it not, `type` is -(bytes of an element)."""
    if numpy is not None and isinstance(x, numpy.ndarray):
        return _of_array(x, written, raw)
    if isinstance(x, (str, bytes)) and written:
        raise TypeError(f"a {type(x).__name__} cannot be written; give a bytearray or an array")
    streamed = options is not None and options.get("stream") is not None
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor) and x.is_cuda:
        return _of_torch(torch, x, raw, streamed)
    if hasattr(x, "__cuda_array_interface__"):
        return _of_cuda(x, written, raw, streamed)
    if hasattr(x, "__dlpack__"):
        return _of_dlpack(x, raw, streamed)
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


def _of_torch(torch: Any, x: Any, raw: bool, streamed: bool) -> Span:
    """torch's __cuda_array_interface__ names no stream and has not all types; its __dlpack__ wants the tensor's device to be the current one."""

    def wait() -> None:
        torch.cuda.current_stream(x.device).synchronize()

    if x.requires_grad or x.is_conj() or x.is_neg():
        raise ValueError("the tensor requires a gradient, or is a view that computes its values; give x.detach(), x.resolve_conj() or x.resolve_neg()")
    if x.layout != torch.strided or not x.is_contiguous():
        raise ValueError("the tensor is not contiguous in C's order; x.contiguous() makes a copy that is: braid copies nothing behind your back")
    name = str(x.dtype).rpartition(".")[2]
    name = _ALIASES.get(name, name)
    if name not in TYPES and not raw:
        raise TypeError(f"braid has no elements of type {x.dtype}; it has {', '.join(TYPES)}. type= says what bytes stand for")
    if not streamed:
        wait()
    return (x.data_ptr(), x.numel(), TYPES[name] if name in TYPES else -x.element_size(), OnGpu(x, wait))


def _of_cuda(x: Any, written: bool, raw: bool, streamed: bool) -> Span:
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
    if not streamed:
        _wait_as_told(interface)
    return (address or 0, _product(shape), TYPES[name] if name in TYPES else -(bits // 8), OnGpu(x, lambda: _wait_as_told(x.__cuda_array_interface__)))


def _wait_as_told(interface: Dict[str, Any]) -> None:
    if interface.get("stream") is not None:
        synchronize(interface["stream"], interface["data"][0] or 0)


_DLPACK = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool", 10: "float8_e4m3", 12: "float8_e5m2"}
_DLPACK_HANDLE = 3
_DLPACK_HOST, _DLPACK_CUDA, _DLPACK_CUDA_HOST, _DLPACK_CUDA_MANAGED = 1, 2, 3, 13
_POINTER_CONTEXT = 1  # CU_POINTER_ATTRIBUTE_CONTEXT
_DLPACK_LEGACY, _DLPACK_UNORDERED = 1, -1  # streams: the legacy default one; none, the producer orders nothing


def _of_dlpack(x: Any, raw: bool, streamed: bool) -> Span:
    """https://dmlc.github.io/dlpack/latest/python_spec.html"""
    device = int(x.__dlpack_device__()[0])
    if device not in (_DLPACK_HOST, _DLPACK_CUDA, _DLPACK_CUDA_HOST, _DLPACK_CUDA_MANAGED):
        raise ValueError(f"memory of DLPack's device type {device} is not the host's or an NVIDIA GPU's")
    if device != _DLPACK_CUDA:
        address, count, kind, capsule = _of_capsule(x.__dlpack__(), raw)
        return (address, count, kind, (capsule, x))

    def wait() -> None:
        x.__dlpack__(stream=_DLPACK_LEGACY)  # this stream goes behind what the producer has under way
        synchronize(_DLPACK_LEGACY, address)

    address, count, kind, capsule = _of_capsule(x.__dlpack__(stream=_DLPACK_UNORDERED if streamed else _DLPACK_LEGACY), raw)
    if not streamed:
        synchronize(_DLPACK_LEGACY, address)
    return (address, count, kind, OnGpu((capsule, x), wait))


def _of_capsule(capsule: Any, raw: bool) -> Span:
    """The tensor of a capsule, which is held instead of consumed: its own destructor gives the tensor back."""
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
    return (start, _product(shape), TYPES[name] if name in TYPES else -size, capsule)


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


@functools.lru_cache(maxsize=None)
def _driver(name: str) -> Any:
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        raise Error(19, f"the array lies on a GPU, but the driver cannot be loaded: {error}") from None


def synchronize(stream: int, memory: int) -> None:
    """Waits until a CUDA stream has come to its end. 1 and 2 are the driver's handles of the legacy and the per-thread default stream, here of the context
    that the memory lies in, where it lies in one."""
    name = os.environ.get("BRAID_CUDA_LIBRARY")
    cuda = _driver(name if name and name != "none" else "libcuda.so.1")
    context = ctypes.c_void_p()
    cuda.cuPointerGetAttribute(ctypes.byref(context), _POINTER_CONTEXT, ctypes.c_uint64(memory))
    if context:
        cuda.cuCtxPushCurrent_v2(context)
    rc = cuda.cuStreamSynchronize(ctypes.c_void_p(stream))
    if context:
        cuda.cuCtxPopCurrent_v2(ctypes.byref(context))
    if rc:
        raise Error(5, f"cuStreamSynchronize of stream {stream:#x}: CUDA error {rc}")
