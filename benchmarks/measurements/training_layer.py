"""Programs of one transformer layer forward and backward, heads and features divided among the devices of a node."""

from __future__ import annotations

from benchmarks.measurements.gpt import FULL, STORED, Layer, layer_sizes
from benchmarks.measurements.named_programs import Axes, NamedBuilder
from benchmarks.measurements.rows import Question
from benchmarks.measurements.systems import RankGroup, Systems
from benchmarks.measurements.workload import DTYPES, MAKESPAN, UnpredictedError, Workload, whole
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placements

RECOMPUTE = {"baseline_no_recompute": STORED, "full_recompute": FULL}


def training_layer(question: Question, systems: Systems) -> Workload:
    """Build the workload of one layer of GPT forward and backward; with `full_recompute` it runs forward again.

    Raises:
        UnpredictedError: another kind of recomputation, or sizes or a device that are not stated or unknown.
    """
    inputs = question.inputs
    recompute = str(inputs.get("recompute", "baseline_no_recompute"))
    if recompute not in RECOMPUTE:
        raise UnpredictedError(f"unknown recomputation {recompute!r}")
    hidden, heads, length = (whole(inputs, key) for key in ("hidden", "heads", "seq_len"))
    shared, batch = whole(inputs, "tensor_parallel"), whole(inputs, "microbatch", "batch")
    dtype = DTYPES.get(str(inputs.get("dtype", "fp16")), "float16")
    mesh = systems.joined(question, RankGroup(1, shared))
    devices = tuple(axis.name for axis in MeshShape(mesh.axis_sizes).sub_axes)
    b = NamedBuilder(
        "layer", layer_sizes(hidden, heads, length, batch), dtype, Axes(dict.fromkeys("af", devices))
    )
    for name in ("x", "dy"):
        b.source(name, "bsh")
    layer = Layer(b, "x", recompute=RECOMPUTE[recompute])
    weights = layer.weights()
    results = [layer.forward(), layer.backward("dy"), *(f"d{name}" for name in weights)]
    for result in results:
        b.sink(result)
    return Workload(b.builder.build(), Placements(b.blocks), mesh, MAKESPAN)
