"""Errors of predicted times: the spread of what was measured around what is predicted, from the residuals of fits.

An error is the standard deviation of the logarithm of measured over predicted: 0.1 means that two times in three are
within 10 %. Those of one class of kernels are common to all its blocks, and do not average out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import hypot

from tapestry.hardware.collective_tables import nearest_table
from tapestry.hardware.kernels import INHERITED_ERROR, UNKNOWN_ERROR
from tapestry.hardware.mesh import Device, Mesh
from tapestry.hardware.timing.blocks import kernel_figures
from tapestry.hardware.timing.collectives import measured_kind
from tapestry.teg.operators.operator import PartAmounts
from tapestry.teg.sharding.copies import Round


def block_error(
    device: Device,
    kind: str,
    dtype: str,
    *,
    kernel: str | None = None,
    compute_dtype: str | None = None,
    parts: Sequence[PartAmounts] = (),
) -> float:
    """Return the error of the time of a block; the arguments are those of `block_ticks`. A view has none."""
    if kind == "none":
        return 0.0
    return kernel_figures(device, kind, dtype, kernel, compute_dtype, parts).error


def copy_error(mesh: Mesh, rounds: Iterable[Round]) -> float:
    """Return the error of the time of a copy: that of the round known least; 0 for a copy that moves nothing.

    Where a collective follows from measurements of another kind or among others, the error is wider, and widest
    where nothing is measured. Groups over several axes have measurements of their own.
    """
    crossed = [each for each in rounds if each.members > 1]
    names = [axis.name for axis in mesh.axes if any(each.axis == axis.name for each in crossed)]
    if len(names) > 1:
        slow, fast = mesh.axis(names[0]).whole, mesh.axis(names[1]).whole
        table = nearest_table(slow.collectives, "all_reduce", slow.size, fast.size)
        if table is not None:
            is_same = (table.members, table.inside) == (slow.size, fast.size)
            return table.error if is_same else hypot(table.error, INHERITED_ERROR)
    return max((_round_error(mesh, each) for each in crossed), default=0.0)


def _round_error(mesh: Mesh, each: Round) -> float:
    kind = measured_kind(each.kind)
    table = nearest_table(mesh.axis(each.axis).collectives, kind, each.members)
    if table is None:
        return UNKNOWN_ERROR
    is_same = (table.kind, table.members) == (kind, each.members)
    return table.error if is_same else hypot(table.error, INHERITED_ERROR)
