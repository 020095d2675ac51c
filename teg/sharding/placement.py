"""Placements: the part of a plan that does not change the graph, as one value per block plus plan-wide genes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tapestry.teg.brief import counted, shown
from tapestry.teg.graph import Block, Graph
from tapestry.teg.sharding.host import HOST, is_on_host
from tapestry.teg.sharding.rounds import Rounds, parse_rounds
from tapestry.teg.sharding.spec import WHOLE
from tapestry.teg.sharding.stages import Stages, parse_stages
from tapestry.teg.sharding.strategy import Strategy
from tapestry.teg.signature import PARALLEL

SCHEDULE_ORDERS = ("program", "update-early", "depth-first")


@dataclass(frozen=True)
class Placement:
    """The placement of one block: where and how it computes.

    `prefetch[k]` issues the copy for input k so many blocks ahead; `regather[k]` cuts the shared copy: it
    is freed after its previous reader and made again. `layouts`
    says per output in which physical layout it is left, `read_layouts` per input in which its root is
    read (another than it has is copied first): texts that the device understands, empty for its default.
    `part` is the part of the pipeline that the block is in, where the plan has stages.
    """

    strategy: Strategy
    prefetch: tuple[int, ...] = ()
    regather: tuple[bool, ...] = ()
    layouts: tuple[str, ...] = ()
    read_layouts: tuple[str, ...] = ()
    part: int = 0

    def prefetch_of(self, position: int) -> int:
        return self.prefetch[position] if position < len(self.prefetch) else 0

    def regather_of(self, position: int) -> bool:
        return self.regather[position] if position < len(self.regather) else False

    def layout_of(self, output: int) -> str:
        return self.layouts[output] if output < len(self.layouts) else ""

    def read_layout_of(self, position: int) -> str:
        return self.read_layouts[position] if position < len(self.read_layouts) else ""


# Fields of `Placements` that hold options of the plan, by their names in documents and moves.
PLAN_OPTIONS: Mapping[str, str] = {
    "order": "schedule_order",
    "inputs": "inputs",
    "outputs": "outputs",
    "devices": "devices",
    "micro_batches": "rounds",
    "stages": "stages",
}
_PARSED: Mapping[str, Callable[[str], Any]] = {"rounds": parse_rounds, "stages": parse_stages}


def plan_options(placements: Placements) -> dict[str, str]:
    """Return the options of a plan as texts; rounds and stages are empty where there are none."""
    values = {name: getattr(placements, member) for name, member in PLAN_OPTIONS.items()}
    return {name: "" if value is None else str(value) for name, value in values.items()}


def with_plan_option(placements: Placements, name: str, text: str) -> Placements:
    """Return the placements with an option of the plan set to what a text says.

    Raises:
        ValueError: the text does not say rounds, or stages.
    """
    member = PLAN_OPTIONS[name]
    value: Any = _PARSED[member](text) if member in _PARSED else text
    return replace(placements, **{member: value})


@dataclass(frozen=True)
class Placements:
    """The placement of each block (views have none) and the plan-wide genes: schedule order and boundary options.

    `inputs`: "chosen" (created in the spec the plan chooses) or "replicated". `outputs`: "sharded" or
    "gathered". `devices` names the submesh that works (`gpu:4`, see `MeshShape.part`); the rest is
    idle. Empty: all of it. `rounds` has a part of the program run several times, on slices of the data. With
    `stages`, `devices` is the submesh of one of them, and what is said of sub-axes is about its devices.
    """

    blocks: Mapping[str, Placement] = field(default_factory=dict)
    schedule_order: str = "program"
    inputs: str = "chosen"
    outputs: str = "sharded"
    devices: str = ""
    rounds: Rounds | None = None
    stages: Stages | None = None

    def __repr__(self) -> str:
        options = (
            f"schedule_order={self.schedule_order}",
            f"inputs={self.inputs}",
            f"outputs={self.outputs}",
        )
        return shown(
            "Placements", (counted(len(self.blocks), "block"), *options, f"devices={self.devices or 'all'}")
        )

    def of(self, block: Block) -> Placement:
        """Return the placement of a block; whole and replicated where none was given."""
        known = self.blocks.get(block.site)
        if known is not None:
            return known
        return whole_placement(block)


def whole_placement(block: Block) -> Placement:
    """Build the placement of a block by which every device computes everything, in the default layouts."""
    if is_on_host(block):
        return Placement(whole_strategy(block), layouts=(HOST,), read_layouts=(HOST,))
    return Placement(whole_strategy(block))


def whole_strategy(block: Block) -> Strategy:
    """Build the strategy of a block by which every device computes everything."""
    return Strategy((WHOLE,) * (0 if block.signature is None else len(block.signature.dims)))


def scheduled_blocks(graph: Graph, schedule_order: str) -> tuple[Block, ...]:
    """Return the blocks that take a slot (all but sources and views), in schedule order.

    Raises:
        ValueError: an unknown schedule order.
    """
    if schedule_order not in SCHEDULE_ORDERS:
        raise ValueError(f"unknown schedule order {schedule_order!r}; known are {', '.join(SCHEDULE_ORDERS)}")
    blocks = _ARRANGED[schedule_order](graph)
    return tuple(b for b in blocks if b.operator != "source" and not b.is_view)


def _depth_first(graph: Graph) -> list[Block]:
    """Sort the blocks, each right before the first that reads it: sinks in program order, operands before readers.

    Long programs that are written out step by step make much early that is read late; here nothing is. Blocks that
    wait for others (`after`) come behind them.
    """
    found: list[Block] = []
    known = set[str]()
    for last in (b for b in graph.blocks if b.operator in ("source", "sink")):
        waiting = [last]
        while waiting:
            block = waiting[-1]
            before = (
                *(graph.producers[t] for t in block.inputs),
                *map(graph.by_site.__getitem__, block.after),
            )
            missing = [b for b in before if b.site not in known]
            if missing and block.site not in known:
                waiting.extend(reversed(missing))
                continue
            waiting.pop()
            if block.site not in known:
                known.add(block.site)
                found.append(block)
    return found + [b for b in graph.blocks if b.site not in known]


def _is_parallel(block: Block) -> bool:
    return block.signature is not None and all(d.kind == PARALLEL for d in block.signature.dims)


def _updates_early(graph: Graph) -> list[Block]:
    """Sort the blocks, each update of carried state as soon as its inputs from the rest of the program are there.

    An update is what serves carried state alone and combines nothing: moments, new values, casts. It moves forward
    to where the last of its gradients is made, so that gradients do not wait for each other in memory.
    """
    named = {site for block in graph.blocks for site in block.after}
    serves: dict[str, bool] = {}
    for block in reversed(graph.blocks):
        readers = {r.site for t in block.outputs for r, _ in graph.readers[t]}
        last = block.definition.carries
        only = last or (bool(readers) and all(serves[r] for r in readers) and _is_parallel(block))
        serves[block.site] = only and block.site not in named
    ready: dict[str, int] = {}
    for number, block in enumerate(graph.blocks):
        before = [*(graph.producers[t].site for t in block.inputs), *block.after]
        ready[block.site] = max((ready[s] for s in before), default=-1) if serves[block.site] else number
    due: dict[str, int] = {}
    for block in reversed(graph.blocks):
        readers = {r.site for t in block.outputs for r, _ in graph.readers[t]}
        due[block.site] = min((due[r] for r in readers), default=ready[block.site])
        if not serves[block.site]:
            due[block.site] = ready[block.site]
    places = enumerate(graph.blocks)
    return [b for _, _, _, b in sorted((due[b.site], serves[b.site], k, b) for k, b in places)]


_ARRANGED: Mapping[str, Callable[[Graph], Sequence[Block]]] = {
    "program": lambda graph: graph.blocks,
    "update-early": _updates_early,
    "depth-first": _depth_first,
}
