"""Tiny forms of public models and training steps, with the values that PyTorch and JAX recorded for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

import tapestry
from benchmarks.conformance_cases import STABLEHLO, recorded
from benchmarks.torch_programs import PROGRAMS, live
from tapestry.teg.graph import Graph
from tapestry.teg.importers import from_onnx, from_stablehlo
from tapestry.teg.importers.stablehlo.entry import stablehlo_names
from tests.teg.importers.models import GRAPHS
from tests.teg.operators.test_cells import splitmix

Arrays = Mapping[str, np.ndarray]


class TinyModel(NamedTuple):
    """A program, values of its inputs by site, and the outputs by site that a foreign engine computed from them."""

    graph: Graph
    inputs: Arrays
    outputs: Arrays


def _onnx(name: str) -> TinyModel:
    return TinyModel(from_onnx(GRAPHS / f"{name}.onnx"), *recorded(GRAPHS / f"{name}.npz"))


def _stablehlo(name: str) -> TinyModel:
    """Read a program whose values are numbered by input and result."""
    file = GRAPHS / "jax" / f"{name}.tiny{STABLEHLO}"
    sources, sinks = stablehlo_names(file)
    inputs, outputs = recorded(GRAPHS / "jax" / f"{name}.tiny.npz")
    return TinyModel(
        from_stablehlo(file),
        {sources[int(k)]: v for k, v in inputs.items()},
        {sinks[int(k)]: v for k, v in outputs.items()},
    )


def _live(name: str) -> TinyModel:
    return TinyModel(*live(name))


_ONNX = sorted(
    str(path.relative_to(GRAPHS).with_suffix(""))
    for path in GRAPHS.rglob("*.onnx")
    if path.with_suffix(".npz").exists()
)
_STABLEHLO = sorted(path.name.removesuffix(".tiny.npz") for path in (GRAPHS / "jax").glob("*.tiny.npz"))

MODELS: dict[str, Callable[[], TinyModel]] = {
    # Of a model that is there with weights inside and as inputs, the latter has more to split.
    **{name: partial(_onnx, name) for name in _ONNX if f"{name}.winputs" not in _ONNX},
    **{f"jax/{name}": partial(_stablehlo, name) for name in _STABLEHLO},
    **{f"live/{name}": partial(_live, name) for name in PROGRAMS},
}


def with_values(graph: Graph, arrays: Arrays) -> dict[str, np.ndarray]:
    """Return values by site together with those that the graph holds itself, in the shapes of its program."""
    values = dict(arrays)
    for block in graph.sources:
        (tensor,) = block.outputs
        if tensor in graph.data and block.site not in values:
            shape = block.definition.get("logical_shape", graph.tensors[tensor].shape)
            values[block.site] = graph.data[tensor].reshape(shape)
    return values


def noise() -> TinyModel:
    """Build a program of random numbers, and compute them by SplitMix64 in Python's own integers."""
    seeds, shape = (0, 7, -1, 2**63), (6, 5)
    outputs = {}
    with tapestry.program("noise") as p:
        p.output("doubled", p.input("x", 6, 5, dtype="float64") * 2.0)
        for seed in seeds:
            name = f"seed {seed}"
            p.output(name, p.rand(*shape, seed=seed, dtype="float64"))
            words = [splitmix(seed % 2**64, counter) for counter in range(math.prod(shape))]
            outputs[name] = np.array([(word >> 11) / 2**53 for word in words]).reshape(shape)
    return TinyModel(p.graph, {"x": np.ones(shape)}, {"doubled": np.full(shape, 2.0), **outputs})
