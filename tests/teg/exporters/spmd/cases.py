"""The examples of operators that can be written out, and how their parts are split over three devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from tapestry.teg.evaluate import run_block
from tapestry.teg.exporters.spmd.writers import WRITERS
from tapestry.teg.operators import OPERATORS
from tapestry.teg.operators.operator import Operator, OperatorExample
from tapestry.teg.operators.testing import defined, random_values
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.spec import Split
from tapestry.teg.sharding.strategy import Strategy, splittable
from tapestry.teg.zspace import ZRange

Parts = Iterator[tuple[np.ndarray, tuple[np.ndarray, ...]]]
"""By device: the part of the index space that it computes, and what comes out."""

RunTexts = Callable[[Operator, OperatorExample, Strategy, Sequence[np.ndarray]], Parts]

MESH = MeshShape.of(gpu=3)
CASES = [(o, e) for o in OPERATORS if o.name in (*WRITERS, "fused") for e in o.examples]


def strategies(operator: Operator, example: OperatorExample) -> Iterator[Strategy]:
    """Yield the strategies that split one dimension over three devices, and the one that splits none."""
    signature = defined(operator, example)[0].signature
    assert signature is not None
    whole = [Split()] * len(signature.dims)
    yield Strategy(tuple(whole))
    for k, (dim, allowed) in enumerate(zip(signature.dims, splittable(signature), strict=True)):
        if allowed and dim.size > 1:
            yield Strategy((*whole[:k], Split(("gpu.0",)), *whole[k + 1 :]))


def assert_parts_of_the_values(operator: Operator, example: OperatorExample, run: RunTexts) -> None:
    """Check that the written operator makes each device's part of the values, however it is split."""
    inputs = random_values(operator, example, np.random.default_rng(0))
    definition, outputs = defined(operator, example)
    if definition.signature is None or definition.signature.index_range.is_empty:
        pytest.skip("has no parts")
    for strategy in strategies(operator, example):
        for part, found in run(operator, example, strategy, inputs):
            index = ZRange(tuple(part[:, 0].tolist()), tuple(part[:, 1].tolist()))
            wanted = run_block(definition, index, inputs, outputs)
            for a, b in zip(found, wanted, strict=True):
                assert (a.shape, a.dtype) == (b.shape, b.dtype)
                tolerance = 0.05 if b.dtype.name in ("bfloat16", "float16") else 1e-5
                np.testing.assert_allclose(
                    a.astype(np.complex128), b.astype(np.complex128), rtol=tolerance, atol=tolerance
                )
