"""Tests of the throughput benchmark: the same plans twice, all different, checked by the reference cost model."""

import json

import numpy as np
import pytest

from benchmarks import throughput
from benchmarks.setting import find_models
from tapestry.costmodel.plan_space import PlanSpace
from tapestry.hardware import load_mesh
from tapestry.optimizer.archive.archive import Archive
from tapestry.optimizer.placement.search_space import search_space
from tapestry.teg.importers import from_onnx

TINY = "tiny_llama2_7b_1layer_b1_s2048"


@pytest.fixture(scope="module")
def island() -> throughput.Island:
    mesh = load_mesh("dgx-h100")
    space = PlanSpace(from_onnx(find_models([TINY])[0]), mesh)
    return throughput.plant(space, search_space(space, tied=False), mesh)


@pytest.mark.slow
def test_a_replay_evaluates_the_plans_of_the_run(island: throughput.Island) -> None:
    before = Archive(*(a.copy() for a in island.archive))
    rng = np.random.default_rng(3)
    run = throughput.drive(island, 0.01, rng)
    witness, same = throughput.replay(island, before, run, 50, rng)
    assert same
    assert witness.place.tolist() == [sum(run.evaluated), 50]
    assert len(np.unique(witness.digests)) > 0.9 * sum(run.evaluated)


@pytest.mark.slow
def test_kept_plans_carry_the_costs_of_the_plain_model(island: throughput.Island) -> None:
    before = Archive(*(a.copy() for a in island.archive))
    rng = np.random.default_rng(4)
    run = throughput.drive(island, 0.01, rng)
    witness, _ = throughput.replay(island, before, run, 4, rng)
    wrong, alone_s = throughput.check(island, island.space.graph, island.space.mesh, witness)
    assert wrong == 0
    assert alone_s > 0
    witness.costs[2, 0] += 1
    assert throughput.check(island, island.space.graph, island.space.mesh, witness)[0] == 1


@pytest.mark.slow
def test_the_document_names_no_host(tmp_path, capsys) -> None:
    file = tmp_path / "figures.json"
    graph = str(find_models([TINY])[0])
    throughput.main(["--json", str(file), "--graphs", graph, "--seconds", "0.01", "--checks", "2"])
    document = json.loads(file.read_text())
    assert [(g["graph"], g["structure"]) for g in document["graphs"]] == [
        (TINY, "imported"),
        (TINY, "simplified"),
    ]
    for row in document["graphs"]:
        assert (row["checked"], row["wrong"], row["replay_is_the_run"]) == (2, 0, True)
        assert {"candidates_per_s", "blocks", "import_s", "compile_s", "first_frontier_s"} <= row.keys()
    assert document["host"].keys() == {"processor", "cores", "system"}
    assert "plans/s" in capsys.readouterr().out


def test_an_unknown_model_is_named() -> None:
    with pytest.raises(FileNotFoundError, match="no model 'no_such_model'"):
        find_models(["no_such_model"])
