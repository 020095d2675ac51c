"""A table of shardings as a Python module for JAX: mesh, PartitionSpec by name, points of constraints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tapestry.teg.exporters.tables.table import (
    INTERMEDIATE,
    OUTPUT,
    ROLES,
    ShardingTable,
    TensorSharding,
)
from tapestry.teg.exporters.tables.text import axis_sizes, dictionary, heading, reads, sizes
from tapestry.teg.exporters.tables.verdicts import (
    OK,
    TARGETS,
    constraint_fault,
    nearest_axes,
    verdict,
)
from tapestry.teg.python_text import quoted

JAX = next(target for target in TARGETS if target.name == "jax")

_HEAD = """
import re

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
"""

_FUNCTIONS = '''

def make_mesh(devices=None):
    """Return the mesh over `devices`, by default the first ones that JAX knows."""
    shape = tuple(AXES.values())
    found = np.asarray(jax.devices() if devices is None else devices).reshape(-1)
    return Mesh(found[: int(np.prod(shape))].reshape(shape), tuple(AXES))


def sharding(mesh, name):
    """Return the sharding of an input or output."""
    return NamedSharding(mesh, (INPUTS | OUTPUTS)[name])


def specs(name, tree):
    """Return the tree of specs of the argument called `name`, whose leaves are named by their paths in it."""

    def spec(path, _):
        steps = re.sub(r"""\\[["']?([^]"']*)["']?\\]""", r".\\1", jax.tree_util.keystr(path))
        return INPUTS.get((name + steps).strip("."), P())

    return jax.tree_util.tree_map_with_path(spec, tree)


def constrain(mesh, name, value):
    """Return the value with its constraint, if the plan places a value of this name."""
    if name not in CONSTRAINTS:
        return value
    return jax.lax.with_sharding_constraint(value, NamedSharding(mesh, CONSTRAINTS[name]))


def combine(mesh, name, value):
    """Return the value with its constraint, if the plan leaves a value of this name as terms: these are combined."""
    if name not in TERMS:
        return value
    return jax.lax.with_sharding_constraint(value, NamedSharding(mesh, TERMS[name][-1]))


def read(mesh, reader, name, value):
    """Return the value called `name` where the plan reads it to make the value called `reader`."""
    if name not in READS.get(reader, {}):
        return value
    return jax.lax.with_sharding_constraint(value, NamedSharding(mesh, READS[reader][name]))
'''


def jax_module(table: ShardingTable) -> str:
    """Write the module; what a PartitionSpec cannot say is left out of it, with the reason in `NOT_EXPRESSIBLE`.

    A dimension that cannot be split as the plan does is whole in an input's or output's spec; a value inside the
    program gets no constraint then.
    """
    inputs = table.of_roles(role for role in ROLES if role not in (OUTPUT, INTERMEDIATE))
    inside = [t for t in table.of_roles([INTERMEDIATE]) if verdict(table, t, JAX) == OK]
    faults = {t.name: verdict(table, t, JAX) for t in table.tensors}
    lines = [
        heading(table, "Shardings for JAX"),
        _HEAD,
        axis_sizes(table),
        "",
        *_specs("INPUTS", table, inputs),
        "",
        *_specs("OUTPUTS", table, table.of_roles([OUTPUT])),
        "",
        "# Values inside the program, by the names that the import gives them: see `constrain`.",
        *_specs("CONSTRAINTS", table, inside),
        "",
        "# Values that the plan leaves as terms, and where they are once these are combined: see `combine`.",
        *dictionary("TERMS", _terms(table)),
        "",
        "# Values that are moved before others are made of them: see `read`.",
        *dictionary("READS", reads(table, constraint_fault, partition_spec)),
        "",
        *dictionary("NOT_EXPRESSIBLE", {name: quoted(why) for name, why in faults.items() if why != OK}),
    ]
    return "\n".join(lines) + "\n" + _FUNCTIONS


def _specs(name: str, table: ShardingTable, tensors: Iterable[TensorSharding]) -> list[str]:
    known = tuple(tensors)
    notes = {t.name: sizes(t.shape, t.dtype) for t in known}
    return dictionary(name, {t.name: partition_spec(table, t) for t in known}, notes)


def _terms(table: ShardingTable) -> dict[str, str]:
    """Return the monoid of the values that are left as terms, and the spec of what these make."""
    return {
        t.name: f"({quoted(str(t.monoid))}, {partition_spec(table, t)})"
        for t in table.of_roles([INTERMEDIATE])
        if t.partial and not constraint_fault(table, t)
    }


def partition_spec(table: ShardingTable, tensor: TensorSharding) -> str:
    """Return the expression of the PartitionSpec that comes nearest: what it cannot say is whole."""
    entries = [_entry(axes) for axes in nearest_axes(table, tensor)]
    while entries and entries[-1] == "None":
        entries.pop()
    return f"P({', '.join(entries)})"


def _entry(axes: Sequence[str]) -> str:
    names = [quoted(axis) for axis in axes]
    return "None" if not names else names[0] if len(names) == 1 else f"({', '.join(names)})"
