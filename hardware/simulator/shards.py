"""Shards on arrays: what one device reads and computes of a block, and a sink's whole value from the devices' parts.

Imported by the backend of arrays and by `hardware.processes`, which run the same shards in one process and in many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tapestry.hardware.simulator.parts import frozen, same_bits
from tapestry.teg.arrays import Array, ArrayNamespace
from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.evaluate import NOTHING, run_operator
from tapestry.teg.graph import TensorType
from tapestry.teg.operators.operator import Operand
from tapestry.teg.sharding.expand import ComputeStep, ExplicitGraph, InputRead
from tapestry.teg.views import apply_view
from tapestry.teg.zspace import ZRange


def read_elements(
    xp: ArrayNamespace, program: ExplicitGraph, read: InputRead, device: int, held: Array
) -> Array:
    """Return the elements that a block on `device` reads, as a view of the part that the device holds."""
    start = program.buffers[read.buffer].boxes[device, :, 0].tolist()
    return apply_view(xp, read.view, held, start, read.wanted[device].tolist())


def index_part(step: ComputeStep, device: int) -> ZRange:
    """Return the part of a block's index space that a device computes."""
    if step.definition.signature is None:
        return NOTHING
    index = step.index[device]
    return ZRange(tuple(index[:, 0].tolist()), tuple(index[:, 1].tolist()))


def run_shard(
    xp: ArrayNamespace, program: ExplicitGraph, step: ComputeStep, device: int, arrays: Sequence[Array]
) -> Sequence[Array]:
    """Run a block on one device from the elements that it reads; return its parts of the outputs.

    Raises:
        ValueError: the operator refuses the values, or makes another shape or element type than the block states.
    """
    starts = [tuple(read.wanted[device, :, 0].tolist()) for read in step.reads]
    types = [program.abstract.tensors[program.buffers[key].tensor].type for key in step.outputs]
    operands = list(map(Operand, arrays, starts))
    made = run_operator(xp, step.definition, index_part(step, device), operands, types)
    for key, kind, array in zip(step.outputs, types, made, strict=True):
        box = program.buffers[key].boxes[device]
        shape = tuple((box[:, 1] - box[:, 0]).tolist())
        found = TensorType(tuple(array.shape), xp.dtype_of(array))
        if found != (shape, kind.dtype):
            raise ValueError(
                f"block {step.site!r} ({step.definition.operator}) on device {device} made shape "
                f"{found.shape} of {found.dtype} for {key!r}, not {shape} of {kind.dtype}"
            )
    return [frozen(array) for array in made]


def whole_value(
    program: ExplicitGraph,
    seen: Sequence[tuple[ComputeStep, int, np.ndarray]],
    agree: Callable[[np.ndarray, np.ndarray], bool],
) -> np.ndarray:
    """Combine the parts that a sink sees into the whole value: those of all its steps, by device.

    Raises:
        RuntimeError: devices that hold the same part differ, or parts are missing.
    """
    first_step = seen[0][0]
    site, read = first_step.site, first_step.reads[0]
    parts: dict[ZRange, tuple[int, np.ndarray]] = {}
    for step, device, array in seen:
        wanted = step.reads[0].wanted[device]
        part = ZRange(tuple(wanted[:, 0].tolist()), tuple(wanted[:, 1].tolist()))
        if part.is_empty:
            continue
        first, known = parts.setdefault(part, (device, array))
        if not agree(known, array):
            raise RuntimeError(f"sink {site!r}: devices {first} and {device} disagree on {part}")
    whole = ZRange.of_shape(read.view.shape)
    if sum(part.size for part in parts) != whole.size:
        raise RuntimeError(f"sink {site!r}: the devices' parts {list(parts)} do not make up {whole}")
    if whole in parts:
        return np.asarray(parts[whole][1])
    value = np.empty(read.view.shape, numpy_dtype(program.buffers[read.buffer].dtype))
    for part, (_, array) in parts.items():
        value[tuple(map(slice, part.start, part.end))] = array
    value.setflags(write=False)
    return value


def agree_up_to_rounding(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether replicas that were computed apart are equal: floats up to rounding, all else bit by bit."""
    if same_bits(a, b) or a.dtype.kind not in "fc":
        return same_bits(a, b)
    high = np.abs(a[np.isfinite(a)]).max(initial=0)
    return bool(np.allclose(a, b, rtol=0, atol=np.sqrt(np.finfo(a.dtype).eps) * high, equal_nan=True))
