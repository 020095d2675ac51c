"""Comparisons of imported programs with the results that JAX itself computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapestry.teg.evaluate import evaluate
from tapestry.teg.graph import Graph
from tapestry.teg.importers import from_jax, from_stablehlo
from tapestry.teg.interface import pack_inputs, unpack_outputs
from tapestry.teg.validate import validate


def results(graph: Graph, inputs: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return the outputs of an imported graph by name; inputs may be anything array-like."""
    arrays = {name: np.asarray(value) for name, value in inputs.items()}
    return unpack_outputs(graph, evaluate(graph, pack_inputs(graph, arrays)))


def run_text(text: str, *inputs: np.ndarray) -> list[np.ndarray]:
    """Return the results of a module on its arguments in order."""
    graph = from_stablehlo(text)
    assert validate(graph) == []
    return list(results(graph, {f"arg{k}": value for k, value in enumerate(inputs)}).values())


def same_as_jax(
    function: Callable[..., Any], *arguments: Any, tolerance: float = 1e-5, **options: Any
) -> Graph:
    """Check that the imported function gives what JAX gives, in values, shapes and element types; return the graph."""
    import jax

    graph = from_jax(function, *arguments, **options)
    assert validate(graph) == []
    leaves = jax.tree.leaves(arguments)
    found = results(graph, dict(zip(_names(function, arguments), leaves, strict=True)))
    wanted = jax.tree.leaves(jax.jit(function)(*arguments))
    assert len(found) == len(wanted)
    for got, value in zip(found.values(), wanted, strict=True):
        close(got, np.asarray(value), tolerance)
    return graph


def _names(function: Callable[..., Any], arguments: Sequence[Any]) -> Sequence[str]:
    """Return the names of the sources that the arguments' leaves become."""
    import jax

    from tapestry.teg.importers.stablehlo.entry import stablehlo_names

    return stablehlo_names(jax.jit(function, keep_unused=True).lower(*arguments).as_text(debug_info=True))[0]


def close(got: np.ndarray, wanted: np.ndarray, tolerance: float) -> None:
    """Check for the same shape and element type, and values within `tolerance` of the largest."""
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
    if wanted.dtype.kind in "biu":
        np.testing.assert_array_equal(got, wanted)
        return
    wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
    a, b = got.astype(wide), wanted.astype(wide)
    np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
    finite = np.isfinite(b)
    np.testing.assert_array_equal(a[~finite & ~np.isnan(b)], b[~finite & ~np.isnan(b)])
    scale = float(np.max(np.abs(b[finite]), initial=0.0))
    np.testing.assert_allclose(a[finite], b[finite], rtol=0, atol=tolerance * max(scale, 1e-30))
