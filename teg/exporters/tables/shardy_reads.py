"""Operands of a StableHLO module as reads: which values they are, and which others are made of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tapestry.teg.exporters.tables.table import INTERMEDIATE, ShardingTable

CALL, RETURN = "func.call", "func.return"


def named_operands(
    parsed: Any, main: Any, inputs: Sequence[str], names: Mapping[Any, Sequence[str]]
) -> dict[Any, list[str]]:
    """Return the names of values that operations read: of results as given, of inputs, and of what functions pass on.

    A value has as many names as it is computed times, in that order. Functions that are called from others than `main`
    pass nothing on.
    """
    known = {value: list(own) for value, own in names.items()}
    known.update(zip(main.regions[0].blocks[0].arguments, ([name] for name in inputs), strict=True))
    bodies = {f.attributes["sym_name"].value: f for f in functions_of(parsed)}
    calls = {name: _calls(body) for name, body in bodies.items()}
    first = calls.pop(main.attributes["sym_name"].value)
    elsewhere = {callee for own in calls.values() for callee in own}
    for callee in first.keys() & bodies.keys() - elsewhere:
        _pass_on(bodies[callee], first[callee], known)
    return known


def _calls(function: Any) -> dict[str, list[Any]]:
    """Return the calls at the top level of a function, by the names of the functions that are called."""
    found: dict[str, list[Any]] = {}
    for operation in (o.operation for block in function.regions[0].blocks for o in block.operations):
        if operation.name == CALL:
            found.setdefault(str(operation.attributes["callee"].value), []).append(operation)
    return found


def functions_of(parsed: Any) -> Iterator[Any]:
    """Yield the functions of a parsed module."""
    return (o.operation for o in parsed.body.operations if o.operation.name == "func.func")


def _pass_on(body: Any, calls: Sequence[Any], known: dict[Any, list[str]]) -> None:
    """Name the arguments of a function by the operands of its calls, and the results of these by what it returns."""
    block = body.regions[0].blocks[0]
    for position, argument in enumerate(block.arguments):
        given = [known.get(call.operands[position], []) for call in calls]
        if all(len(own) == 1 for own in given):
            known[argument] = [own[0] for own in given]
    returned = next(o.operation for o in block.operations if o.operation.name == RETURN)
    for position, value in enumerate(returned.operands):
        made = known.get(value, [])
        if len(made) == len(calls):
            for call, name in zip(calls, made, strict=True):
                known[call.results[position]] = [name]


def read_operands(
    table: ShardingTable, operations: Sequence[Any], names: Mapping[Any, Sequence[str]]
) -> Iterator[tuple[Any, int, list[tuple[str, str]]]]:
    """Yield the operands of operations by number, as pairs: the value, and the one that is made from it.

    An operation is part of the block that makes the values of the table which are reached from it first. There are as
    many pairs as the operation runs times.
    """
    reached: dict[Any, list[str]] = {}
    for operation in operations:
        made = _made(table, operation, names, reached)
        for position, operand in enumerate(operation.operands):
            given = [name for name in names.get(operand, ()) if name in table.by_name]
            if made and operation.name != CALL and len(given) in (1, len(made)):
                yield operation, position, list(zip(given * (len(made) // len(given)), made, strict=True))


def _made(
    table: ShardingTable, operation: Any, names: Mapping[Any, Sequence[str]], reached: dict[Any, list[str]]
) -> list[str]:
    """Return the names of the values inside the program that the results of an operation are, or lead to."""
    found: list[str] = []
    for result in operation.results:
        if result not in reached:
            reached[result] = own = []
            for name in names.get(result, ()):
                tensor = table.by_name.get(name)
                if tensor is not None and tensor.role == INTERMEDIATE:
                    own.append(name)
            if not own:
                for use in result.uses:
                    own += (n for n in _made(table, use.owner, names, reached) if n not in own)
        found += (name for name in reached[result] if name not in found)
    return found
