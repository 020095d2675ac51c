"""Placement rules: how a block is sharded, when its inputs come, how its outputs and inputs are stored.

Each is a record of the effect that a choice has on a block's placement.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from inspect import cleandoc

from tapestry.hardware.layouts.dimension_order import parse_dimension_order
from tapestry.teg.graph import Block, Graph
from tapestry.teg.sharding.host import HOST
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import WHOLE, Spec, Split
from tapestry.teg.sharding.strategy import Strategy, consumer_spec, read_of
from tapestry.teg.sharding.text import parse_strategy


@dataclass(frozen=True)
class PlacementSite:
    """A block of a plan, at which a placement rule is applied."""

    graph: Graph
    placements: Placements
    block: Block
    mesh_shape: MeshShape

    @property
    def placement(self) -> Placement:
        return self.placements.of(self.block)


@dataclass(frozen=True)
class PlacementRule:
    """A rule that changes one block's placement: `apply` takes a choice's text.

    It raises ValueError for a text that it cannot parse.
    """

    name: str
    doc: str
    source: str
    apply: Callable[[PlacementSite, str], Placement]
    kind: str = "placement"

    def __post_init__(self) -> None:
        object.__setattr__(self, "doc", cleandoc(self.doc))


def _reshard(spot: PlacementSite, choice: str) -> Placement:
    signature = spot.block.signature
    rank = len(signature.dims) if signature is not None else 0
    return replace(spot.placement, strategy=_parsed(choice, rank))


@lru_cache(maxsize=4096)
def _parsed(choice: str, rank: int) -> Strategy:
    """Parse a move's choice, once however many places it has."""
    return parse_strategy(choice, rank)


def _source_reads(spot: PlacementSite) -> dict[str, tuple[Block, int]]:
    """Find the readers of a source, direct or through views, as `site:position`."""
    if spot.block.operator != "source":
        return {}
    reached = list(spot.block.outputs)
    found: dict[str, tuple[Block, int]] = {}
    for tensor in reached:
        for block, position in spot.graph.readers[tensor]:
            if block.is_view:
                reached.extend(block.outputs)
            else:
                found[f"{block.site}:{position}"] = (block, position)
    return found


def _follow(spot: PlacementSite, choice: str) -> Placement:
    reads = _source_reads(spot)
    if choice not in reads:
        raise ValueError(
            f"expected one of its readers {', '.join(reads) or '(there are none)'}, not {choice!r}"
        )
    block, position = reads[choice]
    tensor = spot.graph.tensors[spot.block.outputs[0]]
    rows = read_of(spot.graph, block.site, position).rows
    strategy = spot.placements.of(block).strategy
    needed = consumer_spec(rows, tensor.shape, block.signature, strategy)
    return replace(
        spot.placement, strategy=Strategy(tuple(_produced_split(needed, k) for k in range(len(needed.dims))))
    )


def _produced_split(needed: Spec, dim: int) -> Split:
    """Return the split of a source dimension whose chunks start where windows start."""
    split, window = needed.dims[dim], needed.window(dim)
    if window is None or not split.axes:
        return Split(split.axes, split.granule) if split.axes else WHOLE
    return Split(split.axes, split.granule * max(1, abs(window.stride)))


def _prefetch(spot: PlacementSite, choice: str) -> Placement:
    position, text = _input_of(spot, choice)
    if not text.isdecimal():
        raise ValueError(f"expected 'input:blocks ahead' such as '0:2', not {choice!r}")
    distances = [spot.placement.prefetch_of(k) for k in range(len(spot.block.inputs))]
    distances[position] = int(text)
    return replace(spot.placement, prefetch=tuple(distances))


def _regather(spot: PlacementSite, choice: str) -> Placement:
    position, text = _input_of(spot, choice)
    if text not in ("on", "off"):
        raise ValueError(f"expected 'input:on' or 'input:off', not {choice!r}")
    flags = [spot.placement.regather_of(k) for k in range(len(spot.block.inputs))]
    flags[position] = text == "on"
    return replace(spot.placement, regather=tuple(flags))


def _input_of(spot: PlacementSite, choice: str) -> tuple[int, str]:
    """Split `position:rest` into the input position and the rest."""
    return _numbered(choice, "input", len(spot.block.inputs))


def _numbered(choice: str, what: str, count: int) -> tuple[int, str]:
    number, _, text = choice.partition(":")
    if not number.isdecimal() or int(number) >= count:
        raise ValueError(f"expected an {what} below {count} before ':', not {choice!r}")
    return int(number), text


def _layout(text: str, rank: int) -> str:
    """Return the layout that a text says: a dimension order, or the memory of the host."""
    return text if text == HOST else str(parse_dimension_order(text, rank))


def _store_as(spot: PlacementSite, choice: str) -> Placement:
    outputs = spot.block.outputs
    position, text = _numbered(choice, "output", len(outputs))
    layout = _layout(text, len(spot.graph.tensors[outputs[position]].shape))
    layouts = [spot.placement.layout_of(k) for k in range(len(outputs))]
    layouts[position] = layout
    return replace(spot.placement, layouts=tuple(layouts) if any(layouts) else ())


def _read_as(spot: PlacementSite, choice: str) -> Placement:
    position, text = _input_of(spot, choice)
    root = read_of(spot.graph, spot.block.site, position).root
    layout = _layout(text, len(spot.graph.tensors[root].shape))
    layouts = [spot.placement.read_layout_of(k) for k in range(len(spot.block.inputs))]
    layouts[position] = layout
    return replace(spot.placement, read_layouts=tuple(layouts) if any(layouts) else ())


def _assign(spot: PlacementSite, choice: str) -> Placement:
    if not choice.isdecimal():
        raise ValueError(f"expected the number of a part, not {choice!r}")
    return replace(spot.placement, part=int(choice))


PLACEMENT: tuple[PlacementRule, ...] = (
    PlacementRule(
        name="reshard",
        doc="""
        A block computes elsewhere.

        strategy  ->  the strategy of the choice
        Where every dimension that is split may be: strategies never change values, only who computes them.
        """,
        source="Xu et al., GSPMD, 2021, section 3",
        apply=_reshard,
    ),
    PlacementRule(
        name="follow",
        doc="""
        An input of the program is created as one of its readers needs it.

        strategy of a source  ->  what the reader of the choice (`site:position`) needs
        Inputs are created in the spec a plan chooses, at no cost, so the copy to that reader disappears.
        """,
        source="Xu et al., GSPMD, 2021, section 3.5 (propagation)",
        apply=_follow,
    ),
    PlacementRule(
        name="prefetch",
        doc="""
        The copy for an input is issued earlier.

        input k  ->  its copy starts so many blocks ahead (choice `k:blocks`)
        Always: it overlaps with computation, and its buffer lives longer.
        """,
        source="Rajbhandari et al., ZeRO-Infinity, SC 2021, section 6.2 (overlap-centric design)",
        apply=_prefetch,
    ),
    PlacementRule(
        name="regather",
        doc="""
        A shared copy is dropped and made again for an input.

        input k  ->  a copy of its own from here on (choice `k:on`), or shared again (`k:off`)
        Always: memory for traffic.
        """,
        source="Rajbhandari et al., ZeRO, SC 2020, section 5.3 (parameters gathered at use)",
        apply=_regather,
    ),
    PlacementRule(
        name="assign",
        doc="""
        A block is in another part of the pipeline.

        part  ->  the part of the choice, which stages are dealt in turn
        Where the plan has stages: what a stage lacks is sent there by the one that made it.
        """,
        source="Huang et al., GPipe, NeurIPS 2019, section 2.2; Narayanan et al., 2021, section 2.2 (interleaved)",
        apply=_assign,
    ),
    PlacementRule(
        name="store_as",
        doc="""
        An output is left in another physical layout.

        output k  ->  its dimensions in the order of the choice (`k:{3*2,1,0}`, minor to major; `k:` the program's)
        Always: values stay what they are. Padding differs, and readers that want another order get a copy. State may
        lie in the memory of the host (`0:host`).
        """,
        source="XLA tiled layout; XLA's layout assignment",
        apply=_store_as,
    ),
    PlacementRule(
        name="read_as",
        doc="""
        A block reads an input in another physical layout.

        input k  ->  its root's dimensions in the order of the choice (`k:{3*2,1,0}`); copied first if stored otherwise
        Always: a relayout costs time and memory, never values.
        """,
        source="XLA tiled layout; XLA's layout assignment",
        apply=_read_as,
    ),
)
