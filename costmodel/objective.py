"""The record of an objective: its name and unit, and the expression by which it is computed.

An objective owns its expression (`costmodel.expression_parser` has the notation). Its names are the columns that are
counted for every plan (`costmodel.kernel_arrays.COLUMNS`), numbers of the device (`idle_power_w`, as its file has
them), numbers of the mesh (`device_count`, and `communicator_count`: axes with several devices), and other
objectives. Columns are found by name, so their order and that of the records means nothing. Where the expression is a
constant and a sum of weighted columns the search computes it as such, otherwise as a postfix program in its compiled
loop: one that is not linear costs nanoseconds per plan, and needs no Python there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

from tapestry.costmodel.expression_parser import parse
from tapestry.costmodel.expressions import Term
from tapestry.costmodel.kernel_arrays import COLUMNS
from tapestry.hardware.device import Device
from tapestry.hardware.mesh import Mesh

DEVICE_COUNT = "device_count"
COMMUNICATOR_COUNT = "communicator_count"
# The device's numbers that an expression may name.
DEVICE_FIGURES = tuple(
    f.name for f in fields(Device) if f.type in ("int", "float", "int | None", "float | None")
)
# Figures without which a column is not counted.
COLUMN_FIGURES = {
    "energy_pj": ("idle_power_w", "joules_per_flop", "joules_per_memory_byte", "joules_per_link_byte")
}
# Numbers of the mesh, by name.
MESH_COUNTS: Mapping[str, Callable[[Mesh], int]] = {
    DEVICE_COUNT: lambda mesh: mesh.device_count,
    # Libraries keep one communicator, with buffers of its own, for the groups along each axis.
    COMMUNICATOR_COUNT: lambda mesh: sum(axis.size > 1 for axis in mesh.axes),
}
QUANTITIES = (*COLUMNS, *DEVICE_FIGURES, *MESH_COUNTS)


@dataclass(frozen=True)
class Objective:
    """A named cost, of which less is better. `description` says what `expression` computes; `title` heads tables.

    Raises:
        ExpressionError: `expression` is none.
    """

    name: str
    unit: str
    description: str
    expression: str
    title: str = ""
    direction: str = "minimize"

    def __post_init__(self) -> None:
        parse(self.expression)

    @property
    def term(self) -> Term:
        """The expression as a term over names."""
        return parse(self.expression)
