"""Tests of public models with recorded values: given in files, they lead to the outputs that PyTorch recorded, and the
state of a training step goes by name from one plan to the next.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tapestry.service.store import Store
from tapestry.teg.importers import from_onnx
from tapestry.teg.tensor_files import read_tensors, write_tensors
from tests.service.conftest import Run, home, tapestry
from tests.teg.importers.models import GRAPHS

__all__ = ["home", "tapestry"]

MLP = "tiny_train_mlp_784_4x4096_b1024_sgd"
ADAM = "tiny_train_gpt2_small_b8_s1024_adam"
MODELS = (
    "tiny_gpt2_small_b1_s1024.winputs",
    MLP,
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in (
            "tiny_gpt2_small_b1_s1024",
            "tiny_llama2_7b_1layer_b1_s2048.winputs",
            "tiny_resnet50_b16_224.winputs",
            ADAM,
        )
    ),
)


def recorded(name: str, kind: str) -> dict[str, np.ndarray]:
    with np.load(GRAPHS / f"{name}.npz") as found:
        return {key.removeprefix(kind): found[key] for key in found if key.startswith(kind)}


@pytest.mark.parametrize("name", MODELS)
def test_recorded_values_lead_to_the_recorded_outputs(tapestry: Run, tmp_path: Path, name: str) -> None:
    given = recorded(name, "in:")
    half = len(given) // 2
    write_tensors(tmp_path / "inputs.npz", dict(list(given.items())[:half]))
    write_tensors(tmp_path / "weights.safetensors", dict(list(given.items())[half:]))
    answer = tapestry(
        *("simulate", GRAPHS / f"{name}.onnx", "--mesh", "dgx-h100"),
        *("--inputs", tmp_path / "inputs.npz", "--weights", tmp_path / "weights.safetensors"),
        *("--outputs", tmp_path / "outputs.npz"),
    )
    assert answer.code == 0, answer.err
    found, wanted = read_tensors(tmp_path / "outputs.npz"), recorded(name, "out:")
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        assert found[key].shape == value.shape
        assert np.abs(found[key] - value).max() <= 1e-4 * np.abs(value).max()


def plans_of(tapestry: Run, name: str) -> list[str]:
    """Search a little, and return the plans of the frontier, the fastest first."""
    answer = tapestry(
        *("optimize", GRAPHS / f"{name}.onnx", "--mesh", "dgx-h100", "--islands", 1, "--evaluations", 1000),
        *("--objectives", "time_s,peak_memory_bytes", "--verify", "none", "--seed", 0, "--json"),
    )
    assert answer.code == 0, answer.err
    return [plan["id"] for plan in answer.json["frontier"]]


@pytest.mark.slow
@pytest.mark.parametrize("name", [MLP, ADAM])
def test_state_goes_by_name_from_step_to_step_and_from_plan_to_plan(
    tapestry: Run, home: Path, tmp_path: Path, name: str
) -> None:
    """Check that a plan finds its own state where it begins, and another plan's is moved, with equal values."""
    fastest, *_, smallest = plans_of(tapestry, name)  # the smallest divides its state, the fastest gathers it
    carried = {sink: source.site for sink, source in from_onnx(GRAPHS / f"{name}.onnx").carriers.items()}
    given = recorded(name, "in:")
    write_tensors(tmp_path / "all.npz", given)
    write_tensors(tmp_path / "rest.npz", {key: given[key] for key in given if key not in carried.values()})

    def simulate(plan: str, file: str, *options: object) -> Any:
        answer = tapestry("simulate", plan, "--inputs", tmp_path / file, *options, "--json")
        assert answer.code == 0, answer.err
        return answer.json

    def outputs(file: str) -> dict[str, np.ndarray]:
        return read_tensors(tmp_path / file)

    two_steps = simulate(smallest, "all.npz", "--steps", 2, "--outputs", tmp_path / "two.npz")
    saved = [word for sink, site in carried.items() for word in ("--save", f"{sink}={site}")]
    read = [word for site in carried.values() for word in ("--tensor", f"{site}={site}")]
    simulate(smallest, "all.npz", *saved)
    store = Store(f"sqlite:///{home / 'tapestry.db'}")
    assert {tensor.name for tensor in store.tensors.all()} == set(carried.values())
    store.close()
    same = simulate(smallest, "rest.npz", *read, "--outputs", tmp_path / "same.npz")
    other = simulate(fastest, "rest.npz", *read, "--outputs", tmp_path / "other.npz")

    assert {move["kind"] for move in same["counts"]["moves"]["tensors"]} == {"none"}
    assert same["counts"]["with_moves"]["traffic_bytes"] == two_steps["counts"]["traffic_bytes"]["counted"]
    kinds = {move["kind"] for move in other["counts"]["moves"]["tensors"]}
    assert "reshard" in kinds and other["counts"]["moves"]["traffic_bytes"] > 0
    for key, value in outputs("two.npz").items():
        np.testing.assert_array_equal(outputs("same.npz")[key], value)
        assert np.abs(outputs("other.npz")[key] - value).max() <= 1e-4 * max(np.abs(value).max(), 1e-6)
