"""Exported JAX programs, lowered by JAX and read back in: all devices compute the program, and mutants do not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tapestry.optimizer.analysis.verification import relative_errors
from tapestry.teg.double import in_double, widened
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.exporters.spmd import to_jax
from tapestry.teg.exporters.spmd.lowered import read_lowered
from tapestry.teg.exporters.spmd.stacks import sink_stacks
from tapestry.teg.graph import Graph
from tapestry.teg.importers import ImportFailure
from tapestry.teg.importers.files import read_program
from tapestry.teg.pruning import prune
from tapestry.teg.sharding.expand import ExplicitGraph, expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import WHOLE, Split
from tapestry.teg.sharding.strategy import Strategy
from tests.teg.exporters.jax_process import JaxProcess
from tests.teg.exporters.spmd.plans import placed
from tests.teg.exporters.spmd.test_module import perceptron, split_columns
from tests.teg.sharding.programs import random_placements, random_program

CLOSE = 1e-6  # numbers in the text of a program for float32 are rounded
REACH = (pytest.mark.slow, pytest.mark.reach)
PAIR, LINE, GRID = MeshShape.of(gpu=2), MeshShape.of(gpu=8), MeshShape.of(node=2, gpu=4)


def lowered(process: JaxProcess, explicit: ExplicitGraph, folder: Path) -> str:
    """Export a plan for JAX, and return what JAX lowers it to."""
    module, text = folder / "plan.py", folder / "step.mlir"
    module.write_text(to_jax(explicit))
    process.lower(module, text)
    return text.read_text()


def errors(
    explicit: ExplicitGraph, text: str, reference: Graph, inputs: Mapping[str, np.ndarray]
) -> dict[str, float]:
    """Return how far the outputs of a lowered program are from the reference's, on any device."""
    found = read_lowered(explicit, text).in_double().outputs(inputs)
    wanted = evaluate(in_double(reference), {name: widened(value) for name, value in inputs.items()})
    stacks = sink_stacks(explicit)
    parts = {f"{site}@{d}": p for site in found for d, p in enumerate(stacks[site].parts_of(wanted[site]))}
    return relative_errors(
        {f"{site}@{d}": p for site, own in found.items() for d, p in enumerate(own)}, parts
    )


def random_case(seed: int) -> tuple[ExplicitGraph, dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    graph = prune(random_program(rng))
    inputs = random_inputs(graph, rng)
    mesh_shape = (MeshShape.of(gpu=4), MeshShape.of(node=2, gpu=2), MeshShape.of(gpu=3))[seed % 3]
    return expand(graph, random_placements(rng, graph, mesh_shape), mesh_shape), inputs


def gathered_case() -> tuple[ExplicitGraph, dict[str, np.ndarray]]:
    graph = perceptron(2)
    return expand(graph, split_columns(graph), PAIR), random_inputs(graph, np.random.default_rng(0))


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(s, marks=REACH) for s in range(3, 40))])
def test_random_programs_come_back_in(seed: int, jax_process: JaxProcess, tmp_path: Path) -> None:
    explicit, inputs = random_case(seed)
    text = lowered(jax_process, explicit, tmp_path)
    found = errors(explicit, text, explicit.abstract, inputs)
    assert found and max(found.values()) <= CLOSE


MODELS = (
    ("tiny_train_gpt2_small_b8_s1024_adam", "data", PAIR),
    ("tiny_train_mlp_784_4x4096_b1024_sgd", "rows", LINE),
    ("tiny_resnet50_b16_224.winputs", "space", PAIR),
    ("tiny_gpt2_small_b1_s1024.winputs", "rows", LINE),
    ("tiny_llama2_7b_1layer_b1_s2048.winputs", "rows", GRID),
)


@pytest.mark.parametrize(
    ("model", "plan", "mesh_shape"),
    [pytest.param(*m, marks=REACH if k else pytest.mark.slow) for k, m in enumerate(MODELS)],
)
def test_public_models_come_back_in(
    model: str, plan: str, mesh_shape: MeshShape, jax_process: JaxProcess, tmp_path: Path, root: Path
) -> None:
    graph = read_program(root / "tests" / "data" / "graphs" / f"{model}.onnx")
    explicit = placed(graph, plan, mesh_shape)
    inputs = random_inputs(graph, np.random.default_rng(0))
    found = errors(explicit, lowered(jax_process, explicit, tmp_path), graph, inputs)
    assert found and max(found.values()) <= CLOSE


# Numbers of a module that say who sends to whom, and which part: two of each place are exchanged, or moved by one.
FORMS = {
    "receivers": r"source_target_pairs = dense<\[\[\d+, (\d+)\], \[\d+, (\d+)\]",
    "members": r"replica_groups = dense<\[\[(\d+), (\d+)",
    "starts": r"stablehlo\.constant dense<\[(\d+), (\d+)[^\]]*\]> : tensor<\dxi64>",
    "slice": r"stablehlo\.slice %\S+ \[(\d+):(\d+)[,\]]",
}


def mutants(text: str, kind: str) -> list[str]:
    """Change a module at one place after the other."""
    found = []
    for place in re.finditer(FORMS[kind], text):
        first, second = (int(number) for number in place.groups())
        if kind == "slice":
            first, second = second - 1, first - 1
        if first >= 0 and second >= 0 and first != second:
            (a, b), (c, d) = place.span(1), place.span(2)
            found.append(f"{text[:a]}{second}{text[b:c]}{first}{text[d:]}")
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "count"), [(None, 1), *(pytest.param(s, 4, marks=REACH) for s in (5, 8, 12, 14, 18, 22, 31))]
)
def test_a_changed_program_is_refuted_where_xla_computes_something_else(
    seed: int | None, count: int, jax_process: JaxProcess, tmp_path: Path
) -> None:
    explicit, inputs = gathered_case() if seed is None else random_case(seed)
    text = lowered(jax_process, explicit, tmp_path)
    graph = explicit.abstract
    stored = {b.site: graph.data[t] for b in graph.sources for t in b.outputs if t in graph.data}
    np.savez(tmp_path / "in.npz", **{**stored, **inputs})  # type: ignore[arg-type]

    def by_xla(changed: str) -> dict[str, np.ndarray]:
        (tmp_path / "changed.mlir").write_text(changed)
        files = (tmp_path / name for name in ("plan.py", "changed.mlir", "in.npz", "out.npz"))
        jax_process.execute(*files)
        with np.load(tmp_path / "out.npz") as found:
            return dict(found)

    original = by_xla(text)
    changed = [mutant for kind in FORMS for mutant in mutants(text, kind)[:count]]
    differ = [max(relative_errors(by_xla(m), original).values()) > CLOSE for m in changed]
    refuted = [max(errors(explicit, m, graph, inputs).values()) > CLOSE for m in changed]
    assert any(differ) and refuted == differ


def test_a_module_of_another_plan_is_refused(jax_process: JaxProcess, tmp_path: Path) -> None:
    explicit, _ = gathered_case()
    graph, text = explicit.abstract, lowered(jax_process, explicit, tmp_path)
    others = split_columns(graph).blocks | {"x": Placement(Strategy((Split(("gpu.0",)), WHOLE)))}
    with pytest.raises(ImportFailure, match=r"'w.x' must have shape \(2, 8, 16\) .*, not shape \(2, 4, 16\)"):
        read_lowered(expand(graph, Placements(others), PAIR), text)
    with pytest.raises(
        ImportFailure, match=r"no output 'result.y'; write it with `python plan.py --lower FILE`"
    ):
        read_lowered(explicit, text.replace("result['y']", "result['z']"))
