"""Tests of `tapestry rewrite`: moves are listed, applied and written; errors are one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tapestry as package
from tapestry.rewrites import Move, Rule, catalog, replay
from tapestry.rewrites.rule import op, tensor
from tapestry.teg.document import load, save
from tapestry.teg.graph import Graph
from tests.rewrites.test_pipelines import failing, program
from tests.service.conftest import Run, complaint


@pytest.fixture
def document(tmp_path: Path) -> Path:
    path = tmp_path / "program.json"
    save(program(), path)
    return path


def moves_of(reported: dict[str, object]) -> list[Move]:
    return [Move.from_json(m) for stage in reported["stages"] for m in stage["moves"]]  # type: ignore[attr-defined]


def test_what_fits_is_listed(tapestry: Run, document: Path) -> None:
    reported = tapestry("rewrite", document, "--list", "--rules", "expand_softmax", "--json").json
    assert reported["moves"] == [
        {"rule": "expand_softmax", "place": site, "choice": ""} for site in ("one", "two")
    ]
    assert reported["rules"]["expand_softmax"]["family"] == "expansions"
    assert (
        reported
        == tapestry(
            "rewrite",
            document,
            "--list",
            "--families",
            "expansions",
            "--kind",
            "semantic",
            "--rules",
            "expand_softmax,fuse_cells",
            "--json",
        ).json
    )
    lines = tapestry("rewrite", document, "--list", "--rules", "expand_softmax").out.splitlines()
    assert lines[0] == "program: 2 moves at 2 places, those of equal layers as one"


def test_the_result_is_written_and_its_moves_replay(tapestry: Run, document: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    names = ("--rules", "expand_softmax", "--mode", "once")
    reported = tapestry("rewrite", document, *names, "-o", out, "--json").json
    after: Graph = load(out)
    assert reported["blocks"] == {"before": len(program().blocks), "after": len(after.blocks)}
    assert replay(program(), moves_of(reported)) == after
    assert reported["structural_hash"] == after.structural_hash


def test_a_pipeline_has_stages(tapestry: Run, document: Path) -> None:
    reported = tapestry("rewrite", document, "--pipeline", "standard", "--json").json
    assert [stage["stage"] for stage in reported["stages"]] == ["expand", "simplify", "search", "fuse"]
    assert "\nexpand\n" in tapestry("rewrite", document, "--pipeline", "standard").out


def test_a_bad_rule_is_left_out_with_a_warning(
    tapestry: Run, document: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = tensor("x")
    bad = Rule("bad", op("cell", x), x, "", "", lambda size: program(), when=failing)
    monkeypatch.setitem(catalog(), "bad", bad)
    answer = tapestry("rewrite", document, "--rules", "bad,expand_softmax", "--mode", "once", "--json")
    assert answer.code == 0
    assert answer.err.startswith("tapestry: rule 'bad' was left out: its guard or choices fail at 'minus'")
    assert [reported["rule"] for reported in answer.json["stages"][0]["refused"]] == ["bad"]
    assert [m.rule for m in moves_of(answer.json)] == ["expand_softmax"]
    listed = tapestry("rewrite", document, "--list", "--rules", "bad,expand_softmax", "--json")
    assert "rule 'bad' was left out" in listed.err
    assert len(listed.json["moves"]) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--rules", "expand_softmx"), "there is no rule 'expand_softmx'; did you mean expand_softmax"),
        (("--pipeline", "standad"), "--pipeline: there is no pipeline 'standad'; did you mean standard"),
        (
            ("--pipeline", "standard", "--mode", "once"),
            "--pipeline: a pipeline brings its own rules and modes along; leave mode out",
        ),
        (("--families", "algebr"), "--families: there is no family of rules 'algebr'; did you mean algebra"),
        (("--kind", "odd"), "--kind: there is no kind of rules 'odd'; known are semantic, optimization"),
        (("-o", "/no/such/folder/x.json"), "there is no such folder"),
    ],
)
def test_wrong_requests_are_refused(
    tapestry: Run, document: Path, options: tuple[str, ...], message: str
) -> None:
    assert message in complaint(tapestry("rewrite", document, *options), 2)


def test_a_search_warns_of_a_bad_rule(tapestry: Run, document: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = tensor("x")
    left = op("softmax", x)
    bad = Rule("bad", left, x, "", "", lambda size: program(), when=failing, saturating=True)
    monkeypatch.setitem(catalog(), "bad", bad)
    options = (
        "--mesh",
        "dgx-h100",
        "--evaluations",
        "2000",
        "--islands",
        "1",
        "--verify",
        "none",
        "--quiet",
    )
    answer = tapestry("optimize", document, *options, "--rules", "bad", "--json", "--no-store")
    assert answer.code == 0
    assert "tapestry: rule 'bad' was left out: its guard or choices fail at 'one'" in answer.err
    (reported,) = answer.json["refused_rules"]
    assert reported["rule"] == "bad" and "name the others in `rules`" in reported["hint"]


def test_listed_moves_are_made(tapestry: Run, document: Path, tmp_path: Path) -> None:
    listed = tapestry("rewrite", document, "--list", "--rules", "expand_softmax", "--json").json
    chosen, out = tmp_path / "moves.json", tmp_path / "out.json"
    chosen.write_text(json.dumps(listed["moves"][1:]))
    reported = tapestry("rewrite", document, "--moves", chosen, "-o", out, "--json").json
    after: Graph = load(out)
    assert [m.place for m in moves_of(reported)] == ["two"]
    assert "softmax" in {b.operator for b in after.blocks} and "two" in program().by_site


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is no JSON document"),
        ('[{"rule": "expand_softmax"}]', "a move is an object with rule, place, choice"),
        ('{"rule": "expand_softmax", "place": "nowhere"}', "there is no block 'nowhere'"),
    ],
)
def test_moves_that_cannot_be_made(
    tapestry: Run, document: Path, tmp_path: Path, content: str, message: str
) -> None:
    (tmp_path / "moves.json").write_text(content)
    answer = tapestry("rewrite", document, "--moves", tmp_path / "moves.json")
    assert answer.code == 2 and message in complaint(answer)


def test_a_list_changes_nothing(tapestry: Run, document: Path, tmp_path: Path) -> None:
    answer = tapestry("rewrite", document, "--list", "-o", tmp_path / "out.json")
    assert answer.code == 2 and "leave --output out" in complaint(answer)


def test_an_inference_program_is_divided_in_what_is_computed_once_and_the_rest(
    tapestry: Run, tmp_path: Path
) -> None:
    b = package.program()
    x, w, s = b.input("x", row=2, k=4), b.parameter("w", k=4, out=5), b.parameter("s", out=5)
    b.output("y", x @ w * s)
    given, once, rest = (tmp_path / name for name in ("given.json", "once.json", "rest.json"))
    save(b.graph, given)
    reported = tapestry("rewrite", given, "--prepare", once, "-o", rest, "--json").json
    assert [stage["stage"] for stage in reported["stages"]] == ["fixpoint", "fold"]
    assert reported["flops"] == {"before": 90, "after": 80}
    (made,) = [block for block in load(once).blocks if block.operator == "sink"]
    assert made.site.removesuffix(".prepared") in {s.outputs[0] for s in load(rest).sources}
    message = tapestry("rewrite", given, "--prepare", once, "-o", rest).out
    assert "computed once: 4 blocks, 20 flops" in message
    assert "in every run: 4 blocks, 80 flops of 90 before" in message


def test_what_has_nothing_to_prepare_is_reported(tapestry: Run, document: Path, tmp_path: Path) -> None:
    answer = tapestry("rewrite", document, "--prepare", tmp_path / "once.json")
    assert "nothing that is computed depends on parameters alone" in answer.out
    assert not (tmp_path / "once.json").exists()


def test_two_programs_are_not_written_to_one_file(tapestry: Run, document: Path, tmp_path: Path) -> None:
    one, same = tmp_path / "one.json", tmp_path / "folder" / ".." / "one.json"
    message = complaint(tapestry("rewrite", document, "--prepare", one, "-o", same))
    assert message.startswith("-o and --prepare both name ") and not one.exists()


@pytest.mark.parametrize(("option", "value"), [("--families", "selectors"), ("--kind", "optimization")])
def test_rules_that_family_or_kind_exclude_are_named(
    tapestry: Run, document: Path, option: str, value: str
) -> None:
    message = complaint(tapestry("rewrite", document, "--rules", "expand_softmax", option, value))
    assert "nothing is left to do: " in message
    assert "'expand_softmax' (semantic, of expansions); leave " in message


@pytest.mark.parametrize("how", ["--list", "--json"])
def test_a_named_rule_that_does_not_take_part_is_reported(tapestry: Run, document: Path, how: str) -> None:
    answer = tapestry("rewrite", document, "--rules", "expand_softmax,fuse_cells", "--kind", "semantic", how)
    assert (answer.code, answer.err.count("\n")) == (0, 1)
    assert "kind excludes 'fuse_cells' (optimization, of fusion); leave kind out" in answer.err


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "No such file"), (b"\xff\xfe\x00", "is no text"), (b"{", "is no JSON document")],
)
def test_a_file_that_holds_no_moves_is_refused_with_what_was_expected(
    tapestry: Run, document: Path, tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "moves.json"
    if content is not None:
        path.write_bytes(content)
    reported = complaint(tapestry("rewrite", document, "--moves", path))
    assert message in reported and reported.endswith("such as `tapestry rewrite --list --json` prints")
