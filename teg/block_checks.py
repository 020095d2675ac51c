"""Consistency checks of a block with its operator and tensors: arity, types, signature, projected ranges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tapestry.teg.graph import Block, TensorType
from tapestry.teg.issues import Issue
from tapestry.teg.operators.operator import Inferred, Operator
from tapestry.teg.signature import Signature, reached
from tapestry.teg.zspace import IndexProjection, ZRange

MOST_POINTS = 2**61


def arity_issues(block: Block, path: str) -> Iterator[Issue]:
    """Yield issues unless the signature has one projection per input and output."""
    if block.signature is None:
        return
    for key, sites, projections in (
        ("inputs", block.inputs, block.signature.inputs),
        ("outputs", block.outputs, block.signature.outputs),
    ):
        if len(sites) != len(projections):
            expected = f"the signature of its definition has {len(projections)}"
            yield Issue("arity", f"{path}.{key}", f"{len(sites)} {key}", expected)


def inference_issues(
    block: Block, inferred: Inferred, outputs: Sequence[TensorType], path: str
) -> Iterator[Issue]:
    """Yield issues unless the stored signature and output types are those the operator infers for these inputs.

    A block without a signature is fixed, whatever its operator would infer.
    """
    if block.signature is not None and block.signature is not inferred.signature:
        yield Issue(
            "signature",
            f"{path}.definition",
            f"the stored signature is not that of {block.operator!r} on these inputs: "
            f"{_difference(block.signature, inferred.signature)}",
            "store what the operator infers (teg.builder.define), or none for a fixed block",
        )
    if len(outputs) != len(inferred.outputs):
        expected = f"{block.operator!r} makes {len(inferred.outputs)}"
        yield Issue("arity", f"{path}.outputs", f"{len(outputs)} outputs", expected)
        return
    for k, (stored, wanted) in enumerate(zip(outputs, inferred.outputs, strict=True)):
        if stored != wanted:
            message = f"tensor {block.outputs[k]!r} is {type_text(stored)}"
            yield Issue(
                "type", f"{path}.outputs[{k}]", message, f"{block.operator!r} makes {type_text(wanted)}"
            )


def index_issues(block: Block, path: str) -> Iterator[Issue]:
    """Yield issues unless the index space can be counted and a part of it is inside it."""
    if block.signature is not None:
        count = block.signature.index_range.size
        if count >= MOST_POINTS:
            message = f"{block.operator!r} has an index space of {count} points"
            yield Issue("index", f"{path}.definition", message, f"stay below {MOST_POINTS}")
    if block.index is None:
        return
    dims = () if block.signature is None else block.signature.dims
    whole = ZRange.of_shape([d.size for d in dims])
    if block.index.rank != whole.rank or not whole.contains(block.index):
        names = ", ".join(d.name for d in dims) or "no dimensions"
        message = f"index {block.index} is not inside the index range"
        yield Issue("index", f"{path}.index", message, f"stay inside {whole} over ({names})")


def range_issues(
    block: Block, inputs: Sequence[TensorType], outputs: Sequence[TensorType], operator: Operator, path: str
) -> Iterator[Issue]:
    """Yield issues unless the index range projects exactly to the range of every tensor.

    Inputs may be padded: what extends beyond the tensor is clipped. A view may skip elements. For a part of
    the index space the tensors are the parts that its projections name.
    """
    if block.signature is None:
        return
    index = block.signature.index_range if block.index is None else block.index
    for k, (p, kind) in enumerate(zip(block.signature.inputs, inputs, strict=True)):
        where = f"{path}.inputs[{k}]"
        if len(p.shape) != len(kind.shape):
            yield _rank_issue(p, kind, where)
        elif block.index is None:
            yield from _whole_input(reached(p, index), kind, operator.view, index, where)
        else:
            yield from _part_input(block, k, index, kind, operator, where)
    for k, (p, kind) in enumerate(zip(block.signature.outputs, outputs, strict=True)):
        where = f"{path}.outputs[{k}]"
        box = reached(p, index)
        if len(p.shape) != len(kind.shape):
            yield _rank_issue(p, kind, where)
        elif block.index is None and not _same(box, ZRange.of_shape(kind.shape)):
            yield _range_issue(index, box, ZRange.of_shape(kind.shape), where)
        elif block.index is not None and box.shape != kind.shape:
            message = f"index range {index} projects to {box}, of shape {list(box.shape)}"
            yield Issue(
                "range", where, message, f"the tensor has shape {list(kind.shape)}; they must be equal"
            )


def _whole_input(box: ZRange, kind: TensorType, view: bool, index: ZRange, path: str) -> Iterator[Issue]:
    tensor = ZRange.of_shape(kind.shape)
    read = box.intersection(tensor)
    if view and not (box.is_empty or tensor.contains(box)):
        yield _range_issue(index, box, tensor, path, "a view stays inside its root")
    elif not view and not _same(read, tensor):
        margin = not read.is_empty
        hint = "put a view that crops the unread margin before the block" if margin else "they must be equal"
        yield _range_issue(index, box, tensor, path, hint, "margin" if margin else "range")


def _part_input(
    block: Block, k: int, index: ZRange, kind: TensorType, operator: Operator, path: str
) -> Iterator[Issue]:
    """Yield issues unless a part reads the projected box clipped to the abstract tensor (its end may be unknown)."""
    assert block.signature is not None
    projection = block.signature.inputs[k]
    box, full = projection.project(index), projection.project(block.signature.index_range)
    specified = _inferred_shape(block, k, operator)
    for d, size in enumerate(kind.shape):
        start = max(box.start[d], 0)
        most = max(box.end[d] - start, 0)
        if specified is not None:
            least = most = max(min(box.end[d], specified[d]) - start, 0)
        else:
            least = max(min(box.end[d], full.end[d] - _padding(block, full.start[d], full.end[d])) - start, 0)
        if size < least or (size > most and not operator.view):
            span = f"{least}" if least == most else f"{least} to {most}"
            message = f"index range {index} projects to {box}; dimension {d} of the tensor has size {size}"
            yield Issue("range", path, message, f"expected {span}")


def _inferred_shape(block: Block, k: int, operator: Operator) -> tuple[int, ...] | None:
    """Return the whole shape of input `k` if the operator can derive it from a definition, which may be foreign; else
    None.
    """
    if operator.input_shapes is None:
        return None
    try:
        shapes = operator.input_shapes(block.definition)
        rank = len(block.signature.inputs[k].shape) if block.signature is not None else 0
        return shapes[k] if len(shapes[k]) == rank else None
    except Exception:  # attributes that do not fit; what is wrong with them is reported elsewhere
        return None


def _padding(block: Block, start: int, end: int) -> int:
    """Return how far windows may extend beyond a tensor's end; unknown operators with padding are unrestricted."""
    pads = block.definition.get("pads")
    if isinstance(pads, tuple) and all(type(n) is int for n in pads):
        widest: int = max((0, *pads))
        return widest
    return end if start < 0 else 0


def _range_issue(
    index: ZRange,
    box: ZRange,
    tensor: ZRange,
    path: str,
    hint: str = "they must be equal",
    kind: str = "range",
) -> Issue:
    return Issue(
        kind, path, f"index range {index} projects to {box}", f"the tensor's range is {tensor}; {hint}"
    )


def _rank_issue(projection: IndexProjection, kind: TensorType, path: str) -> Issue:
    message = f"the projection has rank {len(projection.shape)}"
    return Issue("range", path, message, f"the tensor has rank {len(kind.shape)}; they must be equal")


def _same(a: ZRange, b: ZRange) -> bool:
    return a == b or (a.is_empty and b.is_empty)


def _difference(stored: Signature | None, wanted: Signature | None) -> str:
    if stored is None or wanted is None:
        return (
            f"{'none' if stored is None else 'one'} is stored, {'none' if wanted is None else 'one'} expected"
        )
    if stored.dims != wanted.dims:
        return f"dimensions {_dims_text(stored)} instead of {_dims_text(wanted)}"
    for key, a, b in (("inputs", stored.inputs, wanted.inputs), ("outputs", stored.outputs, wanted.outputs)):
        if len(a) != len(b):
            return f"{len(a)} {key} instead of {len(b)}"
        for k, (p, q) in enumerate(zip(a, b, strict=True)):
            if p != q:
                return f"{key}[{k}] projects by {_projection_text(p)} instead of {_projection_text(q)}"
    return "equal in value, but not in type (use Python ints)"


def _dims_text(signature: Signature) -> str:
    return "(" + ", ".join(f"{d.name}:{d.size} {d.kind}" for d in signature.dims) + ")"


def _projection_text(projection: IndexProjection) -> str:
    start = projection.start
    return f"{[list(row) for row in start.matrix]} + {list(start.offset)}, shape {list(projection.shape)}"


def type_text(kind: TensorType) -> str:
    """Format a tensor type for messages: `float32[2, 3]`."""
    return f"{kind.dtype}[{', '.join(map(str, kind.shape))}]"
