"""Tests of the examples of the documents: their values, and that all of their work can be sharded."""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks.shardability import shardable
from tapestry.examples.attention import attention
from tapestry.examples.bounding_box import bounding_box
from tapestry.examples.convolution import dense, strided, with_gaps
from tapestry.examples.heat import simulation
from tapestry.examples.linear import linear
from tapestry.examples.matmul import as_product_and_sum, in_one_block
from tapestry.teg.programs import Program

RNG = np.random.default_rng(11)
EXAMPLES = ("linear", "matmul", "convolution", "heat", "bounding_box", "attention")


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def assert_all_shards(program: Program) -> None:
    work = shardable(program.graph)
    assert (work.flops_share, work.bytes_share) == (1.0, 1.0), work.unsplit_bytes


def convolution(x: np.ndarray, w: np.ndarray, gaps: int, stride: int) -> np.ndarray:
    """Compute a convolution by definition, window by window, with `gaps` and `stride` along the rows."""
    taps = w.shape[2]
    count = (x.shape[2] - (taps - 1) * gaps - 1) // stride + 1
    rows = [x[:, :, k * gaps : k * gaps + (count - 1) * stride + 1 : stride] for k in range(taps)]
    wide = x.shape[3] - w.shape[3] + 1
    return sum(
        np.einsum("ncyx,oc->noyx", row[..., j : j + wide], w[:, :, k, j])
        for k, row in enumerate(rows)
        for j in range(w.shape[3])
    )


def test_linear() -> None:
    x, w, b = floats(8, 5), floats(5, 6), floats(6)
    p = linear(8, 5, 6)
    np.testing.assert_allclose(p.evaluate({"x": x, "w": w, "b": b})["y"], np.maximum(x @ w + b, 0), atol=1e-5)
    assert_all_shards(p)


def test_a_matrix_product_is_a_product_and_a_sum() -> None:
    x, w = floats(4, 8), floats(8, 5)
    one, two = in_one_block(4, 8, 5), as_product_and_sum(4, 8, 5)
    for p in (one, two):
        np.testing.assert_allclose(p.evaluate({"x": x, "w": w})["y"], x @ w, atol=1e-5)
        assert_all_shards(p)
    for block in (one.graph.blocks[2], two.graph.blocks[3]):
        assert block.signature is not None
        assert {d.name: d.kind for d in block.signature.dims}["inner"] == "sum"


@pytest.mark.parametrize("rewritten", [False, True])
@pytest.mark.parametrize(("write", "gaps", "stride"), [(with_gaps, 2, 1), (strided, 1, 2)])
def test_sparse_convolutions(write: Callable[..., Program], gaps: int, stride: int, rewritten: bool) -> None:
    x, w = floats(2, 32, 12, 12), floats(64, 32, 3, 3)
    p = write(2, 12, rewritten=rewritten)
    found = p.evaluate({"x": x, "w": w})["y"]
    np.testing.assert_allclose(found, convolution(x, w, gaps, stride), rtol=1e-3, atol=1e-3)
    assert_all_shards(p)


def test_a_dense_convolution_is_one_block_and_gaps_are_two() -> None:
    x, w = floats(2, 32, 7, 7), floats(64, 32, 3, 3)
    p = dense(2, 7)
    np.testing.assert_allclose(
        p.evaluate({"x": x, "w": w})["y"], convolution(x, w, 1, 1), rtol=1e-3, atol=1e-3
    )
    assert [b.operator for b in p.graph.blocks].count("conv") == 1
    rewritten = with_gaps(2, 12, rewritten=True).graph
    assert [b.definition["dilations"] for b in rewritten.blocks if b.operator == "conv"] == [(1, 1)] * 2


def test_heat() -> None:
    heat, conductivity = floats(9, 7), np.full((9, 7), 0.1, np.float32)
    p = simulation(9, 7, steps=3)
    now = heat
    for _ in range(3):
        a = np.pad(now, 1, mode="edge")
        now = now + conductivity * (
            a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] - np.float32(4) * now
        )
    found = p.evaluate({"heat": heat, "conductivity": conductivity})
    np.testing.assert_allclose(found["heat.next"], now, rtol=1e-5, atol=1e-6)
    assert found["hottest"] == found["heat.next"].max()
    assert [s.definition.get("carries") for s in p.graph.sinks] == ["heat", None]
    assert_all_shards(p)


@pytest.mark.parametrize(("cat", "box"), [([(2, 1), (3, 2)], ([2, 1], [3, 2])), ([], ([-1, -1], [-1, -1]))])
def test_bounding_box(cat: list[tuple[int, int]], box: tuple[list[int], list[int]]) -> None:
    image = np.full((4, 6), 0.1, np.float32)
    for at in cat:
        image[at] = 0.9
    p = bounding_box(4, 6)
    found = p.evaluate({"image": image})
    assert (found["first"].tolist(), found["last"].tolist()) == box
    assert_all_shards(p)


def test_attention() -> None:
    batch, tokens, heads, width = 2, 5, 3, 4
    p = attention(batch, tokens, heads, width)
    x, out = floats(batch, tokens, 12), floats(heads, width, 12)
    weights = {f"w_{name}": floats(12, heads, width) for name in "qkv"}
    q, k, v = (np.einsum("btf,fhw->bhtw", x, w) for w in weights.values())
    scores = q @ k.swapaxes(2, 3) / 2 + np.triu(np.full((tokens, tokens), -np.inf), 1)
    shares = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    wanted = np.einsum("bhtw,hwo->bto", shares @ v, out)
    found = p.evaluate({"x": x, "w_out": out, **weights})["y"]
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)
    assert_all_shards(p)


@pytest.mark.slow
def test_an_example_runs_as_a_command(root: Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", f"tapestry.examples.{EXAMPLES[0]}", "0.2"],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert answer.returncode == 0, answer.stderr
    assert "plans on dgx-h100" in answer.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run_and_are_short(
    name: str, root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [name, "0.2"])
    runpy.run_path(str(root / "examples" / f"{name}.py"), run_name="__main__")
    assert "plans on dgx-h100" in capsys.readouterr().out
    assert (root / "examples" / f"{name}.py").read_text().count("\n") < 60
