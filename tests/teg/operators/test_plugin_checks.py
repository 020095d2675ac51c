"""Tests of the checks that a plug-in's operator must pass to be loaded."""

from dataclasses import replace

import pytest

from tapestry.teg.graph import TensorType
from tapestry.teg.operators import OPERATORS, operator_named
from tapestry.teg.operators.operator import Inferred, Operator
from tapestry.teg.operators.plugin_checks import checked_operator
from tapestry.teg.plugins import PlugInError

SOFTMAX = operator_named("softmax")


def raising(*_: object) -> Inferred:
    raise RuntimeError("no idea")


def test_every_operator_of_the_catalog_would_be_let_in() -> None:
    assert all(checked_operator(operator) is operator for operator in OPERATORS)


@pytest.mark.parametrize(
    ("offered", "message"),
    [
        (SOFTMAX.infer, "expected Operator, not the function"),
        (replace(SOFTMAX, name=" softmax"), "its name is ' softmax'"),
        (replace(SOFTMAX, work=None), "work is no function"),
        (replace(SOFTMAX, examples=()), "it has no examples"),
        (replace(SOFTMAX, examples=("x",)), "expected OperatorExample, not 'x'"),
        (replace(SOFTMAX, infer=raising), r"infer fails on examples\[0\]: RuntimeError: no idea"),
        (replace(SOFTMAX, infer=lambda *_: None), r"infer gives None for examples\[0\]"),
        (
            replace(SOFTMAX, infer=lambda *_: Inferred(None, [TensorType((), "bool")])),
            "no Inferred of Tensor",
        ),
    ],
)
def test_what_is_no_operator_that_works_is_refused(offered: Operator, message: str) -> None:
    with pytest.raises(PlugInError, match=message) as caught:
        checked_operator(offered)
    assert caught.value.hint
