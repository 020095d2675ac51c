"""Errors of predicted times: the spread of what was measured around what is predicted, from the residuals of fits.

An error is the standard deviation of the logarithm of measured over predicted: 0.1 means that two times in three are
within 10 %. Those of one class of kernels are common to all its blocks, and do not average out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tapestry.hardware.device import SHORT_DTYPES, Device
from tapestry.hardware.kernels import key_of
from tapestry.hardware.mesh import Mesh
from tapestry.hardware.timing.blocks import requested_kernel
from tapestry.hardware.timing.collectives import SEND, followed_kind, step_error
from tapestry.teg.operators.operator import PartAmounts
from tapestry.teg.sharding.copies import Round


class TimeClass(NamedTuple):
    """A class of times with one error in common: blocks of one table of kernels, exchanges of one kind on an axis."""

    name: str
    error: float


NO_CLASS = TimeClass("", 0.0)  # of what takes no time
SUPPLIED_CLASS = TimeClass("cost table", 0.0)  # of what the program states itself, taken as it is


def block_class(
    device: Device,
    kind: str,
    dtype: str,
    *,
    kernel: str | None = None,
    compute_dtype: str | None = None,
    parts: Sequence[PartAmounts] = (),
) -> TimeClass:
    """Return the class of a block's time; the arguments are those of `block_ticks`.

    It is named by the table of kernels whose figures count, such as `softmax.fp32`. Where the device has no tables, its
    efficiencies are the classes: of products, of moves and of all else.
    """
    if kind == "none":
        return NO_CLASS
    name, precision, contracts = requested_kernel(device, kind, dtype, kernel, compute_dtype, parts)
    key = key_of(device.kernels, name, SHORT_DTYPES.get(precision, precision))
    if key is None:
        key = "matrix_product" if contracts else "copy" if kind == "move" else "elementwise"
    return TimeClass(key, device.figures(name, precision, kind, contracts).error)


def move_class(device: Device) -> TimeClass:
    """Return the class of what devices move within their own memories, see `move_ticks`."""
    return block_class(device, "move", "float32")


def copy_error(mesh: Mesh, rounds: Iterable[Round]) -> float:
    """Return the error of the time of a copy: that of the round known least; 0 for a copy that moves nothing.

    Where a collective follows from measurements of another kind or among others, the error is wider, and widest
    where nothing is measured.
    """
    return max((each.error for each in exchange_classes(mesh, tuple(rounds))), default=0.0)


def exchange_classes(mesh: Mesh, rounds: Sequence[Round]) -> tuple[TimeClass, ...]:
    """Return the class of the time of each round of a copy, named by kind and axis, such as `all_gather on gpu`."""
    return tuple(_round_class(mesh, each) for each in rounds)


def _round_class(mesh: Mesh, each: Round) -> TimeClass:
    if each.members == 1:
        return NO_CLASS
    axis, kind = mesh.axis(each.axis), each.kind
    if kind == SEND:
        axis, kind = axis.whole, "fetch"
    kind = followed_kind(axis, kind, each.members)
    return TimeClass(f"{kind} on {each.axis}", step_error(axis, kind, each.members))
