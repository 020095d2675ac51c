"""Element-wise blocks as nested expressions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tapestry.teg.arrays import NUMPY
from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.exporters.spmd.array_text import (
    ATOM,
    LONGEST,
    PRODUCT,
    UNARY,
    ArrayText,
    NotWritable,
    TextValue,
    constant,
)
from tapestry.teg.exporters.spmd.cell_functions import IN_PLACE, INFIX, TRUTHS
from tapestry.teg.exporters.spmd.folding import split_top
from tapestry.teg.exporters.spmd.statements import apparent_length
from tapestry.teg.exporters.spmd.writers.operand import OperatorWriter, TextOperand, extents
from tapestry.teg.graph import Definition
from tapestry.teg.operators.expressions import SubExpression, run_steps, steps_of


class _Scalar(NamedTuple):
    """A part of an expression that is a Python number."""

    number: Any


_Term = TextValue | _Scalar


def write_cell(
    xp: ArrayText, definition: Definition, index: np.ndarray, operands: Sequence[TextOperand]
) -> tuple[TextValue, ...]:
    """Write an element-wise expression."""
    names = [name for name, _ in definition["dims"]]
    sizes = extents(index)
    inputs = [
        _aligned(xp, o.value, labels, names) for o, labels in zip(operands, definition["labels"], strict=True)
    ]
    steps = steps_of(definition["expr"])
    kinds = _kinds(steps, [o.value.dtype for o in operands], names)
    uses = Counter(a for step in steps for a in step.arguments)
    for k, dtype in _cast_choices(steps, uses, kinds):
        kinds[k] = dtype
    terms: list[_Term] = []
    used_up: set[int] = set()
    for k, step in enumerate(steps):
        term = _step(xp, step, terms, kinds[k], inputs, (names, index), used_up)
        if isinstance(term, TextValue) and (uses[k] > 1 and step.arguments):
            term = xp.named(term)
        elif step.name in IN_PLACE:
            used_up.add(k)
        terms.append(term)
    return (_whole(xp, terms[-1], sizes, definition["dtype"]),)


def _cast_choices(
    steps: Sequence[SubExpression], uses: Mapping[int, int], kinds: Sequence[Any]
) -> Iterator[tuple[int, str]]:
    """Yield the choices between two numbers that are only converted to a type, which can have it at once."""
    for step in steps:
        if step.name == "cast" and step.payload.startswith("float"):
            (k,) = step.arguments
            chosen = steps[k].arguments[1:] if steps[k].name == "where" else ()
            if uses[k] == 1 and chosen and all(isinstance(kinds[a], _Scalar) for a in chosen):
                yield k, step.payload


def _whole(xp: ArrayText, term: _Term, sizes: np.ndarray, dtype: str) -> TextValue:
    """Return the result in its element type and shape."""
    if isinstance(term, _Scalar):
        return xp.full(sizes, np.asarray(term.number).astype(numpy_dtype(dtype)).item(), dtype)
    return xp.expand(xp.cast(term, dtype), sizes)


def _aligned(xp: ArrayText, value: TextValue, labels: Sequence[str], names: Sequence[str]) -> TextValue:
    """Return the input with its dimensions in the order of the names, size 1 where it is broadcast in between."""
    own = [label for label in labels if label]
    if len(own) < len(labels):
        shape = value.shape[:, [k for k, label in enumerate(labels) if label]]
        value = xp.getitem(value, [slice(None) if label else 0 for label in labels], shape)
    value = xp.permute_dims(value, [own.index(name) for name in names if name in own])
    first = next((k for k, name in enumerate(names) if name in own), len(names))
    return xp.expand_dims(value, [k - first for k, name in enumerate(names) if name not in own and k > first])


def _kinds(steps: Sequence[SubExpression], dtypes: Sequence[str], names: Sequence[str]) -> list[Any]:
    """Return what numpy makes of each step: an element type's name, or the Python number of a constant."""
    ones = [np.ones((1,) * len(names), numpy_dtype(dtype)) for dtype in dtypes]
    places = {name: np.ones((1,) * len(names), np.int64) for name in names}
    found = []
    with np.errstate(all="ignore"):
        for k in range(len(steps)):
            value = run_steps(NUMPY, steps[: k + 1], ones, places)
            typed = isinstance(value, (np.ndarray, np.generic))
            found.append(value.dtype.name if typed else _Scalar(value))
    return found


def _step(
    xp: ArrayText,
    step: SubExpression,
    terms: Sequence[_Term],
    kind: Any,
    inputs: Sequence[TextValue],
    space: tuple[Sequence[str], np.ndarray],
    used_up: set[int],
) -> _Term:
    if isinstance(kind, _Scalar):
        return _Scalar(kind.number)
    if step.name == "input":
        return inputs[int(step.payload)]
    if step.name == "index":
        names, index = space
        k = names.index(step.payload)
        line = xp.arange(index[:, k, 0], index[:, k, 1])
        return xp.expand_dims(line, range(1, len(names) - k))
    arguments = [terms[a] for a in step.arguments]
    if step.name in ("cast", "bitcast"):
        (value,) = (_array(xp, a, step.payload) for a in arguments)
        if step.name == "cast":
            return xp.cast(value, step.payload)
        viewed = xp.method(value, "view", xp.dtype_text(step.payload))
        return TextValue(viewed.text, viewed.shape, step.payload)
    return _applied(xp, step.name, arguments, kind, [a in used_up for a in step.arguments])


def _array(xp: ArrayText, term: _Term, dtype: str) -> TextValue:
    if isinstance(term, TextValue):
        return term
    return TextValue(xp.scalar(term.number, dtype), np.zeros((len(xp.active), 0), np.int64), dtype)


def _applied(
    xp: ArrayText, name: str, arguments: Sequence[_Term], kind: str, used_up: Sequence[bool]
) -> TextValue:
    """Write one function, its arguments converted to the type in which numpy computes it.

    Those that are `used_up` are arrays that nobody else reads.
    """
    if name == "random_uniform":
        return _random(xp, name, arguments, kind)
    condition = [*arguments[:1]] if name == "where" else []
    given = list(arguments[len(condition) :])
    wide = _computed_in(name, given, kind)
    spare = [
        isinstance(a, TextValue) and (u or a.dtype != wide) for a, u in zip(given, used_up, strict=False)
    ]
    given = [xp.short(xp.cast(a, wide)) if isinstance(a, TextValue) else a for a in given]
    shape = _broadcast([a.shape for a in (*condition, *given) if isinstance(a, TextValue)])
    like = TextValue("", shape, kind)
    if xp.eager and (found := _in_place(xp, name, given, spare, like)):
        return found
    if name == "identity":
        (value,) = given
        return _array(xp, value, wide)
    if name == "where":
        return _where(xp, condition[0], given, like)
    if name in INFIX:
        operator, level = INFIX[name]
        left, right = (_text(xp, a, level + side) for side, a in enumerate(given))
        if apparent_length(f"{left} {operator} {right}") > LONGEST // 2:
            # Formatters fold a sum of long calls in many ways: their values get names.
            given = [xp.named(a) if isinstance(a, TextValue) and _is_long(a) else a for a in given]
            left, right = (_text(xp, a, level + side) for side, a in enumerate(given))
        return TextValue(f"{left} {operator} {right}", shape, kind, level)
    if name == "neg":
        return TextValue(f"-{_text(xp, given[0], UNARY)}", shape, kind, UNARY)
    if name in ("div", "floor_div"):
        return _divided(xp, name, given, like)
    if name in ("min", "max") and any(isinstance(a, _Scalar) for a in given):
        value, bound = sorted(given, key=lambda a: isinstance(a, _Scalar))
        return xp.call("clip", _text(xp, value), like=like, **{_BOUND[name]: _text(xp, bound)})
    if name == "pow" and isinstance(given[1], _Scalar) and given[1].number == 2:
        return xp.call("square", _text(xp, given[0]), like=like)
    if name in xp.formulas:
        value = xp.named(_array(xp, given[0], wide))
        text = xp.formulas[name].format(value.text)
        return TextValue(text, shape, kind, ATOM if len(split_top(text, " ")) == 1 else PRODUCT)
    if name not in xp.functions:
        raise NotWritable(f"cell function {name}")
    scalars_allowed = name in ("pow", "fmod", "mod") and isinstance(given[0], TextValue)
    listed = [
        _text(xp, a) if scalars_allowed or isinstance(a, TextValue) else xp.scalar(a.number, wide)
        for a in given
    ]
    return xp.call(name, *listed, like=like)


def _in_place(
    xp: ArrayText, name: str, given: Sequence[_Term], spare: Sequence[bool], like: TextValue
) -> TextValue | None:
    """Write a function that leaves its result in place of an argument that nobody else reads, if there is one."""
    if name not in IN_PLACE or not like.dtype.startswith(("float", "bfloat")):
        return None

    def fits(k: int) -> bool:
        value = given[k]
        same = isinstance(value, TextValue) and value.dtype == like.dtype and value.rank == like.rank
        return spare[k] and same and xp.sizes_equal(value.shape, like.shape)  # type: ignore[union-attr]

    places = [k for k in range(len(given)) if fits(k)]
    if not places or (places[0] == 1 and name == "div"):
        return None
    place = given[places[0]]
    assert isinstance(place, TextValue)
    if places[0] == 1 and name == "sub":
        place = xp.method(place, "neg_")
        name = "add"
    others = [_text(xp, a) for k, a in enumerate(given) if k != places[0]]
    return xp.method(place, IN_PLACE[name], *others)


_BOUND = {"min": "max", "max": "min"}


def _random(xp: ArrayText, name: str, arguments: Sequence[_Term], kind: str) -> TextValue:
    """Write random numbers of a seed and counters, whole numbers that are taken as words of 64 bits."""
    typed = [a for a in arguments if isinstance(a, TextValue)]
    if not typed or not all(a.dtype.startswith(("int", "uint")) for a in typed):
        raise NotWritable(f"cell function {name} of other than integer tensors")
    listed = [
        xp.cast(a, "int64").text if isinstance(a, TextValue) else str((a.number + 2**63) % 2**64 - 2**63)
        for a in arguments
    ]
    return xp.call(name, *listed, like=TextValue("", _broadcast([a.shape for a in typed]), kind))


def _computed_in(name: str, given: Sequence[_Term], kind: str) -> str:
    """Return the element type in which a function is computed."""
    typed = [a.dtype for a in given if isinstance(a, TextValue)]
    if name in TRUTHS:
        if len(set(typed)) == 1:
            numbers = [a.number for a in given if isinstance(a, _Scalar)]
            widens = typed[0].startswith(("int", "uint", "bool")) and any(
                isinstance(n, float) for n in numbers
            )
            return "float64" if widens else typed[0]
        return str(np.result_type(*(numpy_dtype(t) for t in typed)))
    if name in ("real", "imag", "complex"):
        return typed[0]
    if name == "abs" and typed[0].startswith("complex"):
        return typed[0]
    return kind


def _where(xp: ArrayText, condition: _Term, given: Sequence[_Term], like: TextValue) -> TextValue:
    texts = [_text(xp, a) for a in given]
    if not any(isinstance(a, TextValue) for a in given):
        texts = [xp.typed_number(a.number, like.dtype) for a in given if isinstance(a, _Scalar)]
    choice = xp.cast(_array(xp, condition, "bool"), "bool")
    return xp.call("where", xp.short(choice).text, *texts, like=like)


def _divided(xp: ArrayText, name: str, given: Sequence[_Term], like: TextValue) -> TextValue:
    if name == "div" and not like.dtype.startswith(("int", "uint")):
        left, right = _text(xp, given[0], PRODUCT), _text(xp, given[1], PRODUCT + 1)
        return TextValue(f"{left} / {right}", like.shape, like.dtype, PRODUCT)
    mode = '"trunc"' if name == "div" else '"floor"'
    listed = [xp.scalar(a.number, like.dtype) if isinstance(a, _Scalar) else a.text for a in given]
    return xp.call("div", *listed, like=like, rounding_mode=mode)


def _is_long(value: TextValue) -> bool:
    """Return whether a text has brackets that a formatter may fold; those of a source are none."""
    return "(" in value.text or value.text.endswith("]")


def _text(xp: ArrayText, term: _Term, level: int = 0) -> str:
    if isinstance(term, TextValue):
        return xp.inner(term, level)
    text = constant(term.number)
    return f"({text})" if text.startswith("-") and level > UNARY else text


def _broadcast(shapes: Sequence[np.ndarray]) -> np.ndarray:
    """Return the common shape of texts that are broadcast against each other, `(devices, rank)`."""
    rank = max(s.shape[1] for s in shapes)
    result = np.ones((len(shapes[0]), rank), np.int64)
    for s in shapes:
        own = s.shape[1]
        result[:, rank - own :] = np.where(s == 1, result[:, rank - own :], s)
    return result


CELLS: dict[str, OperatorWriter] = {"cell": write_cell}
