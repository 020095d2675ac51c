"""Words for the decisions of a plan that need nothing but the plan: splits of its work, and its plan-wide genes.

Shares of work are those of the flops of matrix products, or of all blocks where a program has none.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from tapestry.costmodel.degrees import is_product
from tapestry.optimizer.placement.operand_dims import NAMED_SHARE, operand_dims
from tapestry.teg.brief import counted
from tapestry.teg.graph import Block, Graph
from tapestry.teg.sharding.placement import Placements
from tapestry.teg.sharding.plan_offload import plan_offload
from tapestry.teg.sharding.possible_rounds import batch_dims
from tapestry.teg.signature import PARALLEL

LETTERS = re.compile(
    r"[a-z]?[\d.]*", re.IGNORECASE
)  # names of index dimensions that say nothing: `m`, `d1`, `n.1`


def split_names(
    graph: Graph,
    placements: Placements,
    work: Iterable[tuple[Block, float]],
    names: Mapping[str, str],
    axis: str,
) -> list[tuple[str, float]]:
    """Return what the work is split by over a mesh axis, with the shares of the work, the largest first.

    `work` are blocks with their flops, `names` the axes by their sub-axes. Of blocks that split two dimensions over one
    axis both are named.
    """
    found, total, batch = defaultdict[str, float](float), 0.0, batch_dims(graph)
    weighed = [pair for pair in work if pair[0].signature is not None]
    products = [
        pair
        for pair in weighed
        if pair[0].signature is not None and is_product(pair[0].signature) and pair[1]
    ]
    for block, flops in products or weighed:
        assert block.signature is not None
        total += flops
        splits = placements.of(block).strategy.splits
        for name in {
            dimension_name(graph, block, k, batch.get(block.site))
            for k, split in enumerate(splits)
            if any(names[a] == axis for a in split.axes)
        }:
            found[name] += flops
    shares = [
        (name, flops / total) for name, flops in found.items() if total and flops >= NAMED_SHARE * total
    ]
    return sorted(shares, key=lambda each: (-each[1], each[0]))


def dimension_name(graph: Graph, block: Block, dim: int, batch: int | None) -> str:
    """Return a name for an index dimension of a block, for readers.

    That is its own if it is a word; otherwise what it is: the batch, sums, features that a weight makes, heads
    (products that stand side by side, of which neither operand is a weight), or rows.
    """
    assert block.signature is not None
    own = block.signature.dims[dim]
    if dim == batch:
        return "batch"
    if not LETTERS.fullmatch(own.name):
        return own.name
    if own.kind != PARALLEL:
        return "terms of sums"
    if not is_product(block.signature):
        return "rows"
    operands = operand_dims(graph, block)
    if dim in operands.of_all_factors:
        return "groups of weights" if any(operands.is_weight[k] for k in operands.factors) else "heads"
    return "features" if dim in operands.of_weights else "rows"


def percent(share: float) -> str:
    """Format a share in percent, of two digits at most."""
    return f"{100 * share:.0f} %" if share >= 0.095 else f"{100 * share:.2g} %"


def stages_in_words(placements: Placements) -> str:
    """Describe the pipeline of a plan; empty if there is none."""
    stages = placements.stages
    if stages is None:
        return ""
    name = "a schedule given by hand" if stages.is_by_hand else f"the schedule {stages.schedule}"
    return f"{counted(stages.count, 'stage')} take turns by {name}."


def rounds_in_words(placements: Placements) -> str:
    """Describe the micro-batches of a plan; empty if there are none."""
    rounds = placements.rounds
    if rounds is None:
        return ""
    return f"{rounds.count} rounds, each on a slice of dimension {rounds.dim} of {rounds.source}."


def recomputation_in_words(graph: Graph) -> str:
    """Describe what a program computes again; empty if that is nothing."""
    again = sum(1 for block in graph.blocks if block.repetition)
    verb = "computes" if again == 1 else "compute"
    return f"{counted(again, 'block')} {verb} a value again." if again else ""


def offload_in_words(graph: Graph, placements: Placements) -> str:
    """Describe what waits on the hosts; empty if that is nothing."""
    found = plan_offload(graph, placements)
    if found is None:
        return ""
    values = counted(found.values, "value") if found.values else ""
    states = counted(found.states, "tensor") + " of state" if found.states else ""
    what = " and ".join(text for text in (values, states) if text)
    return f"{what} wait on the hosts, {found.bytes:,} B before sharding."
