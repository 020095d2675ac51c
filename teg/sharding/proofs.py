"""The proofs on which `verify` relies: the result of a copy from its source, and the terms a reduction leaves.

Facts about arrays are found once per distinct content: layers repeat, and so do their chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tapestry.teg.sharding.copies import CopyPlan
from tapestry.teg.sharding.expand import Buffer
from tapestry.teg.sharding.partition import (
    box_ids,
    constant_in_groups,
    group_numbers,
    nonempty,
    once_in_groups,
    partition_fault,
    projected,
    same_boxes,
)
from tapestry.teg.sharding.result_cache import ResultCache
from tapestry.teg.sharding.sharded_block import spec_boxes
from tapestry.teg.sharding.spec import Spec
from tapestry.teg.signature import PARALLEL, Signature
from tapestry.teg.views import ViewMap
from tapestry.teg.zspace import IndexProjection


@dataclass(frozen=True)
class ProofIssue:
    """A property that does not hold, apart from where it was found."""

    kind: str
    message: str
    expected: str


class Facts:
    """Answers about arrays of boxes on one mesh, each computed once and kept in `cache`."""

    def __init__(self, cache: ResultCache) -> None:
        self.cache, self.mesh_shape = cache, cache.mesh_shape

    def holds(self, key: Hashable, faults: Callable[[], Iterator[ProofIssue]]) -> bool:
        """Return whether something has no faults; the key has by value all that they depend on, but for names."""
        return self.cache.known(key, lambda: not any(True for _ in faults()))

    def boxes(self, spec: Spec, shape: tuple[int, ...]) -> np.ndarray:
        """Return the boxes of a spec, `(devices, rank, 2)`."""
        return spec_boxes(spec, shape, self.cache)

    def tiling(self, parts: np.ndarray, low: Sequence[int], high: Sequence[int]) -> str | None:
        """Return the cached result of `partition_fault`."""
        key = ("tiling", self.cache.key_of(parts), tuple(low), tuple(high))
        return self.cache.known(key, lambda: partition_fault(parts, low, high))

    def projected(self, rows: IndexProjection, index: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Return the cached result of `partition.projected`."""
        key = ("projected", rows, self.cache.key_of(index), shape)
        return self.cache.known(key, lambda: projected(rows, index, shape))

    def ids(self, parts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the cached result of `box_ids`."""
        return self.cache.known(("ids", self.cache.key_of(parts)), lambda: box_ids(parts))


def copy_faults(
    facts: Facts, plan: CopyPlan, source: Buffer, result: Buffer, shape: tuple[int, ...]
) -> Iterator[ProofIssue]:
    """Yield the faults that keep a copy from making `result` of `source`: terms, pieces, coverage."""
    steps = (*plan.scatter, *plan.reduce)
    axes = [a for _, names in steps for a in names]
    owners = {s.name: s.axis for s in facts.mesh_shape.sub_axes}
    misplaced = any(not names or any(owners[a] != axis for a in names) for axis, names in steps)
    if sorted(axes) != sorted(source.spec.partial) or misplaced:
        message = f"copy {result.key!r} combines terms over {axes}"
        yield ProofIssue("partial", message, f"its source is partial over {list(source.spec.partial)}")
        return
    if plan.middle.partial or result.spec.partial:
        yield ProofIssue(
            "partial", f"copy {result.key!r} leaves terms uncombined", "a copy's result is whole"
        )
    middle = facts.boxes(plan.middle, shape)
    yield from _combination_faults(facts, plan, source, result.key, middle)
    if plan.fetch:
        yield from _fetch_faults(facts, result, middle)
        return
    wrong = ~same_boxes(middle, result.boxes)
    if wrong.any():
        message = f"copy {result.key!r} ends with other boxes than its result's on {devices(wrong)}"
        yield ProofIssue("coverage", message, "without a fetch what is combined is the result")


def _combination_faults(
    facts: Facts, plan: CopyPlan, source: Buffer, key: str, middle: np.ndarray
) -> Iterator[ProofIssue]:
    """Yield faults unless every device works on a part it holds, and combines it with members that hold the same."""
    wrong = nonempty(middle) & ~within(middle, source.boxes)
    if wrong.any():
        message = f"copy {key!r} works on elements its source lacks on {devices(wrong)}"
        yield ProofIssue("coverage", message, "the middle spec lies inside the source's")
    if not plan.reduces:
        return
    for what, parts, steps in (
        ("hold", source.boxes, (*plan.scatter, *plan.reduce)),
        ("reduce", middle, plan.reduce),
    ):
        groups = group_numbers(facts.mesh_shape, [a for _, names in steps for a in names])
        if not constant_in_groups(facts.ids(parts)[0], groups):
            message = f"members of one reduction of copy {key!r} {what} different boxes"
            yield ProofIssue("partial", message, "terms that are combined are terms of the same elements")


def _fetch_faults(facts: Facts, result: Buffer, middle: np.ndarray) -> Iterator[ProofIssue]:
    """Yield faults unless distinct pieces tile their bounding box and cover what is needed: one origin per element."""
    _, distinct = facts.ids(middle)
    if len(distinct) == 0:
        if nonempty(result.boxes).any():
            yield ProofIssue(
                "coverage", f"copy {result.key!r} has no pieces to fetch", "some device holds each"
            )
        return
    low, high = distinct[:, :, 0].min(axis=0), distinct[:, :, 1].max(axis=0)
    fault = facts.tiling(middle, [int(n) for n in low], [int(n) for n in high])
    if fault is not None:
        message = f"the pieces of copy {result.key!r} do not tile what they are cut from: {fault}"
        yield ProofIssue("partition", message, "each element comes from exactly one piece")
    inside = (low <= result.boxes[..., 0]) & (result.boxes[..., 1] <= high)
    wrong = nonempty(result.boxes) & ~inside.all(axis=1)
    if wrong.any():
        message = f"copy {result.key!r} needs elements that no piece holds on {devices(wrong)}"
        yield ProofIssue("coverage", message, "the pieces cover what is needed")


def reduction_dims(signature: Signature) -> list[int]:
    """Return the positions of the reduction dimensions."""
    return [n for n, d in enumerate(signature.dims) if d.kind != PARALLEL]


def whole_terms(signature: Signature, index: np.ndarray) -> np.ndarray:
    """Return the index ranges `(devices, dims, 2)` with every reduction dimension whole: what outputs depend on.

    A reduction of nothing still makes its whole result.
    """
    full = index.copy()
    for n in reduction_dims(signature):
        full[:, n] = (0, max(signature.dims[n].size, 1))
    return full


def term_faults(
    facts: Facts, signature: Signature, buffer: Buffer, index: np.ndarray, of_round: bool = False
) -> Iterator[ProofIssue]:
    """Yield faults unless split reductions, and only they, leave partial terms, each held exactly once by a group.

    The terms that are complete together are those of all devices, or `of_round` those that devices have in a round.
    """
    reductions = reduction_dims(signature)
    low = [0] * len(reductions)
    high = [signature.dims[n].size for n in reductions]
    some = index[nonempty(index)][:, reductions]
    if of_round and len(some):
        low, high = some[:, :, 0].min(axis=0).tolist(), some[:, :, 1].max(axis=0).tolist()
    ranges = zip(reductions, low, high, strict=True)
    split = [n for n, start, end in ranges if (index[:, n] != (start, end)).any()]
    monoids = {signature.dims[n].kind for n in split}
    if monoids != ({buffer.spec.monoid} if buffer.spec.monoid is not None else set()):
        message = f"{buffer.key!r} is in {buffer.spec} while reductions are split by {sorted(monoids)}"
        yield ProofIssue("partial", message, "split reductions, and only they, leave partial terms")
        return
    if not split:
        return
    terms = np.ascontiguousarray(index[:, reductions])
    fault = facts.tiling(terms, low, high)
    groups = group_numbers(facts.mesh_shape, buffer.spec.partial)
    ids, distinct = facts.ids(terms)
    if fault is None and not constant_in_groups(facts.ids(buffer.boxes)[0], groups):
        fault = "members of a group hold terms of different elements"
    if fault is None and not once_in_groups(ids, len(distinct), groups):
        fault = "a group lacks a term or has it twice"
    if fault is not None:
        message = f"the terms of {buffer.key!r} over {list(buffer.spec.partial)} do not make it: {fault}"
        yield ProofIssue(
            "partial", message, "a group along the partial sub-axes holds each term exactly once"
        )


def whole(shape: tuple[int, ...], devices: int) -> np.ndarray:
    """Return the box of the whole tensor for every device."""
    one = np.array([(0, n) for n in shape], dtype=np.int64).reshape(1, len(shape), 2)
    return np.repeat(one, devices, axis=0)


def within(inner: np.ndarray, outer: np.ndarray) -> np.ndarray:
    """Return whether each inner box is inside its outer box, `(devices,)`."""
    inside: np.ndarray = np.all((outer[..., 0] <= inner[..., 0]) & (inner[..., 1] <= outer[..., 1]), axis=-1)
    return inside


def through(view: ViewMap, wanted: np.ndarray) -> np.ndarray:
    """Compute the range of the root that non-empty ranges of a view reach, `(devices, root rank, 2)`."""
    result = np.empty((len(wanted), len(view.dims), 2), dtype=np.int64)
    for k, d in enumerate(view.dims):
        if d.dim < 0:
            result[:, k] = (d.offset, d.offset + 1)
            continue
        first = d.stride * wanted[:, d.dim, 0] + d.offset
        last = d.stride * (wanted[:, d.dim, 1] - 1) + d.offset
        result[:, k, 0], result[:, k, 1] = np.minimum(first, last), np.maximum(first, last) + 1
    return result


def devices(wrong: np.ndarray) -> str:
    """Format the devices where something is wrong, the first few by number."""
    numbers = [int(d) for d in np.flatnonzero(wrong)]
    more = f" and {len(numbers) - 4} more" if len(numbers) > 4 else ""
    return f"device{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers[:4]))}{more}"
