"""Tests of the operator contract (`teg.operators.testing`) for every member of the catalog."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tapestry.teg.graph import TensorType
from tapestry.teg.operators import OPERATORS, operator_named
from tapestry.teg.operators import testing as promises
from tapestry.teg.operators.operator import Inferred, Operator, OperatorExample, Work
from tapestry.teg.operators.testing import contract_violations

CASES = [pytest.param(o, e, id=f"{o.name}-{k}") for o in OPERATORS for k, e in enumerate(o.examples)]


@pytest.mark.parametrize(("operator", "example"), CASES)
def test_an_operator_keeps_its_promises(operator: Operator, example: OperatorExample) -> None:
    for promise in (
        promises.inferred_alike,
        promises.strange_attributes_refused,
        promises.tensors_covered,
        promises.work_described,
        promises.values_typed,
        promises.empty_parts_answered,
    ):
        promise(operator, example, np.random.default_rng(0))


@pytest.mark.parametrize(("operator", "example"), CASES)
def test_parts_of_an_operator_make_up_the_whole(operator: Operator, example: OperatorExample) -> None:
    for promise in (promises.parts_make_the_whole, promises.partial_results_combine):
        for seed in range(3):
            promise(operator, example, np.random.default_rng(seed))


SOFTMAX = replace(operator_named("softmax"), examples=operator_named("softmax").examples[:1])


def everywhere_parallel(attributes: object, inputs: object) -> Inferred:
    """Infer the shape as for a cell: this allows rows to be split, which is wrong for a softmax."""
    shape = inputs[0].shape  # type: ignore[index]
    labels = tuple(f"d{k}" for k in range(len(shape)))
    dims = tuple(zip(labels, shape, strict=True))
    given = (("expr", ("input", 0)), ("labels", (labels,)), ("dims", dims), ("dtype", "float32"))
    return operator_named("cell").infer(given, inputs)  # type: ignore[arg-type]


def shorter(*_: object) -> Inferred:
    return Inferred(None, (TensorType((1,), "float32"),))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (replace(SOFTMAX, infer=everywhere_parallel), "parts make up the whole"),
        (replace(SOFTMAX, infer=everywhere_parallel), "strange attributes are refused: infer takes"),
        (replace(SOFTMAX, infer=shorter), "values have the inferred types"),
        (replace(SOFTMAX, work=lambda *_: Work("magic")), "known words: work of kind 'magic'"),
        (replace(SOFTMAX, work=lambda *_: Work("none", 1.0)), "work of kind 'none' with 1.0 flops"),
        (
            replace(SOFTMAX, evaluate=lambda _, __, ___, o: (o[0].array * 0.5 + len(o[0].array),)),
            "parts make up",
        ),
    ],
)
def test_a_wrong_copy_of_an_operator_is_caught(
    wrong: Operator, message: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: Callable[[str], Operator] = lambda _: wrong  # noqa: E731
    monkeypatch.setattr("tapestry.teg.builder.operator_named", found)
    monkeypatch.setattr("tapestry.teg.evaluate.operator_named", found)
    assert any(message in text for text in contract_violations(wrong, rng))
