"""Reader of Python modules that state shardings as constants, as `teg.exporters.tables` writes them.

The module is parsed, never run: dictionaries at its top level whose values are `P(...)`, lists of `Shard`, `Replicate`
and `Partial`, or `ttnn.MeshMapperConfig(...)`, and `AXES`, the sizes of the mesh's axes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tapestry.teg.importers.shardings.stated import (
    ShardingError,
    StatedShardings,
    from_mesh_mappers,
    from_partition_specs,
    from_placements,
)

AXES = "AXES"


class WrittenPlacement(NamedTuple):
    """A DTensor placement as a module writes it."""

    kind: str
    dim: int = -1
    reduce_op: str = "sum"


# The arguments of each placement, in order.
PLACEMENTS: dict[str, tuple[str, ...]] = {"Shard": ("dim",), "Replicate": (), "Partial": ("reduce_op",)}
MAPPED: dict[str, tuple[str, ...]] = {"PlacementShard": ("dim",), "PlacementReplicate": ()}
MAPPER, MAPPER_ARGUMENTS = "MeshMapperConfig", ("placements", "mesh_shape_override")
SPECS = ("P", "PartitionSpec")


def from_python(text: str) -> StatedShardings:
    """Read the shardings that a Python module states.

    Raises:
        ShardingError: no Python, no `AXES`, or no shardings; or one that is no constant, with its line.
    """
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # the last one: nested too deeply
        raise ShardingError(f"this is no Python module: {str(error) or 'it is nested too deeply'}") from None
    assigned = dict(_assigned(module))
    axes = assigned.get(AXES)
    sizes = {} if axes is None else dict(_entries(axes))
    if not sizes or not all(
        isinstance(n, ast.Constant) and type(n.value) is int and n.value > 0 for n in sizes.values()
    ):
        raise ShardingError(f'the module must state the mesh: {AXES} = {{"gpu": 8}}')
    mesh: dict[str, int] = {name: n.value for name, n in sizes.items() if isinstance(n, ast.Constant)}  # type: ignore[misc]
    specs: dict[str, tuple[Any, ...]] = {}
    placements: dict[str, list[Any]] = {}
    mappers: dict[str, tuple[list[Any], list[int]]] = {}
    for name, value in assigned.items():
        for tensor, stated in _entries(value) if name != AXES else ():
            if isinstance(stated, ast.Call) and _called(stated) in SPECS:
                specs[tensor] = tuple(_constant(entry) for entry in stated.args)
            elif isinstance(stated, ast.Call) and _called(stated) == MAPPER:
                mappers[tensor] = _mapper(stated)
            elif isinstance(stated, ast.List) and all(isinstance(e, ast.Call) for e in stated.elts):
                placements[tensor] = [_placement(e, PLACEMENTS) for e in stated.elts]
    forms = {"PartitionSpecs": specs, "DTensor placements": placements, "mesh mappers of ttnn": mappers}
    found = [name for name, own in forms.items() if own]
    if len(found) != 1:
        stated_forms = " and ".join(found) or "no shardings"
        raise ShardingError(f"the module states {stated_forms}; expected one of {', '.join(forms)}")
    if mappers:
        return from_mesh_mappers(mesh, mappers)
    return from_partition_specs(mesh, specs) if specs else from_placements(mesh, placements)


def _assigned(module: ast.Module) -> Iterator[tuple[str, ast.Dict]]:
    for statement in module.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Dict):
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    yield target.id, statement.value


def _entries(value: ast.Dict) -> Iterator[tuple[str, ast.expr]]:
    for key, entry in zip(value.keys, value.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value, entry


def _called(call: ast.expr) -> str:
    function = call.func if isinstance(call, ast.Call) else None
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def _mapper(call: ast.Call) -> tuple[list[Any], list[int]]:
    """Return the placements of a mesh mapper, and the shape of its mesh, which may be left out."""
    given = dict(zip(MAPPER_ARGUMENTS, call.args, strict=False)) | {
        k.arg: k.value for k in call.keywords if k.arg
    }
    stated, shape = (given.get(name) for name in MAPPER_ARGUMENTS)
    if not isinstance(stated, ast.List):
        raise ShardingError(f"line {call.lineno}: {_shown(call)} has no list of placements")
    sizes = shape.args if isinstance(shape, ast.Call) else []
    constants = [_constant(size) for size in sizes]
    flat = [n for own in constants for n in (own if isinstance(own, (list, tuple)) else [own])]
    if not all(type(n) is int and n > 0 for n in flat):
        raise ShardingError(f"line {call.lineno}: {_shown(call)} has no shape of a mesh")
    return [_placement(placement, MAPPED) for placement in stated.elts], flat


def _placement(call: ast.expr, kinds: Mapping[str, tuple[str, ...]]) -> WrittenPlacement:
    kind = _called(call)
    if kind not in kinds or not isinstance(call, ast.Call):
        raise ShardingError(f"line {call.lineno}: expected {', '.join(kinds)}, not {_shown(call)}")
    names = kinds[kind]
    given = dict(zip(names, (_constant(a) for a in call.args), strict=False))
    given |= {k.arg: _constant(k.value) for k in call.keywords if k.arg}
    if len(call.args) > len(names) or not given.keys() <= set(names):
        raise ShardingError(f"line {call.lineno}: {_shown(call)} has other arguments than a placement")
    return WrittenPlacement(kind, **given)


def _shown(expression: ast.expr) -> str:
    try:
        return ast.unparse(expression)
    except RecursionError:
        return "a deeply nested expression"


def _constant(value: ast.expr) -> Any:
    try:
        return ast.literal_eval(value)
    except (ValueError, TypeError, RecursionError):
        raise ShardingError(
            f"line {value.lineno}: {_shown(value)} is no constant, and nothing is run"
        ) from None
