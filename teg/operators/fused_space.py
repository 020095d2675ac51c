"""The index space of a fused block, derived from those of its steps.

Index dimensions of steps that run densely (stride 1, offset 0, element by element) along the same tensor
dimension are one *class*. A class that every output has, and that is parallel in all its steps, is a parallel
dimension of the block; one that the steps of all outputs reduce by one monoid is a dimension of that monoid.
Steps without the dimension are computed by every part, so products must have it. A class that some outputs
have and the others reduce is a *loop*: no part of a plan, but the block runs along it in small parts as well.
All other dimensions are whole in every part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tapestry.teg.operators.fused_body import FusedBody, FusedStep
from tapestry.teg.signature import PARALLEL, IndexDim, Row, Signature, projection, rows_of
from tapestry.teg.zspace import ZRange

# An index dimension of a step: the step's number and the dimension's position.
Place = tuple[int, int]


class FusedIndexSpace(NamedTuple):
    """The block's signature, its loops, and for each step the one that each own dimension runs along (-1: whole).

    The loops are counted after the dimensions of the signature; their kind is the monoid of those that reduce.
    """

    signature: Signature
    loops: tuple[IndexDim, ...]
    along: tuple[tuple[int, ...], ...]

    @property
    def index_range(self) -> ZRange:
        """The index range of all dimensions and loops."""
        return self.signature.index_range.cross(ZRange.of_shape([d.size for d in self.loops]))

    def split(self, step: int) -> tuple[int, ...]:
        """Return for each dimension of a step the block's dimension that parts of the block split it by (-1: none)."""
        return tuple(k if k < len(self.signature.dims) else -1 for k in self.along[step])

    def part(self, step: int, own: ZRange, index: ZRange) -> ZRange:
        """Return the part of a step's index range `own` that the part `index` of the block's range needs."""
        start = tuple(
            s if k < 0 else index.start[k] for s, k in zip(own.start, self.along[step], strict=True)
        )
        end = tuple(e if k < 0 else index.end[k] for e, k in zip(own.end, self.along[step], strict=True))
        return ZRange(start, end)


def space_of(body: FusedBody) -> FusedIndexSpace:
    """Derive the index space of the block with this body."""
    classes = _Classes(body)
    for v, (s, k) in body.producers().items():
        _join_value(classes, body, v, s, k)
    for v in range(len(body.inputs)):
        for d in range(len(body.inputs[v].shape)):
            _join_input(classes, body, v, d)
    specified = [(place, *kind) for place in classes.roots() if (kind := _kind(classes, body, place))]
    specified.sort(key=lambda a: (a[2], _standing(classes, body, a[0])))
    order = [place for place, _, _ in specified]
    named = zip(_names(classes, body, order), specified, strict=True)
    both = [(IndexDim(name, _size(body, place), kind), is_loop) for name, (place, kind, is_loop) in named]
    dims = tuple(d for d, is_loop in both if not is_loop)
    along = tuple(
        tuple(_position(order, classes.root((s, i))) for i in range(len(_dims(step))))
        for s, step in enumerate(body.steps)
    )
    split = [[k if k < len(dims) else -1 for k in own] for own in along]
    inputs = [_input_rows(body, split, v) for v in range(len(body.inputs))]
    outputs = [_output_rows(body, split, v) for v in body.outputs]
    sides = (tuple(projection(rows, len(dims)) for rows in side) for side in (inputs, outputs))
    return FusedIndexSpace(Signature(dims, *sides), tuple(d for d, is_loop in both if is_loop), along)


class _Classes:
    """Disjoint sets of index dimensions of steps; `blocked` ones must stay whole."""

    def __init__(self, body: FusedBody) -> None:
        self.above: dict[Place, Place] = {
            (s, i): (s, i) for s, step in enumerate(body.steps) for i in range(len(_dims(step)))
        }
        self.blocked: set[Place] = set()

    def root(self, place: Place) -> Place:
        while self.above[place] != place:
            place = self.above[place]
        return place

    def roots(self) -> list[Place]:
        return [p for p, above in self.above.items() if p == above]

    def members(self, root: Place) -> list[Place]:
        return [p for p in self.above if self.root(p) == root]

    def join(self, a: Place, b: Place) -> None:
        low, high = sorted((self.root(a), self.root(b)))
        self.above[high] = low

    def meet(self, a: Place, b: Place) -> bool:
        """Return whether the joined sets would hold two dimensions of one step."""
        a, b = self.root(a), self.root(b)
        steps = [s for s, _ in self.members(a)]
        return a != b and any(s in steps for s, _ in self.members(b))


def _dims(step: FusedStep) -> Sequence[IndexDim]:
    signature = step.definition.signature
    assert signature is not None
    return signature.dims


def _size(body: FusedBody, place: Place) -> int:
    return _dims(body.steps[place[0]])[place[1]].size


def _rows(step: FusedStep, side: str, k: int) -> tuple[Row | None, ...]:
    signature = step.definition.signature
    assert signature is not None
    return rows_of(signature.inputs[k] if side == "read" else signature.outputs[k])


def _is_dense(row: Row | None) -> bool:
    return row is not None and row.dim >= 0 and row[1:] == (1, 0, 1)


def _reads(body: FusedBody, v: int) -> Iterator[tuple[int, tuple[Row | None, ...]]]:
    """Yield every read of a value: the step and its rows."""
    for s, step in enumerate(body.steps):
        for k, read in enumerate(step.reads):
            if read == v:
                yield s, _rows(step, "read", k)


def _join_value(classes: _Classes, body: FusedBody, v: int, s: int, k: int) -> None:
    """Join producer and readers along an inner value, or block dimensions so that the producer computes all of it."""
    producer = body.steps[s]
    for d, made in enumerate(_rows(producer, "made", k)):
        if made is None:
            classes.blocked.update((s, i) for i in range(len(_dims(producer))))
            continue
        if made.dim < 0:
            continue
        place = (s, made.dim)
        if not _is_dense(made):
            classes.blocked.add(place)
        for reader, rows in _reads(body, v):
            row = rows[d]
            if row is not None and _is_dense(row) and _size(body, (reader, row.dim)) == _size(body, place):
                classes.join(place, (reader, row.dim))
            else:
                classes.blocked.add(place)


def _join_input(classes: _Classes, body: FusedBody, v: int, d: int) -> None:
    """Join the readers of an input along it, unless that would let one step run along it twice."""
    groups: dict[tuple[int, ...], list[Place]] = {}
    for s, rows in _reads(body, v):
        row = rows[d]
        if row is not None and row.dim >= 0:
            groups.setdefault((*row[1:], _size(body, (s, row.dim))), []).append((s, row.dim))
    for first, *others in groups.values():
        for other in others:
            if not classes.meet(first, other):
                classes.join(first, other)


def _kind(classes: _Classes, body: FusedBody, root: Place) -> tuple[str, bool] | None:
    """Determine the kind of the dimension that a class makes, and whether it is a loop; None where it makes none."""
    members = classes.members(root)
    steps = [s for s, _ in members]
    if len(set(steps)) < len(steps) or any(m in classes.blocked for m in members):
        return None
    if any(s not in steps and _is_product(body, step) for s, step in enumerate(body.steps)):
        return None
    kinds = {s: _dims(body.steps[s])[i].kind for s, i in members}
    producers = body.producers()
    found = {kinds.get(producers[v][0], "") for v in body.outputs}
    monoids = {k for k in kinds.values() if k != PARALLEL}
    if "" in found or len(monoids) > 1 or not monoids <= found:
        return None
    reducing = {s for s, k in kinds.items() if k != PARALLEL}
    read = {producers[v][0] for step in body.steps for v in step.reads if v in producers}
    if reducing & read or not reducing <= {producers[v][0] for v in body.outputs}:
        return None
    return next(iter(monoids), PARALLEL), len(found) > 1


def _is_product(body: FusedBody, step: FusedStep) -> bool:
    """Return whether a step is work for matrix units, too much for every part to repeat."""
    types = [body.types[v] for v in step.reads], [body.types[v] for v in step.makes]
    return step.operator.work(step.definition, *types).contracts


def _standing(classes: _Classes, body: FusedBody, root: Place) -> tuple[int, int]:
    """Return the sort key of a class: its dimension's position in the step of the first output."""
    last = body.producers()[body.outputs[0]][0]
    return next((0, i) for s, i in classes.members(root) if s == last)


def _names(classes: _Classes, body: FusedBody, roots: Sequence[Place]) -> list[str]:
    """Return the dimensions' names in the step of the first output, which differ."""
    last = body.producers()[body.outputs[0]][0]
    places = [next(p for p in classes.members(root) if p[0] == last) for root in roots]
    return [_dims(body.steps[s])[i].name for s, i in places]


def _position(order: Sequence[Place], root: Place) -> int:
    return order.index(root) if root in order else -1


def _input_rows(body: FusedBody, along: Sequence[Sequence[int]], v: int) -> list[Row]:
    """Build the rows by which the block reads an input: as all its readers do, or whole."""
    rows = []
    for d, size in enumerate(body.inputs[v].shape):
        found: set[Row | None] = set()
        for s, read in _reads(body, v):
            row = read[d]
            k = along[s][row.dim] if row is not None and row.dim >= 0 else -1
            found.add(row._replace(dim=k) if row is not None and k >= 0 else None)
            if row is not None and k >= 0 and not _covers(row, _size(body, (s, row.dim)), size):
                found.add(None)
        row = found.pop()
        rows.append(Row(-1, 0, 0, size) if found or row is None else row)
    return rows


def _covers(row: Row, steps: int, size: int) -> bool:
    """Return whether all of a tensor dimension is read."""
    ends = (row.offset, row.offset + row.stride * max(steps - 1, 0))
    return min(ends) <= 0 and max(ends) + row.extent >= size


def _output_rows(body: FusedBody, along: Sequence[Sequence[int]], v: int) -> list[Row]:
    s, k = body.producers()[v]
    rows = []
    for row, size in zip(_rows(body.steps[s], "made", k), body.types[v].shape, strict=True):
        k = along[s][row.dim] if row is not None and row.dim >= 0 else -1
        rows.append(row._replace(dim=k) if row is not None and k >= 0 else Row(-1, 0, 0, size))
    return rows
