"""The sharding of a plan as columns: what each block and tensor is split over, what is redistributed, over which links.

All figures are counts of `optimizer.analysis.plan_traffic`; here they are only arranged. Numbers refer to rows of the
tables of one document: of blocks in the order of the program, as in its drawing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tapestry.costmodel.schedule import MOVES
from tapestry.hardware.mesh import Mesh
from tapestry.hardware.timing import TICKS_PER_S
from tapestry.optimizer.analysis.plan_traffic import (
    BlockTotals,
    PlanTraffic,
    Redistribution,
    StoredForm,
    TensorRead,
    form_of,
)
from tapestry.teg.dtypes import item_bytes
from tapestry.teg.graph import Block
from tapestry.teg.sharding.boundary import with_boundary
from tapestry.teg.sharding.expand import ExplicitGraph
from tapestry.teg.sharding.host import HOST
from tapestry.teg.sharding.placement import Placements
from tapestry.teg.sharding.result_cache import ResultCache
from tapestry.teg.sharding.rounds import TimeAxis, time_axis
from tapestry.teg.sharding.sharded_block import NumberedForm, forms_of, shard_block, shard_in_round
from tapestry.teg.sharding.spec import Spec, Split, boxes
from tapestry.teg.signature import Signature, rows_of

NONE = -1
NOT_RUN = BlockTotals()
BLOCK_COLUMNS = (
    *("site", "operator", "signature", "strategy", "part", "stage"),
    *("times", "flops", "bytes", "seconds", "energy_j", "repetition"),
)
READ_COLUMNS = ("block", "position", "tensor", "through", "sharding", "layout", "redistribution")


class RowTable:
    """Rows of a table of a document, each once, by what they are made from."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self._numbers: dict[Hashable, int] = {}

    def number(self, key: Hashable, make: Callable[[], Any]) -> int:
        """Return the number of a row; `make` builds it the first time."""
        if key not in self._numbers:
            self._numbers[key] = len(self.rows)
            self.rows.append(make())
        return self._numbers[key]


def sharding_document(placements: Placements, mesh: Mesh, traffic: PlanTraffic) -> dict[str, Any]:
    """Convert the sharding of a plan and its traffic to columns.

    The mesh is the whole one on which the plan was found; sub-axes are those of the devices that work, of one stage
    where there are several.
    """
    tables = _Tables(placements, traffic)
    return {
        "mesh": _mesh(mesh, traffic),
        "rounds": 1 if tables.time is None else tables.time.count,
        "blocks": tables.blocks(),
        "reads": tables.reads(),
        "tensors": tables.tensors(),
        "redistributions": tables.redistributions(),
        "exchanges": tables.exchanges(),
        "matrix": matrix(traffic.redistributions, [axis.name for axis in mesh.axes]),
        "operators": tables.operators.rows,
        "signatures": tables.signatures.rows,
        "strategies": tables.strategies.rows,
        "shardings": tables.shardings.rows,
        "ranges": tables.ranges.rows,
        "totals": {
            "traffic_bytes": traffic.execution.traffic_bytes,
            "compute_flops": int(traffic.execution.flops.sum()),
            "peak_memory_bytes": int(traffic.execution.peak_memory_bytes.max()),
            "time_s": traffic.execution.makespan_ticks / TICKS_PER_S,
        },
    }


def matrix(redistributions: Sequence[Redistribution], axes: Sequence[str]) -> dict[str, Any]:
    """Add up redistributions by their kinds of exchange: bytes by mesh axis, how many are made, their seconds.

    What moves within devices only, or to and from their hosts, is a row of its own.
    """
    rows: dict[str, list[Redistribution]] = {}
    for each in redistributions:
        rows.setdefault(kind_of(each), []).append(each)
    names = sorted(rows, key=lambda kind: (-sum(each.traffic_bytes for each in rows[kind]), kind))
    by_axis = [
        [sum(size for of, size in _all_exchanges(rows[kind]) if of.axis == axis) for axis in axes]
        for kind in names
    ]
    return {
        "kind": names,
        "bytes": by_axis,
        "times": [sum(each.times for each in rows[kind]) for kind in names],
        "seconds": [sum(each.ticks for each in rows[kind]) / TICKS_PER_S for kind in names],
    }


def kind_of(redistribution: Redistribution) -> str:
    """Return the kinds of exchange of a redistribution, in their order: `reduce_scatter+all_gather`."""
    if redistribution.exchanges:
        return "+".join(dict.fromkeys(of.kind for of in redistribution.exchanges))
    if redistribution.source.layout == HOST:
        return "from the host"
    return "to the host" if redistribution.result.layout == HOST else MOVES


def _columns(rows: Iterable[tuple[Any, ...]], names: Sequence[str]) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for row in rows:
        for name, value in zip(names, row, strict=True):
            columns[name].append(value)
    return columns


def _all_exchanges(redistributions: Iterable[Redistribution]) -> Iterable[tuple[Any, int]]:
    return (pair for each in redistributions for pair in each.exchanges.items())


class _Tables:
    """The tables of a document, filled while its columns are built."""

    def __init__(self, placements: Placements, traffic: PlanTraffic) -> None:
        self.traffic, self.program = traffic, traffic.program
        self.graph = self.program.abstract
        self.placements = with_boundary(self.graph, placements)
        self.shape = self.program.mesh_shape
        rounds = placements.rounds
        self.time: TimeAxis | None = None if rounds is None else time_axis(self.graph, rounds)
        self.operators, self.signatures, self.strategies = RowTable(), RowTable(), RowTable()
        self.shardings, self.ranges = RowTable(), RowTable()
        self.numbers = {block.site: k for k, block in enumerate(self.graph.blocks)}
        self.stored = _first_buffers(self.program)
        self.tensor_numbers = {name: k for k, name in enumerate(self.stored)}
        self.serving: dict[TensorRead, int] = {}
        self.parts: dict[tuple[Spec, tuple[int, ...]], int] = {}  # elements on the device that has most
        for k, each in enumerate(traffic.redistributions):
            for read in each.reads:
                self.serving.setdefault(read, k)

    def blocks(self) -> dict[str, Any]:
        """Return the columns of blocks: signatures, strategies and costs in all rounds; views have none of them."""
        return _columns(map(self._block, self.graph.blocks), BLOCK_COLUMNS)

    def reads(self) -> dict[str, Any]:
        """Return the columns of what blocks read of stored tensors, and which redistributions serve them."""
        cache = ResultCache(self.shape)
        forms = forms_of(self.graph, cache)
        placed = [block for block in self.graph.blocks if not block.is_view]
        rows = (row for block in placed for row in self._reads(block, forms[block.site], cache))
        return _columns(rows, READ_COLUMNS)

    def _block(self, block: Block) -> tuple[Any, ...]:
        totals, part = self.traffic.blocks.get(block.site, NOT_RUN), self.placements.of(block).part
        stages = 1 if self.placements.stages is None else self.placements.stages.count
        return (
            block.site,
            self.operators.number(block.operator, lambda: block.operator),
            self._signature(block),
            NONE if block.is_view else self._strategy(block),
            part,
            part % stages,
            totals.times,
            totals.flops,
            totals.accessed_bytes,
            totals.ticks / TICKS_PER_S,
            totals.energy_pj * 1e-12 if self.traffic.has_energy else None,
            block.repetition,
        )

    def _reads(self, block: Block, form: NumberedForm, cache: ResultCache) -> Iterator[tuple[Any, ...]]:
        """Yield the row of each input of a block, as the first round reads it."""
        placement, time = self.placements.of(block), self.time
        sharded = (
            shard_block(form, placement.strategy, cache)
            if time is None
            else shard_in_round(form, block, placement.strategy, time, 0, cache)
        )
        for position, (root, read) in enumerate(zip(form.roots, sharded.reads, strict=True)):
            through = self.graph.producers[block.inputs[position]]
            yield (
                self.numbers[block.site],
                position,
                self.tensor_numbers[root],
                self.numbers[through.site] if through.is_view else NONE,
                self._sharding(read.needed, self.stored[root].shape),
                placement.read_layout_of(position),
                self.serving.get(TensorRead(block.site, position), NONE),
            )

    def tensors(self) -> dict[str, Any]:
        """Return the columns of tensors that are stored, in the form in which they are made."""
        forms = list(self.stored.items())
        makers = [self.graph.producers[name] for name, _ in forms]
        return {
            "name": [name for name, _ in forms],
            "block": [self.numbers[maker.site] for maker in makers],
            "role": [
                str(maker.definition.get("role")) if maker.operator == "source" else "" for maker in makers
            ],
            "dtype": [self.graph.tensors[name].dtype for name, _ in forms],
            "shape": [list(self.graph.tensors[name].shape) for name, _ in forms],
            "sharding": [self._sharding(form.spec, form.shape) for _, form in forms],
            "layout": [form.layout for _, form in forms],
            "stage": [form.stage for _, form in forms],
            "device_bytes": [self._device_bytes(name, form) for name, form in forms],
        }

    def _device_bytes(self, name: str, form: StoredForm) -> int:
        """Return the bytes of a tensor's elements on the device that has most of it."""
        key = (form.spec, form.shape)
        if key not in self.parts:
            parts = boxes(form.spec, form.shape, self.shape)
            self.parts[key] = int(np.prod(parts[..., 1] - parts[..., 0], axis=-1).max())
        return self.parts[key] * item_bytes(self.graph.tensors[name].dtype)

    def redistributions(self) -> dict[str, Any]:
        """Return the columns of redistributions."""
        found = self.traffic.redistributions
        return {
            "tensor": [self.tensor_numbers[each.tensor] for each in found],
            "reader": [self.numbers[next(iter(each.reads)).site] for each in found],
            "position": [next(iter(each.reads)).position for each in found],
            "readers": [len(each.reads) for each in found],
            "from": [self._form(each.source) for each in found],
            "to": [self._form(each.result) for each in found],
            "from_layout": [each.source.layout for each in found],
            "to_layout": [each.result.layout for each in found],
            "from_stage": [each.source.stage for each in found],
            "to_stage": [each.result.stage for each in found],
            "kind": [kind_of(each) for each in found],
            "times": [each.times for each in found],
            "rounds": [sorted(each.rounds) for each in found],
            "bytes": [each.traffic_bytes for each in found],
            "seconds": [each.ticks / TICKS_PER_S for each in found],
        }

    def exchanges(self) -> dict[str, Any]:
        """Return the columns of what devices receive in each redistribution, by mesh axis and kind."""
        rows = [
            (k, of, size)
            for k, each in enumerate(self.traffic.redistributions)
            for of, size in each.exchanges.items()
        ]
        return {
            "redistribution": [k for k, _, _ in rows],
            "axis": [of.axis for _, of, _ in rows],
            "kind": [of.kind for _, of, _ in rows],
            "members": [of.members for _, of, _ in rows],
            "bytes": [size for _, _, size in rows],
        }

    def _signature(self, block: Block) -> int:
        signature = block.signature
        if signature is None:
            return NONE
        return self.signatures.number(signature, lambda: _signature_document(signature))

    def _strategy(self, block: Block) -> int:
        strategy = self.placements.of(block).strategy
        return self.strategies.number(
            strategy,
            lambda: {"text": str(strategy), "axes": [self._axes(split.axes) for split in strategy.splits]},
        )

    def _form(self, form: StoredForm) -> int:
        return self._sharding(form.spec, form.shape)

    def _sharding(self, spec: Spec, shape: tuple[int, ...]) -> int:
        return self.shardings.number((spec, shape), lambda: self._sharding_document(spec, shape))

    def _sharding_document(self, spec: Spec, shape: tuple[int, ...]) -> dict[str, Any]:
        """Return the axes of each dimension, and per dimension the numbers of its ranges."""
        parts = boxes(spec, shape, self.shape)
        used = {name for split in spec.dims for name in split.axes} | set(spec.partial)
        return {
            "text": str(spec),
            "class": class_of(spec),
            "shape": list(shape),
            "axes": [self._axes(split.axes) for split in spec.dims],
            "granules": [split.granule for split in spec.dims],
            "windowed": [spec.window(k) is not None for k in range(len(spec.dims))],
            "partial": self._axes(spec.partial),
            "monoid": spec.monoid,
            "replicated": self._axes(sub.name for sub in self.shape.sub_axes if sub.name not in used),
            "ranges": [self._range(split, parts[:, k]) for k, split in enumerate(spec.dims)],
        }

    def _range(self, split: Split, bounds: np.ndarray) -> int:
        """Return the number of the ranges of a dimension: each once, and which of them each device has."""
        different, which = np.unique(bounds, axis=0, return_inverse=True)
        key = (different.tobytes(), which.tobytes(), split.axes)
        return self.ranges.number(
            key, lambda: {"bounds": different.tolist(), "of_device": which.reshape(-1).tolist()}
        )

    def _axes(self, names: Iterable[str]) -> list[int]:
        return [self.shape.positions[name] for name in names]


def class_of(spec: Spec) -> str:
    """Return how devices hold a tensor: replicated, split, partial, or split and partial."""
    is_split = any(split.axes for split in spec.dims)
    if spec.partial:
        return "split and partial" if is_split else "partial"
    return "split" if is_split else "replicated"


def _first_buffers(program: ExplicitGraph) -> dict[str, StoredForm]:
    """Return the form of each stored tensor as it is made in the first round, sources first."""
    made = [key for slot in program.slots for key in slot.step.outputs]
    found: dict[str, StoredForm] = {}
    for key in (*program.sources, *made):
        buffer = program.buffers[key]
        found.setdefault(buffer.tensor, form_of(buffer))
    return found


def _signature_document(signature: Signature) -> dict[str, Any]:
    """Return the index dimensions, and for each tensor dimension the index dimension that runs along it (or -1)."""

    def dims_of(projections: Iterable[Any]) -> list[list[int]]:
        return [[NONE if row is None else row.dim for row in rows_of(each)] for each in projections]

    return {
        "dims": [[dim.name, dim.size, dim.kind] for dim in signature.dims],
        "inputs": dims_of(signature.inputs),
        "outputs": dims_of(signature.outputs),
    }


def _mesh(mesh: Mesh, traffic: PlanTraffic) -> dict[str, Any]:
    """Return the mesh: its axes, which devices work, and the bytes that each receives by axis and by link."""
    program, links = traffic.program, traffic.execution.link_bytes
    names = [axis.name for axis in mesh.axes]
    found = None
    if links is not None:
        pairs = np.argwhere(links > 0)
        found = {
            "from": pairs[:, 0].tolist(),
            "to": pairs[:, 1].tolist(),
            "bytes": links[tuple(pairs.T)].tolist(),
        }
    return {
        "name": mesh.name,
        "device": mesh.device.name,
        "axes": [
            {
                "name": axis.name,
                "size": axis.size,
                "topology": axis.topology,
                "bandwidth_bytes_per_s": axis.bandwidth_bytes_per_s,
                "received_bytes": traffic.received_bytes[k].tolist(),
            }
            for k, axis in enumerate(mesh.axes)
        ],
        "sub_axes": [
            {"name": sub.name, "axis": names.index(sub.axis), "size": sub.size}
            for sub in program.mesh_shape.sub_axes
        ],
        "stages": 1 if program.stages is None else program.stages.count,
        "devices": list(traffic.devices),
        "links": found,
    }
