"""How a plan came about, step by step: after each move what the program costs on the plan's machine so far.

The first costs are those of the program as it was handed in, nothing placed: every device computes everything.
The last are the plan's. In between a step is costed with the placements that exist by then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from hardware.mesh import Mesh
from optimizer.costing import Costing, State, differences
from rewrites import (
    PLACEMENT,
    Move,
    RuleError,
    StaleMove,
    catalogue,
    is_structural,
    replay_plan,
)
from rewrites.placement import PLAN_WIDE
from teg.graph import Graph
from teg.sharding.mesh import MeshShape
from teg.sharding.placement import Placements

# Placement rules that look at other blocks than the one they place.
LOOKING = frozenset({"follow"})
OPTION_DOC = "An option of the whole plan is set."

Report = Callable[[int, int], None]


class StaleHistory(ValueError):
    """A history that cannot be replayed here: which move of how many, why, and what to do."""


@dataclass(frozen=True)
class Step:
    """One move, or several saturating ones in a row; `first` is the number of the first of them, from 0.

    `cost` is what the program costs after it, `effect` what it changed. `without` is what the finished plan
    would cost more (less, where negative) without it; None where the rest does not lead to the plan then.
    """

    first: int
    moves: tuple[Move, ...]
    blocks: int
    cost: Mapping[str, float]
    effect: Mapping[str, float]
    without: Mapping[str, float] | None = None


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
    shortened: dict[int, State] = {}
    for k, (_, group) in enumerate(groups if ablation else ()):
        rest = [move for _, later in groups[k + 1 :] for move in later]
        if (state := _without(states[k], group, rest, states[-1], shape)) is not None:
            shortened[k] = state
    plans = [*states, *shortened.values()]
    every = Costing(mesh, compute_dtype).costs(plans, lambda done: on_step(done, len(plans)))
    costs = every[: len(states)]
    lost = {k: differences(costs[-1], cost) for k, cost in zip(shortened, every[len(states) :], strict=True)}
    steps = (
        Step(
            first,
            group,
            len(states[k + 1][0].blocks),
            costs[k + 1],
            differences(costs[k], costs[k + 1]),
            lost.get(k),
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


def _without(
    before: State, moves: Sequence[Move], rest: Sequence[Move], finished: State, shape: MeshShape
) -> State | None:
    """What the rest of a history alone leads to after `before`, without these moves.

    None where the rest does not fit, or leaves blocks that the finished plan does not have: nothing was decided
    for these.
    """
    try:
        if any(is_structural(m) for m in (*moves, *rest)) or any(m.rule in LOOKING for m in rest):
            graph, placements = replay_plan(before[0], rest, shape, placements=before[1])
        else:
            graph, placements = finished[0], _undone(before[1], moves, rest, finished, shape)
    except (StaleMove, RuleError):
        return None
    if any(site not in finished[0].by_site for site in graph.by_site):
        return None
    return graph, placements


def _undone(
    before: Placements, moves: Sequence[Move], rest: Sequence[Move], finished: State, shape: MeshShape
) -> Placements:
    """The finished placements, but what these moves touched is as before, and as the rest changes that."""
    options = {name for m in moves if m.rule in PLAN_WIDE for name in m.places}
    sites = {site for m in moves if m.rule not in PLAN_WIDE for site in m.places}
    blocks = {site: p for site, p in finished[1].blocks.items() if site not in sites}
    blocks.update({site: p for site, p in before.blocks.items() if site in sites})
    changed: dict[str, Any] = {name: getattr(before, name) for name in options}
    again = []
    for move in rest:
        places = tuple(p for p in move.places if p in (options if move.rule in PLAN_WIDE else sites))
        if places:
            again.append(replace(move, place=places))
    start = replace(finished[1], blocks=blocks, **changed)
    return replay_plan(finished[0], again, shape, placements=start)[1]


def _cure(move: Move) -> str:
    """What to do about a move that does not fit."""
    if is_structural(move) and move.rule not in catalogue():
        return (
            "`tapestry rules` lists those that are known, `tapestry plugins` what is installed; install the plug-in "
            "that brings this one, or search again: the history is of another release, perhaps"
        )
    return "is this the program and the machine that the plan was found for? If so, search again: rules have changed"
