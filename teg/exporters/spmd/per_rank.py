"""Integers that may differ from device to device, and their text in a program that all devices run.

A plan's chunks are known when it is written out, so every start and size is a vector over the devices. Where it is
the same everywhere the text shows a plain integer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from tapestry.teg.exporters.spmd.naming import ScopeNames
from tapestry.teg.python_text import quoted
from tapestry.teg.sharding.mesh_shape import MeshShape


def axes_text(axes: tuple[str, ...], mesh_shape: MeshShape) -> str:
    """Return sub-axes as arguments; all of a mesh axis go by its name."""
    every: dict[str, list[str]] = {}
    for sub_axis in mesh_shape.sub_axes:
        every.setdefault(sub_axis.axis, []).append(sub_axis.name)
    listed, waiting = [], list(axes)
    while waiting:
        axis = next((a for a, names in every.items() if waiting[: len(names)] == names), None)
        listed.append(quoted(waiting[0] if axis is None else axis))
        del waiting[: 1 if axis is None else len(every[axis])]
    return ", ".join(listed)


def common(values: np.ndarray, active: np.ndarray) -> int | None:
    """Return the value that all active devices have, of `values` `(devices,)`; None if they differ, 0 without any."""
    read = values[active]
    if not len(read):
        return 0
    return int(read[0]) if (read == read[0]).all() else None


@dataclass
class NumberTexts:
    """The texts of numbers in one module, and the lines at its top that they refer to.

    A number that grows evenly along some sub-axes is a formula of the rank's position there; any other is looked up by
    this position. `positions` and `tables` hold the names that were given, by what they stand for.
    """

    mesh_shape: MeshShape
    positions: dict[tuple[str, ...], str] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)

    def text(self, values: np.ndarray, active: np.ndarray) -> str:
        """Return the integer `values` `(devices,)` as an expression: digits, a sum, or a name.

        Devices that are not `active` never read theirs.
        """
        same = common(values, active)
        if same is not None:
            return str(same)
        axes = self._axes(values, active)
        at = self.mesh_shape.linear(axes)
        known = {int(p): int(v) for p, v in zip(at[active], values[active], strict=True)}
        name = self._position(axes)
        (p, first), (q, second) = list(known.items())[:2]
        step, rest = divmod(second - first, q - p)
        offset = first - step * p
        if not rest and all(v == step * at + offset for at, v in known.items()):
            scaled = name if step == 1 else f"{step} * {name}"
            if not offset:
                return scaled
            if step < 0:
                return f"{offset} - {name}" if step == -1 else f"{offset} - {-step} * {name}"
            return f"{scaled} {'-' if offset < 0 else '+'} {abs(offset)}"
        entries = ", ".join(str(known.get(k, 0)) for k in range(self.mesh_shape.size_of(axes)))
        return self._entry(f"({entries})", name)

    def table(self, entries: list[str]) -> str:
        """Return the name of a value that every device looks up among `entries`, texts by device."""
        if len(set(entries)) == 1:
            return entries[0]
        name = self._position(tuple(s.name for s in self.mesh_shape.sub_axes))
        return self._entry(f"({', '.join(entries)})", name)

    def _entry(self, entries: str, position: str) -> str:
        """Return the name of that entry of a tuple which stands at the rank's position."""
        return self.tables.setdefault(f"{entries}[{position}]", f"PART_{len(self.tables)}")

    def _axes(self, values: np.ndarray, active: np.ndarray) -> tuple[str, ...]:
        """Return few sub-axes whose coordinates determine the number, the first ones left out first."""
        axes = [s.name for s in self.mesh_shape.sub_axes]
        for name in list(axes):
            fewer = tuple(a for a in axes if a != name)
            at = self.mesh_shape.linear(fewer)[active]
            pairs = {(int(p), int(v)) for p, v in zip(at, values[active], strict=True)}
            if len(pairs) == len({p for p, _ in pairs}):
                axes.remove(name)
        return tuple(axes)

    def _position(self, axes: tuple[str, ...]) -> str:
        """Return the name of a rank's position along sub-axes; the name of a mesh axis if they are all of it."""
        whole = {a for a, _ in self.mesh_shape.axes if self._of(a) and set(self._of(a)) <= set(axes)}
        parts = dict.fromkeys(
            a.partition(".")[0] if a.partition(".")[0] in whole else a.replace(".", "_") for a in axes
        )
        name = re.sub(r"[^0-9A-Za-z_]", "_", "_".join(parts)).upper()
        names = ScopeNames({own for known, own in self.positions.items() if known != axes})
        return self.positions.setdefault(axes, names.fresh(name if name[:1].isalpha() else f"AXIS_{name}"))

    def _of(self, axis: str) -> tuple[str, ...]:
        return tuple(s.name for s in self.mesh_shape.sub_axes if s.axis == axis)
