"""The sharding of a plan in words: what is split over which mesh axes, what is gathered, and what that costs.

Everything follows from the plan. Shares of work are those of the flops of matrix products, or of all blocks where a
program has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tapestry.optimizer.analysis.plan_traffic import PlanTraffic, Redistribution
from tapestry.optimizer.analysis.split_words import (
    offload_in_words,
    percent,
    recomputation_in_words,
    rounds_in_words,
    split_names,
    stages_in_words,
)
from tapestry.optimizer.placement.operand_dims import WEIGHTS
from tapestry.teg.brief import counted, enumerated
from tapestry.teg.graph import Block
from tapestry.teg.model_layers import model_layers
from tapestry.teg.sharding.boundary import with_boundary
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placements
from tapestry.teg.tensor_roles import PARAMETERS, TENSOR_ROLES, tensor_roles

HEADLINE_SHARE = 0.5  # of the largest share, from which on a split is in the headline
GATHERED_SHARE = 0.2  # of the weights, from which on the headline says that they are gathered
NEARLY_ALL = 0.995  # of the weights, from which on the headline does not say how many they are
SAME = 0.005  # relative difference that is none
GATHERS = ("all_gather", "broadcast")
REDUCED = {
    "reduce_scatter": "reduce-scattered",
    "all_reduce": "all-reduced",
}  # in the order of the steps of a copy


def words_of(
    placements: Placements,
    mesh_axes: Sequence[tuple[str, int]],
    traffic: PlanTraffic,
    cost: Mapping[str, float],
    fastest: Mapping[str, float] | None,
) -> dict[str, Any]:
    """Describe a plan in a `headline` and in `sentences`, each with its `topic`.

    `mesh_axes` are those of the whole mesh, `cost` are the plan's costs and `fastest` those of the fastest plan of its
    run; None if it is the plan itself.
    """
    words = _Words(placements, mesh_axes, traffic, cost, fastest)
    topics: tuple[tuple[str, Callable[[], str]], ...] = (
        ("Devices", words.devices),
        ("Work", words.splits),
        ("Weights", words.weights),
        ("Sums", words.sums),
        ("Other moves", words.others),
        ("Pipeline", words.stages),
        ("Micro-batches", words.rounds),
        ("Recomputation", words.recomputation),
        ("Offload", words.offload),
        ("Compared", words.comparison),
    )
    sentences = [(topic, write()) for topic, write in topics]
    return {
        "headline": "; ".join(part for part in words.headline() if part),
        "sentences": [{"topic": topic, "text": text} for topic, text in sentences if text],
    }


class _Words:
    def __init__(
        self,
        placements: Placements,
        mesh_axes: Sequence[tuple[str, int]],
        traffic: PlanTraffic,
        cost: Mapping[str, float],
        fastest: Mapping[str, float] | None,
    ) -> None:
        self.graph = traffic.program.abstract
        self.placements = with_boundary(self.graph, placements)
        self.mesh_axes, self.traffic, self.cost, self.fastest = mesh_axes, traffic, cost, fastest
        self.shape = traffic.program.mesh_shape
        weights = [block for block in self.graph.sources if block.definition.get("role") == WEIGHTS]
        self.weights_bytes = {
            block: self.graph.tensors[block.outputs[0]].type.size_bytes for block in weights
        }
        self.roles = tensor_roles(self.graph)
        work = [
            (b, float(traffic.blocks[b.site].flops)) for b in self.graph.blocks if b.site in traffic.blocks
        ]
        names = {s.name: s.axis for s in self.shape.sub_axes}
        self.split_names = {
            axis: split_names(self.graph, self.placements, work, names, axis)
            for axis, size in self.shape.axes
            if size > 1
        }

    def headline(self) -> Iterator[str]:
        """Yield what is most important, in a few words each."""
        axes_by_text: dict[str, list[str]] = {}
        for axis, names in self.split_names.items():
            if names:
                text = enumerated([name for name, share in names if share >= HEADLINE_SHARE * names[0][1]])
                axes_by_text.setdefault(text, []).append(axis)
        over = [f"{text} over {enumerated(axes)}" for text, axes in axes_by_text.items()]
        repeated = (
            "most work is repeated on every device"
            if self._splits_any()
            else "every device computes everything"
        )
        yield ", ".join(over) or (
            repeated if len(self.traffic.devices) > 1 else "one device computes everything"
        )
        yield self._weights_in_short()
        if self.placements.stages is not None:
            yield counted(self.placements.stages.count, "stage")
        if self.placements.rounds is not None:
            yield f"{self.placements.rounds.count} micro-batches"
        yield self._headline_comparison()

    def devices(self) -> str:
        count, whole = len(self.traffic.devices), MeshShape(tuple(self.mesh_axes)).device_count
        axes = " × ".join(f"{size} {name}" for name, size in self.shape.axes)
        stages = self.placements.stages
        places = axes if stages is None else f"{counted(stages.count, 'stage')} of {axes}"
        if count == whole:
            return f"All {counted(whole, 'device')} work, {places}."
        return f"{count} of {counted(whole, 'device')} work, {places}."

    def splits(self) -> str:
        """Describe what the work is split by, over each mesh axis."""
        parts = []
        for axis, names in self.split_names.items():
            texts = [f"{name} ({percent(share)} of the work)" for name, share in names]
            parts += [f"over {axis}: {enumerated(texts)}"] if texts else []
        left = [axis for axis, names in self.split_names.items() if not names]
        texts = [f"Split {'; '.join(parts)}."] if parts else []
        texts += [f"Devices along {enumerated(left)} repeat the same work."] if left else []
        return " ".join(texts)

    def weights(self) -> str:
        """Describe how weights are stored, and what of them is gathered."""
        if not self.weights_bytes:
            return ""
        total = sum(self.weights_bytes.values())
        over = []
        for axis, size in self.shape.axes:
            split = sum(n for block, n in self.weights_bytes.items() if axis in self._axes_of(block))
            if size > 1 and total and split:
                over.append(f"{percent(split / total)} of their bytes are split over {axis}")
        stored = enumerated(over) if over else "each device has all of them"
        gathered, others = self._weight_copies()
        updates = [each for each in self._other_copies() if self.roles[each.tensor] == PARAMETERS]
        texts = [_doing(gathered, "gather", "them before they are read")] if gathered else []
        texts += [_doing(others, "move", "them otherwise")] if others else []
        texts += [
            _doing(mine, verb, "their new values")
            for verb, mine in zip(("gather", "move"), _gathers_and_others(updates), strict=True)
            if mine
        ]
        return _sentence("; ".join([stored, *texts]))

    def sums(self) -> str:
        """Describe what becomes of partial results, each copy once; some are reduced in two steps."""
        groups: dict[tuple[str, ...], list[Redistribution]] = {}
        for each in self.traffic.redistributions:
            if each.source.spec.partial and each.exchanges:
                kinds = {of.kind for of in each.exchanges}
                groups.setdefault(tuple(kind for kind in REDUCED if kind in kinds), []).append(each)
        texts = []
        for kinds_of_group, mine in groups.items():
            done = []
            for kind in kinds_of_group:
                axes = {of.axis: None for each in mine for of in each.exchanges if of.kind == kind}
                done.append(f"{REDUCED[kind]} over {enumerated(list(axes))}")
            texts.append(f"{enumerated(done) or 'moved'} in {_moved(mine)}")
        return f"Partial results are {'; '.join(texts)}." if texts else ""

    def others(self) -> str:
        """Describe what is redistributed beside weights, their new values and partial results."""
        found = [each for each in self._other_copies() if self.roles[each.tensor] != PARAMETERS]
        between = [each for each in found if each.source.stage != each.result.stage]
        within = [each for each in found if each.source.stage == each.result.stage]
        by_role = {role: [e for e in within if self.roles[e.tensor] == role] for role in TENSOR_ROLES}
        texts = [_doing(mine, "change", f"the sharding of {role}") for role, mine in by_role.items() if mine]
        texts += [_doing(between, "bring", "values from stage to stage")] if between else []
        local = [each for each in self.traffic.redistributions if not each.exchanges]
        texts += [_doing(local, "rearrange", "what devices hold already")] if local else []
        return _sentence(enumerated(texts))

    def stages(self) -> str:
        return stages_in_words(self.placements)

    def rounds(self) -> str:
        return rounds_in_words(self.placements)

    def recomputation(self) -> str:
        return recomputation_in_words(self.graph)

    def offload(self) -> str:
        return offload_in_words(self.graph, self.placements)

    def comparison(self) -> str:
        if self.fastest is None:
            return "No plan of the run is faster."
        texts = [
            self._compared("peak_memory_bytes", "memory on the fullest device"),
            self._compared("time_s", "time"),
            self._compared("traffic_bytes", "traffic"),
        ]
        return f"Beside the fastest plan of the run: {enumerated([text for text in texts if text])}."

    def _headline_comparison(self) -> str:
        if self.fastest is None:
            return "the fastest plan of its run"
        return self._compared(
            "peak_memory_bytes", "memory", ("than the fastest", "as the fastest", "of the fastest")
        )

    def _compared(self, name: str, what: str, others: tuple[str, str, str] = ("", "", "")) -> str:
        """Compare a cost with that of the fastest plan: `31 % less memory`.

        `others` name the fastest plan behind `than`, `as` and `of`, where the sentence does not.
        """
        assert self.fastest is not None
        own, other = self.cost.get(name), self.fastest.get(name)
        if own is None or other is None or own == other == 0:
            return ""
        than, as_much, of = (f" {text}" if text else "" for text in others)
        if own == 0:
            return f"no {what}"
        if other == 0 or 1 + SAME <= own / other < 2:
            by = f"{percent(own / other - 1)} " if other else ""
            return f"{by}more {what}{than}"
        if own >= 2 * other:
            return f"{own / other:.3g} times the {what}{of}"
        if own < 0.01 * other:
            return f"{percent(own / other)} of the {what}{of}"
        if own <= (1 - SAME) * other:
            return f"{percent(1 - own / other)} less {what}{than}"
        return f"{'' if own == other else 'about '}as much {what}{as_much}"

    def _weights_in_short(self) -> str:
        if not self.weights_bytes:
            return ""
        gathered = {each.tensor for each in self._weight_copies()[0]}
        sizes = {block.outputs[0]: size for block, size in self.weights_bytes.items()}
        total = sum(sizes.values())
        moved = sum(sizes[tensor] for tensor in gathered)
        if moved >= GATHERED_SHARE * total > 0:
            layers = model_layers(self.graph)
            when = "per layer" if len({layers.get(t) for t in gathered}) > 1 else "before use"
            return f"{_share_of_weights(moved / total)} gathered {when}"
        split = sum(size for block, size in self.weights_bytes.items() if self._axes_of(block))
        if not split or not total:
            return "weights replicated"
        return f"{_share_of_weights(split / total)} stay split"

    def _weight_copies(self) -> tuple[list[Redistribution], list[Redistribution]]:
        """Return the copies of weights that gather, and those that move them otherwise."""
        mine = [
            each
            for each in self.traffic.redistributions
            if each.exchanges and self.graph.producers[each.tensor].definition.get("role") == WEIGHTS
        ]
        return _gathers_and_others(mine)

    def _other_copies(self) -> list[Redistribution]:
        """Return the copies that exchange what is neither a weight nor a partial result."""
        weights = {id(each) for both in self._weight_copies() for each in both}
        return [
            each
            for each in self.traffic.redistributions
            if id(each) not in weights and not each.source.spec.partial and each.exchanges
        ]

    def _splits_any(self) -> bool:
        """Return whether any block that computes is split."""
        return any(self._axes_of(self.graph.by_site[site]) for site in self.traffic.blocks)

    def _axes_of(self, block: Block) -> set[str]:
        """Return the mesh axes over which the strategy of a block splits anything."""
        names = {s.name: s.axis for s in self.shape.sub_axes}
        return {names[a] for split in self.placements.of(block).strategy.splits for a in split.axes}


def _gathers_and_others(
    found: Sequence[Redistribution],
) -> tuple[list[Redistribution], list[Redistribution]]:
    gathers, others = list[Redistribution](), list[Redistribution]()
    for each in found:
        (gathers if all(of.kind in GATHERS for of in each.exchanges) else others).append(each)
    return gathers, others


def _share_of_weights(share: float) -> str:
    return "weights" if share >= NEARLY_ALL else f"{percent(share)} of the weights"


def _doing(redistributions: Sequence[Redistribution], verb: str, what: str) -> str:
    """Say what copies do: `2 copies (384 KiB) gather them`, `1 copy (192 KiB) gathers them`."""
    is_one = sum(each.times for each in redistributions) == 1
    return f"{_moved(redistributions)} {verb}{'s' if is_one else ''} {what}"


def _moved(redistributions: Sequence[Redistribution]) -> str:
    times = sum(each.times for each in redistributions)
    size = sum(each.traffic_bytes for each in redistributions)
    return f"{times:,} {'copy' if times == 1 else 'copies'} ({_size(size)})"


def _size(size_bytes: int) -> str:
    for factor, unit in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.4g} {unit}"
    return f"{size_bytes} B"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}." if text else ""
