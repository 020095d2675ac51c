"""Explanation of a plan step by step: the cost of the program on the plan's mesh after each move.

The first costs are those of the original program, nothing placed: every device computes everything.
The last are the plan's. In between a step is costed with the placements that exist by then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from tapestry.costmodel.known_objectives import known_objectives
from tapestry.hardware.mesh import Mesh
from tapestry.hardware.stage_meshes import meshes_of_stages
from tapestry.optimizer.analysis.ablation import ablate
from tapestry.optimizer.analysis.plan_costs import PlanCosts, State, cost_differences, pipeline_of
from tapestry.rewrites import (
    PLACEMENT,
    Move,
    RuleError,
    StaleMove,
    catalog,
    is_structural,
    replay_plan,
)
from tapestry.teg.brief import counted, shown
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placements
from tapestry.teg.sharding.plan_offload import PlanOffload, plan_offload
from tapestry.teg.sharding.plan_stages import PlanStages, plan_stages

OPTION_DOC = "An option of the whole plan is set."

Report = Callable[[int, int], None]


class StaleHistory(ValueError):
    """Error raised when a history cannot be replayed: the number of the move, the reason, and the remedy."""


@dataclass(frozen=True)
class ExplanationStep:
    """A move, or several saturating ones in a row; `first` is the number of the first of them, from 0.

    `cost` is the cost of the program after it, `effect` its change. `ablation` is how much more the finished plan
    would cost (less, where negative) without it (None: not requested); `gone_with` numbers the later moves that
    build on it and are left out then too, in whole or at some of their places.
    """

    first: int
    moves: tuple[Move, ...]
    blocks: int
    cost: Mapping[str, float]
    effect: Mapping[str, float]
    ablation: Mapping[str, float] | None = None
    gone_with: tuple[int, ...] = ()

    def __repr__(self) -> str:
        more = f"and {len(self.moves) - 1} more" if len(self.moves) > 1 else ""
        return shown(
            "ExplanationStep", (f"{self.first}: {self.moves[0]}", more, counted(self.blocks, "block"))
        )


@dataclass(frozen=True)
class Explanation:
    """The steps of a plan, from the costs of the original program (`start`) on.

    `devices` is the submesh that works, empty for all; with a `pipeline`, that of each of its stages. `stage_devices`
    names the devices of each stage where they differ. `offload` is what lies on the hosts.
    """

    start: Mapping[str, float]
    steps: tuple[ExplanationStep, ...]
    devices: str
    pipeline: PlanStages | None = None
    stage_devices: tuple[str, ...] = ()
    offload: PlanOffload | None = None

    def __repr__(self) -> str:
        return shown("Explanation", (counted(len(self.steps), "step"), f"devices={self.devices}"))

    @property
    def cost(self) -> Mapping[str, float]:
        """The cost of the plan."""
        return self.steps[-1].cost if self.steps else self.start


def explain(
    graph: Graph,
    moves: Sequence[Move],
    mesh: Mesh,
    *,
    compute_dtype: str | None = None,
    single: bool = False,
    ablation: bool = False,
    objectives: Sequence[str] = (),
    on_step: Report = lambda done, total: None,
) -> Explanation:
    """Replay a plan's history on the program it starts from (`searched`), and cost it after every step.

    Costs are those of the catalog, of the program's own resources and of the expressions among `objectives`.
    `single` puts each saturating move in a step of its own, too. `ablation` costs the plan without each step as well.
    `on_step(done, total)` is called with the number of programs costed.

    Raises:
        StaleHistory: a move does not fit, or its rule is not known here.
        ValueError: an objective is not known.
    """
    known = known_objectives(graph)
    known = known.including([known.named(name) for name in objectives])
    groups = _grouped(moves, single)
    mesh_shape = MeshShape(mesh.axis_sizes)
    states: list[State] = [(graph, Placements())]
    for first, group in groups:
        states.append(_after(states[-1], group, mesh_shape, first, len(moves)))
    numbered = list(enumerate(moves))
    shortened = [
        ablate(states[k], group, numbered[first + len(group) :], states[-1], mesh_shape)
        for k, (first, group) in enumerate(groups if ablation else ())
    ]
    plans = [*states, *(left.state for left in shortened)]
    every = PlanCosts(mesh, compute_dtype, known=known).costs(plans, lambda done: on_step(done, len(plans)))
    costs = every[: len(states)]
    lost = [cost_differences(costs[-1], cost) for cost in every[len(states) :]]
    steps = (
        ExplanationStep(
            first,
            group,
            len(states[k + 1][0].blocks),
            costs[k + 1],
            cost_differences(costs[k], costs[k + 1]),
            lost[k] if lost else None,
            shortened[k].gone_with if shortened else (),
        )
        for k, (first, group) in enumerate(groups)
    )
    return Explanation(
        costs[0],
        tuple(steps),
        states[-1][1].devices,
        plan_stages(*states[-1]),
        _stage_devices(*states[-1], mesh),
        plan_offload(*states[-1]),
    )


def _stage_devices(graph: Graph, placements: Placements, mesh: Mesh) -> tuple[str, ...]:
    """Return the names of the devices of each stage; none without stages, or if all are of one kind."""
    pipeline = pipeline_of(graph, placements, MeshShape(mesh.axis_sizes))
    if pipeline is None:
        return ()
    meshes = meshes_of_stages(mesh, pipeline.layout)
    if len(meshes.kinds) == 1:
        return ()
    return tuple(meshes.of(stage).device.name for stage in range(pipeline.stages.count))


def first_line(rule: str) -> str:
    """Return the first line of a rule's description; empty for a rule that is not known here."""
    docs = {r.name: r.doc for r in PLACEMENT} | {name: r.doc for name, r in catalog().items()}
    return OPTION_DOC if rule == "set_option" else docs.get(rule, "").partition("\n")[0]


def _grouped(moves: Sequence[Move], single: bool) -> list[tuple[int, tuple[Move, ...]]]:
    """Group the moves into steps, with the number of the first move of each."""
    rules = catalog()

    def kind(numbered: tuple[int, Move]) -> int:
        k, move = numbered
        saturates = is_structural(move) and move.rule in rules and rules[move.rule].saturating
        return -1 if saturates and not single else k

    groups = (list(group) for _, group in groupby(enumerate(moves), key=kind))
    return [(group[0][0], tuple(move for _, move in group)) for group in groups]


def _after(state: State, moves: Sequence[Move], mesh_shape: MeshShape, first: int, count: int) -> State:
    """Apply the moves of one step to a state; raise `StaleHistory` if one does not fit."""
    graph, placements = state
    for k, move in enumerate(moves, start=first + 1):
        try:
            graph, placements = replay_plan(graph, [move], mesh_shape, placements=placements)
        except (StaleMove, RuleError) as error:
            raise StaleHistory(f"move {k} of {count} cannot be replayed: {error}; {_hint(move)}") from error
    return graph, placements


def _hint(move: Move) -> str:
    """Suggest a remedy for a move that does not fit."""
    if is_structural(move) and move.rule not in catalog():
        return (
            "`tapestry rules` lists those that are known, `tapestry plugins` what is installed; install the plug-in "
            "that brings this one, or search again: the history is of another release, perhaps"
        )
    return "is this the program and the mesh that the plan was found for? If so, search again: rules have changed"
