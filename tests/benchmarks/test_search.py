"""Tests of the benchmark of the search: a cell of each contender, the file and its resumption, messages, the page."""

import json
from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from benchmarks import search
from benchmarks.contenders.catalog import CONTENDERS, GROUPS, named
from benchmarks.contenders.cells import CellError, apart, cell
from benchmarks.contenders.document import SETTINGS, Document, measure, seconds_with
from benchmarks.contenders.page import page, picture
from benchmarks.setting import ROOT
from tapestry.hardware import load_mesh
from tapestry.teg.graph import Graph
from tests.costmodel.programs import layers

FIGURES = ROOT / "benchmarks" / "results" / "search.json"
TINY = ["--graphs", "tiny_taso_nasrnn_h512_t5.winputs", "--meshes", "dgx-h100", "--seconds", "0.3,0.6"]
AVAILABLE = [contender for contender in CONTENDERS.values() if contender.missing is None]


@pytest.fixture(scope="module")
def graph() -> Graph:
    return layers(2)


def share_of(contender: str, found: dict[str, dict[str, object]]) -> float:
    (*_, last) = found[contender]["checkpoints"]  # type: ignore[misc]
    return float(last["hypervolume"])


@pytest.fixture(scope="module")
def cells(graph: Graph) -> dict[str, dict[str, object]]:
    """Run a cell of each contender, once to load what is compiled, and measure all of them in one box."""
    mesh = load_mesh("dgx-h100")
    chosen = [c for c in AVAILABLE if c not in GROUPS["ablations"]] + named(["without exact plans"])
    cell(chosen[0], graph, mesh, 0, [6.0])
    found = [cell(contender, graph, mesh, 0, [0.5, 1.5]) for contender in chosen]
    measure({"contenders": found})
    return {each["name"]: each for each in found}


@pytest.mark.slow
def test_every_contender_finds_plans(cells: dict[str, dict[str, object]]) -> None:
    for name, found in cells.items():
        early, late = found["checkpoints"]  # type: ignore[misc]
        assert (early["cpu_s"], late["cpu_s"]) == (0.5, 1.5), name
        assert 0.0 <= early["hypervolume"] <= late["hypervolume"] + 1e-9 <= 1.0 + 1e-9, name
        assert late["fastest_s"] == pytest.approx(min(row[0] for row in late["front"])), name
        assert len(late["front"]) <= SETTINGS["points"] and late["evaluations"] > 0, name


@pytest.mark.slow
def test_the_whole_is_no_worse_than_its_parts(cells: dict[str, dict[str, object]]) -> None:
    whole, seeds = share_of("all", cells), share_of("seeds only", cells)
    assert whole >= seeds > 0.0
    assert all(share_of(c.name, cells) >= seeds - 1e-6 for c in GROUPS["peers"] if c.name in cells)


@pytest.mark.slow
def test_a_run_goes_on_where_it_was_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "warm_up", lambda contenders: None)
    file, figures = tmp_path / "search.json", tmp_path / "figures.json"
    search.main([*TINY, "--json", str(file), "--contenders", "seeds only"])
    assert "1 of 1" in capsys.readouterr().out
    search.main(
        [*TINY, "--json", str(file), "--contenders", "seeds only", "random", "--figures", str(figures)]
    )
    assert "1 of 1" in (printed := capsys.readouterr().out) and "random" in printed
    (instance,) = json.loads(file.read_text())["instances"]
    assert [c["name"] for c in instance["contenders"]] == ["seeds only", "random"]
    (short,) = json.loads(figures.read_text())["instances"]
    for contender in short["contenders"]:
        for checkpoint in contender["checkpoints"]:
            assert {"cpu_s", "hypervolume", "fastest_s"} <= checkpoint.keys() and "front" not in checkpoint
    search.main([*TINY, "--json", str(file), "--contenders", "random"])
    assert " of " not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--graphs", "gpt2_smal"], "no model 'gpt2_smal'; or the path of an ONNX file"),
        (["--graphs", "missing.onnx"], "no file 'missing.onnx'"),
        (["--meshes", "dgx-h10"], "did you mean dgx-h100"),
        (["--contenders", "NSGA-IV"], "there is no contender 'NSGA-IV'"),
        (["--seconds", "0,1"], "expected CPU seconds above 0, such as 1,10, not '0,1'"),
        (["--seeds", "0"], "expected a count of at least 1, not '0'"),
    ],
)
def test_a_mistake_is_reported_with_what_to_do(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        search.main(arguments)
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"benchmark": "sea', "cannot be continued"),
        ("[]", "cannot be continued"),
        ('{"benchmark": "throughput"}', "figures with another benchmark"),
        (json.dumps({**SETTINGS, "instances": [{}]}), "cannot be continued"),
    ],
)
def test_a_file_that_cannot_be_continued_is_kept(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "search.json"
    file.write_text(text)
    with pytest.raises(SystemExit):
        search.main(["--json", str(file)])
    printed = " ".join(capsys.readouterr().err.split())
    assert message in printed and "name another file, or move it away to begin anew" in printed
    assert file.read_text() == text


def test_figures_without_fronts_are_not_continued(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "figures.json"
    contender = {"name": "all", "seed": 0, "checkpoints": [{"cpu_s": 1.0, "hypervolume": 0.5}]}
    instance = {"graph": "a", "mesh": "b", "program": "c", "contenders": [contender]}
    file.write_text(json.dumps({**SETTINGS, "instances": [instance]}))
    with pytest.raises(SystemExit):
        search.main(["--json", str(file)])
    assert "name the file of --json instead" in " ".join(capsys.readouterr().err.split())


def test_the_other_contenders_get_every_graph_and_every_mesh() -> None:
    graph = layers(1)
    meshes = [load_mesh(name) for name in ("dgx-h100", "2x-dgx-h100")]
    instances = [search.SearchInstance(name, graph, mesh) for name in "abcd" for mesh in meshes]
    chosen = search.few(instances, 4)
    assert [(i.name, i.mesh.name) for i in chosen] == [
        (name, meshes[k % 2].name) for k, name in enumerate("abcd")
    ]
    assert len(search.few(instances, 100)) == 8


def test_a_cell_that_is_measured_again_keeps_its_checkpoints() -> None:
    instance = {"contenders": [{"name": "all", "seed": 0, "checkpoints": [{"cpu_s": 1.0}, {"cpu_s": 10.0}]}]}
    assert seconds_with(instance, "all", 0, [3.0]) == [1.0, 3.0, 10.0]
    assert seconds_with(instance, "all", 1, [3.0]) == [3.0]


def test_seconds_are_sorted() -> None:
    assert search.seconds_in("10,1,1") == [1.0, 10.0]
    for text in ("", "a", "-1", "inf", "nan"):
        with pytest.raises(ArgumentTypeError):
            search.seconds_in(text)


def test_a_cell_that_fails_takes_no_other_with_it() -> None:
    assert apart(lambda: 3) == 3
    with pytest.raises(CellError, match="ZeroDivisionError"):
        apart(lambda: 1 // 0)


def test_the_page_and_the_picture_have_the_figures_of_the_last_run() -> None:
    document = json.loads(FIGURES.read_text())
    generated = (ROOT / "docs" / "generated" / "search.md").read_text()
    assert page(document["instances"], document["left_out"]) == generated
    drawn = (ROOT / "docs" / "images" / "search-benchmark.svg").read_text()
    assert picture(document["instances"]) == drawn


def test_a_document_without_a_file_is_kept_in_memory() -> None:
    document = Document(None)
    entry = document.instance("a", "b", "c")
    assert document.instance("a", "b", "c") is entry
    document.write()
