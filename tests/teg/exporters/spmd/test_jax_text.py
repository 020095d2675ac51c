"""Every operator that can be written out: its text in JAX makes each device's part of the values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from tapestry.teg.evaluate import run_block
from tapestry.teg.exporters.spmd.array_text import TextValue
from tapestry.teg.exporters.spmd.jax_text import JaxPartText
from tapestry.teg.exporters.spmd.part_functions import PartNumberTexts
from tapestry.teg.exporters.spmd.statements import StatementList, variable
from tapestry.teg.exporters.spmd.writers import write_operator
from tapestry.teg.exporters.spmd.writers.operand import TextOperand
from tapestry.teg.operators.operator import Operator, OperatorExample
from tapestry.teg.operators.testing import defined, random_values
from tapestry.teg.sharding.sharded_block import view_ranges
from tapestry.teg.sharding.strategy import Strategy, index_boxes
from tapestry.teg.zspace import ZRange
from tests.cases import one_in
from tests.teg.exporters.spmd.cases import CASES, MESH, strategies

jax = pytest.importorskip("jax")


def functions() -> dict[str, Any]:
    """Return what texts refer to."""
    from tapestry.teg.exporters.spmd.runtime import jax_operators

    own = {name: getattr(jax_operators, name) for name in jax_operators.__dict__ if not name.startswith("_")}
    position = {"position": lambda *axes, rank: int(MESH.linear(axes)[rank])}
    return {**own, **position, "jax": jax, "jnp": jax.numpy, "lax": jax.lax}


def run_texts(
    operator: Operator, example: OperatorExample, strategy: Strategy, inputs: Sequence[np.ndarray]
) -> Iterator[tuple[np.ndarray, tuple[np.ndarray, ...]]]:
    """Write the operator and run its text on every device that has a part: its index and values."""
    definition, outputs = defined(operator, example)
    assert definition.signature is not None
    index = index_boxes(definition.signature, strategy, MESH)
    active = (index[:, :, 1] > index[:, :, 0]).all(axis=1)
    numbers, statements = PartNumberTexts(MESH), StatementList()
    xp = JaxPartText(numbers, statements, active)
    boxes = [view_ranges(definition, k, t.shape, index) for k, t in enumerate(example.inputs)]
    operands = [
        TextOperand(TextValue(variable(f"x{k}"), box[:, :, 1] - box[:, :, 0], t.dtype), box)
        for k, (t, box) in enumerate(zip(example.inputs, boxes, strict=True))
    ]
    for k, value in enumerate(write_operator(xp, definition, index, operands)):
        statements.assign(f"y{k}", value.text)
    names = {key: key.replace("~", "t") for s in statements.done for key in (*s.sets, *s.reads, *s.inner)}
    text = "\n".join("    " * n + line for s in statements.done for n, line in s.rendered(names, ()))
    tables = "\n".join(f"{name} = {table}" for table, name in numbers.tables.items())
    for device in np.flatnonzero(active):
        scope = {**functions(), "rank": int(device)}
        for k, (value, box) in enumerate(zip(inputs, boxes, strict=True)):
            scope[f"x{k}"] = jax.numpy.asarray(value[tuple(slice(a, b) for a, b in box[device])])
        exec(f"{tables}\n{text}", scope)
        yield index[device], tuple(np.asarray(scope[f"y{k}"]) for k in range(len(outputs)))


@pytest.mark.parametrize(
    ("operator", "example"), one_in(48, CASES, reach=3), ids=lambda v: getattr(v, "name", "")
)
def test_each_device_makes_its_part_of_the_values(operator: Operator, example: OperatorExample) -> None:
    inputs = random_values(operator, example, np.random.default_rng(0))
    definition, outputs = defined(operator, example)
    if definition.signature is None or definition.signature.index_range.is_empty:
        pytest.skip("has no parts")
    with jax.enable_x64(True):
        for strategy in strategies(operator, example):
            for part, found in run_texts(operator, example, strategy, inputs):
                index = ZRange(tuple(part[:, 0].tolist()), tuple(part[:, 1].tolist()))
                wanted = run_block(definition, index, inputs, outputs)
                for a, b in zip(found, wanted, strict=True):
                    assert (a.shape, a.dtype) == (b.shape, b.dtype)
                    tolerance = 0.05 if b.dtype.name in ("bfloat16", "float16") else 1e-5
                    np.testing.assert_allclose(
                        a.astype(np.complex128), b.astype(np.complex128), rtol=tolerance, atol=tolerance
                    )
