"""Tests of the columns of drawings: blocks, edges and groups of programs."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

import tapestry
from tapestry.service.drawings import drawing_document
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.drawn_groups import LEAST_BRANCHES, MOST_INPUTS, NO_GROUP, UPDATE, UPDATED, groups_of
from tapestry.teg.folding import folded
from tapestry.teg.graph import Graph
from tapestry.teg.svg import label_of
from tests.service.programs import two_layers

LABELS = (("m", "k"), ("k", "n"))


def chain(layers: int, prefix: str = "", shared: str | None = None) -> Graph:
    """Build equal layers of four products, with parameters named after `prefix`, and perhaps one of all layers."""
    b = GraphBuilder("chain")
    x = b.source("x", (16, 16), "float32")
    common = b.source(shared, (16, 16), "float32", "parameter") if shared else None
    for k in range(layers):
        for n in range(4):
            name = f"{prefix}{k}.w{n}" if prefix else f"w{k}of{n}"
            w = common if common and n == 3 else b.source(name, (16, 16), "float32", "parameter")
            (x,) = b.apply("contract", (x, w), site=f"p{k}of{n}", labels=LABELS, output=("m", "n"))
    b.sink(x, site="result")
    return b.build()


def trained(layers: int, optimizer: str) -> Graph:
    """Build the training step of layers with weights of two kinds of shapes, and one that is used twice."""
    with tapestry.program("trained") as p:
        x = p.input("x", batch=8, d0=16)
        twice = p.parameter("twice", d0=16)
        x = x * twice * twice
        for k in range(layers):
            w = p.parameter(f"w{k}", **{f"d{k}": 16, f"d{k + 1}": 16})
            x = (x @ w) * p.parameter(f"b{k}", **{f"d{k + 1}": 16})
        p.output("y", x)
    return tapestry.training_step(p, loss="sum", optimizer=optimizer).graph


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_updates_of_parameters_are_a_series_whatever_their_shapes(optimizer: str) -> None:
    graph = trained(5, optimizer)
    groups = groups_of(graph)
    updates = [k for k, name in enumerate(groups.names) if name.startswith(f"{UPDATE} of ")]
    (series,) = {groups.parents[k] for k in updates}
    trainable = [b.site for b in graph.sources if b.definition["role"] == "parameter"]
    assert sorted(groups.names[k] for k in updates) == sorted(f"{UPDATE} of {site}" for site in trainable)
    assert groups.names[series] == UPDATE and len(trainable) == 11
    for sink in graph.sinks:
        is_updated = sink.definition.carries and sink.definition["carries"] != "step"
        assert (groups.of_block.get(sink.site, NO_GROUP) in updates) == is_updated
    state = [b.site for b in graph.sources if b.definition["role"] == "optimizer_state"]
    assert bool(state) == (optimizer == "adam")
    placed = {groups.names[groups.of_block[site]] for site in trainable}
    assert placed == {UPDATED}
    sizes = {len({b for b, group in groups.of_block.items() if group == k}) for k in updates}
    assert len(sizes) == 1, "of the one that is used twice, the sum of gradients is no part of the update"


def test_a_program_without_state_has_no_updates() -> None:
    assert not {UPDATE, UPDATED} & set(groups_of(chain(4)).names)


def test_edges_carry_the_bytes_of_what_is_read() -> None:
    graph = two_layers()
    found = drawing_document(graph)
    sites, edges = found["blocks"]["site"], found["edges"]
    named = {
        (sites[a], sites[b]): size
        for a, b, size in zip(edges["from"], edges["to"], edges["bytes"], strict=True)
    }
    for block in graph.blocks:
        for tensor in block.inputs:
            pair = graph.producers[tensor].site, block.site
            assert named[pair] >= graph.tensors[tensor].type.size_bytes
    assert len(named) == len(edges["from"])
    assert [found["operators"][k] for k in found["blocks"]["operator"]][:1] == ["source"]
    assert sum(found["blocks"]["flops"]) > 0 and len(set(map(len, found["blocks"].values()))) == 1


@pytest.mark.parametrize("prefix", ["model.layers.", ""], ids=["by names", "by structure"])
def test_equal_layers_are_a_series_of_groups(prefix: str) -> None:
    graph = chain(5, prefix)
    groups = groups_of(graph)
    series = [k for k, parent in enumerate(groups.parents) if parent == NO_GROUP]
    assert len(series) == 1 and groups.parents.count(series[0]) == 5
    if prefix:
        assert groups.names[:2] == ["model.layers", "model.layers.0"]
    for block in graph.blocks:
        is_outside = block.operator == "sink" or block.site == "x"
        assert (groups.of_block.get(block.site, NO_GROUP) == NO_GROUP) == is_outside, block.site


def test_equal_branches_to_one_block_are_a_series_whatever_their_sizes() -> None:
    with tapestry.program("tables") as p:
        read = [p.input("dense", row=8, width=16)]
        for k in range(LEAST_BRANCHES):
            table = p.parameter(f"table{k}", word=100 + k, width=16)
            ids = p.input(f"ids{k}", row=8, dtype="int64")
            read.append(table.gather(ids, "word").tanh())
        p.output("joined", p.concat(read, "width"))
    groups = groups_of(p.graph)
    members = [groups.of_block[f"table{k}"] for k in range(LEAST_BRANCHES)]
    assert len(set(members)) == LEAST_BRANCHES and len({groups.parents[group] for group in members}) == 1
    for block in p.graph.blocks:
        place = groups.of_block.get(block.site, NO_GROUP)
        if block.operator in ("gather", "cell"):
            assert place in members, block.site
        elif block.operator in ("concat", "sink") or block.site == "dense":
            assert place == NO_GROUP, block.site


def growing(widths: Iterable[int], torn_at: int | None = None) -> Graph:
    """Build parts of a product and three functions between tensors of different widths, perhaps with one between."""
    with tapestry.program("growing") as p:
        x = p.input("x", row=16, d0=8)
        for k, width in enumerate(widths, start=1):
            x = x @ p.parameter(f"w_{chr(97 + k)}", **{f"d{k - 1}": x.shape[-1], f"d{k}": width})
            x = -x.tanh().exp()
            x = x.sqrt() if k == torn_at else x
        p.output("y", x)
    return p.graph


def test_parts_that_do_the_same_at_other_sizes_repeat_too() -> None:
    groups = groups_of(growing(range(16, 96, 16)))
    assert groups.parents.count(0) == 5 and groups.names[0] == "repeated part 1"


def test_parts_apart_are_series_of_their_own_in_the_order_of_the_program() -> None:
    graph = growing(range(16, 128, 16), torn_at=3)
    groups = groups_of(graph)
    series = [k for k, parent in enumerate(groups.parents) if parent == NO_GROUP]
    assert [groups.parents.count(k) for k in series] == [3, 4]
    assert [groups.names[k] for k in series] == ["repeated part 1", "repeated part 2"]
    (between,) = (block.site for block in graph.blocks if label_of(block) == "cell sqrt")
    assert groups.of_block.get(between, NO_GROUP) == NO_GROUP
    program = folded(graph, groups)
    assert all(a < b for a, b in program.arrows)


def test_numbers_of_operators_are_no_layers() -> None:
    b = GraphBuilder("numbered")
    x = b.source("x", (16, 16), "float32")
    for k in range(4):
        for n in range(4):
            w = b.source(f"w{k}of{n}", (16, 16), "float32", "parameter")
            (x,) = b.apply("contract", (x, w), site=f"product.{n}.{k}", labels=LABELS, output=("m", "n"))
    b.sink(x, site="result")
    assert groups_of(b.build()).names[0] == "repeated part 1"


@pytest.mark.parametrize("count", [MOST_INPUTS // 4, MOST_INPUTS // 4 + 1])
def test_inputs_stand_beside_groups_unless_there_are_many(count: int) -> None:
    b = GraphBuilder("inputs")
    x = b.source("x", (16, 16), "float32", "parameter")
    for k in range(count):
        for n in range(4):
            w = b.source(f"w{k}of{n}", (16, 16), "float32")
            (x,) = b.apply("contract", (x, w), site=f"p{k}of{n}", labels=LABELS, output=("m", "n"))
    b.sink(x, site="result")
    groups = groups_of(b.build())
    for block in (f"{k}of{n}" for k in range(count) for n in range(4)):
        is_inside = groups.of_block.get(f"w{block}", NO_GROUP) == groups.of_block[f"p{block}"]
        assert is_inside == (4 * count > MOST_INPUTS)


def test_a_source_is_where_all_its_readers_are() -> None:
    groups = groups_of(chain(3, "layers.", "shared"))
    series, member = groups.of_block["shared"], groups.of_block["layers.1.w1"]
    assert (groups.parents[series], groups.parents[member]) == (NO_GROUP, series)
    assert member == groups.of_block["p1of1"] != groups.of_block["p2of1"]
