"""The promises of an operator, kept by every member of the catalogue."""

from itertools import pairwise, product

import numpy as np
import pytest

from teg.builder import define
from teg.dtypes import is_float, numpy_dtype
from teg.evaluate import input_boxes, output_boxes, run_block
from teg.graph import Definition, TensorType
from teg.operators import OPERATORS
from teg.operators.monoids import HALF, combine
from teg.operators.operator import Operator, OperatorExample
from teg.signature import PARALLEL
from teg.zspace import ZRange

CASES = [pytest.param(o, e, id=f"{o.name}-{k}") for o in OPERATORS for k, e in enumerate(o.examples)]
EVALUATED = [case for case in CASES if not case.values[0].meaningless]
MEANINGLESS = [case for case in CASES if case.values[0].meaningless]
WORK_KINDS = ("contraction", "vector", "move", "none", "fused")
ROLES = ("m", "n", "k", "batch")


def defined(operator: Operator, example: OperatorExample) -> tuple[Definition, tuple[TensorType, ...]]:
    return define(operator.name, example.attributes, example.inputs)


SHARDABLE = [case for case in EVALUATED if defined(*case.values)[0].signature is not None]


def indexed_size(name: str, example: OperatorExample, k: int) -> int | None:
    """The size of the dimension along which input `k` holds positions."""
    given = dict(example.attributes)
    if name == "gather" and k == 1:
        return example.inputs[0].shape[given["axis"]]
    if name == "scatter" and k == len(example.inputs) - 2:
        return given["size"] if "size" in given else example.inputs[0].shape[given["axis"]]
    return None


def random_inputs(operator: Operator, example: OperatorExample, rng: np.random.Generator) -> list[np.ndarray]:
    """Values of the example's types; positions fit what they index, or not where that is allowed."""
    arrays = []
    for k, (shape, dtype) in enumerate(example.inputs):
        indexed = indexed_size(operator.name, example, k)
        if indexed is not None:
            beyond = 2 if "mode" in dict(example.attributes) else 0
            arrays.append(rng.integers(-indexed - beyond, indexed + beyond, shape).astype(dtype))
        elif is_float(dtype):
            arrays.append(rng.standard_normal(shape).astype(numpy_dtype(dtype)))
        else:
            arrays.append(rng.integers(0, 2 if dtype == "bool" else 20, shape).astype(dtype))
    return arrays


def cut(start: int, end: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Up to three adjacent parts of a range, some of them possibly empty."""
    cuts = [start, *sorted(rng.integers(start, end + 1, 2).tolist()), end]
    return list(pairwise(cuts))


def assert_same(got: np.ndarray, wanted: np.ndarray) -> None:
    """Integers exactly; floats as close as their type lets sums of another order be."""
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
    if not is_float(wanted.dtype.name):
        np.testing.assert_array_equal(got, wanted)
        return
    tolerance = 0.05 if wanted.dtype.name in HALF else 1e-5
    np.testing.assert_allclose(
        got.astype(np.float64), wanted.astype(np.float64), rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize(("operator", "example"), CASES)
def test_infer_is_deterministic_and_its_definition_one_object(operator, example):
    first, second = defined(operator, example), defined(operator, example)

    assert first[0] is second[0]
    assert first[1] == second[1]


@pytest.mark.parametrize(("operator", "example"), CASES)
def test_infer_refuses_an_attribute_it_does_not_know(operator, example):
    with pytest.raises(ValueError, match="does not know 'misspelt'"):
        operator.infer((*example.attributes, ("misspelt", 1)), example.inputs)


@pytest.mark.parametrize(("operator", "example"), CASES)
def test_projections_cover_the_tensors_exactly(operator, example):
    definition, outputs = defined(operator, example)
    if definition.signature is None:
        pytest.skip("a fixed block has no projections")
    whole = definition.signature.index_range

    for box, kind in zip(output_boxes(definition, whole), outputs, strict=True):
        assert box == ZRange.of_shape(kind.shape)
    for box, kind in zip(input_boxes(definition, whole), example.inputs, strict=True):
        tensor = ZRange.of_shape(kind.shape)
        # A view may leave a part of its root unread.
        assert tensor.contains(box) if operator.view else box.intersection(tensor) == tensor


@pytest.mark.parametrize(("operator", "example"), CASES)
def test_work_is_told_in_known_words(operator, example):
    definition, outputs = defined(operator, example)
    work = operator.work(definition, example.inputs, outputs)
    names = [d.name for d in definition.signature.dims] if definition.signature else []

    assert work.kind in WORK_KINDS
    assert work.flops >= 0
    assert work.k_factor >= 1
    assert set(work.roles) <= set(names)
    assert set(work.roles.values()) <= set(ROLES)
    assert all(0 <= k < len(example.inputs) and set(read) <= set(names) for k, read in work.reads.items())
    assert (work.kind == "none") <= (work.flops == 0)
    assert (work.kind == "fused") == bool(work.parts)
    assert all(set(p.dims) <= set(names) and set(p.roles) <= set(p.dims) for p in work.parts)
    assert all(p.kind in ("contraction", "vector") and set(p.whole) <= set(ROLES) for p in work.parts)


@pytest.mark.parametrize(("operator", "example"), EVALUATED)
def test_values_have_the_inferred_types(operator, example, rng):
    definition, outputs = defined(operator, example)

    made = run_block(definition, None, random_inputs(operator, example, rng), outputs)

    assert all(isinstance(a, np.ndarray) for a in made)
    assert [(a.shape, a.dtype) for a in made] == [(t.shape, numpy_dtype(t.dtype)) for t in outputs]


@pytest.mark.parametrize(("operator", "example"), MEANINGLESS)
def test_what_has_no_meaning_here_says_so(operator, example, rng):
    definition, outputs = defined(operator, example)

    with pytest.raises(ValueError, match=r"comes from outside|is defined elsewhere"):
        run_block(definition, None, random_inputs(operator, example, rng), outputs)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("operator", "example"), SHARDABLE)
def test_parts_of_parallel_dimensions_make_up_the_whole(operator, example, seed):
    rng = np.random.default_rng(seed)
    definition, outputs = defined(operator, example)
    inputs = random_inputs(operator, example, rng)
    whole = run_block(definition, None, inputs, outputs)
    dims = definition.signature.dims
    parts = [cut(0, d.size, rng) if d.kind == PARALLEL else [(0, d.size)] for d in dims]

    placed = [np.zeros(t.shape, numpy_dtype(t.dtype)) for t in outputs]
    for bounds in product(*parts):
        index = ZRange(tuple(s for s, _ in bounds), tuple(e for _, e in bounds))
        made = run_block(definition, index, inputs, outputs)
        for target, box, part in zip(placed, output_boxes(definition, index), made, strict=True):
            assert part.shape == box.shape
            target[tuple(map(slice, box.start, box.end))] = part

    for got, wanted in zip(placed, whole, strict=True):
        assert_same(got, wanted)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("operator", "example"), SHARDABLE)
def test_partial_results_of_a_reduction_combine_to_the_whole(operator, example, seed):
    rng = np.random.default_rng(seed)
    definition, outputs = defined(operator, example)
    inputs = random_inputs(operator, example, rng)
    whole = run_block(definition, None, inputs, outputs)
    everything = definition.signature.index_range

    for k, dim in enumerate(definition.signature.dims):
        if dim.kind == PARALLEL:
            continue
        partial = []
        for start, end in cut(0, dim.size, rng):
            index = ZRange(
                (*everything.start[:k], start, *everything.start[k + 1 :]),
                (*everything.end[:k], end, *everything.end[k + 1 :]),
            )
            partial.append(run_block(definition, index, inputs, outputs)[0])
        assert_same(combine(dim.kind, combine(dim.kind, partial[0], partial[1]), partial[2]), whole[0])


@pytest.mark.parametrize(("operator", "example"), SHARDABLE)
def test_an_empty_part_is_answered_without_the_operator(operator, example, rng):
    """`evaluate` is never called with an empty index: `run_operator` answers."""
    definition, outputs = defined(operator, example)
    inputs = random_inputs(operator, example, rng)
    everything = definition.signature.index_range

    for k, dim in enumerate(definition.signature.dims):
        index = ZRange(everything.start, (*everything.end[:k], 0, *everything.end[k + 1 :]))
        made = run_block(definition, index, inputs, outputs)
        for part, kind in zip(made, outputs, strict=True):
            assert part.dtype == numpy_dtype(kind.dtype)
            assert (part.size == 0) == (dim.kind == PARALLEL)
