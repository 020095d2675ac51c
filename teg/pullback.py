"""Pullback of ranges: the parts of its sources from which a graph computes a range of any tensor.

Each step is analytic: the index range that makes an output range, projected to the inputs. What a signature says
of whole granules only (elements in turn, zeros between, other shapes) is followed to the element.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tapestry.teg.graph import Block, Definition, Graph, TensorType
from tapestry.teg.operators.reshaping import groups
from tapestry.teg.signature import PARALLEL, Row, Signature, rows_of
from tapestry.teg.zspace import ZRange

# More ranges of one tensor than this become the box around them.
MOST_RANGES = 64

Pull = Callable[[Definition, Sequence[TensorType], ZRange], tuple[ZRange, ...]]


def pull_back(graph: Graph, site: str, box: ZRange | None = None) -> dict[str, tuple[ZRange, ...]]:
    """Compute the ranges of source tensors that `box` (None: all) of a tensor, or of a sink's, is computed from.

    Sources of which nothing is needed are left out. Ranges of one source may overlap, where several ways lead to it.

    Raises:
        ValueError: there is no such tensor or sink, or the box lies outside.
    """
    sink = graph.by_site.get(site)
    tensor = sink.inputs[0] if sink is not None and sink.operator == "sink" else site
    if tensor not in graph.tensors:
        raise ValueError(f"graph {graph.name!r} has no tensor or sink {site!r}")
    whole = ZRange.of_shape(graph.tensors[tensor].shape)
    wanted = whole if box is None else box
    if wanted.rank != whole.rank or not whole.contains(wanted):
        raise ValueError(f"{wanted} is no part of {tensor!r}, whose range is {whole}")
    needed: dict[str, list[ZRange]] = {tensor: [wanted]}
    for block in reversed(graph.blocks):
        if block.operator == "source":
            continue
        for k, output in enumerate(block.outputs):
            for part in _settled(needed.pop(output, [])):
                for name, read in zip(block.inputs, _inputs(graph, block, k, part), strict=True):
                    if not read.is_empty:
                        needed.setdefault(name, []).append(read)
    return {name: ranges for name, found in needed.items() if (ranges := _settled(found))}


def _settled(found: Sequence[ZRange]) -> tuple[ZRange, ...]:
    """Remove empty ranges and ranges inside others; too many become the one range around them."""
    kept: list[ZRange] = []
    for box in sorted({b for b in found if not b.is_empty}, key=lambda b: (-b.size, b.start)):
        if not any(other.contains(box) for other in kept):
            kept.append(box)
    return tuple(kept) if len(kept) <= MOST_RANGES else (ZRange.around(kept),)


def _inputs(graph: Graph, block: Block, position: int, box: ZRange) -> tuple[ZRange, ...]:
    kinds = graph.input_types(block)
    if block.index is not None and block.signature is not None:
        raise ValueError(f"block {block.site!r} is a shard: pull back through the abstract graph (`recover`)")
    return pull_back_block(block.definition, kinds, box, position)


def pull_back_block(
    definition: Definition, inputs: Sequence[TensorType], box: ZRange, position: int = 0
) -> tuple[ZRange, ...]:
    """Compute the range of each input that `box` of output `position` of an operator is computed from.

    A fixed block needs everything. Ranges are clipped to the inputs; nothing is needed for an empty box.
    """
    if box.is_empty:
        return tuple(ZRange.of_shape((0,) * len(t.shape)) for t in inputs)
    if definition.operator in FINER:
        return FINER[definition.operator](definition, inputs, box)
    if definition.signature is None:
        return tuple(ZRange.of_shape(t.shape) for t in inputs)
    index = needed_index(definition.signature, position, box)
    return tuple(
        p.project(index).intersection(ZRange.of_shape(t.shape))
        for p, t in zip(definition.signature.inputs, inputs, strict=True)
    )


def needed_index(signature: Signature, position: int, box: ZRange) -> ZRange:
    """Compute the index points that make elements of `box` of an output; reduction dimensions are needed whole."""
    starts, ends = [0] * len(signature.dims), [d.size for d in signature.dims]
    for d, row in enumerate(rows_of(signature.outputs[position])):
        if row is None or row.dim < 0 or signature.dims[row.dim].kind != PARALLEL:
            continue
        low, high = _points(row, box.start[d], box.end[d])
        starts[row.dim] = max(starts[row.dim], low)
        ends[row.dim] = min(ends[row.dim], high)
    return ZRange(tuple(starts), tuple(max(a, b) for a, b in zip(starts, ends, strict=True)))


def _points(row: Row, low: int, high: int) -> tuple[int, int]:
    """Compute the indices `i` for which `[stride i + offset, ... + extent)` meets `[low, high)`."""
    first, last = low - row.offset - row.extent + 1, high - 1 - row.offset
    if row.stride < 0:
        first, last = -last, -first
    stride = abs(row.stride)
    return -(-first // stride), last // stride + 1


def _interleave(definition: Definition, inputs: Sequence[TensorType], box: ZRange) -> tuple[ZRange, ...]:
    """Pull a box back through an interleave: element `i` of input `k` is at `i * count + k`."""
    axis, count = definition["axis"], len(inputs)
    return tuple(
        _along(box, axis, *_points(Row(0, count, k, 1), box.start[axis], box.end[axis])) for k in range(count)
    )


def _dilate(definition: Definition, _: Sequence[TensorType], box: ZRange) -> tuple[ZRange, ...]:
    axis = definition["axis"]
    return (_along(box, axis, *_points(Row(0, definition["factor"], 0, 1), box.start[axis], box.end[axis])),)


def _along(box: ZRange, axis: int, start: int, end: int) -> ZRange:
    return ZRange(
        (*box.start[:axis], start, *box.start[axis + 1 :]),
        (*box.end[:axis], max(end, start), *box.end[axis + 1 :]),
    )


def _reshape(definition: Definition, inputs: Sequence[TensorType], box: ZRange) -> tuple[ZRange, ...]:
    """Pull a box back through a reshape, by groups: the box around the row-major run from first to last element."""
    (shape, _), wanted = inputs[0], definition["shape"]
    starts, ends = [0] * len(shape), list(shape)
    for group in groups(shape, wanted):
        sizes = wanted[slice(*group.outputs)]
        first = _number(box.start[slice(*group.outputs)], sizes)
        last = _number([e - 1 for e in box.end[slice(*group.outputs)]], sizes)
        low, high = (_place(n, shape[slice(*group.inputs)]) for n in (first, last))
        for k, (a, b) in enumerate(zip(low, high, strict=True), start=group.inputs[0]):
            starts[k], ends[k] = a, b + 1
            if a != b:
                break
    return (ZRange(tuple(starts), tuple(ends)),)


def _number(point: Sequence[int], sizes: Sequence[int]) -> int:
    found = 0
    for p, n in zip(point, sizes, strict=True):
        found = found * n + p
    return found


def _place(number: int, sizes: Sequence[int]) -> list[int]:
    found = []
    for n in reversed(sizes):
        found.append(number % n)
        number //= n
    return found[::-1]


FINER: Mapping[str, Pull] = {"interleave": _interleave, "dilate": _dilate, "reshape": _reshape}
