"""The text of exported modules: what formatters and linters say, repeated layers, refusals, and running as a script."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.evaluate import random_inputs
from tapestry.teg.exporters.spmd import file_sources, folding, to_jax, to_torch
from tapestry.teg.graph import Graph
from tapestry.teg.importers.files import read_program
from tapestry.teg.sharding.expand import ExplicitGraph, expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import WHOLE, Split
from tapestry.teg.sharding.strategy import Strategy
from tests.cases import first, rotating
from tests.teg.exporters.spmd.plans import KINDS, placed

PAIR, LINE = MeshShape.of(gpu=2), MeshShape.of(gpu=4)


def perceptron(layers: int, carried: bool = False) -> Graph:
    """Build layers of a product, a bias and a rectifier; the last bias may be state that each step doubles."""
    build = GraphBuilder("perceptron")
    x = build.source("x", (8, 16), "float32")
    for k in range(layers):
        w = build.source(f"h.{k}.weight", (16, 16), "float32", role="parameter")
        b = build.source(f"h.{k}.bias", (16,), "float32", role="parameter")
        (product,) = build.apply(
            "contract",
            [x, w],
            site=f"product.{k}",
            labels=(("row", "k"), ("k", "column")),
            output=("row", "column"),
        )
        dims = (("row", 8), ("column", 16))
        expression = ("relu", ("add", ("input", 0), ("input", 1)))
        labels = (("row", "column"), ("column",))
        (x,) = build.apply(
            "cell", [product, b], site=f"act.{k}", expr=expression, labels=labels, dims=dims, dtype="float32"
        )
    build.sink(x, site="y")
    if carried:
        expression = ("mul", ("input", 0), ("const", 2.0))
        (doubled,) = build.apply(
            "cell",
            [b],
            site="doubled",
            expr=expression,
            labels=(("column",),),
            dims=(("column", 16),),
            dtype="float32",
        )
        build.sink(doubled, site="next", carries=f"h.{layers - 1}.bias")
    return build.build()


def split_columns(graph: Graph) -> Placements:
    """Split the columns of every product over two devices, and of every weight, so that results are gathered."""
    blocks = {}
    for block in graph.blocks:
        if block.signature is None:
            continue
        names = [d.name for d in block.signature.dims]
        place = names.index("column") if "column" in names else -1
        if block.operator == "source" and block.site.startswith("h."):
            place = len(names) - 1
        splits = [Split(("gpu.0",)) if k == place else WHOLE for k in range(len(names))]
        blocks[block.site] = Placement(Strategy(tuple(splits)))
    return Placements(blocks)


def module_of(layers: int, carried: bool = False) -> str:
    graph = perceptron(layers, carried)
    return to_torch(expand(graph, split_columns(graph), PAIR))


def reference(arrays: dict[str, np.ndarray], layers: int) -> np.ndarray:
    x = arrays["x"]
    for k in range(layers):
        x = np.maximum(x @ arrays[f"h.{k}.weight"] + arrays[f"h.{k}.bias"], 0)
    return x


def run_script(module: Path, *options: object, ranks: int = 2) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        str(ranks),
        "--standalone",
    ]
    return subprocess.run(
        [*command, str(module), *map(str, options)], capture_output=True, text=True, timeout=180
    )


def ruff(*arguments: str, text: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "ruff",
        *arguments,
        "--isolated",
        "--quiet",
        "--stdin-filename",
        "plan.py",
        "-",
    ]
    return subprocess.run(command, input=text, capture_output=True, text=True)


def test_a_module_states_its_layers_once() -> None:
    few, many = module_of(2), module_of(80)
    assert len(many.splitlines()) <= 1.3 * len(few.splitlines())
    assert "for i in range(80):" in many and 'w[f"h.{i}.weight"]' in many


def test_early_copies_are_started_where_they_are_issued_and_waited_for_by_their_readers() -> None:
    graph = perceptron(2)
    placements = Placements(
        {
            "h.1.weight": Placement(Strategy((Split(("gpu.0",)), WHOLE))),
            "product.1": Placement(Strategy((WHOLE,) * 3), prefetch=(0, 2)),
        }
    )
    text = to_torch(expand(graph, placements, PAIR))
    step = [line.strip() for line in text[text.index("def step(w):") :].split("\n")]
    started = step.index('h_1_weight_coming = all_gather.start(w["h.1.weight"], 0, "gpu")')
    waited = step.index("h_1_weight_fetched = h_1_weight_coming.wait()  # [16, 16]")
    read = next(k for k, line in enumerate(step) if line.startswith("product_1 = "))
    assert [line for line in step[started:waited] if line.startswith("act")] and waited + 1 == read
    assert ".start(" not in to_jax(expand(graph, placements, PAIR))


def test_the_same_plan_gives_the_same_text() -> None:
    assert module_of(3) == module_of(3)


MODELS = (
    "tiny_gpt2_small_b1_s1024.winputs",
    "tiny_llama2_7b_1layer_b1_s2048.winputs",
    "tiny_resnet50_b16_224.winputs",
    "tiny_train_mlp_784_4x4096_b1024_sgd",
    "tiny_train_gpt2_small_b8_s1024_adam",
)


@pytest.mark.parametrize("write", [to_torch, to_jax])
@pytest.mark.parametrize(
    ("model", "plan"), first(1, [(MODELS[0], "even"), *product(MODELS, ("uneven", "1"))])
)
def test_formatters_and_linters_find_nothing_to_change(
    model: str, plan: str, write: Callable[[ExplicitGraph], str], root: Path
) -> None:
    graph = read_program(root / "tests" / "data" / "graphs" / f"{model}.onnx")
    text = write(placed(graph, plan, LINE))
    assert ruff("format", "--diff", text=text).stdout == ""
    assert ruff("check", text=text).stdout == ""


@pytest.mark.parametrize("write", [to_torch, to_jax])
@pytest.mark.parametrize(("model", "plan"), rotating(8, product(MODELS, KINDS)))
def test_folded_lines_mean_what_the_long_ones_do(
    model: str,
    plan: str,
    write: Callable[[ExplicitGraph], str],
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = read_program(root / "tests" / "data" / "graphs" / f"{model}.onnx")
    explicit = placed(graph, plan, LINE)
    folded = write(explicit)
    monkeypatch.setattr(folding, "WIDTH", 10**6)
    long = write(explicit)
    assert ast.dump(ast.parse(folded)) == ast.dump(ast.parse(long))
    assert len(long.splitlines()) < len(folded.splitlines())


def test_a_module_imports_nothing_but_torch_numpy_and_the_standard_library() -> None:
    lines = [line for line in module_of(2).splitlines() if line.startswith(("import ", "from "))]
    roots = {line.split()[1].partition(".")[0] for line in lines}
    assert roots - {"torch", "numpy"} <= set(sys.stdlib_module_names)


def test_operators_without_a_text_are_refused_together() -> None:
    build = GraphBuilder("foreign")
    x = build.source("x", (4, 4), "float32")
    for k, function in enumerate(("popcount", "count_leading_zeros")):
        expression = (function, ("cast", "int32", ("input", 0)))
        labels, dims = (("a", "b"),), (("a", 4), ("b", 4))
        (cell,) = build.apply(
            "cell", [x], site=f"cell.{k}", expr=expression, labels=labels, dims=dims, dtype="int32"
        )
        build.sink(cell, site=f"y{k}")
    graph = build.build()
    with pytest.raises(ValueError, match=r"popcount.*count_leading_zeros"):
        to_torch(expand(graph, Placements({}), PAIR))


@pytest.mark.slow
def test_torchrun_runs_a_module_with_its_values_in_two_files(tmp_path: Path) -> None:
    graph = perceptron(3, carried=True)
    arrays = random_inputs(graph, np.random.default_rng(0))
    module, inputs, weights = tmp_path / "plan.py", tmp_path / "in.npz", tmp_path / "w.safetensors"
    module.write_text(module_of(3, carried=True))
    np.savez(inputs, x=arrays["x"], more=np.zeros(1))
    save_safetensors({k: v for k, v in arrays.items() if k != "x"}, weights)
    options = ("--inputs", inputs, "--weights", weights, "--outputs", tmp_path / "out.npz", "--steps", 2)
    done = run_script(module, *options)
    assert done.returncode == 0, done.stderr
    assert "warning: the program does not read 'more'" in done.stderr
    with np.load(tmp_path / "out.npz") as found:
        doubled = {**arrays, "h.2.bias": 2 * arrays["h.2.bias"]}
        np.testing.assert_allclose(found["y"], reference(doubled, 3), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(found["next"], 4 * arrays["h.2.bias"])
    assert not list(tmp_path.glob("*.partial"))


def save_safetensors(arrays: dict[str, np.ndarray], path: Path) -> None:
    """Write a file of float32 arrays: a header of names and offsets, then their bytes."""
    import json

    header, start = {}, 0
    for name, value in arrays.items():
        stop = start + value.nbytes
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [start, stop]}
        start = stop
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(v.tobytes() for v in arrays.values()))


@pytest.mark.slow
def test_all_faults_of_the_input_are_reported_at_once_and_nothing_is_written(tmp_path: Path) -> None:
    module, inputs = tmp_path / "plan.py", tmp_path / "in.npz"
    module.write_text(module_of(2))
    np.savez(inputs, **{"x": np.zeros((8, 16)), "h.0.weight": np.zeros((16, 4), np.float32)})  # type: ignore[arg-type]
    (tmp_path / "w.safetensors").write_bytes(b"\xff" * 20)
    options = ("--inputs", inputs, "--weights", tmp_path / "w.safetensors", "--outputs", tmp_path / "out.npz")
    done = run_script(module, *options)
    assert done.returncode != 0
    for fault in (
        "cannot read",
        "'x' is float64 of shape (8, 16), not float32 of shape (8, 16)",
        "'h.0.weight' is float32 of shape (16, 4), not float32 of shape (16, 16)",
        "'h.1.bias' is missing: float32 of shape (16,)",
    ):
        assert fault in done.stderr
    assert not (tmp_path / "out.npz").exists()


@pytest.mark.slow
def test_a_module_of_one_device_needs_no_torchrun(tmp_path: Path) -> None:
    graph, inputs, outputs = perceptron(2), tmp_path / "in.npz", tmp_path / "out.npz"
    module = tmp_path / "plan.py"
    module.write_text(to_torch(expand(graph, Placements({}), MeshShape.of(gpu=1))))
    arrays = random_inputs(graph, np.random.default_rng(0))
    np.savez(inputs, **arrays)  # type: ignore[arg-type]
    command = [sys.executable, str(module), "--inputs", str(inputs), "--outputs", str(outputs)]
    subprocess.run(command, check=True, timeout=100)
    np.testing.assert_allclose(np.load(outputs)["y"], reference(arrays, 2), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_a_wrong_number_of_processes_is_refused(tmp_path: Path) -> None:
    module = tmp_path / "plan.py"
    module.write_text(module_of(2))
    done = run_script(module, "--inputs", "in.npz", "--outputs", tmp_path / "out.npz", ranks=1)
    assert done.returncode != 0
    assert "on 2 processes, not 1: torchrun --nproc-per-node 2" in done.stderr


@pytest.mark.slow
@pytest.mark.reach
def test_ranks_without_a_gpu_are_refused(tmp_path: Path) -> None:
    if pytest.importorskip("torch").cuda.device_count() > 1:
        pytest.skip("there are GPUs")
    module, inputs = tmp_path / "plan.py", tmp_path / "in.npz"
    module.write_text(module_of(2))
    np.savez(inputs, **random_inputs(perceptron(2), np.random.default_rng(0)))  # type: ignore[arg-type]
    done = run_script(module, "--inputs", inputs, "--outputs", tmp_path / "out.npz", "--backend", "nccl")
    assert done.returncode != 0
    assert "has no GPU; --backend gloo runs on processors" in done.stderr
    assert not (tmp_path / "out.npz").exists()


def test_small_constants_stand_in_the_text_and_large_ones_are_read(root: Path) -> None:
    graph = read_program(root / "tests" / "data" / "graphs" / "tiny" / "lstm_2x512_b32_t24.winputs.onnx")
    named: Sequence[str] = file_sources(graph)
    text = to_torch(placed(graph, "even", LINE))
    constants = [block.site for block in graph.sources if block.site not in named]
    assert named and constants
    first, second, third = (text.index(f"{table} = ") for table in ("SOURCES", "CONSTANTS", "OUTPUTS"))
    assert all(f'"{site}"' in text[second:third] for site in constants)
    assert not any(f'"{site}"' in text[first:second] for site in constants)


def test_a_program_without_constants_has_no_table_of_them() -> None:
    assert "CONSTANTS" not in module_of(1)
