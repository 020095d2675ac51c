"""Contractions: products of inputs over named dimensions, summed over the names the output lacks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tapestry.teg.arrays import Array, ArrayNamespace
from tapestry.teg.arrays.namespace import Names
from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.graph import Attributes, Definition, TensorType, attributes
from tapestry.teg.operators.operator import Inferred, Operand, Operator, OperatorExample, Work
from tapestry.teg.operators.reading import settings
from tapestry.teg.signature import PARALLEL, IndexDim, Row, Signature, projection
from tapestry.teg.zspace import ZRange


def _infer(attrs: Attributes, inputs: Sequence[TensorType]) -> Inferred:
    given = settings(attrs, ("labels", "output"))
    labels, output = given["labels"], given["output"]
    if not inputs:
        raise ValueError("expected at least one input, not 0")
    sizes = _sizes(labels, inputs)
    if not set(output) <= set(sizes) or len(set(output)) != len(output):
        raise ValueError(f"attribute 'output' must list names among {list(sizes)}, each once, not {output!r}")
    dtypes = {t.dtype for t in inputs}
    if "bool" in dtypes:
        raise ValueError("a contraction adds numbers up and so does not take bool; cast first")
    dtype = _dtype(dtypes)
    order = [*output, *(name for name in sizes if name not in output)]
    dims = tuple(IndexDim(name, sizes[name], PARALLEL if name in output else "sum") for name in order)
    reads = [[Row(order.index(name), 1, 0, 1) for name in names] for names in labels]
    written = [Row(k, 1, 0, 1) for k in range(len(output))]
    signature = Signature(
        dims, tuple(projection(rows, len(dims)) for rows in reads), (projection(written, len(dims)),)
    )
    return Inferred(signature, (TensorType(tuple(sizes[name] for name in output), dtype),))


def _sizes(labels: Any, inputs: Sequence[TensorType]) -> dict[str, int]:
    """Return the size of each name, in order of appearance."""
    if not isinstance(labels, tuple) or len(labels) != len(inputs):
        raise ValueError(
            f"attribute 'labels' needs one tuple for each of {len(inputs)} inputs, not {labels!r}"
        )
    sizes: dict[str, int] = {}
    for k, (names, (shape, _)) in enumerate(zip(labels, inputs, strict=True)):
        if len(names) != len(shape) or len(set(names)) != len(names):
            raise ValueError(
                f"input {k} of shape {shape} needs a different name per dimension, not {names!r}"
            )
        for name, size in zip(names, shape, strict=True):
            if sizes.setdefault(name, size) != size:
                raise ValueError(f"name {name!r} has size {sizes[name]} before and {size} in input {k}")
    return sizes


def _evaluate(
    xp: ArrayNamespace, definition: Definition, _: ZRange, operands: Sequence[Operand]
) -> tuple[Array, ...]:
    dtype = _dtype(xp.dtype_of(o.array) for o in operands)
    arrays = [xp.cast(o.array, dtype) for o in operands]
    return (xp.contract(arrays, definition["labels"], definition["output"]),)


def _dtype(dtypes: Iterable[str]) -> str:
    return str(np.result_type(*(numpy_dtype(name) for name in set(dtypes))))


def roles_of(labels: Sequence[Names], output: Names) -> dict[str, str]:
    """Return the role of each name in a matrix product: "batch", "m" (first input), "n" (any other) or "k"."""
    roles = {}
    for name in dict.fromkeys(n for names in labels for n in names):
        holders = [k for k, names in enumerate(labels) if name in names]
        if name not in output:
            roles[name] = "k"
        elif len(holders) == len(labels) > 1:
            roles[name] = "batch"
        else:
            roles[name] = "m" if holders[0] == 0 else "n"
    return roles


def _work(definition: Definition, _: Sequence[TensorType], __: Sequence[TensorType]) -> Work:
    labels, output = definition["labels"], definition["output"]
    roles = roles_of(labels, output)
    if len(labels) == 1:
        reduced = tuple(name for name, role in roles.items() if role == "k")
        if reduced:
            return Work("vector", flops=1.0, kernel="reduction", row_dims=reduced)
        return Work("move", kernel="copy" if labels[0] == output else "transposition")
    # Per point one multiplication for each input after the first, and the addition to the sum.
    return Work("contraction", flops=float(len(labels)), roles=roles)


def _example(text: str, shapes: Sequence[tuple[int, ...]], dtype: str = "float32") -> OperatorExample:
    """Build an example with labels and output from einsum's text with one letter per name."""
    left, right = text.split("->")
    attrs = attributes(labels=tuple(tuple(part) for part in left.split(",")), output=tuple(right))
    return OperatorExample(attrs, tuple(TensorType(shape, dtype) for shape in shapes))


CONTRACT = Operator(
    name="contract",
    infer=_infer,
    evaluate=_evaluate,
    work=_work,
    examples=(
        _example("mk,kn->mn", [(4, 6), (6, 5)]),
        _example("bshd,bthd->bhst", [(2, 4, 3, 5), (2, 6, 3, 5)]),
        _example("bse,chde->cbhsd", [(2, 3, 4), (3, 2, 5, 4)]),
        _example("bhst,bthd->bshd", [(2, 3, 4, 5), (2, 5, 3, 6)]),
        _example("mk,kn->mn", [(4, 6), (6, 5)], "bfloat16"),
        _example("mk,kn->nm", [(4, 6), (6, 5)], "int32"),
        _example("ik,jk,lk->ijl", [(3, 4), (2, 4), (5, 4)]),
        _example("i,j->ij", [(3,), (4,)]),
        _example("abc->ca", [(3, 4, 5)]),
        _example("ab,bc->a", [(3, 4), (4, 5)]),
        _example("k,k->", [(9,), (9,)]),
    ),
)

CONTRACTION: tuple[Operator, ...] = (CONTRACT,)
