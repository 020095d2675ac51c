"""Reference plans whose costs are stored with the version of the cost model, by `python -m tests.costmodel.golden`.

The machine is made here, so that the figures of the catalog do not matter.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tapestry.costmodel.kernel_arrays import COLUMNS
from tapestry.costmodel.reference import reference_cost
from tapestry.costmodel.version import COST_MODEL_VERSION
from tapestry.hardware.device import Device, MatrixTile
from tapestry.hardware.mesh import Mesh, MeshAxis
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.text import parse_strategy
from tests.costmodel.programs import (
    attention,
    convolutions,
    embedding,
    joints,
    layers,
    leftovers,
    perceptron,
    product_of,
)

FILE = Path(__file__).with_name("golden_costs.json")


def device(*layouts: str) -> Device:
    return Device(
        "golden",
        "made up",
        memory_bytes=2**30,
        memory_bytes_per_s=1e12,
        peak_flops_per_s={"fp32": 1e13},
        vector_flops_per_s=1e12,
        cores=16,
        tiles=(MatrixTile(16, 16, 8),),
        layouts=layouts,
        launch_overhead_s=1e-6,
        contraction_overhead_s=2e-6,
        contraction_efficiency=0.8,
        memory_efficiency=0.9,
        vector_efficiency=0.7,
        idle_power_w=50.0,
        joules_per_flop={"vector": 2e-12, "fp32": 1e-12},
        joules_per_memory_byte=4e-11,
        joules_per_link_byte=8e-11,
    )


NODE = MeshAxis("node", 2, "ring", 1e10, 5e-6)
GPU = MeshAxis("gpu", 4, "switch", 1e11, 1e-6)
MESH = Mesh("golden", device("row_major"), (NODE, GPU))
QUEUED = replace(
    MESH,
    name="golden, two queues",
    device=replace(MESH.device, communication_queues=2, communication_cores=4),
)
TILED = Mesh("golden, tiled", device("tt_tile", "row_major"), (MeshAxis("chip", 4, "line", 2e10, 2e-6),))


@dataclass(frozen=True)
class ReferencePlan:
    """A plan of a program: strategies by site, where a pair adds fields of the placement, and options of the plan."""

    graph: Callable[[], Graph]
    strategies: Mapping[str, str | tuple[str, Mapping[str, Any]]]
    options: Mapping[str, str] = field(default_factory=dict)
    mesh: Mesh = MESH

    def costs(self) -> dict[str, int]:
        """Compute the plan's integer costs, by column."""
        blocks = {}
        for site, given in self.strategies.items():
            text, fields = (given, {}) if isinstance(given, str) else given
            blocks[site] = Placement(parse_strategy(text), **fields)
        tally = reference_cost(self.graph(), Placements(blocks, **self.options), self.mesh)
        return dict(zip(COLUMNS, tally.vector().tolist(), strict=True))


ROWS, COLUMNWISE = "(gpu.0*gpu.1, -)", "(-, gpu.0*gpu.1)"
PLANS: Mapping[str, ReferencePlan] = {
    "every device computes everything": ReferencePlan(attention, {}),
    "state is computed elsewhere than it begins": ReferencePlan(
        leftovers, {"x": ROWS, "y": "(gpu.0*gpu.1, -, -)", "step": ROWS, "next": COLUMNWISE}
    ),
    "state is updated early": ReferencePlan(
        leftovers, {"state": ROWS, "gradient": "(gpu.0, -, node.0)"}, {"schedule_order": "update-early"}
    ),
    "a sum over all axes is scattered": ReferencePlan(
        lambda: product_of(64, 96, 32),
        {"x": "(-, node.0*gpu.0*gpu.1)", "w": "(node.0*gpu.0*gpu.1, -)", "y": "(-, -, node.0*gpu.0*gpu.1)"}
        | {"y.out": "(node.0*gpu.0, gpu.1)"},
    ),
    "a sum is gathered": ReferencePlan(
        lambda: product_of(64, 96, 32), {"y": "(node.0, -, gpu.0*gpu.1)"}, {"outputs": "gathered"}
    ),
    "rows with halo": ReferencePlan(
        convolutions,
        {"x": "(-, -, gpu.0*gpu.1, -)", "stem": "(-, -, gpu.0*gpu.1, -, -)", "relu": "(-, -, gpu.0*gpu.1, -)"}
        | {"main": "(-, -, gpu.0*gpu.1, node.0, -)", "short": "(-, node.0, gpu.0*gpu.1, -, -)"},
    ),
    "heads and sequence change places": ReferencePlan(
        attention,
        {"x": ROWS, "norm": "(gpu.0*gpu.1)", "q": "(gpu.0*gpu.1, -, -, -)", "k": "(-, -, gpu.0*gpu.1, -)"}
        | {"scores": "(-, gpu.0*gpu.1, -, -)", "softmax": "(node.0, gpu.0*gpu.1)"}
        | {"mixed": "(-, -, gpu.0*gpu.1, -)", "out": "(-, gpu.0*gpu.1, -, -)", "y": ROWS},
    ),
    "parts of a gathered copy": ReferencePlan(
        attention,
        {
            "norm": "(gpu.0*gpu.1)",
            "q": "(-, -, gpu.0, -)",
            "k": "(-, -, -, gpu.0*gpu.1)",
            "v": "(-, -, -, gpu.0)",
        },
    ),
    "copies ahead and again": ReferencePlan(
        attention,
        {"norm": "(gpu.0*gpu.1)", "wk": "(gpu.0, -, -)"}
        | {"q": "(-, -, gpu.0*gpu.1, -)", "k": ("(-, -, gpu.0*gpu.1, -)", {"prefetch": (0, 2)})}
        | {"v": ("(-, -, gpu.0*gpu.1, -)", {"regather": (True, False)})},
    ),
    "views with uneven parts": ReferencePlan(
        perceptron,
        {"x": "(gpu.0*gpu.1, node.0)", "up": "(gpu.0*gpu.1, -, node.0, -)", "act": "(-, -, gpu.0*gpu.1)"}
        | {"down": "(-, gpu.0*gpu.1, -, node.0)", "y": ROWS},
        {"inputs": "replicated"},
    ),
    "entries of a table": ReferencePlan(
        embedding, {"table": ROWS, "looked up": "(node.0, -, gpu.0*gpu.1)", "logits": "(-, gpu.0*gpu.1, -)"}
    ),
    "one node of two": ReferencePlan(
        joints, {"tx": ROWS, "both": COLUMNWISE, "total": ROWS, "z": "(gpu.0*gpu.1)"}, {"devices": "gpu:4"}
    ),
    "gathers on two axes side by side": ReferencePlan(
        lambda: product_of(512, 256, 512),
        {"x": ROWS, "w": "(node.0, gpu.0*gpu.1)", "y": "(-, gpu.0*gpu.1, -)", "y.out": "(-, gpu.0*gpu.1)"},
        mesh=QUEUED,
    ),
    "blocks beside copies in two queues": ReferencePlan(
        lambda: layers(2),
        {"u0": "(node.0, gpu.0*gpu.1)", "up0": "(-, gpu.0*gpu.1, -)", "act0": COLUMNWISE}
        | {"down0": ("(-, -, -)", {"prefetch": (0, 2)}), "d0": ROWS, "u1": ROWS}
        | {"up1": ("(-, -, -)", {"prefetch": (0, 3)}), "d1": "(node.0, gpu.0*gpu.1)"}
        | {"down1": ("(-, gpu.0*gpu.1, -)", {"prefetch": (0, 2)})},
        mesh=QUEUED,
    ),
    "tiles": ReferencePlan(
        lambda: product_of(100, 70, 40),
        {
            "x": "(chip.0*chip.1, -)",
            "w": "(-, chip.0)",
            "y": ("(chip.0, chip.1, -)", {"read_layouts": ("{0,1}", "")}),
        },
        mesh=TILED,
    ),
}


def costs() -> dict[str, dict[str, int]]:
    """Compute the costs of all reference plans."""
    return {name: plan.costs() for name, plan in PLANS.items()}


def main() -> None:
    """Store the costs with the version of the cost model."""
    document = {"version": COST_MODEL_VERSION, "costs": costs()}
    FILE.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
