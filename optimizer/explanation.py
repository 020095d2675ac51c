"""How a plan came about, step by step: after each move what the program costs on the plan's machine so far.

The first costs are those of the program as it was handed in, nothing placed: every device computes everything.
The last are the plan's. In between a step is costed with the placements that exist by then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from tapestry.hardware.mesh import Mesh
from tapestry.optimizer.ablation import without
from tapestry.optimizer.costing import Costing, State, differences
from tapestry.rewrites import (
    PLACEMENT,
    Move,
    RuleError,
    StaleMove,
    catalogue,
    is_structural,
    replay_plan,
)
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.mesh import MeshShape
from tapestry.teg.sharding.placement import Placements

OPTION_DOC = "An option of the whole plan is set."

Report = Callable[[int, int], None]


class StaleHistory(ValueError):
    """A history that cannot be replayed here: which move of how many, why, and what to do."""


@dataclass(frozen=True)
class Step:
    """One move, or several saturating ones in a row; `first` is the number of the first of them, from 0.

    `cost` is what the program costs after it, `effect` what it changed. `without` is what the finished plan
    would cost more (less, where negative) without it (None: nobody asked); `gone_with` numbers the later moves that
    build on it and are left out then too, in whole or at some of their places.
    """

    first: int
    moves: tuple[Move, ...]
    blocks: int
    cost: Mapping[str, float]
    effect: Mapping[str, float]
    without: Mapping[str, float] | None = None
    gone_with: tuple[int, ...] = ()


@dataclass(frozen=True)
class Explanation:
    """The steps of a plan, from the costs of the given program (`start`) on."""

    start: Mapping[str, float]
    steps: tuple[Step, ...]
    devices: str

    @property
    def cost(self) -> Mapping[str, float]:
        """What the plan costs."""
        return self.steps[-1].cost if self.steps else self.start


def explain(
    graph: Graph,
    moves: Sequence[Move],
    mesh: Mesh,
    *,
    compute_dtype: str | None = None,
    single: bool = False,
    ablation: bool = False,
    on_step: Report = lambda done, total: None,
) -> Explanation:
    """Replay a plan's history on the program it starts from (`searched`), and cost it after every step.

    `single` makes a step of each saturating move, too. `ablation` costs the plan without each step as well.
    `on_step(done, total)` hears how many of the programs on the way are costed.

    Raises:
        StaleHistory: a move does not fit, or its rule is not known here.
    """
    groups = _grouped(moves, single)
    shape = MeshShape(mesh.axis_sizes)
    states: list[State] = [(graph, Placements())]
    for first, group in groups:
        states.append(_after(states[-1], group, shape, first, len(moves)))
    numbered = list(enumerate(moves))
    shortened = [
        without(states[k], group, numbered[first + len(group) :], states[-1], shape)
        for k, (first, group) in enumerate(groups if ablation else ())
    ]
    plans = [*states, *(left.state for left in shortened)]
    every = Costing(mesh, compute_dtype).costs(plans, lambda done: on_step(done, len(plans)))
    costs = every[: len(states)]
    lost = [differences(costs[-1], cost) for cost in every[len(states) :]]
    steps = (
        Step(
            first,
            group,
            len(states[k + 1][0].blocks),
            costs[k + 1],
            differences(costs[k], costs[k + 1]),
            lost[k] if lost else None,
            shortened[k].gone_with if shortened else (),
        )
        for k, (first, group) in enumerate(groups)
    )
    return Explanation(costs[0], tuple(steps), states[-1][1].devices)


def first_line(rule: str) -> str:
    """The first line of a rule's description; empty for a rule that is not known here."""
    docs = {r.name: r.doc for r in PLACEMENT} | {name: r.doc for name, r in catalogue().items()}
    return OPTION_DOC if rule == "set_option" else docs.get(rule, "").partition("\n")[0]


def _grouped(moves: Sequence[Move], single: bool) -> list[tuple[int, tuple[Move, ...]]]:
    """The moves of each step, with the number of the first."""
    rules = catalogue()

    def kind(numbered: tuple[int, Move]) -> int:
        k, move = numbered
        saturates = is_structural(move) and move.rule in rules and rules[move.rule].saturating
        return -1 if saturates and not single else k

    groups = (list(group) for _, group in groupby(enumerate(moves), key=kind))
    return [(group[0][0], tuple(move for _, move in group)) for group in groups]


def _after(state: State, moves: Sequence[Move], shape: MeshShape, first: int, count: int) -> State:
    """The state after the moves of one step."""
    graph, placements = state
    for k, move in enumerate(moves, start=first + 1):
        try:
            graph, placements = replay_plan(graph, [move], shape, placements=placements)
        except (StaleMove, RuleError) as error:
            raise StaleHistory(f"move {k} of {count} cannot be replayed: {error}; {_cure(move)}") from error
    return graph, placements


def _cure(move: Move) -> str:
    """What to do about a move that does not fit."""
    if is_structural(move) and move.rule not in catalogue():
        return (
            "`tapestry rules` lists those that are known, `tapestry plugins` what is installed; install the plug-in "
            "that brings this one, or search again: the history is of another release, perhaps"
        )
    return "is this the program and the machine that the plan was found for? If so, search again: rules have changed"
