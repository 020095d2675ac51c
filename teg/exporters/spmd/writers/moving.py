"""Operators that move elements: joins, padding, reshapes, scans, orders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tapestry.teg.exporters.spmd.array_text import ArrayText, TextValue
from tapestry.teg.exporters.spmd.reads import view_text
from tapestry.teg.exporters.spmd.writers.operand import OperatorWriter, TextOperand, extents
from tapestry.teg.graph import Definition
from tapestry.teg.operators.monoids import identity
from tapestry.teg.signature import reached
from tapestry.teg.views import parse
from tapestry.teg.zspace import ZRange


def made_boxes(definition: Definition, index: np.ndarray, position: int) -> np.ndarray:
    """Return the box of an output that each device makes, `(devices, rank, 2)`."""
    assert definition.signature is not None
    projection = definition.signature.outputs[position]
    found = []
    for part in index.tolist():
        box = reached(projection, ZRange(tuple(a for a, _ in part), tuple(b for _, b in part)))
        found.append(np.stack([box.start, box.end], axis=-1).reshape(-1, 2))
    return np.array(found, np.int64).reshape(len(index), -1, 2)


def write_view(
    xp: ArrayText, definition: Definition, index: np.ndarray, operands: Sequence[TextOperand]
) -> tuple[TextValue, ...]:
    """Write a view inside a fused block."""
    view = parse(definition["map"], definition["shape"])
    return (view_text(xp, operands[0].value, operands[0].box, view, index),)


def write_concat(
    xp: ArrayText, definition: Definition, index: np.ndarray, operands: Sequence[TextOperand]
) -> tuple[TextValue, ...]:
    """Write a concatenation; inputs that no device reads are left out."""
    axis = definition["axis"]
    read = [o.value for o in operands if xp.same(extents(o.box)[:, axis]) != 0]
    return (read[0] if len(read) == 1 else xp.concat(read, axis),)


def write_interleave(
    xp: ArrayText, definition: Definition, index: np.ndarray, operands: Sequence[TextOperand]
) -> tuple[TextValue, ...]:
    """Write elements in turn."""
    axis = definition["axis"]
    return (xp.flatten(xp.stack([o.value for o in operands], axis + 1), axis, axis + 1),)


def write_pad(
    xp: ArrayText, definition: Definition, index: np.ndarray, operands: Sequence[TextOperand]
) -> tuple[TextValue, ...]:
    """Write a margin of one value; a device without elements of the tensor makes only margin."""
    value, box = operands[0]
    sizes = extents(index)
    first = np.clip(box[:, :, 0] + np.array(definition["low"], np.int64) - index[:, :, 0], 0, sizes)
    # An operand that is empty in one dimension is empty: what it holds in others is margin as well.
    after = sizes - first - value.shape
    if not np.concatenate([first, after], axis=1)[xp.active].any():
        return (value,)
    padded = xp.pad(value, np.stack([first, after], axis=2), definition.get("value", 0))
    return (replace(padded, shape=sizes),)


def write_dilate(
    xp: ArrayText, definition: Definition, index: np.ndarray, operands: Sequence[TextOperand]
) -> tuple[TextValue, ...]:
    """Write zeros between elements: the rows of a new last dimension, of which the first is the value."""
    value, axis, factor = operands[0].value, definition["axis"], definition["factor"]
    wide = xp.expand_dims(value, [axis + 1])
    sides = np.zeros((*wide.shape.shape, 2), np.int64)
    sides[:, axis + 1, 1] = factor - 1
    return (xp.flatten(xp.pad(wide, sides), axis, axis + 1),)


def write_reshape(
    xp: ArrayText, definition: Definition, index: np.ndarray, operands: Sequence[TextOperand]
) -> tuple[TextValue, ...]:
    """Write a reshape to the local shape."""
    return (xp.reshape(operands[0].value, extents(made_boxes(definition, index, 0))),)


def write_waypoint(
    xp: ArrayText, definition: Definition, index: np.ndarray, operands: Sequence[TextOperand]
) -> tuple[TextValue, ...]:
    """Write nothing but the value."""
    return (operands[0].value,)


def write_scan(
    xp: ArrayText, definition: Definition, index: np.ndarray, operands: Sequence[TextOperand]
) -> tuple[TextValue, ...]:
    """Write a scan; one that excludes its own element begins with the monoid's identity."""
    value, axis, monoid = operands[0].value, definition["axis"], definition["monoid"]
    dtype = value.dtype
    work = xp.cast(value, "uint8") if dtype == "bool" else value
    if definition.get("reverse", False):
        work = xp.flip(work, [axis])
    if definition.get("exclusive", False):
        first = work.shape.copy()
        first[:, axis] = 1
        start = xp.full(
            first, identity(monoid, dtype) if dtype != "bool" else int(identity(monoid, dtype)), work.dtype
        )
        work = xp.named(work)
        head = xp.first(work, axis, work.shape[:, axis] - 1)
        work = replace(xp.concat([start, head], axis), shape=work.shape)
    result = xp.scan(work, monoid, axis)
    if definition.get("reverse", False):
        result = xp.flip(result, [axis])
    return (xp.cast(result, dtype),)


def write_arg_reduce(
    xp: ArrayText, definition: Definition, index: np.ndarray, operands: Sequence[TextOperand]
) -> tuple[TextValue, ...]:
    """Write the position of the greatest or least element: the first such, or the last."""
    value, axis = operands[0].value, definition["axis"]
    if value.dtype == "bool":
        value = xp.cast(value, "uint8")
    like = TextValue("", np.delete(value.shape, axis, axis=1), "int64")
    value = xp.short(value)
    last = definition.get("last", False)
    read = xp.flip(value, [axis]) if last else value
    found = xp.call(f"arg{definition['kind']}", read.text, like=like, axis=str(axis))
    if last:
        end = xp.number(value.shape[:, axis] - 1)
        found = replace(found, text=f"{end} - {found.text}", level=6)
    return (found,)


def write_arg_sort(
    xp: ArrayText, definition: Definition, index: np.ndarray, operands: Sequence[TextOperand]
) -> tuple[TextValue, ...]:
    """Write the positions of the first elements in order; equal ones keep their order."""
    value, axis, count = operands[0].value, definition["axis"], definition["count"]
    if value.dtype == "bool":
        value = xp.cast(value, "uint8")
    named = {"descending": str(definition["largest"]), "stable": "True"}
    like = replace(value, dtype="int64")
    order = xp.call("argsort", xp.short(value).text, like=like, axis=str(axis), **named)
    if xp.same(value.shape[:, axis]) != count:
        order = xp.first(order, axis, np.full(len(xp.active), count))
    return (order,)


def write_fft(
    xp: ArrayText, definition: Definition, index: np.ndarray, operands: Sequence[TextOperand]
) -> tuple[TextValue, ...]:
    """Write a Fourier transform."""
    value = xp.short(operands[0].value)
    function = "ifft" if definition.get("inverse", False) else "fft"
    return (xp.call(function, value.text, like=value, axis=str(definition["axis"])),)


def write_sink(
    xp: ArrayText, definition: Definition, index: np.ndarray, operands: Sequence[TextOperand]
) -> tuple[TextValue, ...]:
    """Write nothing: the boundary is written by the program."""
    return ()


MOVING: dict[str, OperatorWriter] = {
    "view": write_view,
    "concat": write_concat,
    "interleave": write_interleave,
    "pad": write_pad,
    "dilate": write_dilate,
    "reshape": write_reshape,
    "waypoint": write_waypoint,
    "scan": write_scan,
    "arg_reduce": write_arg_reduce,
    "arg_sort": write_arg_sort,
    "fft": write_fft,
    "sequence_point": write_sink,
}
