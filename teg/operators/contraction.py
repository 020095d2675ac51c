"""Contractions: products of inputs over named dimensions, summed over the names the output lacks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.graph import Attributes, Definition, TensorType, attributes
from tapestry.teg.operators.monoids import accumulation
from tapestry.teg.operators.operator import Inferred, Operand, Operator, OperatorExample, Work
from tapestry.teg.operators.reading import settings
from tapestry.teg.signature import PARALLEL, IndexDim, Row, Signature, projection
from tapestry.teg.zspace import ZRange

Names = tuple[str, ...]


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
    dtype = str(np.result_type(*(numpy_dtype(name) for name in dtypes)))
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


def _evaluate(definition: Definition, _: ZRange, operands: Sequence[Operand]) -> tuple[np.ndarray, ...]:
    labels, output = definition["labels"], definition["output"]
    dtype = np.result_type(*(o.array.dtype for o in operands))
    wide = accumulation(dtype.name)
    arrays = [o.array.astype(wide, copy=False) for o in operands]
    if len(arrays) == 2:
        result = contract_pair(arrays[0], labels[0], arrays[1], labels[1], output)
    else:
        number = {name: k for k, name in enumerate(dict.fromkeys(n for names in labels for n in names))}
        parts: list[Any] = []
        for array, names in zip(arrays, labels, strict=True):
            parts += [array, [number[n] for n in names]]
        result = np.asarray(np.einsum(*parts, [number[n] for n in output], optimize=True))
    return (result.astype(dtype, copy=False),)


class _Groups(NamedTuple):
    """The names of a pairwise contraction, grouped by role."""

    batch: Names
    m: Names
    n: Names
    k: Names


def contract_pair(a: np.ndarray, a_names: Names, b: np.ndarray, b_names: Names, output: Names) -> np.ndarray:
    """Contract two arrays by one batched matrix product; return a view of it where its dimensions are permuted."""
    a, a_names = _without_private_names(a, a_names, (*b_names, *output))
    b, b_names = _without_private_names(b, b_names, (*a_names, *output))
    shared = [
        name for name in (a_names if a.size >= b.size else b_names) if name in a_names and name in b_names
    ]
    groups = _Groups(
        batch=tuple(name for name in output if name in shared),
        m=tuple(name for name in a_names if name not in shared),
        n=tuple(name for name in b_names if name not in shared),
        k=tuple(name for name in shared if name not in output),
    )
    sizes = {**dict(zip(a_names, a.shape, strict=True)), **dict(zip(b_names, b.shape, strict=True))}
    left = _matrices(a, a_names, groups.batch, groups.m, groups.k)
    right = _matrices(b, b_names, groups.batch, groups.k, groups.n)
    multiply = np.matmul if groups.k else np.multiply
    product = np.asarray(multiply(_ready_for_blas(left), _ready_for_blas(right)))
    order = (*groups.batch, *groups.m, *groups.n)
    return product.reshape([sizes[n] for n in order]).transpose([order.index(n) for n in output])


def _without_private_names(array: np.ndarray, names: Names, others: Names) -> tuple[np.ndarray, Names]:
    """Sum first over the names that occur nowhere else; return the array and its remaining names."""
    private = tuple(k for k, name in enumerate(names) if name not in others)
    return (np.sum(array, axis=private, dtype=array.dtype) if private else array), tuple(
        name for name in names if name in others
    )


def _matrices(array: np.ndarray, names: Names, batch: Names, rows: Names, columns: Names) -> np.ndarray:
    """Return `array` as `(*batch, rows, columns)`, a view where its strides allow."""
    ordered = array.transpose([names.index(n) for n in (*batch, *rows, *columns)])
    lead, middle = len(batch), len(batch) + len(rows)
    shape = ordered.shape
    return ordered.reshape(*shape[:lead], math.prod(shape[lead:middle]), math.prod(shape[middle:]))


def _ready_for_blas(array: np.ndarray) -> np.ndarray:
    """Copy the array unless its matrices have one dimension of unit stride, as BLAS (and so numpy) requires."""
    item = array.itemsize
    (rows, columns), (far, near) = array.shape[-2:], array.strides[-2:]
    if near == item and far % item == 0 and far >= columns * item:
        return array
    if far == item and near % item == 0 and near >= rows * item:
        return array
    return np.ascontiguousarray(array)


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
        return Work("vector", flops=1.0) if "k" in roles.values() else Work("move")
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
