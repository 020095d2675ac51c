"""Cells as values: their reads with dimension names, and their expression; composed and normalized."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tapestry.rewrites.rule import AttributePattern, Match, Op, Term, attr, op, pick
from tapestry.teg.arrays import NUMPY
from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.graph import Definition
from tapestry.teg.operators.expressions import (
    Expression,
    cell_flops,
    inputs_of,
    run_steps,
    steps_of,
    substitute,
)

Labels = tuple[str, ...]
Dims = tuple[tuple[str, int], ...]

INPUT = ("input", 0)
ADD = ("add", ("input", 0), ("input", 1))
# Sums and differences of two tensors, whichever is read first.
ADD_OR_SUBTRACT: tuple[Expression, ...] = (
    ADD,
    ("sub", ("input", 0), ("input", 1)),
    ("sub", ("input", 1), ("input", 0)),
)
MULTIPLY = ("mul", ("input", 0), ("input", 1))


class CellRead(NamedTuple):
    """A tensor and the index dimension that runs along each of its dimensions ("": broadcast size 1)."""

    site: str
    labels: Labels


@dataclass(frozen=True)
class CellForm:
    """A cell independent of its place in a graph; `("input", k)` in `expr` is `reads[k]`."""

    reads: tuple[CellRead, ...]
    expr: Expression
    dims: Dims
    dtype: str

    @property
    def sites(self) -> tuple[str, ...]:
        return tuple(r.site for r in self.reads)

    @property
    def attributes(self) -> Mapping[str, Any]:
        """The attributes of the cell's block."""
        return {
            "expr": self.expr,
            "labels": tuple(r.labels for r in self.reads),
            "dims": self.dims,
            "dtype": self.dtype,
        }

    def normal(self) -> CellForm:
        """Return the cell with every read used, and none twice."""
        used = [self.reads[k] for k in inputs_of(self.expr)]
        reads = tuple(dict.fromkeys(used))
        numbers: Mapping[int, Expression] = {
            k: ("input", reads.index(self.reads[k])) for k in inputs_of(self.expr)
        }
        return replace(self, reads=reads, expr=substitute(self.expr, numbers))

    def is_normal(self) -> bool:
        """Return whether `normal` changes nothing."""
        return len(inputs_of(self.expr)) == len(self.reads) == len(set(self.reads))

    def inlined(self, site: str, inner: CellForm, dtypes: Sequence[str]) -> CellForm:
        """Replace this cell's reads of `site` by the cell that produces it (of inputs of `dtypes`).

        The rounding to the inner cell's element type is kept as a cast where its expression has another.
        """
        value = inner.expr
        if element_type(value, dtypes) != inner.dtype:
            value = ("cast", inner.dtype, value)
        reads = list(self.reads)
        replacements: dict[int, Expression] = {}
        for k, read in enumerate(self.reads):
            if read.site == site:
                names = dict(zip((name for name, _ in inner.dims), read.labels, strict=True))
                numbers: dict[int, Expression] = {
                    j: ("input", len(reads) + j) for j in range(len(inner.reads))
                }
                replacements[k] = substitute(along(value, names), numbers)
                reads += [
                    CellRead(r.site, tuple(names[n] if n else "" for n in r.labels)) for r in inner.reads
                ]
        return replace(self, reads=tuple(reads), expr=substitute(self.expr, replacements)).normal()


def along(expr: Expression, names: Mapping[str, str]) -> Expression:
    """Rename the coordinates of the expression; the coordinate of a broadcast dimension is 0."""
    if expr[0] == "index":
        return ("index", names[expr[1]]) if names[expr[1]] else ("cast", "int64", ("const", 0))
    return tuple(along(part, names) if isinstance(part, tuple) else part for part in expr)


def element_type(expr: Expression, dtypes: Sequence[str]) -> str:
    """Infer the element type of an expression's value; "weak ..." for one of constants only.

    Raises:
        TypeError, ValueError: the expression has no meaning on inputs of these types.
    """
    return _element_type(expr, repr(expr), tuple(dtypes))


@lru_cache(maxsize=1 << 14)
def _element_type(expr: Expression, _: str, dtypes: tuple[str, ...]) -> str:
    """Infer the element type, cached by expression and text: `==` confuses constants that the text distinguishes."""
    ones = [np.ones(1, numpy_dtype(name)) for name in dtypes]
    steps = steps_of(expr)
    coordinates = {s.payload: np.ones(1, np.int64) for s in steps if s.name == "index"}
    with np.errstate(all="ignore"):
        value = run_steps(NUMPY, steps, ones, coordinates)
    return value.dtype.name if isinstance(value, np.ndarray | np.generic) else f"weak {type(value).__name__}"


def any_cell(*operands: Term, prefix: str = "", inside: AttributePattern | None = None) -> Op:
    """Build the left-side pattern of a cell, its attributes bound to `prefix` + expr, labels, dims, dtype."""
    return op(
        "cell",
        *operands,
        inside=inside,
        expr=attr(prefix + "expr"),
        labels=attr(prefix + "labels"),
        dims=attr(prefix + "dims"),
        dtype=attr(prefix + "dtype"),
    )


def bound_cell(m: Match, sites: Sequence[str], prefix: str = "") -> CellForm:
    """Return the cell that `any_cell` bound, with these operands."""
    reads = tuple(CellRead(s, labels) for s, labels in zip(sites, m[prefix + "labels"], strict=True))
    return CellForm(reads, m[prefix + "expr"], m[prefix + "dims"], m[prefix + "dtype"])


def cell(form: Callable[[Match], CellForm]) -> Op:
    """Build the right-hand side: the cell that `form` computes from the match."""
    return op("cell", pick(lambda m: form(m).sites), given=lambda m: form(m).attributes)


def dim_labels(rank: int) -> Labels:
    """Return names for the dimensions of a tensor: `d0`, `d1`, ..."""
    return tuple(f"d{k}" for k in range(rank))


def pointwise(
    expr: Expression, labels: Sequence[Labels], shape: Sequence[int], dtype: str
) -> Mapping[str, Any]:
    """Build the attributes of a cell over `shape` with dimensions `d0`, `d1`, ...; `labels` per operand."""
    dims = tuple(zip(dim_labels(len(shape)), shape, strict=True))
    return {"expr": expr, "labels": tuple(labels), "dims": dims, "dtype": dtype}


@lru_cache(maxsize=1 << 14)
def flops_of(definition: Definition) -> float:
    """Compute the flops per element of a cell."""
    return cell_flops(definition["expr"])
