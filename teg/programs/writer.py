"""The written part of a program: steps of the importers' intermediate form, with names and scopes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tapestry.teg.dtypes import NAMES
from tapestry.teg.importers.literals import literal
from tapestry.teg.importers.program import Compute, Entry, Labels, Step, StepProgram, Value
from tapestry.teg.printable import is_printable
from tapestry.teg.programs.failure import ProgramError

LARGEST_SIZE = 2**63 - 1


class Writer:
    """The collected steps of one program. Every value gets a name of its own, the site of the step that makes it."""

    def __init__(self, name: str) -> None:
        self.program = StepProgram(name)
        self.scopes: list[str] = []
        self.points: list[int] = []
        self._taken: set[str] = set()

    def site(self, wanted: str) -> str:
        """Return an unused name: `wanted` in the current scope, with a number where it is taken."""
        base = "/".join((*self.scopes, wanted))
        site, k = base, 1
        while site in self._taken:
            site, k = f"{base}.{k}", k + 1
        self._taken.add(site)
        return site

    def own_site(self, wanted: str) -> str:
        """Reserve a name that the author gave: it is kept, so it must be free.

        Raises:
            ProgramError: it is taken.
        """
        site = "/".join((*self.scopes, wanted))
        if not wanted or not is_printable(wanted):
            raise ProgramError(f"a name is printable text, not {wanted!r}")
        if site in self._taken:
            raise ProgramError(f"the name {site!r} is taken; every tensor needs its own")
        self._taken.add(site)
        return site

    def declare(self, site: str, shape: Sequence[int], dtype: str, names: Sequence[str]) -> Value:
        """Declare a value that is about to be made.

        Raises:
            ProgramError: it is too large to address.
        """
        if math.prod(shape) > LARGEST_SIZE:
            raise ProgramError(f"a tensor of shape {tuple(shape)} has more than 2^63 - 1 elements")
        named = all(names) and len(set(names)) == len(names)
        value = Value(site, tuple(shape), dtype, tuple(names) if named else ())
        self.program.values[site] = value
        return value

    def emit(self, step: Step) -> None:
        """Append a step; it begins after the sequence points that are in force."""
        self.program.steps.append(step)
        for k in self.points:
            point = self.program.points[k]
            self.program.points[k] = type(point)(point.site, point.after, (*point.before, step.site))

    def compute(
        self,
        site: str,
        operator: str,
        inputs: Sequence[Value],
        input_labels: Sequence[Labels],
        output_labels: Labels,
        output: tuple[Sequence[int], str, Sequence[str]],
        attributes: Mapping[str, Any],
        whole: frozenset[str] = frozenset(),
    ) -> Value:
        """Append an operator; `output` is shape, element type and names of its result."""
        name = self.site(site)
        value = self.declare(name, *output)
        self.emit(
            Compute(
                name,
                operator,
                tuple(v.name for v in inputs),
                name,
                tuple(input_labels),
                output_labels,
                attributes,
                whole,
            )
        )
        return value

    def enter(self, name: str, entry: Entry) -> None:
        """Add a value from outside."""
        self.program.values[name] = entry.value
        self.program.entries[name] = entry

    def literal(self, array: np.ndarray, names: Sequence[str] = ()) -> Value:
        """Add a value written in the program itself.

        Raises:
            ProgramError: its element type is none that tensors may have.
        """
        if array.dtype.name not in NAMES:
            raise ProgramError(f"an array of {array.dtype.name} is no tensor; types are {', '.join(NAMES)}")
        site = self.site("literal")
        known = literal(np.array(array))
        self.program.literals[site] = known
        return self.declare(site, known.shape, array.dtype.name, names or ("",) * array.ndim)
