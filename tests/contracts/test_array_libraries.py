"""Tests that operators and functions on elements mean the same in numpy, torch and JAX, on any part of their range."""

from __future__ import annotations

import numpy as np
import pytest

from tapestry.teg.arrays import NUMPY, ArrayNamespace, arrays_named
from tapestry.teg.arrays.numpy_functions import FUNCTIONS
from tapestry.teg.arrays.promotion import is_common
from tapestry.teg.dtypes import is_float, numpy_dtype
from tapestry.teg.evaluate import run_block
from tapestry.teg.graph import Definition
from tapestry.teg.operators import OPERATORS
from tapestry.teg.operators.functions import CELL_FUNCTIONS
from tapestry.teg.operators.monoids import combine, identity, reduce_axes
from tapestry.teg.operators.operator import Operator, OperatorExample
from tapestry.teg.operators.testing import assert_same, defined, random_values
from tapestry.teg.signature import MONOIDS
from tapestry.teg.zspace import ZRange

# JAX compiles each function for each shape, which takes most of the time.
PARTS = {"torch": 4, "jax": 1}
EXAMPLES = [(o, e, f"{o.name}-{k}") for o in OPERATORS if not o.meaningless for k, e in enumerate(o.examples)]


def marks_of(library: str, example: str) -> tuple[pytest.MarkDecorator, ...]:
    """Return the marks of an operator's example: of JAX, `make test` tries the first of each operator."""
    if library != "jax":
        return ()
    return (pytest.mark.slow,) if example.endswith("-0") else (pytest.mark.slow, pytest.mark.reach)


CASES = [
    pytest.param(library, o, e, id=f"{library}-{name}", marks=marks_of(library, name))
    for library in PARTS
    for o, e, name in EXAMPLES
]
LIBRARIES = ["torch", pytest.param("jax", marks=pytest.mark.slow)]
# Polygamma and zeta are series: their error grows with the order.
ELEMENT_TOLERANCES = {"bfloat16": 1e-2, "float16": 2e-3, "float32": 1e-4, "complex64": 1e-4}


def library_named(name: str) -> ArrayNamespace:
    """Return the operations of a library, or skip the test where it is not installed."""
    pytest.importorskip(name)
    return arrays_named(name)


def parts_of(definition: Definition, count: int, rng: np.random.Generator) -> list[ZRange | None]:
    """Return the whole index range (None) and random parts of it, some of them empty."""
    if definition.signature is None:
        return [None]
    parts: list[ZRange | None] = [None]
    for _ in range(count):
        ends = [sorted(rng.integers(0, d.size + 1, 2).tolist()) for d in definition.signature.dims]
        parts.append(ZRange(tuple(start for start, _ in ends), tuple(end for _, end in ends)))
    return parts


@pytest.mark.parametrize(("library", "operator", "example"), CASES)
def test_an_operator_means_the_same_on_every_part(
    library: str, operator: Operator, example: OperatorExample, rng: np.random.Generator
) -> None:
    xp = library_named(library)
    definition, outputs = defined(operator, example)
    inputs = random_values(operator, example, rng)
    for part in parts_of(definition, PARTS[library], rng):
        wanted = run_block(definition, part, inputs, outputs)
        with xp.computing():
            made = run_block(definition, part, [xp.from_numpy(a) for a in inputs], outputs, xp)
        for got, value in zip(made, wanted, strict=True):
            assert_same(xp.to_numpy(got), value)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    "dtype", ["float32", "bfloat16", "int32", "bool", "complex64", "uint8", "uint32", "float64"]
)
def test_functions_on_elements_mean_the_same(library: str, dtype: str, rng: np.random.Generator) -> None:
    """Check every function on arrays, and with a Python number as its last argument."""
    xp = library_named(library)
    for name in sorted(FUNCTIONS):
        arity = CELL_FUNCTIONS[name].arity if name in CELL_FUNCTIONS else 2
        if not is_common(name, dtype) or (library == "jax" and arity == 2 and dtype == "float64"):
            continue
        arrays = [elements(name, dtype, rng) for _ in range(arity)]
        if name == "where":
            arrays[0] = rng.integers(0, 2, 20).astype(bool)
        for arguments in ([*arrays], [*arrays[:-1], 2]) if arity == 2 else ([*arrays],):
            assert_function_same(xp, name, arguments, dtype)


def elements(function: str, dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Draw positive arguments, which all functions take."""
    if dtype == "bool":
        return rng.integers(0, 2, 20).astype(bool)
    if is_float(dtype):
        return (rng.uniform(0.1, 0.9, 20) + (function in ("acosh", "zeta"))).astype(numpy_dtype(dtype))
    if dtype == "complex64":
        return (rng.uniform(0.1, 0.9, 20) + 1j * rng.uniform(0.1, 0.9, 20)).astype(dtype)
    return rng.integers(1, 6, 20).astype(dtype)


def assert_function_same(xp: ArrayNamespace, name: str, arguments: list[object], dtype: str) -> None:
    try:
        with NUMPY.computing():
            wanted = NUMPY.elementwise(name, *arguments)
    except TypeError:  # numpy has no such function on this type
        return
    with xp.computing():
        given = [xp.from_numpy(a) if isinstance(a, np.ndarray) else a for a in arguments]
        got = xp.to_numpy(xp.elementwise(name, *given))
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape), name
    if is_float(wanted.dtype.name) or wanted.dtype.kind == "c":
        wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
        tolerance = ELEMENT_TOLERANCES.get(dtype, 1e-9)
        np.testing.assert_allclose(got.astype(wide), wanted.astype(wide), tolerance, tolerance, err_msg=name)
    else:
        np.testing.assert_array_equal(got, wanted, err_msg=name)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("monoid", MONOIDS)
def test_monoids_combine_and_reduce_alike(library: str, monoid: str, rng: np.random.Generator) -> None:
    xp = library_named(library)
    for dtype in ("bool",) if monoid in ("any", "all") else ("float32", "bfloat16"):
        a, b = (elements("add", dtype, rng).reshape(4, 5) for _ in range(2))
        with xp.computing():
            first, second = xp.from_numpy(a), xp.from_numpy(b)
            neutral = xp.full((4, 5), identity(monoid, dtype), dtype)
            combined, unchanged = combine(xp, monoid, first, second), combine(xp, monoid, neutral, first)
            reduced = reduce_axes(xp, monoid, first, (1,))
            nothing = reduce_axes(xp, monoid, first[:, :0], (1,))
        assert_same(xp.to_numpy(combined), combine(NUMPY, monoid, a, b))
        assert_same(xp.to_numpy(unchanged), a)
        assert_same(xp.to_numpy(reduced), reduce_axes(NUMPY, monoid, a, (1,)))
        assert xp.to_numpy(nothing).astype(float).tolist() == [float(identity(monoid, dtype))] * 4
