"""Every operator that can be written out: its text, run by each device, makes that device's part of the values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.exporters.spmd.per_rank import NumberTexts
from tapestry.teg.exporters.spmd.statements import StatementList, temporary_key, variable
from tapestry.teg.exporters.spmd.torch_text import TextValue, TorchText
from tapestry.teg.exporters.spmd.writers import write_operator
from tapestry.teg.exporters.spmd.writers.operand import TextOperand
from tapestry.teg.operators.operator import Operator, OperatorExample
from tapestry.teg.operators.testing import defined
from tapestry.teg.sharding.sharded_block import view_ranges
from tapestry.teg.sharding.strategy import Strategy, index_boxes
from tests.teg.exporters.spmd.cases import CASES, MESH, Parts, assert_parts_of_the_values

torch = pytest.importorskip("torch")


def tensor(array: np.ndarray) -> Any:
    """Convert an array; of bfloat16 torch takes the bits only."""
    array = np.array(array, order="C")
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def array(value: Any, dtype: str) -> np.ndarray:
    if dtype == "bfloat16":
        return value.contiguous().view(torch.int16).numpy().view(numpy_dtype(dtype))
    return np.asarray(value.numpy())


def run_texts(
    operator: Operator, example: OperatorExample, strategy: Strategy, inputs: Sequence[np.ndarray]
) -> Parts:
    """Write the operator and run its text on every device that has a part: its index and values."""
    definition, outputs = defined(operator, example)
    assert definition.signature is not None
    index = index_boxes(definition.signature, strategy, MESH)
    active = (index[:, :, 1] > index[:, :, 0]).all(axis=1)
    numbers, statements = NumberTexts(MESH), StatementList()
    xp = TorchText(numbers, statements, active)
    boxes = [view_ranges(definition, k, t.shape, index) for k, t in enumerate(example.inputs)]
    operands = [
        TextOperand(TextValue(variable(f"x{k}"), box[:, :, 1] - box[:, :, 0], t.dtype), box)
        for k, (t, box) in enumerate(zip(example.inputs, boxes, strict=True))
    ]
    made = write_operator(xp, definition, index, operands)
    for k, value in enumerate(made):
        statements.assign(f"y{k}", value.text)
    names = {key: key.replace(temporary_key(""), "t") for s in statements.done for key in (*s.sets, *s.reads)}
    text = "\n".join(line for s in statements.done for _, line in s.rendered(names, ()))
    for device in np.flatnonzero(active):
        scope: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
        for axes, name in numbers.positions.items():
            scope[name] = int(MESH.linear(axes)[device])
        for table, name in numbers.tables.items():
            exec(f"{name} = {table}", scope)
        for k, (value, box) in enumerate(zip(inputs, boxes, strict=True)):
            scope[f"x{k}"] = tensor(value[tuple(slice(a, b) for a, b in box[device])])
        exec(text, scope)
        found = tuple(array(scope[f"y{k}"], t.dtype) for k, t in enumerate(outputs))
        yield index[device], found


@pytest.mark.parametrize(("operator", "example"), CASES, ids=lambda v: getattr(v, "name", ""))
def test_each_device_makes_its_part_of_the_values(operator: Operator, example: OperatorExample) -> None:
    assert_parts_of_the_values(operator, example, run_texts)
