"""The strategies of a block on a view: every assignment of logical axes to its index dimensions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from itertools import product
from typing import NamedTuple

import numpy as np

from tapestry.costmodel.layout_choices import DimensionOrders, program_dimension_orders
from tapestry.costmodel.lowered_specs import lowered
from tapestry.costmodel.view import View
from tapestry.teg.graph import Block, Definition, Graph
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.spec import WHOLE, Spec, Split, chunk_size
from tapestry.teg.sharding.strategy import (
    Read,
    Strategy,
    consumer_spec,
    producer_spec,
    read_of,
    splittable,
    written_spec,
)
from tapestry.teg.sharding.text import parse_spec
from tapestry.teg.signature import PARALLEL, Row, rows_of

LARGEST_FAMILY = 1024


class PinError(ValueError):
    """Error raised when a pin cannot be kept; `site` is the block or tensor that was pinned."""

    def __init__(self, site: str, why: str) -> None:
        super().__init__(f"pin {site!r}: {why}")
        self.site = site


def pins_of_state(graph: Graph, pins: Mapping[str, str]) -> dict[str, str]:
    """Return the pins with those of sinks that carry state moved to their sources, where the state begins.

    Raises:
        PinError: source and sink of one state are pinned to different specs.
    """
    found = dict(pins)
    for sink, source in graph.carriers.items():
        pin = found.pop(sink, None)
        if pin is not None and found.setdefault(source.site, pin) != pin:
            why = f"it carries {source.site!r}, which is pinned to {found[source.site]}: pin one of them"
            raise PinError(sink, why)
    return found


class StrategyFamily:
    """All strategies of one class of blocks on one view, with the specs they name.

    `needed[k][s]` is the consumer spec of strategy `s` for the root of input `k`, `made[k][s]` the spec of output `k`.
    Every strategy comes with every choice of `dimension_orders`: gene value `s * len(dimension_orders) + o` is
    strategy `s` with tensors in the dimension orders `o`, of which 0 is the program's own. `strategies` may be passed
    to replace all of the view's.
    """

    def __init__(
        self,
        definition: Definition,
        reads: tuple[tuple[tuple[int, ...], Read], ...],
        ranks: tuple[int, ...],
        granules: tuple[int, ...],
        view: View,
        dimension_orders: Sequence[DimensionOrders] = (),
        strategies: Sequence[Strategy] = (),
    ) -> None:
        self.definition, self.view = definition, view
        enumerated = None if strategies else _enumerated(*_kinds_of(definition, granules, view), view)
        self.strategies = list(strategies if enumerated is None else enumerated.strategies)
        self.dimension_orders = tuple(dimension_orders) or (program_dimension_orders(len(reads), len(ranks)),)
        signature = definition.signature
        self.needed = [
            self._each(
                sorted({row.dim for row in read.rows if row.dim >= 0}),
                partial(consumer_spec, read.rows, shape, signature, exact=definition.carries),
            )
            for shape, read in reads
        ]
        known = {} if enumerated is None else enumerated.written
        self.made = [self._written(k, rank, known) for k, rank in enumerate(ranks)]

    def _written(self, position: int, rank: int, known: _Written) -> list[Spec]:
        """Return the spec of an output in every strategy: the splits of its dimensions and of reductions matter.

        `known` are those of the same strategies.
        """
        signature = self.definition.signature
        if signature is None:
            return self._each((), partial(producer_spec, None, position, rank))
        rows, kinds = rows_of(signature.outputs[position]), tuple(d.kind for d in signature.dims)
        if (rows, kinds) not in known:
            dims = {row.dim for row in rows if row is not None and row.dim >= 0}
            dims |= {k for k, kind in enumerate(kinds) if kind != PARALLEL}
            known[rows, kinds] = self._each(sorted(dims), partial(written_spec, rows, signature))
        return known[rows, kinds]

    def _each(self, dims: Sequence[int], spec_of: Callable[[Strategy], Spec]) -> list[Spec]:
        """Return the spec of every strategy, where only the splits of `dims` matter; each is built once."""
        known: dict[tuple[Split, ...], Spec] = {}
        result = []
        for strategy in self.strategies:
            key = tuple(strategy.splits[d] for d in dims)
            if key not in known:
                known[key] = spec_of(strategy)
            result.append(known[key])
        return result

    def keep_pinned(self, site: str, pin: str, shape: Sequence[int]) -> None:
        """Keep only the strategies that produce (or, for a sink, consume) the tensor in the spec of text `pin`.

        Where none has exactly this spec, those whose granules make the same chunks of `shape` are kept.

        Raises:
            PinError: the text is no spec, or no strategy of this view gives it.
        """
        specs = self.made[0] if self.made else self.needed[0]
        try:
            wanted = parse_spec(pin, len(specs[0].dims))
        except ValueError as error:
            raise PinError(site, str(error)) from error
        kept = [k for k, spec in enumerate(specs) if spec == wanted]
        mesh_shape = self.view.mesh_shape
        if not kept and all(axis in mesh_shape.positions for split in wanted.dims for axis in split.axes):
            same = _by_chunks(wanted, shape, mesh_shape)
            kept = [k for k, spec in enumerate(specs) if _by_chunks(spec, shape, mesh_shape) == same]
        if not kept:
            some = ", ".join(dict.fromkeys(str(s) for s in specs[:8]))
            raise PinError(site, f"no strategy of this block gives {pin}; possible are {some}, ...")
        self.keep(kept)

    def keep_one_monoid(self, monoid: str) -> None:
        """Keep only the strategies that split no reductions but those of a monoid, by which rounds accumulate."""
        signature = self.definition.signature
        kinds = [d.kind for d in signature.dims] if signature is not None else []
        kept = [
            number
            for number, strategy in enumerate(self.strategies)
            if all(
                not s.axes or kind in (PARALLEL, monoid)
                for kind, s in zip(kinds, strategy.splits, strict=True)
            )
        ]
        self.keep(kept)

    def keep_where_all_read(self, shapes: Sequence[tuple[int, ...]]) -> None:
        """Keep only the strategies in which no device reads nothing of an input, of `shapes`, that others read.

        Others are those that split what is joined, or padded, across its pieces: each has devices of more classes.
        """
        found = np.ones(len(self.strategies), dtype=np.bool_)
        for specs, shape in zip(self.needed, shapes, strict=True):
            distinct = {spec: k for k, spec in enumerate(dict.fromkeys(s for s in specs if s.is_windowed))}
            if distinct:
                boxes = lowered(tuple(distinct), shape, self.view.mesh_shape).boxes
                extents = (boxes[..., 1] - boxes[..., 0]).clip(min=0).prod(axis=2)
                is_alike = (extents.min(axis=1) > 0) | (extents.max(axis=1) == 0)
                found &= [spec not in distinct or bool(is_alike[distinct[spec]]) for spec in specs]
        if not found.all():
            self.keep(np.flatnonzero(found).tolist())

    def keep(self, numbers: Sequence[int]) -> None:
        """Keep only these strategies."""
        self.strategies = [self.strategies[k] for k in numbers]
        self.needed = [[row[k] for k in numbers] for row in self.needed]
        self.made = [[row[k] for k in numbers] for row in self.made]

    @property
    def count(self) -> int:
        """The number of values of a gene of this family."""
        return len(self.strategies) * len(self.dimension_orders)

    @cached_property
    def positions(self) -> dict[tuple[Strategy, DimensionOrders], int]:
        """The gene value of every strategy with every choice of dimension orders."""
        return {pair: k for k, pair in enumerate(product(self.strategies, self.dimension_orders))}

    @cached_property
    def laid(self) -> tuple[np.ndarray, np.ndarray]:
        """The index dimension that each logical axis splits in each strategy, and whether chunks have a granule.

        The first array is `(strategies, axes)`, -1 for none; the second `(strategies,)` is True if any chunk has a
        granule.
        """
        dims = np.full((len(self.strategies), len(self.view.axes)), -1, dtype=np.int64)
        for s, strategy in enumerate(self.strategies):
            for a, axes in enumerate(self.view.axes):
                dims[s, a] = next((k for k, split in enumerate(strategy.splits) if axes[0] in split.axes), -1)
        granular = [any(split.granule != 1 for split in s.splits) for s in self.strategies]
        return dims, np.array(granular, dtype=np.bool_)

    def at(self, value: int) -> tuple[Strategy, DimensionOrders]:
        """Return the strategy and the dimension orders of a gene value."""
        strategy, orders = divmod(value, len(self.dimension_orders))
        return self.strategies[strategy], self.dimension_orders[orders]


def _by_chunks(spec: Spec, shape: Sequence[int], mesh_shape: MeshShape) -> Spec:
    """Return the spec with a chunk's size for each granule and partial axes sorted: equal for equal placements."""
    if spec.is_windowed:
        return spec
    dims = tuple(
        Split(s.axes, chunk_size(n, mesh_shape.size_of(s.axes), s.granule)) if s.axes else WHOLE
        for n, s in zip(shape, spec.dims, strict=True)
    )
    return Spec(dims, tuple(sorted(spec.partial)), spec.monoid)


def enumerate_strategies(definition: Definition, granules: tuple[int, ...], view: View) -> list[Strategy]:
    """Enumerate strategies: whole first, then every assignment of logical axes to splittable, large enough
    dimensions.

    A dimension with an alternative granule is also split in chunks of it where that changes the chunks.
    """
    return list(_enumerated(*_kinds_of(definition, granules, view), view).strategies)


class _Kind(NamedTuple):
    """The traits of an index dimension that decide its splits: its kind, the most parts it is split into (0: none).

    Of the numbers of parts, `changed` are those for which chunks of the `granule` differ from plain ones.
    """

    kind: str
    most: int
    granule: int
    changed: tuple[int, ...]


def _kinds_of(
    definition: Definition, granules: tuple[int, ...], view: View
) -> tuple[bool, tuple[_Kind, ...]]:
    """Return whether a block is fixed, and the kinds of its index dimensions."""
    signature = definition.signature
    if signature is None:
        return True, ()
    counts = [1]
    for a in range(len(view.axes)):
        counts += [n * view.size(a) for n in counts]
    kinds = []
    for d, is_allowed, granule in zip(signature.dims, splittable(signature), granules, strict=True):
        changed = tuple(sorted({n for n in counts if _changes(d.size, n, granule)}))
        most = max(n for n in counts if n <= d.size) if is_allowed and d.size > 1 else 0
        kinds.append(_Kind(d.kind, most, granule if changed else 1, changed))
    return False, tuple(kinds)


# Specs in which outputs are left in each of some strategies, by rows and by kinds of the index dimensions.
_Written = dict[tuple[Sequence[Row | None], tuple[str, ...]], list[Spec]]


@dataclass(frozen=True)
class _Enumerated:
    """Strategies of blocks alike, and the specs that follow from them alone."""

    strategies: tuple[Strategy, ...]
    written: _Written = field(default_factory=dict)


@lru_cache(maxsize=256)
def _enumerated(is_fixed: bool, kinds: tuple[_Kind, ...], view: View) -> _Enumerated:
    """Enumerate the strategies of index dimensions of these `kinds`."""
    if is_fixed:
        return _Enumerated((Strategy(),))
    dims = [k for k, d in enumerate(kinds) if d.most > 0]
    axis_sizes = [view.size(a) for a in range(len(view.axes))]
    found: list[Strategy] = []
    for choice in product([-1, *dims], repeat=len(view.axes)):
        parts = dict.fromkeys((k for k in choice if k >= 0), 1)
        for logical, k in enumerate(choice):
            if k >= 0:
                parts[k] *= axis_sizes[logical]
        if any(n > kinds[k].most for k, n in parts.items()):
            continue
        if len({kinds[k].kind for k in parts} - {PARALLEL}) > 1:
            continue
        splits = _splits(choice, len(kinds), view)
        found.append(Strategy(splits))
        changed = [k for k, n in parts.items() if n in kinds[k].changed]
        if changed:
            found.append(
                Strategy(
                    tuple(
                        Split(s.axes, kinds[k].granule) if k in changed else s for k, s in enumerate(splits)
                    )
                )
            )
    return _Enumerated(tuple(found[:LARGEST_FAMILY]))


def _splits(choice: tuple[int, ...], rank: int, view: View) -> tuple[Split, ...]:
    splits = [WHOLE] * rank
    for logical, dim in enumerate(choice):
        if dim >= 0:
            splits[dim] = Split((*splits[dim].axes, *view.axes[logical]))
    return tuple(splits)


def _changes(size: int, parts: int, granule: int) -> bool:
    return granule > 1 and chunk_size(size, parts, granule) != chunk_size(size, parts, 1)


def aligned_granules(graph: Graph) -> Mapping[str, tuple[int, ...]]:
    """Compute for each block a granule of each index dimension that keeps chunks aligned under all strides
    downstream.

    Granules propagate back from the readers: a dimension read with stride s by a dimension of granule g gets s * g.
    """
    found: Mapping[str, tuple[int, ...]] | None = graph.kept.get("granules")
    if found is None:
        found = graph.kept["granules"] = _aligned_granules(graph)
    return found


def _aligned_granules(graph: Graph) -> Mapping[str, tuple[int, ...]]:
    wanted: dict[str, list[int]] = {}
    of_tensor: dict[str, list[int]] = {}
    for block in reversed(graph.blocks):
        if block.is_view or block.signature is None:
            continue
        granules = [1] * len(block.signature.dims)
        _from_outputs(block, of_tensor, granules)
        wanted[block.site] = granules
        for k in range(len(block.inputs)):
            _to_root(graph, block, k, granules, of_tensor)
    return {site: tuple(g) for site, g in wanted.items()}


def _from_outputs(block: Block, of_tensor: Mapping[str, list[int]], granules: list[int]) -> None:
    signature = block.signature
    assert signature is not None
    for k, t in enumerate(block.outputs):
        for d, g in enumerate(of_tensor.get(t, [])):
            for dim, coefficient in enumerate(signature.outputs[k].start.matrix[d]):
                if coefficient and g % coefficient == 0:
                    granules[dim] = max(granules[dim], g // coefficient)


def _to_root(
    graph: Graph, block: Block, position: int, granules: list[int], of_tensor: dict[str, list[int]]
) -> None:
    read = read_of(graph, block.site, position)
    shape = graph.tensors[read.root].shape
    known = of_tensor.setdefault(read.root, [1] * len(shape))
    for d, row in enumerate(read.rows):
        if row.dim >= 0 and row.stride > 0:
            known[d] = max(known[d], int(np.clip(row.stride * granules[row.dim], 1, shape[d])))
