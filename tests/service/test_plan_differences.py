"""Tests of differences between plans: blocks of equal layers together, blocks that only some have, parameters."""

from __future__ import annotations

from typing import Any

import pytest

from tapestry.service.plan_differences import decision_differences, name_without_numbers
from tapestry.service.presentation import devices_text

A, B = {"strategy": "(gpu.0, -)"}, {"strategy": "(-, -)"}


@pytest.mark.parametrize(
    ("site", "name"),
    [
        ("h.3.mlp", "h.*.mlp"),
        ("node_add_7", "node_add"),
        ("node_add", "node_add"),
        ("conv_2.w", "conv.w"),
        ("h.1.q~fused.2a67a42e", "h.*.q~fused"),
    ],
)
def test_names_of_equal_layers_are_alike(site: str, name: str) -> None:
    assert name_without_numbers(site) == name


def test_blocks_of_which_all_plans_decide_the_same_are_counted_only() -> None:
    one = {"blocks": {"h.0.q": A, "h.1.q": A, "h.2.q": B, "k": A}}
    other = {"blocks": {"h.0.q": B, "h.1.q": B, "h.2.q": B, "k": A, "new": A}}
    found = decision_differences([one, other])
    assert (found["blocks"], found["equal"]) == (5, 2)
    assert found["groups"] == [
        {"name": "h.*.q", "sites": ["h.0.q", "h.1.q"], "values": [A, B]},
        {"name": "new", "sites": ["new"], "values": [None, A]},
    ]
    assert decision_differences([one, one])["groups"] == []


def test_names_that_are_numbers_are_those_of_the_first() -> None:
    plans = [{"blocks": {"n2": one, "n3": one, "new": A}} for one in (A, B)]
    (group,) = decision_differences(plans)["groups"]
    assert (group["name"], group["sites"]) == ("n2", ["n2", "n3"])


@pytest.mark.parametrize(
    ("devices", "stages", "text"),
    [
        ("rack:1,gpu:2", {"count": 3, "schedule": "1f1b"}, "6: 3 stages of 1 × 2"),
        ("gpu:1", {"count": 4, "schedule": "gpipe"}, "4: 4 stages of 1"),
        ("gpu:4", None, "gpu:4"),
        ("all", None, "all"),
    ],
)
def test_devices_are_those_of_all_stages(devices: str, stages: dict[str, Any] | None, text: str) -> None:
    assert devices_text(devices, stages) == text


def test_layers_that_differ_in_another_way_are_another_group() -> None:
    plans = [{"blocks": {"h.0.q": A, "h.1.q": B}}, {"blocks": {"h.0.q": B, "h.1.q": A}}, {"blocks": {}}]
    assert [group["values"] for group in decision_differences(plans)["groups"]] == [
        [A, B, None],
        [B, A, None],
    ]
