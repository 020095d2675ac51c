"""Tests of in-place updates: the savings of the rules about updates of a part, counted by the simulator."""

import numpy as np

from tapestry.hardware import load_mesh
from tapestry.hardware.simulator import simulate
from tapestry.rewrites import RULES, Move, apply_move, find, saturate
from tapestry.rewrites.cell_form import INPUT
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.graph import Graph
from tapestry.teg.operators.selectors import sliced
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placements

MESH = load_mesh("dgx-h100")
ROWS, COLUMNS = 8, 64
WHOLE_BYTES = ROWS * COLUMNS * 4


def peak_bytes(graph: Graph) -> int:
    """Return the peak of a run on one node, all devices doing everything; check that its values are the program's."""
    program = expand(graph, Placements(), MeshShape(MESH.axis_sizes))
    inputs = random_inputs(graph, np.random.default_rng(0))
    run = simulate(program, MESH, inputs)
    for site, value in evaluate(graph, inputs).items():
        np.testing.assert_array_equal(run.outputs[site], value)
    return int(run.peak_memory_bytes.max())


def rewritten(graph: Graph, rule: str) -> Graph:
    (move,) = (m for m in find(graph, RULES) if m.rule == rule)
    assert isinstance(move, Move)
    return apply_move(graph, move)


def state_with(b: ExampleBuilder) -> str:
    return b.tensor("cache", ROWS, COLUMNS, role="buffer")


def carried(b: ExampleBuilder, new: str) -> Graph:
    b.sink(new, site="cache.next", carries="cache")
    return b.build()


def test_what_is_added_to_a_part_makes_no_padded_copy() -> None:
    b = ExampleBuilder("a row is added to")
    cache = state_with(b)
    padded = b.op("pad", b.tensor("row", 1, COLUMNS), low=(3, 0), high=(ROWS - 4, 0))
    graph = carried(b, b.cell(("add", ("input", 0), ("input", 1)), {cache: "rc", padded: "rc"}))

    row_bytes = WHOLE_BYTES // ROWS
    assert peak_bytes(graph) == 3 * WHOLE_BYTES
    assert peak_bytes(rewritten(graph, "add_to_part")) == 2 * WHOLE_BYTES + row_bytes


def test_a_part_that_changes_where_it_is_makes_no_part_of_its_own() -> None:
    b = ExampleBuilder("half is rectified")
    cache, half = state_with(b), ROWS // 2
    shape = b.shape(cache)
    first = b.view(cache, sliced(shape, (0, 0), (half, COLUMNS)))
    last = b.view(cache, sliced(shape, (half, 0), shape))
    graph = carried(b, b.op("concat", first, b.cell(("relu", INPUT), {last: "rc"}), axis=0))

    assert peak_bytes(graph) == 2 * WHOLE_BYTES + WHOLE_BYTES // 2
    assert peak_bytes(rewritten(graph, "update_of_part")) == 2 * WHOLE_BYTES


def test_copies_into_state_and_of_it_disappear() -> None:
    b = ExampleBuilder("copied in and out")
    cache = state_with(b)
    copy = b.cell(INPUT, {cache: "rc"}, site="copy in")
    new = b.cell(("mul", ("input", 0), ("input", 1)), {copy: "rc", cache: "rc"})
    graph = carried(b, b.op("reshape", new, shape=(ROWS, COLUMNS)))

    done = saturate(graph, [r for r in RULES if r.saturating]).graph
    assert [x.operator for x in done.blocks] == ["source", "cell", "sink"]
    assert peak_bytes(graph) == 3 * WHOLE_BYTES
    assert peak_bytes(done) == 2 * WHOLE_BYTES


def test_a_row_of_a_cache_and_what_makes_it_become_one_block() -> None:
    b = ExampleBuilder("a row is written")
    cache, key = state_with(b), b.tensor("key", 1, COLUMNS)
    shape = b.shape(cache)
    first, last = (b.view(cache, sliced(shape, (a, 0), (e, COLUMNS))) for a, e in ((0, 3), (4, ROWS)))
    row = b.cell(("mul", ("input", 0), ("const", 2.0)), {key: "rc"})
    graph = carried(b, b.op("concat", first, row, last, axis=0))

    written = rewritten(rewritten(graph, "update_of_row"), "fuse_broadcast_cell")
    assert [x.operator for x in written.blocks] == ["source", "source", "cell", "sink"]
    assert peak_bytes(written) == 2 * WHOLE_BYTES + WHOLE_BYTES // ROWS
