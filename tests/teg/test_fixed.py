"""Tests of blocks that are fixed because the program takes their signature away."""

from __future__ import annotations

import numpy as np
import pytest

from tapestry.costmodel.block_cost import base_flops
from tapestry.hardware import load_mesh
from tapestry.hardware.simulator import simulate
from tapestry.optimizer import Budget
from tapestry.optimizer.run.search import search
from tapestry.rewrites import Worklist, catalog
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.document import from_document, to_document
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.fixed import is_made_fixed
from tapestry.teg.flops import graph_flops
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.strategy import Strategy
from tapestry.teg.sharding.verify import verify
from tapestry.teg.validate import validate
from tests.hardware.simulator.programs import MESHES, mesh_of, random_placements
from tests.teg.graphs import cell


def network() -> Graph:
    """Build `exp(relu(x.T @ w)[1:3])` with one block of each kind."""
    b = GraphBuilder("network")
    x, w = b.source("x", (4, 8), "float32"), b.source("w", (4, 6), "float32", "parameter")
    (turned,) = b.apply("view", (x,), site="turned", map=((1, 1, 0), (0, 1, 0)), shape=(8, 4))
    (product,) = b.apply(
        "contract", (turned, w), site="product", labels=(("k", "m"), ("m", "n")), output=("k", "n")
    )
    (y,) = cell(b, ("relu", ("input", 0)), product, site="y")
    (part,) = b.apply("view", (y,), site="part", map=((0, 1, 1), (1, 1, 0)), shape=(2, 6))
    (raised,) = cell(b, ("exp", ("input", 0)), part, site="raised")
    b.sink(raised, site="result")
    return b.build()


def made_fixed(graph: Graph, site: str) -> Graph:
    """Take the signature of one block away, in its document."""
    document = to_document(graph)
    block = next(b for b in document["blocks"] if b["site"] == site)
    definition = document["definitions"][block["definition"]] | {"signature": None}
    block["definition"] = len(document["definitions"])
    used = {b["definition"] for b in document["blocks"]}
    definitions = [*document["definitions"], definition]
    kept = [k for k in range(len(definitions)) if k in used]
    for b in document["blocks"]:
        b["definition"] = kept.index(b["definition"])
    return from_document(document | {"definitions": [definitions[k] for k in kept]})


SITES = [b.site for b in network().blocks]


@pytest.mark.parametrize("site", SITES)
def test_a_block_without_its_signature_is_fixed_and_evaluates(site: str) -> None:
    graph = network()
    fixed = made_fixed(graph, site)
    assert validate(fixed) == []
    block = fixed.by_site[site]
    assert is_made_fixed(block.definition, fixed.input_types(block))
    assert not is_made_fixed(graph.by_site[site].definition, graph.input_types(graph.by_site[site]))
    assert from_document(to_document(fixed)) == fixed
    inputs = random_inputs(graph, np.random.default_rng(0))
    np.testing.assert_array_equal(evaluate(fixed, inputs)["result"], evaluate(graph, inputs)["result"])


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("seed", range(3))
def test_a_fixed_block_is_not_sharded_and_the_others_are(site: str, seed: int) -> None:
    fixed, mesh_shape = made_fixed(network(), site), MESHES[seed % len(MESHES)]
    rng = np.random.default_rng(seed)
    placements = random_placements(rng, fixed, mesh_shape)
    assert placements.of(fixed.by_site[site]).strategy == Strategy()
    explicit = expand(fixed, placements, mesh_shape)
    assert verify(fixed, explicit) == []
    inputs = random_inputs(fixed, rng)
    parts = simulate(explicit, mesh_of(mesh_shape), inputs).outputs
    np.testing.assert_allclose(parts["result"], evaluate(fixed, inputs)["result"], rtol=1e-5)


@pytest.mark.parametrize("site", ["product", "y", "turned"])
def test_a_search_leaves_a_fixed_block_as_it_is(site: str) -> None:
    fixed = made_fixed(network(), site)
    result = search(fixed, load_mesh("dgx-h100"), budget=Budget(evaluations=300), seed=1, islands=1)
    for plan in result.frontier:
        assert plan.graph.by_site[site] == fixed.by_site[site]
        assert plan.placements.of(plan.graph.by_site[site]).strategy == Strategy()
    matched = {b for move in Worklist.of(fixed, tuple(catalog().values())).tied() for b in move.places}
    assert site not in matched


def test_a_fixed_block_costs_what_all_of_it_costs() -> None:
    graph = network()
    fixed = made_fixed(graph, "product")
    assert base_flops(fixed) == base_flops(graph) >= 2 * 8 * 4 * 6
    assert graph_flops(fixed) == graph_flops(graph)


def test_types_of_a_fixed_block_are_still_those_of_its_operator() -> None:
    document = to_document(made_fixed(network(), "product"))
    next(t for t in document["tensors"] if t["site"] == "product")["shape"] = [8, 7]
    message = [str(issue) for issue in validate(from_document(document))]
    assert any("tensor 'product' is float32[8, 7]" in issue for issue in message)
