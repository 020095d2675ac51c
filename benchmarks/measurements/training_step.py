"""Iterations of GPT training on many nodes: hyper-parameters of a row become a step, placements and a pipeline.

What a row does not state has these defaults. Of the degrees of parallelism and the samples in a micro-batch, the
fastest that fit in memory count, as people report their best. Tensor parallelism stays within a node, on the fastest
links; data parallelism comes next, stages of the pipeline are farthest apart. Pipelines work by 1F1B; where they are
said to be interleaved, in as many parts as are fastest. Stages have the same number of layers, or one more in the
middle. What fits in memory is counted as by the search, with what a process takes beside its tensors. With
recomputation, attention stores its scores, as Megatron-LM did then, and states of the optimizer are everywhere;
without, attention is one kernel, and positions and states are divided, too (sequence parallelism, distributed
optimizer), as in Megatron-Core. The backward pass reduces gradients of inputs while it computes those of weights, and
gathers again what these need while it computes those of inputs (arXiv:2205.05198, section 4.2.2).
Copies between stages are divided among tensor-parallel devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd
from typing import Any

from benchmarks.measurements.gpt import FULL, SELECTIVE, STORED, Step, layer_sizes
from benchmarks.measurements.named_programs import Axes, NamedBuilder, outer_and_inner
from benchmarks.measurements.rows import Question
from benchmarks.measurements.systems import RankGroup, Systems
from benchmarks.measurements.workload import DTYPES, UnpredictedError, whole
from tapestry.hardware.mesh import Mesh
from tapestry.optimizer.analysis.plan_costs import PlanCosts
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placements
from tapestry.teg.sharding.rounds import Rounds
from tapestry.teg.sharding.stages import Stages

NODE = 8  # devices
MOST_TRIED = 4  # ways to divide the work for which several sizes of micro-batches are tried
UNITS = (
    ("iteration_time", "s"),
    ("achieved_flops_per_gpu", "FLOP/s"),
    ("tokens_per_s_per_gpu", "token/s"),
    ("mfu", "fraction"),
)
PRECISIONS = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32"}
# Methods that shard states over the data by themselves (arXiv:2201.12023, section 4.2).
SHARDING = ("intra_only", "auto")
RECOMPUTE = {
    "none": STORED,
    "full": FULL,
    "selective": SELECTIVE,
    "sequence_parallel+selective": SELECTIVE,
}


@dataclass(frozen=True)
class Degrees:
    """A way to divide a step: degrees of parallelism, samples in a micro-batch, and parts of the model per stage."""

    tensor: int
    pipeline: int
    data: int
    samples: int = 1
    parts: int = 1


@dataclass(frozen=True)
class HyperParameters:
    """The hyper-parameters of a step: sizes of the model and the batch, and what the row says of how it ran."""

    layers: int
    hidden: int
    heads: int
    length: int
    words: int
    batch: int
    dtype: str
    recompute: str
    sequence: bool
    is_fused: bool
    states: int

    @property
    def step_flops(self) -> float:
        """Compute the flops of an iteration, those of full recomputation included.

        Source: Narayanan et al., arXiv:2104.04473, equation 3; without recomputation arXiv:2205.05198, equation 7.
        """
        times = 96 if self.recompute == FULL else 72
        tokens = self.batch * self.length
        layers = times * tokens * self.layers * self.hidden**2 * (1 + self.length / (6 * self.hidden))
        return layers + 6 * tokens * self.hidden * self.words


def hyper_parameters_of(inputs: Mapping[str, Any]) -> HyperParameters:
    """Return the hyper-parameters that inputs state.

    Raises:
        UnpredictedError: one is missing, or not known.
    """
    stated = str(inputs.get("recompute", inputs.get("activation_recompute", "none")))
    if inputs.get("remat") is True:
        stated = "full"
    if stated not in RECOMPUTE:
        raise UnpredictedError(f"unknown recomputation {stated!r}; known are {', '.join(RECOMPUTE)}")
    recompute = RECOMPUTE[stated]
    named = str(inputs.get("dtype", "")).split(" ")[0]
    dtype = DTYPES.get(named, "float16" if recompute != STORED else "bfloat16")
    sizes = [whole(inputs, key) for key in ("layers", "hidden", "heads", "seq_len", "vocab", "global_batch")]
    is_late = recompute == STORED
    states = int(is_late or inputs.get("method") in SHARDING)
    if "zero-3" in str(inputs.get("scheme", "")).lower():
        states = 3
    return HyperParameters(*sizes, dtype, recompute, "sequence" in stated or is_late, is_late, states)


def parts_of(layers: int, count: int) -> list[int]:
    """Return the part of each layer: those of `count` in the middle, without embedding or loss, may have one more."""
    least, more = divmod(layers, count)
    first = (count - more) // 2
    return [part for part in range(count) for _ in range(least + (first <= part < first + more))]


class Iteration:
    """The iteration that a question is about, in the fastest way that fits in memory."""

    def __init__(self, question: Question, systems: Systems) -> None:
        inputs = question.inputs
        self.inputs, self.model, self.gpus = inputs, hyper_parameters_of(inputs), whole(inputs, "gpus")
        if self.gpus > NODE and self.gpus % NODE:
            raise UnpredictedError(f"{self.gpus} devices are no whole nodes of {NODE}")
        self.mesh: Mesh = systems.joined(question, RankGroup(-(-self.gpus // NODE), min(self.gpus, NODE)))
        self.mesh_shape = MeshShape(self.mesh.axis_sizes)
        self.costs = PlanCosts(self.mesh, compiled=True)

    def value(self, quantity: str, unit: str) -> float:
        """Compute what was measured, in its unit.

        Raises:
            UnpredictedError: no way of those that are possible fits in memory, or an unknown quantity.
        """
        if (quantity, unit) not in UNITS:
            raise UnpredictedError(f"unknown quantity {quantity!r} in {unit}")
        device, precision = self.mesh.device, PRECISIONS.get(self.model.dtype, "")
        if quantity == "mfu" and precision not in device.peak_flops_per_s:
            raise UnpredictedError(f"{device.name} has no peak for {self.model.dtype}")
        time_s = self.best[1]
        if quantity == "iteration_time":
            return time_s
        if quantity == "tokens_per_s_per_gpu":
            return self.model.batch * self.model.length / time_s / self.gpus
        flops = self.model.step_flops / time_s / self.gpus
        return flops / device.peak_flops_per_s[precision] if quantity == "mfu" else flops

    def error(self) -> float:
        """Return the standard deviation of the logarithm of measured over predicted."""
        (estimate,) = self.costs.times([self.plan(self.best[0])])
        return estimate.error

    @cached_property
    def best(self) -> tuple[Degrees, float]:
        """The fastest way that fits in memory, and its seconds: several ways, then other sizes of micro-batches."""
        tried: dict[Degrees, tuple[float, float]] = {}

        def time_of(degrees: Degrees) -> float:
            if degrees not in tried:
                (cost,) = self.costs.costs([self.plan(degrees)])
                tried[degrees] = cost["time_s"], cost.get("device_memory_bytes", cost["peak_memory_bytes"])
            time_s, peak_bytes = tried[degrees]
            return time_s if peak_bytes <= self.mesh.device.memory_bytes else float("inf")

        ways = sorted(self.ways(), key=time_of)
        for way in ways[:MOST_TRIED]:
            larger = self._improved(way, "samples", time_of)
            self._improved(larger, "parts", time_of)
        fitting = [d for d in tried if time_of(d) < float("inf")]
        if not fitting:
            least = min((peak for _, peak in tried.values()), default=0.0)
            raise UnpredictedError(
                f"no way to divide the step fits in {self.mesh.device.memory_bytes:.3g} B of memory: "
                f"{len(tried)} were tried, the least takes {least:.3g} B"
            )
        return min(((d, tried[d][0]) for d in fitting), key=lambda found: found[1])

    def _improved(self, way: Degrees, vary: str, time_of: Any) -> Degrees:
        """Increase a degree for as long as that makes the step faster."""
        while True:
            following = self._next(way, vary)
            if following is None or time_of(following) >= time_of(way):
                return way
            way = following

    def _next(self, way: Degrees, vary: str) -> Degrees | None:
        model, number = self.model, getattr(way, vary)
        if vary == "samples":
            most = model.batch // way.data
            is_stated = self.inputs.get("microbatch") is not None
            return None if is_stated or most % (2 * number) else replace(way, samples=2 * number)
        per_stage, rounds = model.layers // way.pipeline, model.batch // way.data // way.samples
        is_open = "interleaved" in str(self.inputs.get("schedule", "")) and way.pipeline > 1
        if not is_open or rounds % way.pipeline or model.layers % way.pipeline:
            return None
        more = (n for n in range(number + 1, per_stage + 1) if per_stage % n == 0)
        found = next(more, None)
        return None if found is None else replace(way, parts=found)

    def ways(self) -> Iterator[Degrees]:
        """Yield the ways to divide the step that the row allows, each with the fewest samples in a micro-batch.

        Raises:
            UnpredictedError: it allows none.
        """
        found, model = False, self.model
        samples, parts = self._stated("microbatch") or 1, self._stated("interleave_stages") or 1
        for tensor, pipeline in self._degrees():
            data = self.gpus // (tensor * pipeline)
            is_whole = model.heads % tensor == 0 and model.layers >= pipeline * parts
            is_whole &= parts == 1 or model.layers % (pipeline * parts) == 0
            if is_whole and data and model.batch % (data * samples) == 0:
                found = True
                yield Degrees(tensor, pipeline, data, samples, parts)
        if not found:
            raise UnpredictedError(f"{self.gpus} devices divide the step in no way that the inputs allow")

    def _stated(self, key: str) -> int | None:
        """Return a degree that the row states, None if it states none."""
        return None if self.inputs.get(key) is None else whole(self.inputs, key)

    def _degrees(self) -> Iterator[tuple[int, int]]:
        """Yield ways of tensor and pipeline parallelism."""
        method = str(self.inputs.get("method", ""))
        if self.model.states == 3:
            yield 1, 1
            return
        tensor, pipeline = self._stated("tensor_parallel"), self._stated("pipeline_parallel")
        together = self._stated("model_parallel_size")
        for t in (1, 2, 4, 8) if tensor is None else (tensor,):
            if t > self.gpus or (method == "inter_only" and t > 1):
                continue
            if together is not None:
                if t == min(NODE, together):
                    yield t, together // t
                continue
            stages = range(1, self.gpus // t + 1) if pipeline is None else (pipeline,)
            for p in stages:
                is_allowed = {"intra_only": p == 1, "inter_only": p == self.gpus}.get(method, True)
                if is_allowed and self.gpus % (t * p) == 0:
                    yield t, p

    def plan(self, degrees: Degrees) -> tuple[Graph, Placements]:
        """Build the step and its placements.

        Raises:
            UnpredictedError: the nodes cannot be divided so.
        """
        model, pipeline = self.model, degrees.pipeline
        devices = self._stage(pipeline)
        found = outer_and_inner(self.mesh_shape.part(devices), degrees.tensor)
        if found is None:
            raise UnpredictedError(f"no axes of {self.mesh_shape} divide tensors {degrees.tensor} ways")
        data, tensor = found
        by_letter = {"b": data, **dict.fromkeys("afv", tensor)}
        axes = Axes(
            by_letter,
            along=tensor if model.sequence else (),
            spread=data if model.states else (),
            spread_count=degrees.data,
            with_parameters=model.states == 3,
        )
        sizes = layer_sizes(model.hidden, model.heads, model.length, model.batch) | {"v": model.words}
        b = NamedBuilder("gpt", sizes, model.dtype, axes)
        parts = parts_of(model.layers, pipeline * degrees.parts)
        Step(b, parts, model.recompute, model.is_fused, tensor if pipeline > 1 else ()).append()
        rounds = model.batch // degrees.data // degrees.samples
        schedule = "interleaved" if degrees.parts > 1 else "1f1b"
        placements = Placements(
            b.blocks,
            schedule_order="program" if rounds > 1 else "update-early",
            devices=devices,
            rounds=Rounds(rounds, "tokens") if rounds > 1 else None,
            stages=Stages(pipeline, schedule) if pipeline > 1 else None,
        )
        return b.builder.build(), placements

    def _stage(self, pipeline: int) -> str:
        """Return the devices of one stage: the outermost axes are cut first."""
        left, sizes = pipeline, list[str]()
        for name, size in self.mesh_shape.axes:
            cut = gcd(size, left)
            left //= cut
            sizes.append(f"{name}:{size // cut}")
        if left > 1:
            raise UnpredictedError(f"{self.gpus} devices are not divided into {pipeline} stages")
        return "" if pipeline == 1 else ",".join(sizes)
