"""Tests of the names of kinds of parallelism, each from the splits of a plan by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from tapestry.optimizer.placement.parallelism import parallelism
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.text import parse_strategy
from tests.costmodel.programs import contract, convolutions, layers, weight

EIGHT = MeshShape((("gpu", 8),))
ALL = "gpu.0*gpu.1*gpu.2"


def two_layers() -> Graph:
    return layers(1)


def step() -> Graph:
    """Build a product, and the gradient that its weight has where the result is the gradient of the result."""
    b = GraphBuilder("step")
    x = b.source("x", (64, 8, 32), "float32")
    y = contract(b, "y", x, weight(b, "w", 32, 16), "nsc,ch->nsh")
    b.sink(contract(b, "g", x, y, "nsc,nsh->ch"), site="gradient")
    return b.build()


WEIGHTS_SPLIT = {"u0": f"({ALL}, -)", "d0": f"({ALL}, -)"}
PLANS: tuple[tuple[str, Callable[[], Graph], Mapping[str, str]], ...] = (
    ("replicated", two_layers, {}),
    ("data parallel 8", two_layers, {"up0": f"({ALL}, -, -)", "down0": f"({ALL}, -, -)"}),
    ("tensor parallel 8", two_layers, {"up0": f"(-, {ALL}, -)", "down0": f"(-, -, {ALL})"}),
    (
        "data parallel 4, tensor parallel 2",
        two_layers,
        {"up0": "(gpu.0*gpu.1, gpu.2, -)", "down0": "(gpu.0*gpu.1, -, gpu.2)"},
    ),
    (
        "data parallel 4 or tensor parallel 4",
        two_layers,
        {"up0": "(gpu.0*gpu.1, -, -)", "down0": "(-, -, gpu.0*gpu.1)"},
    ),
    (
        "fully sharded, data parallel 8",
        two_layers,
        {"up0": f"({ALL}, -, -)", "down0": f"({ALL}, -, -)"} | WEIGHTS_SPLIT,
    ),
    ("fully sharded, replicated", two_layers, WEIGHTS_SPLIT),
    (
        "data parallel 4, tensor parallel 2",
        step,
        {"y": "(gpu.0*gpu.1, -, gpu.2, -)", "g": "(-, gpu.2, gpu.0*gpu.1, -)"},
    ),
    ("tensor parallel 8", step, {"y": f"(-, -, {ALL}, -)", "g": f"(-, {ALL}, -, -)"}),
    ("sequence parallel 8", step, {"y": f"(-, {ALL}, -, -)", "g": f"(-, -, -, {ALL})"}),
    (
        "spatial parallel 8",
        convolutions,
        {"stem": f"(-, -, {ALL}, -, -)", "main": f"(-, -, {ALL}, -, -)", "short": f"(-, -, {ALL}, -, -)"},
    ),
)


@pytest.mark.parametrize(("name", "build", "strategies"), PLANS)
def test_a_plan_is_called_by_what_it_splits(
    name: str, build: Callable[[], Graph], strategies: Mapping[str, str]
) -> None:
    placements = Placements({site: Placement(parse_strategy(text)) for site, text in strategies.items()})
    assert parallelism(build(), placements, EIGHT) == name


@pytest.mark.parametrize(
    ("count", "name"), [(5, "data parallel 8 or tensor parallel 8"), (6, "data parallel 8")]
)
def test_a_split_of_less_than_a_tenth_of_the_work_is_not_named(count: int, name: str) -> None:
    graph = layers(count)
    products = [block.site for block in graph.blocks if block.operator == "contract"]
    placed = {site: Placement(parse_strategy(f"({ALL}, -, -)")) for site in products}
    placed["down0"] = Placement(parse_strategy(f"(-, {ALL}, -)"))
    assert parallelism(graph, Placements(placed), EIGHT) == name
