"""Merging of blocks that differ only in the names of their dimensions: they are computed once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.rule import ExampleSizes, Match, Rule, attr, op, rest, tensor
from tapestry.teg.graph import Definition, Graph

X = tensor("x")

# The attributes in which dimensions are named, in the order in which names are numbered.
NAMED = ("dims", "labels", "output")


@lru_cache(maxsize=1 << 14)
def without_names(definition: Definition) -> tuple[tuple[str, Any], ...]:
    """Return the attributes with every dimension name replaced by the number of its first occurrence."""
    numbers: dict[str, str] = {"": ""}
    for attribute in NAMED:
        for name in _texts(definition.get(attribute, ())):
            numbers.setdefault(name, f"#{len(numbers)}")
    return tuple((key, _anonymous(key, value, numbers)) for key, value in definition.attributes)


def _anonymous(key: str, value: Any, numbers: Mapping[str, str]) -> Any:
    if key == "expr":
        return _recoordinated(value, numbers)
    return _renamed(value, numbers) if key in NAMED else value


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _texts(part)


def _renamed(value: Any, numbers: Mapping[str, str]) -> Any:
    if isinstance(value, tuple):
        return tuple(_renamed(part, numbers) for part in value)
    return numbers[value] if isinstance(value, str) else value


def _recoordinated(expr: Any, numbers: Mapping[str, str]) -> Any:
    """Rename the coordinates of the expression."""
    if expr[0] == "index":
        return ("index", numbers[expr[1]])
    return tuple(_recoordinated(part, numbers) if isinstance(part, tuple) else part for part in expr)


def _same_but_for_names(m: Match) -> bool:
    """Return whether renaming dimensions makes two different definitions equal."""
    a, b = m["one"], m["two"]
    return a is not b and repr(without_names(a)) == repr(without_names(b))


def _cells(b: ExampleBuilder, x: str) -> tuple[str, str]:
    expr = ("exp", ("mul", ("input", 0), ("const", 0.5)))
    return b.cell(expr, {x: "pq"}), b.cell(expr, {x: "rs"})


def _contractions(b: ExampleBuilder, x: str) -> tuple[str, str]:
    w = b.tensor("w", b.shape(x)[1], 5)
    return b.contract("mk,kn->mn", x, w), b.contract("ab,bc->ac", x, w)


def _reductions(b: ExampleBuilder, x: str) -> tuple[str, str]:
    one, two = (
        b.op("reduce", x, monoid="sum", labels=tuple(names), output=(names[1],), keep=(0,))
        for names in ("pq", "rs")
    )
    return one, two


def _example(
    name: str, twins: Callable[[ExampleBuilder, str], tuple[str, str]]
) -> Callable[[ExampleSizes], Graph]:
    """Return a builder of an example: two blocks with different names over one tensor."""

    def example(size: ExampleSizes) -> Graph:
        b = ExampleBuilder(name)
        return b.result(*twins(b, b.tensor("x", size(3), size(4))))

    return example


def _shared(names: Sequence[str]) -> dict[str, Any]:
    """Bind attributes in which both blocks agree; matched first, they spare the guard most of its work."""
    return {name: attr(name) for name in names}


RENAMED: tuple[Rule, ...] = tuple(
    Rule(
        name=f"equal_{plural}",
        left=(
            op(operator, X, rest("xs"), definition=attr("one"), **_shared(same)).named("a"),
            op(operator, X, rest("xs"), definition=attr("two"), **_shared(same)).named("b"),
        ),
        right=(tensor("a"), tensor("a")),
        when=_same_but_for_names,
        doc=f"""
        {plural.capitalize()} that differ only in the names of their dimensions are computed once.

        a = {operator}[i, j](x), b = {operator}[p, q](x)  ->  a = {operator}[i, j](x), b is a
        Where renaming makes all attributes equal: names have no meaning outside their block.
        """,
        source="alpha equivalence; common subexpression elimination (Cocke, 1970)",
        example=_example(f"equal_{plural}", twins),
        saturating=True,
    )
    for operator, plural, twins, same in (
        ("cell", "cells", _cells, ("expr", "dtype")),
        ("contract", "contractions", _contractions, ()),
        ("reduce", "reductions", _reductions, ("monoid", "keep", "scale")),
    )
)
