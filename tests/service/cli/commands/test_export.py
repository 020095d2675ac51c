"""Tests of `tapestry export`: explicit graphs, whole and in parts, to files and standard output."""

from __future__ import annotations

from pathlib import Path

import pytest

from tapestry.service.store import Store
from tapestry.teg.binding import bind_values
from tapestry.teg.document import load, loads
from tapestry.teg.sharding.external_graphs import recover_external
from tests.service.conftest import Run, complaint
from tests.service.programs import finished_run, two_layers

GRAPH = two_layers(with_weights=True)


@pytest.fixture
def plan(home: Path) -> str:
    """Store a run and return the reference of a plan of it."""
    home.mkdir()
    store = Store(f"sqlite:///{home / 'tapestry.db'}")
    run = finished_run(GRAPH)
    run_id = store.runs.save_finished(run)
    store.close()
    return f"{run_id}/{run.result.frontier[0].id}"


def test_an_explicit_graph_is_printed_without_its_weights(tapestry: Run, plan: str) -> None:
    answer = tapestry("export", plan, "--to", "teg")
    graph = loads(answer.out)
    assert (answer.code, answer.err, len(graph.external), len(graph.data)) == (0, "", 8, 0)
    bound = bind_values(graph, GRAPH.data)
    assert recover_external(bound).structural_hash == GRAPH.structural_hash


@pytest.mark.parametrize("name", ["out.json", "out.json.gz"])
def test_a_file_is_written_whole(tapestry: Run, plan: str, tmp_path: Path, name: str) -> None:
    answer = tapestry("export", plan, "--to", "teg", "-o", tmp_path / name)
    assert (answer.code, answer.out) == (0, "")
    assert load(tmp_path / name) == loads(tapestry("export", plan, "--to", "teg").out)
    shown = tapestry("simulate", tmp_path / name, "--mesh", "dgx-h100")
    assert "sharding proven: yes" in shown.out


def test_parts_are_of_devices_layers_and_blocks(tapestry: Run, plan: str) -> None:
    options = ("--device", 1, "--device", 5, "--block", "h*", "--block", "y")
    blocks = loads(tapestry("export", plan, "--to", "teg", *options).out).blocks
    assert [b.site for b in blocks if b.operator == "contract"] == ["hidden@1", "hidden@5", "y@1", "y@5"]


def test_the_graph_that_a_plan_shards_is_written_with_its_weights(tapestry: Run, plan: str) -> None:
    assert loads(tapestry("export", plan, "--to", "rewritten").out) == GRAPH


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--to", "teg", "--device", 8), "--device: there is no device 8; the plan uses 0 to 7"),
        (("--to", "teg", "--layer", "x"), "--layer: there is no layer 'x'; there are none"),
        (("--to", "teg", "--block", "hiden"), "--block: no block is called 'hiden'; did you mean hidden?"),
        (("--to", "rewritten", "--device", 0), "are for --to teg"),
        (("--to", "teg", "-o", "absent/out.json"), "cannot write 'absent/out.json'"),
        (("--to", "tge"), "not 'tge'; did you mean teg?"),
        ((), "the following arguments are required: --to"),
    ],
)
def test_what_cannot_be_exported_is_refused(
    tapestry: Run, plan: str, options: tuple[object, ...], message: str
) -> None:
    assert message in complaint(tapestry("export", plan, *options))


def test_an_unknown_plan_is_refused(tapestry: Run) -> None:
    assert "there is no plan 'abc'" in complaint(tapestry("export", "abc", "--to", "teg"))
