"""Tests of the operators between shards: what they compute, stage and refuse."""

import numpy as np
import pytest

from tapestry.teg.builder import define
from tapestry.teg.evaluate import run_block
from tapestry.teg.graph import Definition, TensorType, attributes
from tapestry.teg.operators import operator_named
from tapestry.teg.operators.collecting import continues

ROW, MATRIX, WIDE, TALL, FLAT = (
    TensorType(shape, "float32") for shape in ((6,), (4, 6), (2, 12), (4, 3), (12,))
)
LEFT, RIGHT, UPPER, LOWER = ((0, 0), (4, 3)), ((0, 3), (4, 6)), ((0, 0), (2, 6)), ((2, 0), (4, 6))
Places = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


def assembled(boxes: Places, firsts: tuple[int, ...], *inputs: TensorType, **form: bool) -> Definition:
    attrs = attributes(shape=(4, 6), boxes=boxes, firsts=firsts, **form)
    return define("assemble", attrs, inputs)[0]


def staged(definition: Definition) -> int:
    staging = operator_named(definition.operator).staging
    assert staging is not None
    return staging(definition)


def test_pieces_are_written_to_their_places_whole_or_as_runs() -> None:
    values = np.arange(24, dtype=np.float32).reshape(4, 6)
    lower = values[2:].reshape(-1)
    definition = assembled(
        (LOWER, UPPER, LOWER),
        (8, 0, 0),
        TensorType((4,), "float32"),
        TensorType((2, 6), "float32"),
        TensorType((8,), "float32"),
    )
    (whole,) = run_block(definition, None, [lower[8:], values[:2], lower[:8]], [MATRIX])
    np.testing.assert_array_equal(whole, values)


def test_an_open_assembly_is_continued_where_nothing_is_written() -> None:
    values = np.arange(24, dtype=np.float32).reshape(4, 6)
    begun = assembled((LOWER,), (3,), ROW, open=True)
    rest = (TensorType((3,), "float32"), TensorType((3,), "float32"), TensorType((2, 6), "float32"))
    further = assembled((LOWER, LOWER, UPPER), (0, 9, 0), MATRIX, *rest, onto=True)
    lower = values[2:].reshape(-1)
    (part,) = run_block(begun, None, [lower[3:9]], [MATRIX])
    before = part.copy()
    (whole,) = run_block(further, None, [part, lower[:3], lower[9:], values[:2]], [MATRIX])
    np.testing.assert_array_equal(whole, values)
    np.testing.assert_array_equal(part, before)
    assert continues(begun, further)
    assert not continues(begun, assembled((LOWER,), (2,), MATRIX, ROW, onto=True))
    assert not continues(further, further)


def test_what_lands_in_its_place_is_not_staged() -> None:
    halves = (TensorType((2, 6), "float32"),) * 2
    assert staged(assembled((UPPER, LOWER), (0, 0), *halves)) == 0
    columns = (TALL,) * 2
    assert staged(assembled((LEFT, RIGHT), (0, 0), *columns)) == 24
    for count, elements in ((1, 0), (2, 24), (7, 24)):
        definition, _ = define("accumulate", attributes(monoid="sum"), (MATRIX,) * count)
        assert staged(definition) == elements


@pytest.mark.parametrize(
    ("boxes", "firsts", "inputs", "form", "message"),
    [
        ((UPPER,), (0,), (TensorType((2, 6), "float32"),), {}, "12 of 24 elements are in none of them"),
        ((UPPER, UPPER), (0, 0), (TensorType((2, 6), "float32"),) * 2, {}, "of the 12 elements of"),
        ((((0, 0), (4, 6)),), (6,), (ROW,), {}, "of the 24 elements of"),
        ((((0, 0), (4, 6)),), (20,), (ROW,), {"open": True}, "of the 24 elements of"),
        ((LEFT, UPPER), (0, 0), (TALL, WIDE), {"open": True}, "neither the box"),
        ((LEFT, UPPER), (0, 0), (TALL, FLAT), {"open": True}, "overlap"),
        ((((2, 0), (5, 6)),), (0,), (ROW,), {"open": True}, "lies outside"),
        ((LEFT,), (0,), (WIDE, TALL), {"onto": True}, "what is continued is"),
        ((LEFT, RIGHT), (0,), (TALL,) * 2, {}, "a tuple of 2 integers"),
        ((LEFT,), (0,), (TALL,) * 2, {}, "tuple of 2 integers"),
        ((((3, 0), (0, 6)),), (0,), (ROW,), {"open": True}, "ends before it starts"),
        ((LEFT, RIGHT), (0, 0), (TALL, TensorType((4, 3), "int32")), {}, "one element type"),
    ],
)  # fmt: skip
def test_pieces_that_do_not_make_a_tensor_are_refused(
    boxes: Places,
    firsts: tuple[int, ...],
    inputs: tuple[TensorType, ...],
    form: dict[str, bool],
    message: str,
) -> None:
    with pytest.raises(ValueError, match=message):
        assembled(boxes, firsts, *inputs, **form)


def test_runs_and_terms_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="no run of the 24 elements"):
        define("flat_slice", attributes(start=20, end=25), (MATRIX,))
    with pytest.raises(ValueError, match="terms of one shape"):
        define("accumulate", attributes(monoid="sum"), (MATRIX, ROW))
    with pytest.raises(ValueError, match="does not reduce float32"):
        define("accumulate", attributes(monoid="any"), (MATRIX, MATRIX))
