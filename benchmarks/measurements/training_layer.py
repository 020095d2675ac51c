"""Programs of one transformer layer forward and backward, heads and features divided among the devices of a node."""

from __future__ import annotations

import re

from benchmarks.measurements.gpt import FULL, SELECTIVE, STORED, Layer, layer_sizes
from benchmarks.measurements.named_programs import Axes, NamedBuilder
from benchmarks.measurements.rows import Question
from benchmarks.measurements.systems import RankGroup, Systems
from benchmarks.measurements.workload import DTYPES, MAKESPAN, UnpredictedError, Workload, whole
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placements

# Words of what a row says of recomputation; positions are divided, too, where it says `sequence`.
RECOMPUTE = {"full": FULL, "selective": SELECTIVE}
WORDS = {
    *RECOMPUTE,
    "baseline",
    "no",
    "none",
    "recompute",
    "sequence",
    "parallel",
    "parallelism",
    "and",
    "with",
}


def training_layer(question: Question, systems: Systems) -> Workload:
    """Build the workload of one layer of GPT forward and backward, which may run forward again, in part or as a whole.

    Raises:
        UnpredictedError: another kind of recomputation, or sizes or a device that are not stated or unknown.
    """
    inputs = question.inputs
    stated = str(inputs.get("recompute", "none"))
    words = re.findall("[a-z]+", stated.lower())
    if not words or set(words) - WORDS:
        raise UnpredictedError(f"unknown recomputation {stated!r}")
    recompute = next((RECOMPUTE[word] for word in words if word in RECOMPUTE), STORED)
    hidden, heads, length = (whole(inputs, key) for key in ("hidden", "heads", "seq_len"))
    shared, batch = whole(inputs, "tensor_parallel"), whole(inputs, "microbatch", "batch")
    dtype = DTYPES.get(str(inputs.get("dtype", "fp16")), "float16")
    mesh = systems.joined(question, RankGroup(1, shared))
    devices = tuple(axis.name for axis in MeshShape(mesh.axis_sizes).sub_axes)
    axes = Axes(dict.fromkeys("af", devices), along=devices if "sequence" in words else ())
    b = NamedBuilder("layer", layer_sizes(hidden, heads, length, batch), dtype, axes)
    for name in ("x", "dy"):
        b.source(name, "bsh")
    layer = Layer(b, "x", recompute=recompute)
    weights = layer.weights()
    results = [layer.forward(), layer.backward("dy"), *(f"d{name}" for name in weights)]
    for result in results:
        b.sink(result)
    return Workload(b.builder.build(), Placements(b.blocks), mesh, MAKESPAN)
