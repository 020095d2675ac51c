"""Tests of the names of kinds of parallelism, each from the splits of a plan by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from tapestry.optimizer.placement.parallelism import parallelism
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.text import parse_strategy
from tests.costmodel.programs import convolutions, layers

EIGHT = MeshShape((("gpu", 8),))
ALL = "gpu.0*gpu.1*gpu.2"


def two_layers() -> Graph:
    return layers(1)


WEIGHTS_SPLIT = {"u0": f"({ALL}, -)", "d0": f"({ALL}, -)"}
PLANS: Mapping[str, tuple[Callable[[], Graph], Mapping[str, str]]] = {
    "replicated": (two_layers, {}),
    "data parallel 8": (two_layers, {"up0": f"({ALL}, -, -)", "down0": f"({ALL}, -, -)"}),
    "tensor parallel 8": (two_layers, {"up0": f"(-, {ALL}, -)", "down0": f"(-, -, {ALL})"}),
    "data parallel 4, tensor parallel 2": (
        two_layers,
        {"up0": "(gpu.0*gpu.1, gpu.2, -)", "down0": "(gpu.0*gpu.1, -, gpu.2)"},
    ),
    "fully sharded, data parallel 8": (
        two_layers,
        {"up0": f"({ALL}, -, -)", "down0": f"({ALL}, -, -)"} | WEIGHTS_SPLIT,
    ),
    "fully sharded, replicated": (two_layers, WEIGHTS_SPLIT),
    "spatial parallel 8": (
        convolutions,
        {"stem": f"(-, -, {ALL}, -, -)", "main": f"(-, -, {ALL}, -, -)", "short": f"(-, -, {ALL}, -, -)"},
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_is_called_by_what_it_splits(name: str) -> None:
    build, strategies = PLANS[name]
    placements = Placements({site: Placement(parse_strategy(text)) for site, text in strategies.items()})
    assert parallelism(build(), placements, EIGHT) == name


@pytest.mark.parametrize(
    ("count", "name"), [(5, "data parallel 8, tensor parallel 8"), (6, "data parallel 8")]
)
def test_a_split_of_less_than_a_tenth_of_the_work_is_not_named(count: int, name: str) -> None:
    graph = layers(count)
    products = [block.site for block in graph.blocks if block.operator == "contract"]
    placed = {site: Placement(parse_strategy(f"({ALL}, -, -)")) for site in products}
    placed["down0"] = Placement(parse_strategy(f"(-, {ALL}, -)"))
    assert parallelism(graph, Placements(placed), EIGHT) == name
