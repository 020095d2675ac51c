"""Lowering of elementwise steps: labels absorb permutations and broadcasts; constant chains fold to a generator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tapestry.teg.importers.lowering.expressions import (
    known_leaf,
    leaves,
    on_factors,
    rebuild,
    simplified,
    size_of,
)
from tapestry.teg.importers.lowering.storage import (
    ConstantRoot,
    Generator,
    LoweredStorage,
    Rep,
    flat,
    names_of,
    strides_of,
)
from tapestry.teg.importers.program import Compute, Labels
from tapestry.teg.views import identity

Factors = tuple[tuple[int, ...], ...]

# Longer constant expressions are computed once and read, so that sharing cannot multiply them.
INLINE_LIMIT = 64


class _Operand(NamedTuple):
    """A root read with labels, or an expression in its place (with the roots that the expression reads)."""

    root: str
    labels: Labels
    expr: Any = None
    inputs: tuple[tuple[str, Labels], ...] = ()


def lower_cell(
    storage: LoweredStorage, step: Compute, reps: Sequence[Rep], factors: Sequence[Factors], target: Factors
) -> Rep:
    """Lower to a cell block, a deferred generator if all operands are constant, or the operand if nothing is left."""
    wanted = names_of(step.output_labels, target)
    sizes = dict(zip(wanted, flat(target), strict=True))
    operands = [
        _operand(storage, rep, names_of(labels, own))
        for rep, labels, own in zip(reps, step.input_labels, factors, strict=True)
    ]
    constant = all(_is_constant(storage, o.root) for o in operands)
    operands = [_inlined(storage, o, constant) for o in operands]
    by_label = dict(zip(step.output_labels, target, strict=True))
    expr = on_factors(
        step.attributes["expr"],
        {d: names_of((d,), (own,)) for d, own in by_label.items()},
        {d: strides_of(own) for d, own in by_label.items()},
    )
    expr, inputs = _joined(expr, operands)
    if expr == ("input", 0) and storage.roots[inputs[0][0]].dtype == step.attributes["dtype"]:
        return _same(storage, inputs[0], wanted, flat(target))
    used = {n for _, labels in inputs for n in labels} | set(leaves(expr, "index"))
    dims = tuple((n, sizes[n]) for n in wanted if n in used)
    dtype = step.attributes["dtype"]
    if constant:
        key = storage.defer(step.site, Generator(step.site, expr, dims, inputs, dtype))
    else:
        labels = tuple(own for _, own in inputs)
        key = storage.emit(
            "cell", [r for r, _ in inputs], step.site, expr=expr, labels=labels, dims=dims, dtype=dtype
        )
    return storage.named(key, [n for n, _ in dims], wanted, flat(target))


def _same(storage: LoweredStorage, read: tuple[str, Labels], wanted: Labels, shape: tuple[int, ...]) -> Rep:
    """Return the operand itself, with the output's dimensions."""
    root, labels = read
    if all(labels):
        return storage.named(root, labels, wanted, shape)
    squeezed, kept = storage.read(Rep(root, identity(storage.roots[root].shape)), labels)
    return storage.named(squeezed, kept, wanted, shape)


def _operand(storage: LoweredStorage, rep: Rep, names: Labels) -> _Operand:
    return _Operand(*storage.read(rep, names, strict=False))


def _is_constant(storage: LoweredStorage, root: str) -> bool:
    return root in storage.deferred


def _inlined(storage: LoweredStorage, operand: _Operand, constant: bool) -> _Operand:
    """Convert the operand to an expression, where that saves an input without repeating work.

    Numbers and progressions always; generators inside constant chains; weights stay inputs elsewhere.
    """
    what = storage.deferred.get(operand.root)
    if isinstance(what, ConstantRoot) and (constant or not what.weight):
        leaf = known_leaf(what.array, operand.labels)
        return operand if leaf is None else operand._replace(expr=leaf)
    if isinstance(what, Generator) and (not what.dims or (constant and size_of(what.expr) <= INLINE_LIMIT)):
        return _opened(operand, what)
    return operand


def _opened(operand: _Operand, generator: Generator) -> _Operand:
    """Return the generator's own expression, its dimensions renamed to the reader's."""
    renamed = {own: name for (own, _), name in zip(generator.dims, operand.labels, strict=True)}
    single = {own for (own, _), name in zip(generator.dims, operand.labels, strict=True) if not name}
    expr = rebuild(
        generator.expr,
        lambda e: (("const", 0) if e[1] in single else ("index", renamed[e[1]])) if e[0] == "index" else e,
    )
    inputs = tuple((root, tuple(renamed.get(n, "") for n in labels)) for root, labels in generator.inputs)
    return operand._replace(expr=expr, inputs=inputs)


def _joined(expr: Any, operands: Sequence[_Operand]) -> tuple[Any, tuple[tuple[str, Labels], ...]]:
    """Return the expression with inlined operands, and the roots it reads after simplification, each once."""
    places: dict[tuple[str, Labels], int] = {}

    def place(read: tuple[str, Labels]) -> Any:
        return ("input", places.setdefault(read, len(places)))

    replacements: Mapping[int, Any] = {
        k: place((o.root, o.labels))
        if o.expr is None
        else rebuild(o.expr, lambda e, o=o: place(o.inputs[e[1]]) if e[0] == "input" else e)  # type: ignore[misc]
        for k, o in enumerate(operands)
    }
    joined = simplified(rebuild(expr, lambda e: replacements[e[1]] if e[0] == "input" else e))
    reads = list(places)
    remaining = leaves(joined, "input")
    number = {old: new for new, old in enumerate(sorted(remaining))}
    final = rebuild(joined, lambda e: ("input", number[e[1]]) if e[0] == "input" else e)
    return final, tuple(reads[k] for k in sorted(remaining))
