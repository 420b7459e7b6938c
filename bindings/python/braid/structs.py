# SPDX-License-Identifier: BSD-3-Clause
"""Structs of the headers, made of keyword arguments and turned into named tuples. Which fields there are the headers alone say."""
from __future__ import annotations

from collections import namedtuple
from typing import Any, Callable, Dict, List, Tuple

from braid._braid import ffi
from braid.buffer import ORDERS, REDUCTIONS, TYPES
from braid.errors import check

# What the package sets itself, or has another form for.
_HIDDEN = ("struct_size", "reserved", "done", "context", "id", "wait_ms")
_NAMES = {"enum braid_type": TYPES, "enum braid_reduction": REDUCTIONS, "enum braid_order": ORDERS}


def new(name: str, given: Dict[str, Any] = {}) -> Tuple[Any, List[Any]]:
    """A struct whose fields are those given, all others zero; and what must live as long as it. Times, *_ms in C, are in seconds and without _ms."""
    struct, keep = ffi.new(f"struct {name} *"), []
    fields = dict(ffi.typeof(f"struct {name}").fields)
    if "struct_size" in fields:
        struct.struct_size = ffi.sizeof(f"struct {name}")
    for key, setting in given.items():
        if setting is None:
            continue
        if key in fields and key not in _HIDDEN:
            setattr(struct, key, _field(fields[key].type, setting, keep))
        elif f"{key}_ms" in fields:
            setattr(struct, f"{key}_ms", round(setting * 1000) or int(setting > 0))  # the shortest is 1 ms; 0 stands for the default
        else:
            known = [field[: -len("_ms")] if field.endswith("_ms") else field for field in fields if field not in _HIDDEN]
            raise TypeError(f"there is no option {key!r}; there are {', '.join(known)}")
    return struct, keep


def _field(kind: Any, setting: Any, keep: List[Any]) -> Any:
    """A keyword argument as a field of that C type takes it."""
    if kind.kind == "enum":
        return _NAMES[kind.cname][setting]
    if kind.kind == "pointer":
        held = ffi.new("char[]", setting.encode()) if kind.item.cname == "char" else ffi.new(f"{kind.item.cname}[]", list(setting))
        keep.append(held)
        return held
    return setting


def _value(item: Any) -> Any:
    """What a field holds, in Python: a number, text, or a tuple of numbers."""
    if not isinstance(item, ffi.CData):
        return item
    return ffi.string(item).decode(errors="replace") if ffi.typeof(item).item.cname == "char" else tuple(item)


def tuple_of(title: str, name: str, doc: str) -> Tuple[Any, Callable[[Any], Any]]:
    """A named tuple with the fields of a struct, and the function that makes one of a struct."""
    fields = [field for field, _ in ffi.typeof(f"struct {name}").fields if field not in _HIDDEN]
    kind = namedtuple(title, fields, module="braid")  # type: ignore[misc]
    kind.__doc__ = doc
    return kind, lambda struct: kind(*(_value(getattr(struct, field)) for field in fields))


def rows(function: Any, comm: Any, name: str, make: Callable[[Any], Any]) -> List[Any]:
    """All that a function like braid_rail_stats(comm, out, max) fills in."""
    room = 16
    while True:
        out = ffi.new(f"struct {name}[]", room)
        out[0].struct_size = ffi.sizeof(f"struct {name}")
        count = check(function(comm, out, room))
        if count <= room:
            return [make(out[i]) for i in range(count)]
        room = count
