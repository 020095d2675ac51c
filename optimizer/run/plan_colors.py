"""Colors of the blocks of a plan in its diagram: by stages where there are any, else by what is split over what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tapestry.optimizer.analysis.split_words import dimension_name
from tapestry.teg.drawn_graph import BlockLike
from tapestry.teg.graph import Block, Graph
from tapestry.teg.html_card import SERIES, series_class
from tapestry.teg.sharding.boundary import with_boundary
from tapestry.teg.sharding.placement import Placements
from tapestry.teg.sharding.possible_rounds import batch_dims

OTHERS = "others, or several"


class PlanColors:
    """The texts for which blocks have colors; `names` are those with one of their own, the most frequent first."""

    def __init__(self, graph: Graph, placements: Placements) -> None:
        bounded = with_boundary(graph, placements)
        batch = batch_dims(graph)
        self.title = "Stages" if placements.stages is not None else "Split over mesh axes"
        self._texts = {
            block.site: _stage(bounded, block)
            if placements.stages is not None
            else _split(graph, bounded, block, batch.get(block.site))
            for block in graph.blocks
            if block.operator not in ("source", "sink") and not block.is_view
        }
        counts = Counter(text for text in self._texts.values() if text)
        self.names = [text for text, _ in sorted(counts.items(), key=lambda each: (-each[1], each[0]))][
            : SERIES - 1
        ]
        groups = [*self.names, OTHERS]
        self._classes = {text: series_class(k) for k, text in enumerate(groups)}

    @property
    def legend(self) -> list[str]:
        """The texts of the colors, in their order."""
        return [*self.names, OTHERS] if self.names else []

    def class_of(self, blocks: Sequence[BlockLike]) -> str:
        """Return the class of a box that stands for these blocks; empty where none of them has a text."""
        texts = {self._texts.get(block.site, "") for block in blocks} - {""}
        if not texts:
            return ""
        own = next(iter(texts)) if len(texts) == 1 else OTHERS
        return self._classes.get(own, self._classes[OTHERS])


def _stage(placements: Placements, block: Block) -> str:
    return f"part {placements.of(block).part}"


def _split(graph: Graph, placements: Placements, block: Block, batch: int | None) -> str:
    """Return what is split over which axes, `batch over node, heads over gpu`; empty if nothing is."""
    if block.signature is None:
        return ""
    parts = []
    for k, split in enumerate(placements.of(block).strategy.splits):
        axes = dict.fromkeys(axis.rpartition(".")[0] or axis for axis in split.axes)
        if axes:
            parts.append(f"{dimension_name(graph, block, k, batch)} over {' and '.join(axes)}")
    return ", ".join(parts)
