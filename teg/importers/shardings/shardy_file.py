"""Reader of Shardy attributes: the shardings that a StableHLO module states of its arguments, results and values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from tapestry.teg.exporters.tables.shardy import CONSTRAINT, NOTES, READ_BY, SHARDING, TERMS
from tapestry.teg.importers import UNROLL_LIMIT
from tapestry.teg.importers.shardings.stated import (
    ShardingError,
    StatedSharding,
    StatedShardings,
    axes_of,
)
from tapestry.teg.importers.stablehlo.module import Module
from tapestry.teg.importers.stablehlo.naming import input_names, output_names
from tapestry.teg.importers.stablehlo.reader import module_of, numbered_results, parse_module
from tapestry.teg.importers.stablehlo.translate import value_names
from tapestry.teg.sharding.spec import WHOLE, Split


class _AxisPart(NamedTuple):
    """A part of an axis of the module's mesh: `size` devices, behind factors of `before` in all."""

    axis: str
    before: int
    size: int


class _Stated(NamedTuple):
    """A sharding of the module: its mesh, and the parts of axes that each dimension is split over.

    On `partial` the value is left as terms of a `monoid`.
    """

    name: str
    mesh: str
    dims: tuple[tuple[_AxisPart, ...], ...]
    partial: tuple[_AxisPart, ...] = ()
    monoid: str | None = None


def from_shardy(source: str | bytes | Path) -> StatedShardings:
    """Read the shardings that a module states by `sdy.sharding` and `sdy.sharding_constraint`.

    Constraints of single operands, as `exporters.tables.shardy` writes them, state nothing of a value.
    A sharding with a dimension that is open (`{?}`) leaves XLA a choice: it is not taken.

    Raises:
        ImportFailure: this is no StableHLO module.
        ShardingError: it states none, or on several meshes.
    """
    parsed, label, mlir = parse_module(source)
    module = module_of(parsed, mlir, label)
    with mlir.context:
        stated = [*_ports(parsed, mlir, module), *_constraints(parsed, mlir, module)]
    if not stated:
        hint = "lower the program with Shardy, or write in_shardings"
        raise ShardingError(f"{label} states no sharding that is closed; {hint}")
    used = {own.mesh for own in stated}
    if len(used) > 1 or not used <= module.meshes.keys():
        raise ShardingError(
            f"{label} states shardings on {', '.join(sorted(used))}; expected one mesh of the module"
        )
    sizes = module.meshes[used.pop()]
    pieces = {axis: _pieces(axis, size, stated) for axis, size in sizes.items()}
    axes = {_piece_name(p, sizes): p.size for own in pieces.values() for p in own}
    tensors = [
        StatedSharding(
            own.name,
            tuple(
                Split(names) if (names := tuple(_names(parts, pieces, sizes))) else WHOLE
                for parts in own.dims
            ),
            tuple(_names(own.partial, pieces, sizes)),
            own.monoid,
        )
        for own in stated
    ]
    return StatedShardings(axes_of(axes), tuple(tensors))


def _ports(parsed: Any, mlir: SimpleNamespace, module: Module) -> Iterator[_Stated]:
    main = module.functions[module.main]
    inputs = input_names(main)
    names = {"arg_attrs": inputs, "res_attrs": output_names(main, inputs)}
    for operation in (o.operation for o in parsed.body.operations):
        if operation.name != "func.func" or operation.attributes["sym_name"].value != module.main:
            continue
        for which in (which for which in names if which in operation.attributes):
            for name, given in zip(names[which], operation.attributes[which], strict=True):
                attributes = {a.name: a.attr for a in given}
                if SHARDING in attributes:
                    yield from _stated(mlir, name, attributes[SHARDING])


def _constraints(parsed: Any, mlir: SimpleNamespace, module: Module) -> Iterator[_Stated]:
    """Yield the constraints of values inside, by the names of the values that are constrained."""
    results = numbered_results(parsed, mlir)
    found = [
        (key, value.owner) for key, value in results.items() if getattr(value.owner, "name", "") == CONSTRAINT
    ]
    if not found:
        return
    names = value_names(module, UNROLL_LIMIT)
    numbers = {value: key for key, value in results.items()}
    for _, operation in found:
        notes = _notes(operation)
        if READ_BY in notes:
            continue
        terms = notes.get(TERMS, "").split()
        partial = tuple(_AxisPart(axis, 1, 0) for axis in terms[1:])
        for name in names.get(numbers[operation.operands[0]], ()):
            for own in _stated(mlir, name, operation.attributes["sharding"]):
                yield own._replace(partial=partial, monoid=terms[0] if terms else None)


def _notes(operation: Any) -> dict[str, str]:
    """Return what a constraint that `exporters.tables.shardy` wrote says of itself."""
    if NOTES not in operation.attributes:
        return {}
    return {note.name: str(note.attr.value) for note in operation.attributes[NOTES]}


def _stated(mlir: SimpleNamespace, name: str, attribute: Any) -> Iterator[_Stated]:
    sharding = mlir.sdy.TensorShardingAttr(attribute)
    dims = [mlir.sdy.DimensionShardingAttr(dim) for dim in sharding.dimension_shardings]
    if all(dim.is_closed for dim in dims):
        mesh = str(sharding.mesh_or_ref).removeprefix("@")
        yield _Stated(name, mesh, tuple(tuple(_axis_part(mlir, axis) for axis in dim.axes) for dim in dims))


def _axis_part(mlir: SimpleNamespace, attribute: Any) -> _AxisPart:
    axis = mlir.sdy.AxisRefAttr(attribute)
    if axis.sub_axis_info is None:
        return _AxisPart(axis.name, 1, 0)
    part = mlir.sdy.SubAxisInfoAttr(axis.sub_axis_info)
    return _AxisPart(axis.name, part.pre_size, part.size)


def _pieces(axis: str, size: int, stated: Sequence[_Stated]) -> tuple[_AxisPart, ...]:
    """Cut an axis wherever a sharding uses a part of it."""
    parts = [part for own in stated for dim in own.dims for part in dim if part.axis == axis and part.size]
    borders = sorted({1, size, *(p.before for p in parts), *(p.before * p.size for p in parts)})
    if any(b % a for a, b in pairwise(borders)):
        raise ShardingError(f"parts of axis {axis!r} overlap: they begin and end behind {borders} devices")
    return tuple(_AxisPart(axis, a, b // a) for a, b in pairwise(borders)) or (_AxisPart(axis, 1, size),)


def _piece_name(piece: _AxisPart, sizes: Mapping[str, int]) -> str:
    is_whole = piece.size == sizes[piece.axis]
    return piece.axis if is_whole else f"{piece.axis}:({piece.before}){piece.size}"


def _names(
    parts: Sequence[_AxisPart], pieces: Mapping[str, tuple[_AxisPart, ...]], sizes: Mapping[str, int]
) -> Iterator[str]:
    """Yield the names of the pieces that these parts of axes consist of."""
    for part in parts:
        end = part.before * (part.size or sizes[part.axis])
        for piece in pieces[part.axis]:
            if piece.before >= part.before and piece.before * piece.size <= end:
                yield _piece_name(piece, sizes)
