"""Tests of strategies: all ways to assign logical axes to dimensions, chunks aligned to what is read downstream."""

from dataclasses import replace
from itertools import product
from math import prod

import pytest

from tapestry.costmodel.kernel_arrays import SPEC
from tapestry.costmodel.plan_space import PlanSpace
from tapestry.costmodel.storage_tables import part_shapes
from tapestry.costmodel.strategies import PinError, aligned_granules, enumerate_strategies
from tapestry.costmodel.view import default_view
from tapestry.hardware import load_mesh
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.graph import Graph
from tapestry.teg.operators.selectors import sliced
from tapestry.teg.sharding.check import check_placements
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import Split, chunk_size
from tapestry.teg.sharding.strategy import Strategy, splittable
from tests.cases import one_in
from tests.costmodel.programs import GRAPHS, product_of, weight
from tests.hardware.simulator.programs import cell, view

EIGHT = MeshShape.of(gpu=8)


def halving(size: int, layers: int) -> Graph:
    """Build layers as in ResNet: 3x3 convolutions of stride 2 and shortcuts of stride 2 through crops."""
    b = GraphBuilder("halving")
    x = b.source("x", (2, 4, size, size), "float32")
    for k in range(layers):
        w = weight(b, f"w{k}", 4, 4, 3, 3)
        geometry = {"strides": (2, 2), "dilations": (1, 1), "groups": 1}
        (main,) = b.apply("conv", (x, w), site=f"conv{k}", pads=(1, 1, 1, 1), **geometry)
        crop = view(b, f"crop{k}", x, sliced((2, 4, size, size), (0,) * 4, (2, 4, size - 1, size - 1)))
        v = weight(b, f"v{k}", 4, 4, 1, 1)
        (short,) = b.apply("conv", (crop, v), site=f"short{k}", pads=(0, 0, 0, 0), **geometry)
        x, size = cell(b, f"sum{k}", ("add", ("input", 0), ("input", 1)), (main, short)), size // 2
    b.sink(x, site="y")
    return b.build()


def test_a_product_on_eight_devices() -> None:
    graph = product_of(64, 64, 64)
    found = enumerate_strategies(graph.by_site["y"].definition, (1, 1, 1), default_view(EIGHT))

    # Three logical axes of two, each on m, n, k or nowhere.
    assert len(found) == 4**3
    assert len(set(found)) == 4**3
    assert str(found[0]) == "(-, -, -)"
    assert {"(gpu.0*gpu.1*gpu.2, -, -)", "(gpu.0, gpu.2, gpu.1)"} <= {str(s) for s in found}


def test_a_dimension_is_not_split_over_more_devices_than_it_has_elements() -> None:
    graph = product_of(3, 64, 1)
    found = enumerate_strategies(graph.by_site["y"].definition, (1, 1, 1), default_view(EIGHT))

    # m takes at most one axis, n none: per axis nowhere or k (8 ways), and one of three axes on m (3 x 4).
    assert len(found) == 8 + 3 * 4
    assert all(EIGHT.size_of(s.splits[0].axes) <= 3 and not s.splits[1].axes for s in found)


@pytest.mark.parametrize("granules", [(1, 1, 1), (3, 1, 1), (8, 1, 4), (56, 5, 1)])
@pytest.mark.parametrize("sizes", [(56, 7, 64), (1, 3, 2), (9, 1000, 5), (64, 24, 7)])
def test_strategies_of_like_dimensions_are_those_counted_one_by_one(
    sizes: tuple[int, int, int], granules: tuple[int, int, int]
) -> None:
    view = default_view(MeshShape.of(node=3, gpu=8))
    definition = product_of(sizes[0], sizes[2], sizes[1]).by_site["y"].definition
    dims = definition.signature.dims
    expected = []
    for choice in product((-1, *(k for k, d in enumerate(dims) if d.size > 1)), repeat=len(view.axes)):
        axes = [sum((view.axes[a] for a, k in enumerate(choice) if k == n), ()) for n in range(len(dims))]
        parts = [MeshShape.of(node=3, gpu=8).size_of(a) for a in axes]
        if any(n > d.size for n, d in zip(parts, dims, strict=True)):
            continue
        expected.append(Strategy(tuple(Split(a) for a in axes)))
        changed = [
            chunk_size(d.size, n, g) != chunk_size(d.size, n, 1) and n > 1
            for d, n, g in zip(dims, parts, granules, strict=True)
        ]
        if any(changed):
            aligned = zip(axes, granules, changed, strict=True)
            expected.append(Strategy(tuple(Split(a, g if c else 1) for a, g, c in aligned)))
    assert enumerate_strategies(definition, granules, view) == expected


def test_chunks_aligned_to_a_granule_are_offered_where_they_differ() -> None:
    graph = product_of(56, 1, 1)
    found = enumerate_strategies(graph.by_site["y"].definition, (8, 1, 1), default_view(EIGHT))
    splits = [s.splits[0] for s in found]

    # 28 rows are no multiple of 8 (32 are), 14 neither (16); 7 neither (8). All have an aligned sibling.
    assert len(splits) == 2 * 8 - 1
    assert sum(s.granule == 8 for s in splits) == 7
    assert Split(("gpu.0", "gpu.1", "gpu.2"), 8) in splits


@pytest.mark.parametrize(
    ("name", "mesh"), one_in(4, product(GRAPHS, ["dgx-h100", "2x-dgx-h100", "tpu-v5e-4x4"]))
)
def test_every_strategy_is_legal(name: str, mesh: str) -> None:
    graph = GRAPHS[name]()
    space = PlanSpace(graph, load_mesh(mesh))
    for block, family in zip(space.blocks, space.families, strict=True):
        assert len(set(family.strategies)) == len(family.strategies)
        allowed = splittable(block.signature)
        for strategy in family.strategies:
            used = [a for split in strategy.splits for a in split.axes]
            assert len(set(used)) == len(used), "no sub-axis twice"
            assert all(ok or not s.axes for ok, s in zip(allowed, strategy.splits, strict=True))
            placed = Placements({block.site: Placement(strategy)})
            assert check_placements(graph, placed, space.mesh_shape) == []


@pytest.mark.parametrize(("mesh", "is_large"), [("2x-dgx-h100", False), ("4x-dgx-h100", True)])
def test_on_many_devices_none_reads_nothing_of_what_others_read(mesh: str, is_large: bool) -> None:
    """Split what is joined of three pieces: on few devices also so that each device reads some of the pieces alone."""
    b = GraphBuilder("joined")
    parts = [
        cell(b, f"t{k}", ("tanh", ("input", 0)), (b.source(f"x{k}", (64, 128), "float32"),)) for k in range(3)
    ]
    (whole,) = b.apply("concat", tuple(parts), site="whole", axis=1)
    b.sink(cell(b, "y", ("exp", ("input", 0)), (whole,)), site="y.out")
    space = PlanSpace(b.build(), load_mesh(mesh))
    family = space.families[space.gene_of["whole"]]

    unlike = [
        strategy
        for k, strategy in enumerate(family.strategies)
        for needed in family.needed
        if len(set(part_shapes([needed[k]], (64, 128), space.mesh_shape).all(axis=-1).ravel().tolist())) > 1
    ]

    assert bool(unlike) is not is_large
    assert any(s.splits[0].axes for s in family.strategies)
    assert len(space.space.classes) <= (space.mesh_shape.device_count if not is_large else 4)


def test_the_family_of_a_fixed_block_is_one_strategy() -> None:
    graph = GRAPHS["joints"]()
    (reshape,) = [b for b in graph.blocks if b.operator == "reshape"]
    stripped = replace(reshape, definition=replace(reshape.definition, signature=None))
    graph = graph.replace([stripped if b is reshape else b for b in graph.blocks])

    space = PlanSpace(graph, load_mesh("dgx-h100"))

    fixed = [f for b, f in zip(space.blocks, space.families, strict=True) if b.signature is None]
    assert [len(f.strategies) for f in fixed] == [1]


def test_granules_double_with_every_stride_upstream() -> None:
    granules = aligned_granules(halving(56, 3))
    assert granules["x"][2:] == (8, 8)
    assert [granules[f"sum{k}"][2:] for k in range(3)] == [(4, 4), (2, 2), (1, 1)]
    assert [granules[f"conv{k}"][2:4] for k in range(3)] == [(4, 4), (2, 2), (1, 1)]
    assert [granules[f"short{k}"][2:4] for k in range(3)] == [(4, 4), (2, 2), (1, 1)]
    assert granules["w0"] == (1, 1, 1, 1)


def test_aligned_chunks_of_a_strided_chain_need_only_their_halo() -> None:
    """Check the worked case of the design on the tables: granule 8 upstream leaves one row per device to fetch."""
    graph = halving(56, 1)
    space = PlanSpace(graph, load_mesh("dgx-h100"))
    over_rows = "(-, -, gpu.0*gpu.1*gpu.2, -, -)"
    genes = space.abstract_genes()
    conv = space.gene_of["conv0"]
    genes.strategies[conv] = [str(s) for s in space.families[conv].strategies].index(over_rows)
    source = space.gene_of["x"]
    row_bytes = 2 * 4 * 56 * 4
    expected = {"(-, -, gpu.0*gpu.1*gpu.2, -)": 28, "(-, -, gpu.0*gpu.1*gpu.2/2, -)": 6}

    for text, rows in expected.items():
        genes.strategies[source] = [str(s) for s in space.families[source].strategies].index(text)
        alone = [e for e in range(space.edge_count) if space.space.edge_slot[e] == conv]
        tensor = int(space.space.edge_tensor[alone[0]])
        made = space.space.spec_ids[space.space.made_offset[tensor] + genes.strategies[source], SPEC]
        need = space.space.spec_ids[space.space.edge_needed[alone[0]] + genes.strategies[conv], SPEC]
        row = space.space.pair_offset[tensor] + made * space.space.needed_specs[tensor] + need
        assert space.space.pair_rows[space.space.pair_ids[row], 1] == rows * row_bytes, text


def test_sizes_of_families_stay_small_enough_for_a_view_of_three_axes() -> None:
    graph = GRAPHS["attention"]()
    space = PlanSpace(graph, load_mesh("2x-dgx-h100"))
    for block, family in zip(space.blocks, space.families, strict=True):
        dims = len(block.signature.dims) if block.signature is not None else 0
        assert 1 <= len(family.strategies) <= 2 * prod([dims + 1] * 3)


def test_a_pin_whose_granule_makes_the_same_chunks_is_kept() -> None:
    builder = GraphBuilder("net")
    x = builder.source("x", (12, 4), "float32")
    (joined,) = builder.apply("reshape", (x,), site="y", shape=(48,))
    builder.sink(joined)
    graph, mesh = builder.build(), load_mesh("dgx-h100")
    specs = PlanSpace(graph, mesh).families[0].made[0]
    granular = next(spec for spec in specs if spec.dims[0].axes and spec.dims[0].granule > 1)
    plain = f"[{'*'.join(granular.dims[0].axes)}]"
    assert plain not in {str(spec) for spec in specs}

    kept = PlanSpace(graph, mesh, pins={"y": plain}).families[0].made[0]

    assert {str(spec) for spec in kept} == {str(granular)}
    with pytest.raises(PinError, match="no strategy of this block gives"):
        PlanSpace(graph, mesh, pins={"y": "[gpu.9]"})
