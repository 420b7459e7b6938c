# SPDX-License-Identifier: BSD-3-Clause
"""Collectives whose blocks differ in size (include/braid/vector.h)."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Sequence

from braid._braid import ffi
from braid.buffer import REDUCTIONS, SIZES, Span, span
from braid.collectives import CollectiveOptions, Form, agree
from braid.op import Operation

if TYPE_CHECKING:
    from typing_extensions import Unpack

NULL = ffi.NULL
_ALLTOALLV, _ALLGATHERV, _REDUCE_SCATTERV = Form("alltoallv"), Form("allgatherv"), Form("reduce_scatterv")
_GATHERV, _SCATTERV = Form("gatherv"), Form("scatterv")


class Vectors:
    """counts and displacements have an entry for each rank, in elements; without displacements each block stands right behind the one before. One buffer
    alone is both, as in the even forms. What the blocks reach to must lie in the buffer."""

    rank: int
    size: int

    def alltoallv(self, x: Any, send_counts: Sequence[int], out: Any = None, recv_counts: Optional[Sequence[int]] = None, *,
                  send_displacements: Optional[Sequence[int]] = None, recv_displacements: Optional[Sequence[int]] = None, type: Optional[str] = None,
                  **options: "Unpack[CollectiveOptions]") -> Optional[Operation]:
        """Block r of x goes to rank r, block r of out comes from rank r. Without out, and with the counts of x, x is both."""
        source = span(x, out is None, type, options)
        target = source if out is None else span(out, True, type, options)
        if out is None:
            recv_counts, recv_displacements = send_counts, send_displacements
        elif recv_counts is None:
            raise ValueError("recv_counts are missing: how many elements come from each rank")
        agree(target, target[1], source[2], "out")
        sends, receives = self._blocks_of(source, send_counts, send_displacements, "x"), self._blocks_of(target, recv_counts, recv_displacements, "out")
        return self._run(_ALLTOALLV, (source[0], *sends, target[0], *receives, source[2]), (source[3], target[3]), **options)

    def allgatherv(self, x: Any, counts: Sequence[int], out: Any = None, *, displacements: Optional[Sequence[int]] = None, type: Optional[str] = None,
                   **options: "Unpack[CollectiveOptions]") -> Optional[Operation]:
        """out: block r, of counts[r] elements, is the x of rank r. Without out x is that, with this rank's block in its place."""
        whole = span(x if out is None else out, True, type, options)
        blocks = self._blocks_of(whole, counts, displacements, "out")
        found = self._own(whole, counts, displacements) if out is None else span(x, False, type, options)
        agree(found, counts[self.rank], whole[2], "x")
        return self._run(_ALLGATHERV, (found[0], found[1], whole[0], *blocks, whole[2]), (found[3], whole[3]), **options)

    def reduce_scatterv(self, x: Any, counts: Sequence[int], out: Any = None, op: str = "sum", *, displacements: Optional[Sequence[int]] = None,
                        type: Optional[str] = None, **options: "Unpack[CollectiveOptions]") -> Optional[Operation]:
        """out: block `rank`, of counts[rank] elements, of the reduction of all x. Without out it is left in x, in its place."""
        whole = span(x, out is None, type, options)
        blocks = self._blocks_of(whole, counts, displacements, "x")
        found = self._own(whole, counts, displacements) if out is None else span(out, True, type, options)
        agree(found, counts[self.rank], whole[2], "out")
        return self._run(_REDUCE_SCATTERV, (whole[0], *blocks, found[0], whole[2], REDUCTIONS[op]), (found[3], whole[3]), **options)

    def gatherv(self, x: Any, counts: Optional[Sequence[int]] = None, out: Any = None, *, root: int = 0, displacements: Optional[Sequence[int]] = None,
                type: Optional[str] = None, **options: "Unpack[CollectiveOptions]") -> Optional[Operation]:
        """out on root: block r, of counts[r] elements, is the x of rank r; elsewhere counts and out are not looked at. Without out x is that on root."""
        if self.rank != root:
            address, count, kind, keep = span(x, False, type, options)
            return self._run(_GATHERV, (address, count, 0, NULL, NULL, kind, root), keep, **options)
        whole = span(x if out is None else out, True, type, options)
        blocks = self._blocks_of(whole, counts, displacements, "out")
        found = self._own(whole, counts, displacements) if out is None else span(x, False, type, options)
        agree(found, found[1], whole[2], "x")
        return self._run(_GATHERV, (found[0], found[1], whole[0], *blocks, whole[2], root), (found[3], whole[3]), **options)

    def scatterv(self, x: Any, counts: Optional[Sequence[int]] = None, out: Any = None, *, root: int = 0,
                 displacements: Optional[Sequence[int]] = None, type: Optional[str] = None,
                 **options: "Unpack[CollectiveOptions]") -> Optional[Operation]:
        """x on root: block r, of counts[r] elements, is the out of rank r. Without out root's stays in x, and elsewhere x is what is written."""
        if self.rank != root:
            address, count, kind, keep = span(x if out is None else out, True, type, options)
            return self._run(_SCATTERV, (0, NULL, NULL, address, count, kind, root), keep, **options)
        whole = span(x, False, type, options)
        blocks = self._blocks_of(whole, counts, displacements, "x")
        found = self._own(whole, counts, displacements) if out is None else span(out, True, type, options)
        agree(found, found[1], whole[2], "out")
        return self._run(_SCATTERV, (whole[0], *blocks, found[0], found[1], whole[2], root), (found[3], whole[3]), **options)

    def _blocks_of(self, whole: Span, counts: Any, displacements: Any, what: str) -> Any:
        """The arrays for C, after a look whether the blocks lie in the buffer: C knows no buffer's end."""
        if counts is None or len(counts) != self.size or (displacements is not None and len(displacements) != self.size):
            raise ValueError(f"counts and displacements have an entry for each of the {self.size} ranks")
        at = 0
        for r, count in enumerate(counts):
            start = at if displacements is None else displacements[r]
            at = start + count
            if start < 0 or count < 0 or at > whole[1]:
                raise ValueError(f"block {r} of {what} is elements {start} to {at}, and it has {whole[1]}")
        return ffi.new("size_t[]", list(counts)), NULL if displacements is None else ffi.new("size_t[]", list(displacements))

    def _own(self, whole: Span, counts: Sequence[int], displacements: Optional[Sequence[int]]) -> Span:
        """This rank's block in a buffer of all ranks'."""
        start = sum(counts[: self.rank]) if displacements is None else displacements[self.rank]
        return whole[0] + start * SIZES[whole[2]], counts[self.rank], whole[2], None
