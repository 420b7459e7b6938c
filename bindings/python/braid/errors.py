# SPDX-License-Identifier: BSD-3-Clause
"""What the library says when a call fails."""
from __future__ import annotations

import errno as _errno
from typing import NoReturn, Optional

from braid._braid import ffi, lib


class Error(OSError):
    """A call of the library failed: `errno` is its number (errno.ETIMEDOUT, ...), `strerror` its words, which name rank, level and device.

    Errors of arguments that the package finds itself are TypeError and ValueError. include/braid/braid.h lists the numbers of each call.
    """

    def __str__(self) -> str:
        return f"{self.strerror} ({_errno.errorcode.get(self.errno, self.errno)})"


def last_error(rc: int) -> Error:
    """The error with number -rc that this thread's last call ended with."""
    return Error(-rc, ffi.string(lib.braid_last_error()).decode(errors="replace"))


def check(rc: int, prefix: Optional[str] = None) -> int:
    """rc if it is no error; else the error is raised."""
    if rc < 0:
        fail(rc)
    return rc


def fail(rc: int) -> NoReturn:
    raise last_error(rc)
