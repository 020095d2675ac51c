"""Every operator that can be written out: its text in JAX makes each device's part of the values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tapestry.teg.exporters.spmd.array_text import TextValue
from tapestry.teg.exporters.spmd.jax_text import JaxPartText
from tapestry.teg.exporters.spmd.part_functions import PartNumberTexts
from tapestry.teg.exporters.spmd.statements import StatementList, temporary_key, variable
from tapestry.teg.exporters.spmd.writers import write_operator
from tapestry.teg.exporters.spmd.writers.operand import TextOperand
from tapestry.teg.operators.operator import Operator, OperatorExample
from tapestry.teg.operators.testing import defined
from tapestry.teg.sharding.sharded_block import view_ranges
from tapestry.teg.sharding.strategy import Strategy, index_boxes
from tests.cases import one_in
from tests.teg.exporters.spmd.cases import CASES, MESH, Parts, assert_parts_of_the_values

pytestmark = pytest.mark.slow

jax = pytest.importorskip("jax")


def functions() -> dict[str, Any]:
    """Return what texts refer to."""
    from tapestry.teg.exporters.spmd.runtime import jax_operators

    own = {name: getattr(jax_operators, name) for name in jax_operators.__dict__ if not name.startswith("_")}
    position = {"position": lambda *axes: MESH.linear(tuple(s.name for s in MESH.sub_axes))}
    return {**own, **position, "jax": jax, "jnp": jax.numpy, "lax": jax.lax}


def run_texts(
    operator: Operator, example: OperatorExample, strategy: Strategy, inputs: Sequence[np.ndarray]
) -> Parts:
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
    names = {
        key: key.replace(temporary_key(""), "t")
        for s in statements.done
        for key in (*s.sets, *s.reads, *s.inner)
    }
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
    with jax.enable_x64(True):
        assert_parts_of_the_values(operator, example, run_texts)
