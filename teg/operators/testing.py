"""The contract of an operator as test functions, for built-in operators and plug-ins alike.

    from tapestry.teg.operators.testing import contract_violations

    def test_my_operator():
        assert contract_violations(MY_OPERATOR, numpy.random.default_rng(0)) == ()

The operator must be in the catalog: install the plug-in first (`pip install -e .`). An operator promises, on
every example, that its shape rule gives the same result twice and refuses an attribute it does not know, that
its projections cover its tensors, that its work is described in known words, that values have the inferred types, and
that parts of the index space make up the whole: side by side along parallel dimensions, combined by the
dimension's monoid along the others, and without being called where a part is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np

from tapestry.teg.arrays import NUMPY
from tapestry.teg.builder import define
from tapestry.teg.dtypes import HALF, is_float, numpy_dtype
from tapestry.teg.evaluate import input_boxes, output_boxes, run_block
from tapestry.teg.graph import Definition, TensorType
from tapestry.teg.operators.kernel_classes import KERNEL_CLASSES
from tapestry.teg.operators.monoids import combine
from tapestry.teg.operators.operator import Operator, OperatorExample
from tapestry.teg.signature import PARALLEL, Signature
from tapestry.teg.zspace import ZRange

WORK_KINDS = ("contraction", "vector", "move", "none", "fused")
PART_KINDS = ("contraction", "vector")
ROLES = ("m", "n", "k", "batch")
HALF_TOLERANCE = 0.05
TOLERANCE = 1e-5
NO_VALUES = ("comes from outside", "is defined elsewhere")


class OperatorContractError(AssertionError):
    """Error raised when an operator does not keep a promise; the message names operator and example."""


def contract_violations(operator: Operator, rng: np.random.Generator) -> tuple[str, ...]:
    """Return the broken promises of an operator, one text per example and promise; empty for a good one.

    Functions of the operator that raise where they should not count as broken promises.
    """
    broken = []
    for k, example in enumerate(operator.examples):
        for description, promise in PROMISES:
            try:
                promise(operator, example, rng)
            except Exception as error:
                why = " ".join(str(error).split()) or type(error).__name__
                broken.append(f"operator {operator.name!r}, examples[{k}], {description}: {why}")
    return tuple(broken)


def inferred_alike(operator: Operator, example: OperatorExample, _: np.random.Generator) -> None:
    """Check that inferring twice gives the same definition, one object, and the same types."""
    first, second = defined(operator, example), defined(operator, example)
    _expect(first[0] is second[0] and first[1] == second[1], "infer gives something else the second time")


def strange_attributes_refused(operator: Operator, example: OperatorExample, _: np.random.Generator) -> None:
    """Check that `infer` refuses an unknown attribute by name (`teg.operators.reading.settings` does)."""
    try:
        operator.infer((*example.attributes, ("misspelled", 1)), example.inputs)
    except ValueError as error:
        _expect("does not know 'misspelled'" in str(error), f"the refusal is no help: {error}")
    else:
        raise OperatorContractError(
            "infer takes an attribute 'misspelled'; read attributes by teg.operators.reading.settings"
        )


def tensors_covered(operator: Operator, example: OperatorExample, _: np.random.Generator) -> None:
    """Check that the index space makes exactly the outputs and needs all of the inputs (a view: no more than them)."""
    definition, outputs = defined(operator, example)
    if definition.signature is None:
        return
    whole = definition.signature.index_range
    for j, (box, kind) in enumerate(zip(output_boxes(definition, whole), outputs, strict=True)):
        _expect(box == ZRange.of_shape(kind.shape), f"output {j} of shape {kind.shape} is made in {box}")
    for j, (box, kind) in enumerate(zip(input_boxes(definition, whole), example.inputs, strict=True)):
        tensor = ZRange.of_shape(kind.shape)
        # A view may leave a part of its root unread.
        fits = tensor.contains(box) if operator.view else box.intersection(tensor) == tensor
        _expect(fits, f"input {j} of shape {kind.shape} is read in {box}")


def work_described(operator: Operator, example: OperatorExample, _: np.random.Generator) -> None:
    """Check that kind, roles and dimensions of the work are known words, and that free work does nothing."""
    definition, outputs = defined(operator, example)
    work = operator.work(definition, example.inputs, outputs)
    names = {d.name for d in definition.signature.dims} if definition.signature else set()
    _expect(work.kind in WORK_KINDS, f"work of kind {work.kind!r}, known are {WORK_KINDS}")
    _expect(work.kernel_class in KERNEL_CLASSES, f"kernel {work.kernel!r}, known are {KERNEL_CLASSES}")
    along = set(work.row_dims) <= names and work.row >= 1
    _expect(along, f"rows of {work.row} along {work.row_dims}, dimensions are {sorted(names)}")
    _expect(work.flops >= 0 and work.k_factor >= 1, f"{work.flops} flops, k_factor {work.k_factor}")
    _expect(set(work.roles) <= names, f"roles of {sorted(work.roles)}, dimensions are {sorted(names)}")
    _expect(set(work.roles.values()) <= set(ROLES), f"roles {work.roles}, known are {ROLES}")
    reads = all(0 <= k < len(example.inputs) and set(read) <= names for k, read in work.reads.items())
    _expect(reads, f"reads {work.reads} are not of its inputs and dimensions")
    _expect(work.kind != "none" or work.flops == 0, f"work of kind 'none' with {work.flops} flops")
    _expect(
        (work.kind == "fused") == bool(work.parts), f"work of kind {work.kind!r} with {len(work.parts)} parts"
    )
    for part in work.parts:
        inside = set(part.dims) <= names and set(part.roles) <= set(part.dims)
        _expect(
            inside, f"a part speaks of {sorted({*part.dims, *part.roles})}, dimensions are {sorted(names)}"
        )
        _expect(part.kind in PART_KINDS and set(part.whole) <= set(ROLES), f"a part is described as {part}")


def values_typed(operator: Operator, example: OperatorExample, rng: np.random.Generator) -> None:
    """Check that values have the shapes and types that `infer` states; an operator without values must refuse."""
    definition, outputs = defined(operator, example)
    inputs = random_values(operator, example, rng)
    if operator.meaningless:
        try:
            run_block(definition, None, inputs, outputs)
        except ValueError as error:
            _expect(any(text in str(error) for text in NO_VALUES), f"the refusal does not say why: {error}")
            return
        raise OperatorContractError("it is meaningless and has values all the same")
    made = run_block(definition, None, inputs, outputs)
    _expect(all(isinstance(a, np.ndarray) for a in made), f"values are {[type(a).__name__ for a in made]}")
    got, wanted = [(a.shape, a.dtype) for a in made], [(t.shape, numpy_dtype(t.dtype)) for t in outputs]
    _expect(got == wanted, f"values of {got} instead of {wanted}")


def parts_make_the_whole(operator: Operator, example: OperatorExample, rng: np.random.Generator) -> None:
    """Check that parts of parallel dimensions, computed separately, form the result side by side."""
    definition, outputs = defined(operator, example)
    signature = shardable(operator, definition)
    if signature is None:
        return
    inputs = random_values(operator, example, rng)
    whole = run_block(definition, None, inputs, outputs)
    parts = [_cut(d.size, rng) if d.kind == PARALLEL else [(0, d.size)] for d in signature.dims]
    placed = [np.zeros(t.shape, numpy_dtype(t.dtype)) for t in outputs]
    for bounds in product(*parts):
        index = ZRange(tuple(s for s, _ in bounds), tuple(e for _, e in bounds))
        made = run_block(definition, index, inputs, outputs)
        for target, box, part in zip(placed, output_boxes(definition, index), made, strict=True):
            _expect(part.shape == box.shape, f"part {index} has shape {part.shape} instead of {box.shape}")
            target[tuple(map(slice, box.start, box.end))] = part
    for got, wanted in zip(placed, whole, strict=True):
        assert_same(got, wanted)


def partial_results_combine(operator: Operator, example: OperatorExample, rng: np.random.Generator) -> None:
    """Check that results over parts of a reduction dimension combine to the whole by the dimension's monoid."""
    definition, outputs = defined(operator, example)
    signature = shardable(operator, definition)
    if signature is None:
        return
    inputs = random_values(operator, example, rng)
    whole = run_block(definition, None, inputs, outputs)
    for k, dim in enumerate(signature.dims):
        if dim.kind == PARALLEL:
            continue
        partial = [
            run_block(definition, _part(signature, k, start, end), inputs, outputs)[0]
            for start, end in _cut(dim.size, rng)
        ]
        combined = combine(NUMPY, dim.kind, combine(NUMPY, dim.kind, partial[0], partial[1]), partial[2])
        assert_same(combined, whole[0])


def empty_parts_answered(operator: Operator, example: OperatorExample, rng: np.random.Generator) -> None:
    """Check that an empty index never reaches `evaluate`; the result is empty, or the identity of the reduction."""
    definition, outputs = defined(operator, example)
    signature = shardable(operator, definition)
    if signature is None:
        return
    inputs = random_values(operator, example, rng)
    for k, dim in enumerate(signature.dims):
        made = run_block(definition, _part(signature, k, 0, 0), inputs, outputs)
        for part, kind in zip(made, outputs, strict=True):
            _expect(part.dtype == numpy_dtype(kind.dtype), f"an empty part is {part.dtype}")
            _expect((part.size == 0) == (dim.kind == PARALLEL), f"without {dim.name!r}: shape {part.shape}")


Promise = Callable[[Operator, OperatorExample, np.random.Generator], None]

PROMISES: tuple[tuple[str, Promise], ...] = (
    ("infer is a function of its arguments", inferred_alike),
    ("strange attributes are refused", strange_attributes_refused),
    ("projections cover the tensors", tensors_covered),
    ("work is described in known words", work_described),
    ("values have the inferred types", values_typed),
    ("parts make up the whole", parts_make_the_whole),
    ("partial results combine", partial_results_combine),
    ("empty parts are answered", empty_parts_answered),
)


def defined(operator: Operator, example: OperatorExample) -> tuple[Definition, tuple[TensorType, ...]]:
    """Return the definition of an example, and the types of its outputs."""
    return define(operator.name, example.attributes, example.inputs)


def shardable(operator: Operator, definition: Definition) -> Signature | None:
    """Return the signature of an operator that has values and can be computed in parts; None for any other."""
    return None if operator.meaningless else definition.signature


def indexed_size(name: str, example: OperatorExample, k: int) -> int | None:
    """Return the size of the dimension along which input `k` holds positions; None if it holds none."""
    given: dict[str, Any] = dict(example.attributes)
    if name == "gather" and k == 1:
        return int(example.inputs[0].shape[given["axis"]])
    if name == "scatter" and k == len(example.inputs) - 2:
        return int(given["size"] if "size" in given else example.inputs[0].shape[given["axis"]])
    return None


def random_values(operator: Operator, example: OperatorExample, rng: np.random.Generator) -> list[np.ndarray]:
    """Draw values of the example's types; positions fit what they index, or not where that is allowed."""
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


def assert_same(got: np.ndarray, wanted: np.ndarray) -> None:
    """Check that arrays are equal: integers exactly; others as close as their type lets sums of another order be.

    Raises:
        AssertionError: they are not.
    """
    kinds = (got.shape, got.dtype), (wanted.shape, wanted.dtype)
    _expect(kinds[0] == kinds[1], f"{kinds[0]} instead of {kinds[1]}")
    if not (is_float(wanted.dtype.name) or wanted.dtype.kind == "c"):
        np.testing.assert_array_equal(got, wanted)
        return
    tolerance = HALF_TOLERANCE if wanted.dtype.name in HALF else TOLERANCE
    wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(got.astype(wide), wanted.astype(wide), rtol=tolerance, atol=tolerance)


def _expect(holds: bool, message: str) -> None:
    if not holds:
        raise OperatorContractError(message)


def _cut(end: int, rng: np.random.Generator) -> Sequence[tuple[int, int]]:
    """Split a range into three adjacent parts, some of them possibly empty."""
    return list(pairwise([0, *sorted(rng.integers(0, end + 1, 2).tolist()), end]))


def _part(signature: Signature, k: int, start: int, end: int) -> ZRange:
    """Return the index space with dimension k cut to a part."""
    whole = signature.index_range
    return ZRange(
        (*whole.start[:k], start, *whole.start[k + 1 :]), (*whole.end[:k], end, *whole.end[k + 1 :])
    )
