"""Functions that compute the part of one device: how a program that is traced once does work of uneven size.

Each device runs the branch of its kind: one function, with the device's number as a plain integer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field, replace

import numpy as np

from tapestry.teg.exporters.spmd.array_text import ATOM, ArrayText, TextValue
from tapestry.teg.exporters.spmd.folding import fold
from tapestry.teg.exporters.spmd.guards import with_joined_guards
from tapestry.teg.exporters.spmd.jax_text import JaxPartText
from tapestry.teg.exporters.spmd.naming import ScopeNames, identifier
from tapestry.teg.exporters.spmd.nesting import nested
from tapestry.teg.exporters.spmd.per_rank import NumberTexts, axes_text
from tapestry.teg.exporters.spmd.statements import (
    Statement,
    StatementList,
    is_temporary_key,
    named,
    temporary_key,
    variable,
    variables_in,
)
from tapestry.teg.sharding.mesh_shape import MeshShape

Body = Callable[[ArrayText, Sequence[TextValue]], list[str]]
"""Writes a function's statements, given its parameters; returns the texts of its results."""


def is_even(boxes: np.ndarray) -> bool:
    """Return whether boxes `(devices, rank, 2)` have one size on all devices."""
    sizes = boxes[:, :, 1] - boxes[:, :, 0]
    return bool((sizes == sizes[:1]).all())


def _own(xp: ArrayText, value: TextValue) -> TextValue:
    """Cut off what fills up an operand on devices that have less of it than others."""
    if (value.shape == value.shape[:1]).all():
        return value
    filled = replace(value, shape=np.broadcast_to(value.shape.max(axis=0), value.shape.shape))
    spans = [(np.zeros_like(sizes), sizes, 1) for sizes in value.shape.T]
    return xp.named(xp.part(filled, spans, value.shape))


def _plain_name(key: str) -> str:
    """Return the name of a variable without the number of its layer."""
    return "t" if is_temporary_key(key) else re.sub(r"_?\d+", "", identifier(key.partition(">")[0])) or "t"


@dataclass
class PartNumberTexts(NumberTexts):
    """Numbers of one function, as plain integers of `rank`; `seen` are those in which devices may differ."""

    seen: list[np.ndarray] = field(default_factory=list)

    def text(self, values: np.ndarray, active: np.ndarray) -> str:
        """Return the integer of a device, and remember it."""
        self.seen += [active.astype(np.int64), np.where(active, values, 0)]
        return super().text(values, active)

    def table(self, entries: list[str]) -> str:
        """Return the value that a device looks up, and remember it."""
        self.seen.append(np.array([entries.index(entry) for entry in entries]))
        return super().table(entries)

    def kinds(self) -> list[int]:
        """Return for each device the first one that does the same."""
        rows = list(map(tuple, np.stack(self.seen, axis=1).tolist()))
        return [rows.index(row) for row in rows]

    def _position(self, axes: tuple[str, ...]) -> str:
        return f"position({axes_text(axes, self.mesh_shape)})[rank]"

    def _entry(self, entries: str, position: str) -> str:
        return f"{self.tables.setdefault(entries, f'PART_{len(self.tables)}')}[{position}]"


@dataclass
class PartFunctions:
    """The functions of one module, by their lines; `tables` are shared with the module's other numbers."""

    mesh_shape: MeshShape
    tables: dict[str, str]
    reserved: Set[str]
    names: dict[tuple[str, ...], str] = field(default_factory=dict)

    def call(self, operator: str, operands: Sequence[TextValue], body: Body) -> str:
        """Write a function, and return the text that lets each device apply it to its parts."""
        statements = StatementList()
        numbers = PartNumberTexts(self.mesh_shape, tables=self.tables)
        numbers.seen += [np.zeros(self.mesh_shape.device_count, np.int64)]
        numbers.seen += [column for o in operands for column in o.shape.T]
        xp = JaxPartText(numbers, statements, np.ones(self.mesh_shape.device_count, bool))
        keys = [temporary_key(f"x{k}") for k in range(len(operands))]
        given = [replace(o, text=variable(key), level=ATOM) for key, o in zip(keys, operands, strict=True)]
        values = [_own(xp, value) for value in given]
        results = body(xp, values)
        lines = self._lines(keys, statements.done, results)
        wanted = f"{operator}_part_{len(self.names)}"
        name = self.names.setdefault(lines, wanted)
        kinds_text = ", ".join(map(str, numbers.kinds()))
        listed = f"({kinds_text}{',' if self.mesh_shape.device_count == 1 else ''})"
        kinds = self.tables.setdefault(listed, f"PART_{len(self.tables)}")
        return f"by_device({', '.join([name, kinds, *(o.text for o in operands)])})"

    def _lines(
        self, keys: Sequence[str], statements: Sequence[Statement], results: list[str]
    ) -> tuple[str, ...]:
        """Return the lines of a function behind its name, with names that equal layers have in common."""
        names = ScopeNames({*self.reserved, "rank"})
        known = {key: names.fresh("x") for key in keys}
        lines: list[str] = []
        kept = [key for text in results for key in variables_in(text)]
        for statement in nested(with_joined_guards(statements, kept), kept):
            for key in (*statement.sets, *statement.inner):
                if key not in known:
                    known[key] = names.fresh(_plain_name(key))
            for indent, text, comment in statement.commented(known, ()):
                lines += fold(indent + 1, text, comment)
        head = f"({', '.join(['rank', *(known[key] for key in keys)])}):"
        doc = '    """Compute the part of one device."""'
        returned = fold(1, f"return {', '.join(named(text, known) for text in results)}")
        return (head, doc, *lines, *returned)

    def written(self) -> list[list[str]]:
        """Return the functions as lines."""
        return [[*fold(0, f"def {name}{lines[0]}"), *lines[1:]] for lines, name in self.names.items()]
