"""The criteria by which a presearch compares graphs: the run's goal, as far as it holds before anything is placed.

A graph is measured as the search measures a plan: its integer costs on one device (`costmodel.unsharded`), of which
the forms of a `Goal` are computed by the same loops. So a structure that is good for any of the run's objectives is
kept, be it energy, flops, or an expression. Three things differ from a plan:

- A form over columns that rewriting does not change is left out: the traffic, zero on one device, and resources that
  the program prices itself, for rules leave priced blocks as they are. On one device a total over devices and a
  maximum over them are one number, and count once.
- On several devices a bound cannot be checked yet: what does not fit in one device may fit once it is sharded. There
  the bounded cost is a criterion like the objectives: less of it is better. On one device the program is the plan, and
  absolute bounds hold.
- The best that relative bounds refer to is not known before the end, so their costs are criteria too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np

from tapestry.costmodel.expressions import (
    NamedTerm,
    NumberTerm,
    OperationTerm,
    Term,
    affine_weights,
    names_in,
    substitute,
)
from tapestry.costmodel.known_objectives import KnownObjectives
from tapestry.costmodel.objective import Objective
from tapestry.costmodel.resources import Resource
from tapestry.costmodel.tally import CostTally
from tapestry.costmodel.unsharded import CONSTANT_COLUMNS
from tapestry.hardware.device import Device
from tapestry.hardware.mesh import Mesh
from tapestry.optimizer.archive.constraints import Constraint
from tapestry.optimizer.archive.goal import Goal, measure, new_goal

MEMORY, TIME = "peak_memory_bytes", "time_ticks"
SAME_ON_ONE_DEVICE = {"total_memory_bytes": MEMORY, "peak_compute_flops": "compute_flops"}


@dataclass(frozen=True)
class Criteria:
    """The criteria of a presearch: the forms of `goal`, the leading one first, memory last, on one `device`.

    `resources` are the program's own that are counted. `is_memory` marks the forms that are the peak memory.
    """

    device: Device
    goal: Goal
    resources: tuple[Resource, ...]
    is_memory: tuple[bool, ...]

    @property
    def has_bounds(self) -> bool:
        """True if graphs may break a bound."""
        return len(self.goal.bounds) > 0

    def measure(self, cost: CostTally) -> tuple[tuple[float, ...], float, float]:
        """Compute the criteria of a graph, by how much it breaks bounds, and the score of all together."""
        value = np.zeros(len(self.is_memory))
        violation, score = measure(self.goal, cost.vector(), value)
        return tuple(value.tolist()), violation, score


def criteria_of(
    objectives: Sequence[Objective],
    constraints: Sequence[Constraint],
    mesh: Mesh,
    epsilon: float,
    known: KnownObjectives,
) -> Criteria:
    """Build the criteria of a presearch from the objectives and constraints of a run on a mesh.

    Where none of them can tell unsharded programs apart, it is time that does.
    """
    one = mesh.homogeneous.part(tuple((axis.name, 1) for axis in mesh.axes))
    is_alone = mesh.device_count == 1
    same = SAME_ON_ONE_DEVICE | {peak: total for total, peak in (r.columns for r in known.resources)}

    def term(objective: Objective) -> Term:
        return substitute(known.term_on(objective, one), lambda name: NamedTerm(same.get(name, name)))

    bounds = [(term(known.named(c.objective)), c) for c in constraints]
    wanted = [term(objective) for objective in objectives]
    wanted += [form for form, c in bounds if c.is_relative or not is_alone]
    unchanged = CONSTANT_COLUMNS.union(*(r.columns for r in known.resources))
    forms = _distinct(wanted, unchanged) or [NamedTerm(TIME)]
    forms.sort(key=lambda form: (_is_memory(form), sorted(map(known.columns.index, names_in(form)))))
    kept = [(form, c.bound) for form, c in bounds if is_alone and not c.is_relative]
    goal = new_goal(forms, kept, (), known.columns, epsilon)
    return Criteria(one.device, goal, known.resources, tuple(map(_is_memory, forms)))


def _distinct(forms: Iterable[Term], unchanged: AbstractSet[str]) -> list[Term]:
    """Return the forms that tell rewritten programs apart, those that are multiples of one column once."""
    found: dict[str | frozenset[str], Term] = {}
    for form in forms:
        if not unchanged >= set(names_in(form)):
            weights = _weights(form)
            found.setdefault(frozenset(weights) if len(weights) == 1 else str(form), _without_constant(form))
    return list(found.values())


def _without_constant(form: Term) -> Term:
    """Return a form less what it adds to every program, which would hide how they differ."""
    constant, _ = affine_weights(form) or (0.0, {})
    return OperationTerm("-", (form, NumberTerm(constant))) if constant else form


def _is_memory(form: Term) -> bool:
    return list(_weights(form)) == [MEMORY]


def _weights(form: Term) -> Mapping[str, float]:
    _, weights = affine_weights(form) or (0.0, {})
    return {name: weight for name, weight in weights.items() if weight > 0}
