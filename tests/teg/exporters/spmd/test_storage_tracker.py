"""The witness of a rank's memory: it sees what a step holds, and notices a step that keeps what it should give up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tapestry.hardware.catalog import load_mesh
from tapestry.hardware.simulator import simulate
from tapestry.teg.exporters.spmd import to_torch
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placements
from tests.teg.exporters.loading import load_module
from tests.teg.exporters.spmd.test_module import perceptron

torch = pytest.importorskip("torch")

STEP = """
import torch


def step(w):
    x = w.pop("x")
    t = x + 1
    y = torch.relu(t * 2)
    del x, t
    return {"y": torch.sum(y, dim=0)}
"""


def peaks(path: Path, sources: dict[str, Any]) -> tuple[int, dict[str, int], int]:
    """Run the step of a module; return its peak, the terms in it, and the peak without any of them."""
    from tests.teg.exporters.spmd.storage_tracker import TERMS, StorageTracker

    module = load_module(path)
    tracker = StorageTracker(str(path))
    for value in sources.values():
        tracker.watch(value, "source")
    del value
    with tracker:
        module.step(sources)
    return *tracker.peak(), tracker.peak(*TERMS)[0]


def test_values_are_counted_from_their_making_to_their_end(tmp_path: Path) -> None:
    from tests.teg.exporters.spmd.storage_tracker import BETWEEN

    path = tmp_path / "plan.py"
    path.write_text(STEP)
    most, terms, counted = peaks(path, {"x": torch.zeros(25, 4)})
    # x, t, the product and y; the plan of such a step counts x and y.
    assert most == 4 * 400 and terms[BETWEEN] == 2 * 400 and counted == 2 * 400


@pytest.mark.parametrize("layers", [1, 4])
def test_a_step_holds_what_its_plan_counts_and_notices_what_is_kept(layers: int, tmp_path: Path) -> None:
    graph = perceptron(layers)
    explicit = expand(graph, Placements({}), MeshShape.of(gpu=1))
    predicted = simulate(explicit, load_mesh("dgx-h100").part((("gpu", 1),)), dry=True).peak_memory_bytes[0]

    def sources() -> dict[str, Any]:
        return {b.site: torch.zeros(graph.tensors[b.outputs[0]].shape) for b in graph.sources}

    text = to_torch(explicit)
    path = tmp_path / "plan.py"
    path.write_text(text)
    assert peaks(path, sources())[2] == predicted
    kept = "\n".join(line for line in text.split("\n") if not line.startswith("    del "))
    path.write_text(kept)
    assert peaks(path, sources())[2] > predicted
