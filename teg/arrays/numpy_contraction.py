"""Contractions of two numpy arrays by one batched matrix product, on views wherever strides allow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tapestry.teg.arrays.namespace import Names
from tapestry.teg.dtypes import accumulation, numpy_dtype


def contract(arrays: Sequence[np.ndarray], labels: Sequence[Names], output: Names) -> np.ndarray:
    """Multiply arrays of one element type along named dimensions; sum over the names that the output lacks."""
    dtype = arrays[0].dtype
    wide = [a.astype(numpy_dtype(accumulation(dtype.name)), copy=False) for a in arrays]
    if len(wide) == 2:
        return contract_pair(wide[0], labels[0], wide[1], labels[1], output).astype(dtype, copy=False)
    number = {name: k for k, name in enumerate(dict.fromkeys(n for names in labels for n in names))}
    parts: list[Any] = []
    for array, names in zip(wide, labels, strict=True):
        parts += [array, [number[n] for n in names]]
    result = np.asarray(np.einsum(*parts, [number[n] for n in output], optimize=True))
    return result.astype(dtype, copy=False)


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
