"""Tests of programs that JAX wrote to files: they are imported, and their tiny twins give the recorded values."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jaxlib")

from tapestry.teg.graph import Graph
from tapestry.teg.importers import ImportFailure, from_stablehlo
from tapestry.teg.importers.files import GraphFileError, read_program
from tapestry.teg.importers.stablehlo.entry import stablehlo_names
from tapestry.teg.validate import validate
from tests.teg.importers.models import GRAPHS
from tests.teg.importers.stablehlo.programs import close, results

JAX = GRAPHS / "jax"
ENDING = ".stablehlo.mlir.gz"
TWINS = ("flax_cnn_groupnorm_train_sgd", "jax_kmeans_5iter", "jax_spectral_10steps")


def carried(graph: Graph) -> set[str]:
    return {str(s.definition["carries"]) for s in graph.sinks if s.definition.get("carries")}


@pytest.mark.parametrize("name", TWINS)
def test_tiny_twin_gives_the_recorded_values(name: str) -> None:
    file = JAX / f"{name}.tiny{ENDING}"
    graph = from_stablehlo(file)
    assert validate(graph) == []
    inputs, outputs = stablehlo_names(file)
    with np.load(JAX / f"{name}.tiny.npz") as stored:
        found = results(graph, {inputs[int(k[3:])]: stored[k] for k in stored if k.startswith("in:")})
        for key in (k for k in stored if k.startswith("out:")):
            close(found[outputs[int(key[4:])]], stored[key], 1e-4)


def test_a_training_step_carries_all_parameters_and_no_data() -> None:
    graph = from_stablehlo(JAX / f"flax_cnn_groupnorm_train_sgd{ENDING}")
    assert carried(graph) == {f"arg{k}" for k in range(30)}
    roles = {s.site: s.definition["role"] for s in graph.sources}
    assert roles["arg0"] == "parameter"
    assert roles["arg30"] == roles["arg31"] == "activation"


def test_an_iteration_over_points_is_no_training_step() -> None:
    assert carried(from_stablehlo(JAX / f"jax_kmeans_5iter{ENDING}")) == set()


def test_sharding_annotations_do_not_matter() -> None:
    graph = from_stablehlo(JAX / f"jax_mlp_dp4_tp2_train{ENDING}")
    assert validate(graph) == []
    assert carried(graph) == {f"arg{k}" for k in range(8)}
    assert [s.site for s in graph.sinks][:3] == ["result.0", "result.1.0.0", "result.1.0.1"]


def test_roles_may_be_given() -> None:
    graph = from_stablehlo(JAX / f"jax_kmeans_5iter.tiny{ENDING}", roles={"arg1": "parameter"})
    assert {s.site: s.definition["role"] for s in graph.sources}["arg1"] == "parameter"
    with pytest.raises(ImportFailure, match="no input 'arg9' to be a parameter"):
        from_stablehlo(JAX / f"jax_kmeans_5iter.tiny{ENDING}", roles={"arg9": "parameter"})


def test_files_are_read_by_their_ending(tmp_path: Path) -> None:
    text = gzip.decompress((JAX / f"jax_spectral_10steps.tiny{ENDING}").read_bytes())
    (tmp_path / "plain.mlir").write_bytes(text)
    assert read_program(str(tmp_path / "plain.mlir")).name == "jit_f"
    assert read_program(str(JAX / f"jax_spectral_10steps.tiny{ENDING}")).name == "jit_f"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no function @main"),
        (b"model", "is not a StableHLO module"),
        (b"\x1f\x8b\x08garbage", "cannot be unpacked"),
        (b"ML\xefR" + bytes(40), "is not a StableHLO module"),
        (b"func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> { return %a : tensor<?xf32> }", "dynamic"),
        (
            b"func.func @main(%a: tensor<2xi4>) -> tensor<2xi4> { return %a : tensor<2xi4> }",
            "element type i4",
        ),
    ],
)
def test_bad_files_are_reported_in_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "bad.mlir").write_bytes(content)
    with pytest.raises(GraphFileError, match=message) as failure:
        read_program(str(tmp_path / "bad.mlir"))
    assert "\n" not in str(failure.value)
