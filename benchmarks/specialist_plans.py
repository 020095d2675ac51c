"""Plans as a specialist would write them by hand: one recipe per scheme, applied to an imported graph.

A recipe names dimensions by what a person knows of the model (its sequence, heads, hidden width, batch,
rows); blocks that have the first of them are split there over the whole mesh, the others stay whole, and
sources are sharded as their first reader needs them. Nothing here uses the search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tapestry.teg.graph import Block, Graph
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements, whole_strategy
from tapestry.teg.sharding.spec import WHOLE, Split
from tapestry.teg.sharding.strategy import Strategy, consumer_spec, read_of, splittable

Preference = Callable[[Block, int], bool]
"""A test whether index dimension k of a block is the one meant."""


@dataclass(frozen=True)
class Recipe:
    """A scheme by name, and the dimensions it splits, the most preferred first."""

    name: str
    preferences: tuple[Preference, ...]


def of_size(size: int) -> Preference:
    """Build the preference for the first dimension of a block that has this size."""

    def preference(block: Block, k: int) -> bool:
        sizes = [d.size for d in block.signature.dims] if block.signature is not None else []
        return sizes[k] == size and k == sizes.index(size)

    return preference


def image_rows(block: Block, k: int) -> bool:
    """Return whether dimension `k` is the rows of images: the third over `[batch, channels, rows, columns]`."""
    names = [d.name for d in block.signature.dims] if block.signature is not None else []
    return names[k] == "y0" or (names[:4] == ["d0", "d1", "d2", "d3"] and k == 2)


def tensor_parallel(heads: int, hidden: int, vocabulary: int) -> Recipe:
    """Build Megatron's scheme: split heads, then the hidden width of the feed-forward block, then the vocabulary.

    Source: Shoeybi et al., Megatron-LM, arXiv:1909.08053, section 3.
    """
    return Recipe("tensor parallel", (of_size(heads), of_size(hidden), of_size(vocabulary)))


def tensor_and_sequence_parallel(heads: int, hidden: int, vocabulary: int, sequence: int) -> Recipe:
    """Build the tensor-parallel scheme, with everything between split along the sequence.

    Source: Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models,
    arXiv:2205.05198, section 4.2.
    """
    preferences = (*tensor_parallel(heads, hidden, vocabulary).preferences, of_size(sequence))
    return Recipe("tensor and sequence parallel", preferences)


def data_parallel(batch: int) -> Recipe:
    """Build the scheme that splits every block along the batch, with parameters on every device."""
    return Recipe("data parallel", (of_size(batch),))


def spatial() -> Recipe:
    """Build the scheme that splits images along their rows, with halos exchanged.

    Source: Dryden et al., Improving Strong-Scaling of CNN Training by Exploiting Finer-Grained Parallelism,
    IPDPS 2019.
    """
    return Recipe("spatial split", (image_rows,))


def lay(recipe: Recipe, graph: Graph, mesh_shape: MeshShape) -> Placements:
    """Compute the recipe's placements on the whole of the mesh."""
    axes = tuple(s.name for s in mesh_shape.sub_axes)
    placed = {
        b.site: Placement(_strategy(recipe.preferences, b, axes))
        for b in graph.blocks
        if b.operator not in ("source", "view")
    }
    for source in graph.sources:
        placed[source.site] = Placement(_where_read(graph, source, placed))
    return Placements(placed)


def _strategy(preferences: Sequence[Preference], block: Block, axes: tuple[str, ...]) -> Strategy:
    if block.signature is None:
        return Strategy()
    allowed = splittable(block.signature)
    splits = [WHOLE] * len(allowed)
    for preference in preferences:
        wanted = [k for k in range(len(allowed)) if allowed[k] and preference(block, k)]
        if wanted:
            splits[wanted[0]] = Split(axes)
            break
    return Strategy(tuple(splits))


def _where_read(graph: Graph, source: Block, placed: dict[str, Placement]) -> Strategy:
    """Infer a source's strategy: the sharding its first reader needs, where that is a plain split; whole otherwise."""
    tensor = source.outputs[0]
    for block in graph.blocks:
        for k in range(len(block.inputs)):
            if block.site not in placed or read_of(graph, block.site, k).root != tensor:
                continue
            read = read_of(graph, block.site, k)
            spec = consumer_spec(
                read.rows, graph.tensors[tensor].shape, block.signature, placed[block.site].strategy
            )
            return whole_strategy(source) if spec.is_windowed else Strategy(spec.dims)
    return whole_strategy(source)
