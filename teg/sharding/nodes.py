"""Writer of local tensors and the small blocks between shards: slices, joins, sums, each on a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from tapestry.teg.builder import define
from tapestry.teg.graph import Attributes, Block, Definition, Tensor, TensorType, attributes
from tapestry.teg.operators.monoids import identity
from tapestry.teg.operators.selectors import sliced, view_attributes
from tapestry.teg.zspace import ZRange


class Placed(NamedTuple):
    """A local tensor that is elements from `first` on of the flattened `box` of its abstract tensor."""

    tensor: str
    box: ZRange
    first: int = 0


@dataclass
class NodeWriter:
    """The collected blocks of an explicit graph.

    `boxes` says for each local tensor which box of its abstract tensor it is; flattened slices have none.

    Raises:
        ValueError: more than `limit` blocks are written.
    """

    limit: int
    blocks: list[Block] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    boxes: dict[str, ZRange] = field(default_factory=dict)
    _sites: set[str] = field(default_factory=set)
    _counts: dict[str, int] = field(default_factory=dict)
    _views: dict[tuple[int, str, Attributes, str], str] = field(default_factory=dict)
    _defined: dict[
        tuple[str, Attributes, tuple[TensorType, ...]], tuple[Definition, tuple[TensorType, ...]]
    ] = field(default_factory=dict)

    def add(self, block: Block, outputs: Sequence[Tensor], boxes: Sequence[ZRange | None]) -> None:
        """Append one block with its output tensors and their boxes."""
        if len(self.blocks) >= self.limit:
            raise too_large(self.limit)
        self.blocks.append(block)
        self._sites.add(block.site)
        for tensor, box in zip(outputs, boxes, strict=True):
            self.tensors[tensor.site] = tensor
            if box is not None:
                self.boxes[tensor.site] = box

    def knows(self, site: str) -> bool:
        """Return whether a block of this site is written."""
        return site in self._sites

    def free(self, name: str, device: int) -> str:
        """Return `name@device`, or the first `name@device.N` that names nothing yet."""
        stem = site = f"{name}@{device}"
        while site in self._sites or site in self.tensors:
            self._counts[stem] = self._counts.get(stem, 0) + 1
            site = f"{stem}.{self._counts[stem]}"
        return site

    def apply(
        self,
        name: str,
        device: int,
        operator: str,
        attrs: Attributes,
        inputs: Sequence[str],
        box: ZRange | None,
    ) -> str:
        """Append a helper block of one output, pinned to a device; return its output."""
        key = (operator, attrs, tuple(self.tensors[t].type for t in inputs))
        if key not in self._defined:
            self._defined[key] = define(*key)
        definition, (kind,) = self._defined[key]
        site = self.free(name, device)
        block = Block(site, definition, tuple(inputs), (site,), device=device)
        self.add(block, (Tensor(site, kind.shape, kind.dtype),), (box,))
        return site

    def rearranged(
        self, name: str, device: int, operator: str, attrs: Attributes, tensor: str, box: ZRange | None
    ) -> str:
        """Append a helper block that only rearranges a tensor, written once for all its readers."""
        key = (device, operator, attrs, tensor)
        if key not in self._views:
            self._views[key] = self.apply(name, device, operator, attrs, (tensor,), box)
        return self._views[key]

    def slice(self, name: str, device: int, tensor: str, box: ZRange) -> str:
        """Return the part `box` of a local tensor; the tensor itself where that is all of it."""
        held = self.boxes[tensor]
        if held == box:
            return tensor
        start = [s - h for s, h in zip(box.start, held.start, strict=True)]
        end = [e - h for e, h in zip(box.end, held.start, strict=True)]
        view = view_attributes(sliced(held.shape, start, end))
        return self.rearranged(name, device, "view", view, tensor, box)

    def flat_slice(self, name: str, device: int, tensor: str, start: int, end: int) -> str:
        """Return elements `[start, end)` of a flattened tensor as a row; the tensor itself where that is all of it."""
        if self.tensors[tensor].shape == (end - start,):
            return tensor
        return self.rearranged(name, device, "flat_slice", attributes(start=start, end=end), tensor, None)

    def assemble(
        self,
        name: str,
        device: int,
        pieces: Sequence[Placed],
        box: ZRange,
        *,
        onto: str | None = None,
        is_open: bool = False,
    ) -> str:
        """Write pieces to their places in a box; one piece alone is received, which is a block too.

        `onto` is an open assembly of the box to continue; one that `is_open` is to be continued.
        """
        begun = () if onto is None else (onto,)
        form = {"onto": True} if begun else {"open": True} if is_open else {}
        return self._assemble(name, device, pieces, box, box, begun, form)

    def assemble_row(self, name: str, device: int, rows: Sequence[str]) -> str:
        """Write rows of elements one after the other to a row."""
        sizes = [self.tensors[t].shape[0] for t in rows]
        ends = list(accumulate(sizes))
        pieces = [Placed(t, ZRange((b - n,), (b,))) for t, n, b in zip(rows, sizes, ends, strict=True)]
        return self._assemble(name, device, pieces, ZRange((0,), (ends[-1],)), None)

    def _assemble(
        self,
        name: str,
        device: int,
        pieces: Sequence[Placed],
        whole: ZRange,
        box: ZRange | None,
        begun: Sequence[str] = (),
        form: Mapping[str, bool] | None = None,
    ) -> str:
        moved = (p.box.translate(tuple(-s for s in whole.start)) for p in pieces)
        attrs = attributes(
            shape=whole.shape,
            boxes=tuple((b.start, b.end) for b in moved),
            firsts=tuple(p.first for p in pieces),
            **(form or {}),
        )
        return self.apply(name, device, "assemble", attrs, [*begun, *(p.tensor for p in pieces)], box)

    def accumulate(
        self, name: str, device: int, terms: Sequence[str], monoid: str, box: ZRange | None
    ) -> str:
        """Combine partial results of one shape on one device, in the given order."""
        if len(terms) == 1:
            return terms[0]
        return self.apply(name, device, "accumulate", attributes(monoid=monoid), terms, box)

    def constant(self, name: str, device: int, box: ZRange, dtype: str, monoid: str = "sum") -> str:
        """Append a box full of a monoid's identity: the partial result of a device without work."""
        dims = tuple((f"d{k}", n) for k, n in enumerate(box.shape))
        attrs = attributes(expr=("const", identity(monoid, dtype)), labels=(), dims=dims, dtype=dtype)
        return self.apply(name, device, "cell", attrs, (), box)


def too_large(limit: int, nodes: int | None = None) -> ValueError:
    """Build the error for writing out more than `limit` blocks."""
    count = f"at least {nodes:,}" if nodes is not None else f"more than {limit:,}"
    return ValueError(
        f"the explicit graph has {count} blocks, over the limit of {limit:,}: work on the arrays of the "
        "expansion instead (verify and the simulator do), take a smaller mesh, or raise `limit`"
    )
