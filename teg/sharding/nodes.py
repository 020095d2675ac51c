"""Writer of local tensors and the small blocks between shards: slices, joins, sums, each on a device."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
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


class Node(NamedTuple):
    """A block of an explicit graph with its outputs and their boxes; `site` is the abstract block that it is there for.

    Slices of flattened shards have no box. A copy is there for the block that waits for it.
    """

    block: Block
    outputs: tuple[Tensor, ...]
    boxes: tuple[ZRange | None, ...]
    site: str


@dataclass
class NodeWriter:
    """A writer that hands out its nodes in portions, and knows the local tensors that may still be read.

    `boxes` says for each local tensor which box of its abstract tensor it is; flattened slices have none. Every tensor
    belongs to a buffer of the expansion, and is forgotten when that is released.

    Raises:
        TooManyNodes: more than `limit` blocks are written.
    """

    limit: int | None = None
    site: str = ""
    tensors: dict[str, Tensor] = field(default_factory=dict)
    boxes: dict[str, ZRange] = field(default_factory=dict)
    devices: dict[str, int] = field(default_factory=dict)
    _written: int = 0
    _nodes: list[Node] = field(default_factory=list)
    _counts: dict[str, int] = field(default_factory=dict)
    _buffers: dict[str, str] = field(default_factory=dict)
    _members: dict[str, list[str]] = field(default_factory=dict)
    _views: dict[str, dict[tuple[Hashable, ...], str]] = field(default_factory=dict)
    _defined: dict[
        tuple[str, Attributes, tuple[TensorType, ...]], tuple[Definition, tuple[TensorType, ...]]
    ] = field(default_factory=dict)

    def take(self) -> list[Node]:
        """Return the nodes written since they were last taken."""
        taken, self._nodes = self._nodes, []
        return taken

    def release(self, buffer: str) -> None:
        """Forget the local tensors of a buffer: nothing reads them any more."""
        for tensor in self._members.pop(buffer, ()):
            for known in (self.tensors, self.boxes, self.devices, self._buffers, self._views):
                known.pop(tensor, None)

    def add(
        self,
        block: Block,
        outputs: Sequence[Tensor],
        boxes: Sequence[ZRange | None],
        buffers: Sequence[str],
    ) -> None:
        """Append one block with its output tensors, their boxes, and the buffers they belong to."""
        if self.limit is not None and self._written >= self.limit:
            raise TooManyNodes(self.limit)
        self._written += 1
        self._nodes.append(Node(block, tuple(outputs), tuple(boxes), self.site))
        self._counts.setdefault(block.site, 0)
        for tensor, box, buffer in zip(outputs, boxes, buffers, strict=True):
            self._know(tensor, box, block.device or 0, buffer)

    def hold(self, buffer: str, device: int, box: ZRange, dtype: str) -> str:
        """Return a new local tensor of a buffer that no block here writes."""
        tensor = Tensor(self.free(buffer, device), box.shape, dtype)
        self._know(tensor, box, device, buffer)
        return tensor.site

    def _know(self, tensor: Tensor, box: ZRange | None, device: int, buffer: str) -> None:
        self._counts.setdefault(tensor.site, 0)
        self.tensors[tensor.site] = tensor
        self.devices[tensor.site] = device
        self._buffers[tensor.site] = buffer
        self._members.setdefault(buffer, []).append(tensor.site)
        if box is not None:
            self.boxes[tensor.site] = box

    def free(self, name: str, device: int) -> str:
        """Return `name@device`, or the first `name@device.N` that names nothing yet."""
        site = f"{name}@{device}"
        if site not in self._counts:
            return site
        self._counts[site] += 1
        return f"{site}.{self._counts[site]}"

    def once(self, tensor: str, key: tuple[Hashable, ...], write: Callable[[str], str]) -> str:
        """Return what `write` makes of a local tensor and its buffer, written once for all who ask by this key."""
        made = self._views.setdefault(tensor, {})
        if key not in made:
            made[key] = write(self._buffers[tensor])
        return made[key]

    def apply(
        self,
        name: str,
        device: int,
        operator: str,
        attrs: Attributes,
        inputs: Sequence[str],
        box: ZRange | None,
        buffer: str | None = None,
    ) -> str:
        """Append a helper block of one output, pinned to a device; return its output.

        It belongs to `buffer`: to the one called `name` where none is given.
        """
        key = (operator, attrs, tuple(self.tensors[t].type for t in inputs))
        if key not in self._defined:
            self._defined[key] = define(*key)
        definition, (kind,) = self._defined[key]
        site = self.free(name, device)
        block = Block(site, definition, tuple(inputs), (site,), device=device)
        self.add(block, (Tensor(site, kind.shape, kind.dtype),), (box,), (buffer or name,))
        return site

    def rearranged(
        self, name: str, device: int, operator: str, attrs: Attributes, tensor: str, box: ZRange | None
    ) -> str:
        """Append a helper block that only rearranges a tensor, written once for all its readers."""
        key = (device, operator, attrs)
        return self.once(
            tensor, key, lambda buffer: self.apply(name, device, operator, attrs, (tensor,), box, buffer)
        )

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


class TooManyNodes(ValueError):
    """Error raised for more than `limit` nodes to be written; `nodes` is how many there are at least."""

    def __init__(self, limit: int, nodes: int | None = None) -> None:
        self.limit, self.nodes = limit, limit + 1 if nodes is None else nodes
        count = f"at least {nodes:,}" if nodes is not None else f"more than {limit:,}"
        super().__init__(
            f"the explicit graph has {count} blocks, over the limit of {limit:,}: work on the arrays of the "
            "expansion instead (verify and the simulator do), take a smaller mesh, or raise `limit`"
        )
