"""Tests of `tapestry explain`: stored plans and plans of files, step by step or block by block; errors are reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.service.conftest import Run, complaint

OPTIMIZE = (
    "--mesh",
    "dgx-h100",
    "--evaluations",
    400,
    "--islands",
    1,
    "--quiet",
    "--verify",
    "none",
    "--json",
)


@pytest.fixture
def found(tapestry: Run, document: Path) -> dict[str, Any]:
    """Run `optimize --json` and return the stored run that it prints."""
    answer = tapestry("optimize", document, *OPTIMIZE)
    assert answer.code == 0, answer.err
    return dict(answer.json)


@pytest.fixture
def saved(found: dict[str, Any], tmp_path: Path) -> Path:
    path = tmp_path / "found.json"
    path.write_text(json.dumps(found))
    return path


def test_a_stored_plans_history_ends_at_its_cost(tapestry: Run, found: dict[str, Any]) -> None:
    for plan in found["frontier"][:4]:
        reported = tapestry("explain", plan["id"], "--json").json
        assert reported["plan"] == plan["id"]
        assert reported["cost"] == plan["cost"]
        assert reported["as_stored"] is True
        assert [move for step in reported["steps"] for move in step["moves"]] == plan["moves"]
        before = reported["start"]
        for step in reported["steps"]:
            assert step["effect"] == {name: step["cost"][name] - before[name] for name in before}
            before = step["cost"]
        assert before == reported["cost"]


def test_for_people_it_is_a_table_with_units_and_percent(tapestry: Run, found: dict[str, Any]) -> None:
    plan = max(found["frontier"], key=lambda p: p["move_count"])
    answer = tapestry("explain", plan["id"], "--run", found["run"])
    head, _, titles, first, *_ = answer.out.splitlines()
    assert head == f"plan {plan['id']} of two_layers on dgx-h100: {plan['move_count']} moves"
    assert titles.split()[:4] == ["move", "rule", "place", "choice"]
    assert {"time", "peak", "traffic", "energy"} <= set(titles.split())
    assert first.split()[:2] == ["as", "imported"]
    assert "%)" in answer.out
    assert "reshard: A block computes elsewhere." in answer.out
    assert answer.err == ""


def test_only_the_objectives_that_are_requested_are_shown(tapestry: Run, found: dict[str, Any]) -> None:
    answer = tapestry("explain", found["frontier"][0]["id"], "--objectives", "price_usd")
    titles = answer.out.splitlines()[2]
    assert "price" in titles and "energy" not in titles


def test_a_plan_of_a_file_is_explained_with_its_program(tapestry: Run, saved: Path, document: Path) -> None:
    plan = json.loads(saved.read_text())["frontier"][-1]
    reported = tapestry("explain", f"{saved}:{plan['id'][:9]}", "--graph", document, "--json").json
    assert (reported["plan"], reported["cost"], reported["as_stored"]) == (plan["id"], plan["cost"], True)
    alone = saved.with_name("plan.json")
    alone.write_text(json.dumps(plan))
    assert (
        tapestry("explain", alone, "--graph", document, "--mesh", "dgx-h100", "--json").json["steps"]
        == reported["steps"]
    )
    assert tapestry("explain", saved, "--graph", document, "--json").json["plan"] in saved.read_text()


def test_a_file_says_at_which_precision_its_plans_compute(
    tapestry: Run, document: Path, tmp_path: Path
) -> None:
    found = tapestry("optimize", document, *OPTIMIZE, "--compute-dtype", "bf16").json
    path = tmp_path / "found.json"
    path.write_text(json.dumps(found))
    assert tapestry("explain", path, "--graph", document, "--json").json["as_stored"] is True
    found["compute_dtype"] = None
    path.write_text(json.dumps(found))
    assert tapestry("explain", path, "--graph", document, "--json").code == 1


def test_a_site_shows_which_moves_made_it(tapestry: Run, found: dict[str, Any]) -> None:
    plan = max(found["frontier"], key=lambda p: p["move_count"])
    move = next(m for m in plan["moves"] if m["rule"] == "reshard")
    site = move["place"] if isinstance(move["place"], str) else move["place"][0]
    reported = tapestry("explain", plan["id"], "--site", site, "--json").json
    assert (reported["site"], reported["is_there"]) == (site, True)
    assert [(e["rule"], e["place"], e["effect"]) for e in reported["events"]] == [("reshard", site, "placed")]
    assert reported["events"][0]["move"] == plan["moves"].index(move) + 1
    message = tapestry("explain", plan["id"], "--site", site)
    assert f"block {site} of plan {plan['id']} stems from {site}" in message.out


def test_what_does_not_fit_is_reported_with_its_hint(tapestry: Run, saved: Path, document: Path) -> None:
    explain = ("explain", saved, "--graph", document)
    assert "there is no plan 'ffff'" in complaint(tapestry("explain", "ffff"))
    assert "name that by --graph FILE" in complaint(tapestry("explain", saved))
    assert "has no plan 'zzz'; there are, e.g.," in complaint(
        tapestry("explain", f"{saved}:zzz", *explain[2:])
    )
    assert "no block or tensor 'nowhere'" in complaint(tapestry(*explain, "--site", "nowhere"))
    assert "there is no objective 'time'" in complaint(tapestry(*explain, "--objectives", "time"))
    stored = json.loads(saved.read_text())["frontier"][0]["id"]
    assert "leave --mesh out" in complaint(tapestry("explain", stored, "--mesh", "dgx-h100"))
    assert "cannot be replayed" in complaint(tapestry(*explain, "--mesh", "tpu-v5e-4x4"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is no JSON document"),
        ("7", "says no history"),
        ('{"blocks": {}}', "placements alone have no history"),
        ('{"frontier": []}', "has no plans"),
        ('{"moves": [{"rule": 1, "place": "x"}]}', "/moves/0: rule and choice are texts"),
        (
            '{"moves": [{"rule": "gone", "place": "x"}]}',
            "move 1 of 1 cannot be replayed: gone at x: there is no rule",
        ),
    ],
)
def test_files_that_say_no_history(
    tapestry: Run, tmp_path: Path, document: Path, content: str, message: str
) -> None:
    path = tmp_path / "plan.json"
    path.write_text(content)
    assert message in complaint(tapestry("explain", path, "--graph", document, "--mesh", "dgx-h100"))


def test_costs_that_are_not_those_that_were_stated_are_found_out(
    tapestry: Run, saved: Path, document: Path, found: dict[str, Any]
) -> None:
    found["frontier"][0]["cost"]["time_s"] *= 2
    saved.write_text(json.dumps(found))
    answer = tapestry("explain", f"{saved}:{found['frontier'][0]['id']}", "--graph", document, "--json")
    assert (answer.code, answer.json["as_stored"]) == (1, False)
    assert "its history ends at time_s" in answer.err


@pytest.mark.parametrize(
    ("reference", "message"), [("", "expected a plan, not ''"), ("/", "cannot read '/'")]
)
def test_what_names_no_plan_is_refused_with_what_would(tapestry: Run, reference: str, message: str) -> None:
    reported = complaint(tapestry("explain", reference))
    assert reported.startswith(message) and "`tapestry show RUN` lists a run's" in reported


def test_marginal_times_are_fixed_and_per_step(tapestry: Run, found: dict[str, Any]) -> None:
    plan = found["frontier"][0]["id"]
    reported = tapestry("explain", plan, "--marginal", "--json").json
    assert reported["plan"] == plan and reported["blocks"]
    for block in reported["blocks"]:
        assert block["time_s"] >= block["fixed_s"] > 0
        assert all(step["step_s"] >= 0 and step["size"] > 1 for step in block["steps"])
    printed = tapestry("explain", plan, "--marginal").out
    assert reported["blocks"][0]["sites"][0] in printed and "per step" in printed


def test_a_plan_of_a_file_is_explained_at_its_quantile(tapestry: Run, document: Path, tmp_path: Path) -> None:
    path = tmp_path / "late.json"
    path.write_text(tapestry("optimize", document, *OPTIMIZE, "--robust", 0.9, "--no-store").out)
    assert tapestry("explain", path, "--graph", document, "--json").code == 0
    path.write_text(json.dumps({**json.loads(path.read_text()), "robust": 90}))
    assert "robust: expected a number from 0.5 to 0.999" in complaint(
        tapestry("explain", path, "--graph", document)
    )
