"""A table of shardings as Shardy attributes on the user's own StableHLO module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tapestry.teg.exporters.tables.shardy_reads import functions_of, named_operands, read_operands
from tapestry.teg.exporters.tables.table import INTERMEDIATE, ShardingTable, TensorSharding
from tapestry.teg.exporters.tables.verdicts import TARGETS, constraint_fault, nearest_axes, read_tensors
from tapestry.teg.faults import near_hint
from tapestry.teg.importers import UNROLL_LIMIT
from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.stablehlo.module import Port
from tapestry.teg.importers.stablehlo.naming import input_names, output_names
from tapestry.teg.importers.stablehlo.reader import module_of, numbered_results, parse_module
from tapestry.teg.importers.stablehlo.translate import value_names

SHARDY = next(target for target in TARGETS if target.name == "shardy")
SHARDING, CONSTRAINT, MESH = "sdy.sharding", "sdy.sharding_constraint", "mesh"
# What a module may say of shardings already; the plan's take their place.
STATED = (SHARDING, "mhlo.sharding")
# Notes on constraints, for readers and for the way back: XLA does not regard them.
NOTES, TERMS, READ_BY = "mhlo.frontend_attributes", "tapestry.terms", "tapestry.read_by"


def annotated_stablehlo(
    table: ShardingTable, source: str | bytes | Path, unroll_limit: int = UNROLL_LIMIT
) -> str:
    """Return a module's text with the table's mesh, shardings of arguments and results, and constraints inside.

    Shardings that the module stated before are replaced. A dimension that XLA cannot split as the plan does is whole;
    a value inside the program that it cannot has no constraint, nor has one that is several values of the table which
    the plan places differently (a function called twice, a loop). Operands that the plan moves before an operation
    have constraints of their own there. A value that the plan leaves as terms is constrained as it is when they are
    combined.

    Raises:
        ImportFailure: this is no StableHLO module, or not the table's program: names or shapes differ.
    """
    parsed, label, mlir = parse_module(source)
    module = module_of(parsed, mlir, label)
    main = module.functions[module.main]
    inputs = input_names(main)
    outputs = output_names(main, inputs)
    _check_program(table, label, {**_shapes(inputs, main.arguments), **_shapes(outputs, main.results)})
    names = value_names(module, unroll_limit) if table.of_roles([INTERMEDIATE]) else {}
    with mlir.context, mlir.ir.Location.unknown():
        results = numbered_results(parsed, mlir)
        places = {results[key]: own for key, own in names.items() if not _is_constraint(results[key].owner)}
        _strip(parsed)
        function = next(f for f in functions_of(parsed) if f.attributes["sym_name"].value == module.main)
        known = named_operands(parsed, function, inputs, places)
        reads = [
            (operation, position, text, {READ_BY: ", ".join(reader for _, reader in own)})
            for operation, position, own in read_operands(table, list(_operations(parsed.operation)), known)
            if (text := _read_text(table, own))
        ]
        for value, own in places.items():
            _constrain(table, mlir, value, own)
        for operation, position, text, note in reads:
            place = mlir.ir.InsertionPoint(operation)
            constraint = _constraint(mlir, operation.operands[position], text, place, note)
            operation.operands[position] = constraint.result
        _set_ports(table, mlir, function, "arg_attrs", inputs)
        _set_ports(table, mlir, function, "res_attrs", outputs)
        _set_mesh(table, mlir, parsed)
        parsed.operation.verify()
        is_named = any(port.name for port in main.arguments)
        return str(parsed.operation.get_asm(enable_debug_info=is_named))


def _shapes(names: Sequence[str], ports: Sequence[Port]) -> dict[str, tuple[int, ...]]:
    return {name: port.type.shape for name, port in zip(names, ports, strict=True)}


def _check_program(table: ShardingTable, label: str, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Check that the module has the inputs and outputs of the table.

    Raises:
        ImportFailure: one is missing or has another shape.
    """
    for tensor in table.tensors:
        if not tensor.is_boundary:
            continue
        if tensor.name not in shapes:
            hint = near_hint(tensor.name, list(shapes))
            raise ImportFailure(
                f"{label} has no {tensor.role} {tensor.name!r}, which the plan places; {hint}"
            )
        if shapes[tensor.name] != tensor.shape:
            found = list(shapes[tensor.name])
            raise ImportFailure(
                f"{label}: {tensor.role} {tensor.name!r} has shape {found}; in the plan's program it is "
                f"{list(tensor.shape)}"
            )


def _operations(operation: Any) -> Iterator[Any]:
    """Yield the operations in the regions of one, inner ones first."""
    for region in operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield from _operations(inner.operation)
                yield inner.operation


def _is_constraint(operation: Any) -> bool:
    if operation.name == "stablehlo.custom_call":
        return str(operation.attributes["call_target_name"].value) == "Sharding"
    return str(operation.name) == CONSTRAINT


def _strip(parsed: Any) -> None:
    """Remove the meshes, shardings and constraints that the module states."""
    for operation in list(_operations(parsed.operation)):
        if operation.name == "sdy.mesh":
            operation.erase()
        elif _is_constraint(operation):
            operation.results[0].replace_all_uses_with(operation.operands[0])
            operation.erase()
        else:
            for name in STATED:
                if name in operation.attributes:
                    del operation.attributes[name]


def _quoted(text: str) -> str:
    """Return a string literal of MLIR: hexadecimal digits stand for the bytes of all but plain characters."""
    shown = (chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in text.encode())
    return f'"{"".join(shown)}"'


def _sharding(axes: Sequence[Sequence[str]]) -> str:
    dims = ", ".join("{" + ", ".join(map(_quoted, own)) + "}" for own in axes)
    return f"#sdy.sharding<@{MESH}, [{dims}]>"


def _constrain(table: ShardingTable, mlir: SimpleNamespace, value: Any, names: Sequence[str]) -> None:
    """Add the constraint of a value behind its operation, if all that it stands for is placed alike."""
    found = [table.by_name.get(name) for name in names]
    stated = set[tuple[str, str]]()
    for tensor in found:
        if tensor is None or tensor.is_boundary or constraint_fault(table, tensor):
            return
        terms = " ".join((tensor.monoid or "", *tensor.partial)) if tensor.partial else ""
        stated.add((_sharding(nearest_axes(table, tensor)), terms))
    if len(stated) == 1:
        text, terms = stated.pop()
        place = mlir.ir.InsertionPoint.after(value.owner)
        constraint = _constraint(mlir, value, text, place, {TERMS: terms} if terms else {})
        value.replace_all_uses_except(constraint.result, constraint)


def _constraint(mlir: SimpleNamespace, value: Any, text: str, place: Any, notes: Mapping[str, str]) -> Any:
    attributes = {"sharding": mlir.ir.Attribute.parse(text)}
    if notes:
        own = {name: mlir.ir.StringAttr.get(note) for name, note in notes.items()}
        attributes[NOTES] = mlir.ir.DictAttr.get(own)
    return mlir.ir.Operation.create(
        CONSTRAINT, results=[value.type], operands=[value], attributes=attributes, ip=place
    )


def _read_text(table: ShardingTable, reads: Sequence[tuple[str, str]]) -> str:
    """Return the sharding in which a value is read, if that is stated and the same for all `(value, reader)`."""
    texts = set[str]()
    for name, reader in reads:
        tensor = read_tensors(table, table.by_name[reader]).get(name)
        is_stated = tensor is not None and not constraint_fault(table, tensor)
        texts.add(_sharding(nearest_axes(table, tensor)) if tensor is not None and is_stated else "")
    return texts.pop() if len(texts) == 1 else ""


def _set_ports(
    table: ShardingTable, mlir: SimpleNamespace, function: Any, which: str, names: Sequence[str]
) -> None:
    """State the shardings of a function's arguments (`arg_attrs`) or results (`res_attrs`)."""
    given = function.attributes[which] if which in function.attributes else [{}] * len(names)
    ports = []
    for name, own in zip(names, given, strict=True):
        attributes = {a.name: a.attr for a in own if a.name not in STATED} if own else {}
        tensor: TensorSharding | None = table.by_name.get(name)
        if tensor is not None:
            attributes[SHARDING] = mlir.ir.Attribute.parse(_sharding(nearest_axes(table, tensor)))
        ports.append(mlir.ir.DictAttr.get(attributes))
    function.attributes[which] = mlir.ir.ArrayAttr.get(ports)


def _set_mesh(table: ShardingTable, mlir: SimpleNamespace, parsed: Any) -> None:
    axes = ", ".join(f"{_quoted(name)}={size}" for name, size in table.sizes.items())
    mesh = mlir.ir.Operation.parse(f"sdy.mesh @{MESH} = <[{axes}]>")
    mlir.ir.InsertionPoint.at_block_begin(parsed.body).insert(mesh)
    number = mlir.ir.IntegerType.get_signless(32)
    for name, count in (("mhlo.num_partitions", table.device_count), ("mhlo.num_replicas", 1)):
        parsed.operation.attributes[name] = mlir.ir.IntegerAttr.get(number, count)
