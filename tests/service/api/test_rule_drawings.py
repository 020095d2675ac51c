"""Tests of rules drawn: every structural rule on its example, and the runs in which one was applied."""

from __future__ import annotations

import dataclasses

import pytest

from tapestry.rewrites import PLACEMENT, catalog
from tapestry.service.rule_drawings import rule_drawing
from tests.service.api.conftest import Service, complaint
from tests.service.programs import finished_run, two_layers


@pytest.mark.parametrize("name", catalog())
def test_every_rule_is_drawn_with_what_it_changes(name: str) -> None:
    drawing = rule_drawing(name)
    assert drawing is not None
    sides = (drawing["before"], drawing["after"])
    assert any(side["changed"] for side in sides)
    for side in sides:
        count = len(side["blocks"]["site"])
        assert all(0 <= k < count for k in side["changed"])
        assert {*side["edges"]["from"], *side["edges"]["to"]} <= set(range(count))
        assert side["cost"]["flops"] == sum(side["blocks"]["flops"])
    kept = [
        {site for k, site in enumerate(side["blocks"]["site"]) if k not in side["changed"]} for side in sides
    ]
    assert kept[0] == kept[1]


def test_a_fusion_replaces_what_it_fuses_and_keeps_the_work(shared: Service) -> None:
    drawing = shared.http.get("/v1/rules/fuse_attention/drawing").json()
    before, after = drawing["before"], drawing["after"]
    made = [after["operators"][after["blocks"]["operator"][k]] for k in after["changed"]]
    assert made == ["fused"]
    assert (before["cost"]["blocks"], after["cost"]["blocks"]) == (4, 1)
    assert before["cost"]["flops"] == after["cost"]["flops"] > 0
    assert before["cost"]["bytes"] > after["cost"]["bytes"]


def test_placement_rules_and_unknown_ones_have_no_drawing(shared: Service) -> None:
    missing = complaint(shared.http.get("/v1/rules/fuse_atention/drawing"), 404, "unknown_id")
    assert "fuse_attention" in missing["errors"][0]["allowed"]
    placed = complaint(shared.http.get(f"/v1/rules/{PLACEMENT[0].name}/drawing"), 404, "unknown_id")
    assert "changes placements" in placed["detail"]


def test_runs_with_a_rule_are_listed_the_newest_first(shared: Service) -> None:
    found = finished_run(two_layers())
    ids = []
    for applied, improved in ((3, 1), (0, 0), (5, 2)):
        rules = {"drawn_only_here": (applied, improved)}
        run = dataclasses.replace(found, result=dataclasses.replace(found.result, rules=rules))
        ids.append(shared.store.runs.save_finished(run))
    answer = shared.http.get("/v1/rules/drawn_only_here/runs").json()
    assert answer["total"] == 2
    assert {item["run"]: (item["applied"], item["improved"]) for item in answer["items"]} == {
        ids[0]: (3, 1),
        ids[2]: (5, 2),
    }
    assert {item["graph"] for item in answer["items"]} == {"two_layers"}
