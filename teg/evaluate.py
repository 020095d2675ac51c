"""Reference evaluation: the values of a program, block by block in program order; in NumPy, unless asked otherwise.

`run_block` and `run_operator` also serve code that computes parts of a block: tests and the device simulator.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Mapping, Sequence

import numpy as np

from tapestry.teg.arrays import NUMPY, Array, ArrayNamespace, box_of
from tapestry.teg.dtypes import is_float, numpy_dtype
from tapestry.teg.external_data import absence
from tapestry.teg.graph import Block, Definition, Graph, TensorType
from tapestry.teg.operators import operator_named
from tapestry.teg.operators.operator import Operand
from tapestry.teg.operators.running import run_part
from tapestry.teg.signature import reached
from tapestry.teg.tensor_uses import Use, uses
from tapestry.teg.zspace import ZRange

NOTHING = ZRange((), ())


def evaluate(
    graph: Graph,
    inputs: Mapping[str, np.ndarray],
    keep: Container[str] | None = None,
    xp: ArrayNamespace = NUMPY,
) -> dict[str, np.ndarray]:
    """Compute the values of all sinks by site, and of the tensors in `keep` by theirs.

    `inputs` are values by source site, used before the graph's own data. Values are freed after their last
    reader; results may be views of inputs, so copy before changing either. A block with an index range
    (explicit graph) reads tensors that are exactly the boxes it needs. `xp` is the array library that computes;
    values come and go as numpy arrays.

    Raises:
        ValueError: inputs are missing, unknown, or of another shape or element type; all are listed.
    """
    _check_inputs(graph, inputs)
    values: dict[str, Array] = {}
    results: dict[str, np.ndarray] = {}
    waiting = Counter(t for b in graph.blocks for t in b.inputs)
    for block in graph.blocks:
        if block.operator == "sink":
            results[block.site] = xp.to_numpy(values[block.inputs[0]])
        for tensor, value in zip(block.outputs, _outputs(xp, graph, block, inputs, values), strict=True):
            values[tensor] = value
            if keep is not None and tensor in keep:
                results[tensor] = xp.to_numpy(value)
        waiting.subtract(block.inputs)
        for tensor in {*block.inputs, *block.outputs}:
            if waiting[tensor] == 0:
                values.pop(tensor, None)
    return results


def _check_inputs(graph: Graph, inputs: Mapping[str, np.ndarray]) -> None:
    issues = []
    absent = {}
    for source in graph.sources:
        wanted = graph.tensors[source.outputs[0]]
        value = inputs.get(source.site, graph.data.get(wanted.site))
        if value is None and wanted.site in graph.external:
            absent[wanted.site] = graph.external[wanted.site]
        elif value is None:
            issues.append(
                f"source {source.site!r} needs a value of shape ({wanted.dims_text}) and type {wanted.dtype}"
            )
        elif (value.shape, value.dtype) != (wanted.shape, numpy_dtype(wanted.dtype)):
            issues.append(
                f"source {source.site!r} needs shape ({wanted.dims_text}) and type {wanted.dtype}, "
                f"not shape {value.shape} and type {value.dtype}"
            )
    known = {source.site for source in graph.sources}
    issues += [f"there is no source {site!r}" for site in inputs if site not in known]
    if absent:
        issues.append(absence(absent))
    if issues:
        raise ValueError(f"graph {graph.name!r} cannot be evaluated: " + "; ".join(issues))


def _outputs(
    xp: ArrayNamespace,
    graph: Graph,
    block: Block,
    inputs: Mapping[str, np.ndarray],
    values: Mapping[str, Array],
) -> tuple[Array, ...]:
    if block.operator == "source":
        site = block.outputs[0]
        return (xp.from_numpy(inputs[block.site] if block.site in inputs else graph.data[site]),)
    arrays = [values[t] for t in block.inputs]
    types = graph.output_types(block)
    try:
        if block.index is None or block.signature is None:
            made = run_block(block.definition, None, arrays, types, xp)
        else:
            operands = [
                Operand(array, tuple(max(0, s) for s in box.start))
                for array, box in zip(arrays, input_boxes(block.definition, block.index), strict=True)
            ]
            made = run_operator(xp, block.definition, block.index, operands, types)
    except ValueError as error:
        raise ValueError(f"block {block.site!r} ({block.operator}): {error}") from error
    for array, kind in zip(made, types, strict=True):
        found = TensorType(tuple(array.shape), xp.dtype_of(array))
        if found != kind:
            raise ValueError(
                f"block {block.site!r} ({block.operator}) made shape {found.shape} of {found.dtype}, "
                f"not {kind.shape} of {kind.dtype}"
            )
    return made


def input_boxes(definition: Definition, index: ZRange) -> tuple[ZRange, ...]:
    """Compute the box of each input that `index` needs; windows may extend beyond the tensor."""
    assert definition.signature is not None
    return tuple(p.project(index) for p in definition.signature.inputs)


def output_boxes(definition: Definition, index: ZRange) -> tuple[ZRange, ...]:
    """Compute the box of each output that `index` makes; an empty parallel dimension makes an empty box.

    An empty reduction dimension does not: its partial result is full of the monoid's identity.
    """
    assert definition.signature is not None
    return tuple(reached(p, index) for p in definition.signature.outputs)


def run_block(
    definition: Definition,
    index: ZRange | None,
    inputs: Sequence[Array],
    outputs: Sequence[TensorType],
    xp: ArrayNamespace = NUMPY,
) -> tuple[Array, ...]:
    """Compute the part `index` (None: all) of a block from whole input arrays: the values of its output boxes.

    The arrays are those of the library `xp`.
    """
    if definition.signature is None:
        return run_operator(xp, definition, NOTHING, [Operand(a, (0,) * a.ndim) for a in inputs], outputs)
    index = definition.signature.index_range if index is None else index
    operands = []
    for array, box in zip(inputs, input_boxes(definition, index), strict=True):
        inside = box.intersection(ZRange.of_shape(array.shape))
        operands.append(Operand(box_of(array, inside.start, inside.end), inside.start))
    return run_operator(xp, definition, index, operands, outputs)


def run_operator(
    xp: ArrayNamespace,
    definition: Definition,
    index: ZRange,
    operands: Sequence[Operand],
    outputs: Sequence[TensorType],
) -> tuple[Array, ...]:
    """Compute the operator on `index`, from operands that hold exactly the clipped boxes it reads.

    Operators never see an empty index: an empty parallel dimension gives empty arrays, an empty reduction
    dimension the monoid's identity. `outputs` are the types of the block's whole outputs.
    """
    return run_part(xp, operator_named(definition.operator), definition, index, operands, outputs)


def random_inputs(
    graph: Graph, rng: np.random.Generator, distinct: int | None = None
) -> dict[str, np.ndarray]:
    """Draw random values for the sources without data, such that activations stay of order one.

    Activations are normal; matrices normal with variance 1 / (elements that a product sums over); vectors,
    buffers and optimizer state positive in [0.5, 1.5), which suits scales, variances and biases alike.
    Integers lie in [0, 10), or below the size of the axes they index. Of so many `distinct` numbers at most, a source
    repeats the first ones, which takes a fraction of the time of drawing all.
    """
    values = {}
    for source in graph.sources:
        tensor = graph.tensors[source.outputs[0]]
        if tensor.site not in graph.data:
            role = str(source.definition["role"])
            shape = tensor.type.shape
            drawn = shape if distinct is None or math.prod(shape) <= distinct else (distinct,)
            value = _random_value(graph, tensor.site, tensor.type, drawn, role, rng)
            values[source.site] = value if drawn == shape else np.resize(value, shape)
    return values


def _random_value(
    graph: Graph, site: str, kind: TensorType, drawn: tuple[int, ...], role: str, rng: np.random.Generator
) -> np.ndarray:
    """Draw values of a source of type `kind`, in the shape `drawn`."""
    dtype = numpy_dtype(kind.dtype)
    if kind.dtype == "bool":
        return rng.integers(0, 2, drawn).astype(dtype)
    if not (is_float(kind.dtype) or dtype.kind == "c"):
        return rng.integers(0, _bound(graph, site), drawn).astype(dtype)
    positive = role in ("buffer", "optimizer_state") or (role == "parameter" and len(kind.shape) < 2)
    if positive:
        return rng.uniform(0.5, 1.5, drawn).astype(dtype)
    fans = [_fan_in(use) for use in uses(graph, site)] if role == "parameter" else []
    value = rng.standard_normal(drawn, np.float32)
    return (value / np.float32(math.sqrt(max(fans, default=1)))).astype(dtype)


def _bound(graph: Graph, site: str) -> int:
    """Return the least size that the integers of a tensor index; small where they are one of several coordinates."""
    bounds = [_indexed_size(use) for use in uses(graph, site) if _is_position(use)]
    mixed = [_indexed_size(use) for use in uses(graph, site, True) if _is_position(use)]
    return max(min([*bounds, *([2, *mixed] if len(mixed) > len(bounds) else [])], default=10), 1)


def _is_position(use: Use) -> bool:
    """Return whether the input holds positions: the second of a gather, the last but one of a scatter."""
    return use.position == {"gather": 1, "scatter": len(use.inputs) - 2}.get(use.definition.operator)


def _indexed_size(use: Use) -> int:
    """Return the size of the axis that a gather's or scatter's positions refer to."""
    axis: int = use.definition["axis"]
    table = use.inputs[0] if use.definition.operator == "gather" else use.outputs[0]
    return table.shape[axis]


def _fan_in(use: Use) -> int:
    """Return the number of products that are summed up for one element; 1 for what contracts nothing."""
    definition = use.definition
    if definition.signature is None:
        return 1
    work = operator_named(definition.operator).work(definition, use.inputs, use.outputs)
    summed = math.prod(d.size for d in definition.signature.dims if d.kind == "sum")
    return summed * work.k_factor if work.kind == "contraction" else 1
