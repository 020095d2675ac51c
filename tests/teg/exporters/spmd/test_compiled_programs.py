"""Tests of what XLA makes of an exported program's collectives: each difference is the work of a pass, by name.

The lowered program has the plan's collectives (`test_jax_execution`). XLA is asked for the HLO after each pass that
changes it; from there on the collectives are read from its text, and a pass that is left out changes nothing.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tapestry.examples.compiler_client.hlo_collectives import received
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.exporters.spmd import to_jax
from tapestry.teg.importers.files import read_program
from tapestry.teg.sharding.expand import ExplicitGraph, expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.text import parse_strategy
from tests.teg.exporters.jax_process import JaxProcess
from tests.teg.exporters.passes import PASSES
from tests.teg.exporters.spmd.plans import gathered_twice, placed
from tests.teg.exporters.xla import Change, changes, compile_program, dumps_of

pytestmark = pytest.mark.slow

PAIR, LINE = MeshShape.of(gpu=2), MeshShape.of(gpu=8)


def products(dtype: str, count: int) -> ExplicitGraph:
    """Build products whose contracted dimension is split: each is combined by an all-reduce."""
    build = GraphBuilder("products")
    strategies = {}
    for k in range(count):
        x, w = build.source(f"x{k}", (16, 32), dtype), build.source(f"w{k}", (32, 8), dtype, "parameter")
        labels = (("m", "k"), ("k", "n"))
        build.apply("contract", (x, w), site=f"p{k}", labels=labels, output=("m", "n"))
        build.sink(f"p{k}", site=f"y{k}")
        strategies |= {
            f"x{k}": "(-, gpu.0)",
            f"w{k}": "(gpu.0, -)",
            f"p{k}": "(-, -, gpu.0)",
            f"y{k}": "(-, -)",
        }
    placements = {site: Placement(parse_strategy(text)) for site, text in strategies.items()}
    return expand(build.build(), Placements(placements), PAIR)


def exchanged() -> ExplicitGraph:
    """Build a reader that needs columns of a tensor that is split by rows."""
    build = GraphBuilder("exchanged")
    x = build.source("x", (8, 4), "float32")
    (y,) = build.apply(
        "cell",
        [x],
        site="y",
        expr=("neg", ("input", 0)),
        labels=(("a", "b"),),
        dims=(("a", 8), ("b", 4)),
        dtype="float32",
    )
    build.sink(y, site="out")
    columns = Placement(parse_strategy("(-, gpu.0)"))
    placed = {"x": Placement(parse_strategy("(gpu.0, -)")), "y": columns, "out": columns}
    return expand(build.build(), Placements(placed), PAIR)


def compiled(
    jax_process: JaxProcess, explicit: ExplicitGraph, folder: Path, without: str = ""
) -> list[Change]:
    """Compile an exported program; check that XLA begins with its collectives, and return what passes change."""
    folder.mkdir()
    path, dumps = folder / "plan.py", folder / "dumps"
    path.write_text(to_jax(explicit))
    lowered, hlo = jax_process.do(compile_program, path, dumps, without)
    found = dumps_of(dumps)
    first = {kind.replace("-", "_"): count for kind, count in received(found[0][1]).items()}
    assert first == lowered and sum(lowered.values()) > 0
    made = list(changes(found))
    assert received(hlo).total() == sum(lowered.values()) - sum(change.saved_bytes for change in made)
    return made


@pytest.mark.parametrize(
    ("explicit", "name", "saved_bytes"),
    [
        (products("bfloat16", 1), "all-reduce-promotion", -2 * 16 * 8 * 2),
        (products("float32", 3), "cpu-all-reduce-combiner", 0),
        (gathered_twice(PAIR), "cse", 8 * 4 * 4),
        (exchanged(), "all_to_all_decomposer", 0),
    ],
)
def test_a_difference_is_the_work_of_a_pass(
    explicit: ExplicitGraph, name: str, saved_bytes: int, jax_process: JaxProcess, tmp_path: Path
) -> None:
    (change,) = compiled(jax_process, explicit, tmp_path / "with")
    assert (change.name, change.saved_bytes) == (name, saved_bytes)
    assert PASSES[name](change)
    if name != "all-reduce-promotion":  # processors reduce no elements of two bytes: another pass would do it
        assert compiled(jax_process, explicit, tmp_path / "without", name) == []


MODELS = (
    pytest.param("tiny_train_mlp_784_4x4096_b1024_sgd", "rows", LINE, marks=pytest.mark.reach),
    pytest.param("tiny_train_gpt2_small_b8_s1024_adam", "data", PAIR, marks=pytest.mark.reach),
    pytest.param("tiny_resnet50_b16_224.winputs", "space", PAIR, marks=pytest.mark.reach),
    pytest.param("tiny_gpt2_small_b1_s1024.winputs", "rows", LINE, marks=pytest.mark.reach),
)


@pytest.mark.parametrize(("model", "plan", "mesh_shape"), MODELS)
def test_the_compiled_collectives_of_public_models_differ_by_known_passes_alone(
    model: str, plan: str, mesh_shape: MeshShape, jax_process: JaxProcess, tmp_path: Path, root: Path
) -> None:
    graph = read_program(root / "tests" / "data" / "graphs" / f"{model}.onnx")
    for change in compiled(jax_process, placed(graph, plan, mesh_shape), tmp_path / "plan"):
        assert PASSES[change.name](change), change
