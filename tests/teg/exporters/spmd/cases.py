"""The examples of operators that can be written out, and how their parts are split over three devices."""

from __future__ import annotations

from collections.abc import Iterator

from tapestry.teg.exporters.spmd.writers import WRITERS
from tapestry.teg.operators import OPERATORS
from tapestry.teg.operators.operator import Operator, OperatorExample
from tapestry.teg.operators.testing import defined
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.spec import Split
from tapestry.teg.sharding.strategy import Strategy, splittable

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
