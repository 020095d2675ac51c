"""Tests of binding: values for what a graph names by content."""

import numpy as np
import pytest

from tapestry.teg.binding import bind_values
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.external_data import content_hash
from tests.teg.graphs import small_program
from tests.teg.test_external_data import named_program

VALUE = small_program().data["w"]


@pytest.mark.parametrize("key", ["weight", content_hash(VALUE)])
def test_values_are_found_by_name_or_by_content(key: str) -> None:
    bound = bind_values(named_program(), {key: VALUE, "other": VALUE[:1]})
    assert bound == small_program()
    inputs = random_inputs(bound, np.random.default_rng(0))
    assert "w" not in inputs
    assert (
        evaluate(bound, inputs)["result"].tobytes() == evaluate(small_program(), inputs)["result"].tobytes()
    )


def test_what_is_not_supplied_stays_external() -> None:
    graph = named_program()
    assert bind_values(graph, {"w": VALUE}) == graph


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (VALUE + 1, f"'weight' have the content hash {content_hash(VALUE + 1)}, not {content_hash(VALUE)}"),
        (VALUE[:2], r"'weight' has shape \[6, 3\] and type float32, not shape \[2, 3\]"),
        (VALUE.astype(np.float64), "type float32, not shape .* and type float64"),
    ],
)
def test_other_values_are_refused(value: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bind_values(named_program(), {"weight": value})
