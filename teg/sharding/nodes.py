"""Writer of local tensors and the small blocks between shards: slices, concatenations, sums, each on a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tapestry.teg.builder import define
from tapestry.teg.graph import Attributes, Block, Definition, Tensor, TensorType, attributes
from tapestry.teg.operators.monoids import identity
from tapestry.teg.operators.selectors import sliced, unsqueezed, view_attributes
from tapestry.teg.zspace import ZRange

# Functions of `cell` that combine two partial results; a logsumexp is a `reduce` over stacked ones.
COMBINE = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and"}
# Terms of one combining expression; more are combined in several blocks, which keeps expressions shallow.
TERMS = 32


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

    def flat(self, name: str, device: int, tensor: str) -> str:
        """Flatten a local tensor to one row of elements."""
        size = ZRange.of_shape(self.tensors[tensor].shape).size
        return self.rearranged(name, device, "reshape", attributes(shape=(size,)), tensor, None)

    def flat_slice(self, name: str, device: int, tensor: str, start: int, end: int) -> str:
        """Return elements `[start, end)` of a row; the row itself where that is all of it."""
        (size,) = self.tensors[tensor].shape
        if (start, end) == (0, size):
            return tensor
        view = view_attributes(sliced((size,), (start,), (end,)))
        return self.rearranged(name, device, "view", view, tensor, None)

    def shaped(self, name: str, device: int, row: str, box: ZRange) -> str:
        """Reshape a row of elements to a box."""
        return self.apply(name, device, "reshape", attributes(shape=box.shape), (row,), box)

    def concat(
        self, name: str, device: int, parts: Sequence[str], axis: int, box: ZRange | None = None
    ) -> str:
        """Concatenate parts along an axis on one device; one part alone is received, which is a block too."""
        return self.apply(name, device, "concat", attributes(axis=axis), parts, box)

    def join(self, name: str, device: int, parts: Mapping[ZRange, str], axis: int = 0) -> str:
        """Concatenate the boxes of a grid into one, in nested steps where they differ in several dimensions."""
        whole = next(iter(parts))
        for box in parts:
            whole = whole.bounding(box)
        starts = sorted({box.start[axis] for box in parts})
        if len(parts) == 1 or axis == whole.rank - 1:
            ordered = [parts[box] for box in sorted(parts, key=lambda b: b.start)]
            return self.concat(name, device, ordered, axis, whole)
        if len(starts) == 1:
            return self.join(name, device, parts, axis + 1)
        rows = []
        for start in starts:
            row = {box: tensor for box, tensor in parts.items() if box.start[axis] == start}
            alone = next(iter(row.values())) if len(row) == 1 else None
            rows.append(alone or self.join(name, device, row, axis + 1))
        return self.concat(name, device, rows, axis, whole)

    def combine(self, name: str, device: int, parts: Sequence[str], monoid: str, box: ZRange | None) -> str:
        """Combine partial results of one shape on one device, in the given order."""
        total = parts[0]
        for k in range(1, len(parts), TERMS - 1):
            total = self._combine(name, device, (total, *parts[k : k + TERMS - 1]), monoid, box)
        return total

    def _combine(self, name: str, device: int, parts: Sequence[str], monoid: str, box: ZRange | None) -> str:
        tensor = self.tensors[parts[0]]
        names = tuple(f"d{k}" for k in range(len(tensor.shape)))
        if monoid in COMBINE:
            expr: tuple[object, ...] = ("input", 0)
            for k in range(1, len(parts)):
                expr = (COMBINE[monoid], expr, ("input", k))
            dims = tuple(zip(names, tensor.shape, strict=True))
            attrs = attributes(expr=expr, labels=(names,) * len(parts), dims=dims, dtype=tensor.dtype)
            return self.apply(name, device, "cell", attrs, parts, box)
        lifted = view_attributes(unsqueezed(tensor.shape, (0,)))
        rows = [self.apply(name, device, "view", lifted, (t,), None) for t in parts]
        stack = self.concat(name, device, rows, 0)
        attrs = attributes(monoid=monoid, labels=("term", *names), output=names)
        return self.apply(name, device, "reduce", attrs, (stack,), box)

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
